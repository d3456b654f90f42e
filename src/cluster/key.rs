//! The name of one thing that decisions are made about.

use std::fmt;
use std::sync::Arc;

/// The kinds that decisions look at, in the order in which equal work is done: a volume before the claims that
/// may want it, a claim before the pods that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each variant is named after its kind")]
pub enum Kind {
    Node,
    CsiNode,
    CsiDriver,
    Capacity,
    Class,
    Volume,
    Claim,
    Pod,
}

impl Kind {
    /// Every kind, in that order.
    pub const ALL: [Kind; 8] = [
        Kind::Node,
        Kind::CsiNode,
        Kind::CsiDriver,
        Kind::Capacity,
        Kind::Class,
        Kind::Volume,
        Kind::Claim,
        Kind::Pod,
    ];

    /// The kind as the API spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Node => "Node",
            Kind::CsiNode => "CSINode",
            Kind::CsiDriver => "CSIDriver",
            Kind::Capacity => "CSIStorageCapacity",
            Kind::Class => "StorageClass",
            Kind::Volume => "PersistentVolume",
            Kind::Claim => "PersistentVolumeClaim",
            Kind::Pod => "Pod",
        }
    }

    /// The kind's resource, as upstream's errors have it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Kind::Node => "nodes",
            Kind::CsiNode => "csinodes",
            Kind::CsiDriver => "csidrivers",
            Kind::Capacity => "csistoragecapacities",
            Kind::Class => "storageclasses",
            Kind::Volume => "persistentvolumes",
            Kind::Claim => "persistentvolumeclaims",
            Kind::Pod => "pods",
        }
    }
}

/// A kind, a namespace (`""` for cluster-scoped kinds) and a name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    kind: Kind,
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Key {
    /// The key of any object.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Key { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The key of a claim.
    #[must_use]
    pub fn claim(namespace: &str, name: &str) -> Self {
        Key::new(Kind::Claim, namespace, name)
    }

    /// The key of a volume.
    #[must_use]
    pub fn volume(name: &str) -> Self {
        Key::new(Kind::Volume, "", name)
    }

    /// The key of a class.
    #[must_use]
    pub fn class(name: &str) -> Self {
        Key::new(Kind::Class, "", name)
    }

    /// The key of a node.
    #[must_use]
    pub fn node(name: &str) -> Self {
        Key::new(Kind::Node, "", name)
    }

    /// The key of a pod.
    #[must_use]
    pub fn pod(namespace: &str, name: &str) -> Self {
        Key::new(Kind::Pod, namespace, name)
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The namespace, `""` for cluster-scoped kinds.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Namespace and name as upstream's messages have them: `NAMESPACE/NAME`, or the name alone.
    #[must_use]
    pub fn path(&self) -> String {
        if self.namespace.is_empty() {
            self.name.to_string()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.path())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
