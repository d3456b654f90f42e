//! What an actor wants done at the API server, as data.
//!
//! A plan is a list of [`Call`]s that is performed in order; the first refused call ends it, and the key is decided
//! again. Nothing here talks to a server: that is `perform`. Every change and deletion carries the uid (and every
//! change the `resourceVersion`) of the object that was looked at, so a late decision can only be refused, never do harm.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// A kind of object that an actor watches or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the Kubernetes kind of that name")]
pub enum Kind {
    Namespace,
    Node,
    Pod,
    Claim,
    Volume,
    StorageClass,
    AttributesClass,
    CsiNode,
    CsiDriver,
    Capacity,
    StatefulSet,
    Deployment,
    ReplicaSet,
    DaemonSet,
    Job,
    Event,
}

impl Kind {
    /// Every kind that the actors watch.
    pub const WATCHED: [Self; 15] = [
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Claim,
        Self::Volume,
        Self::StorageClass,
        Self::AttributesClass,
        Self::CsiNode,
        Self::CsiDriver,
        Self::Capacity,
        Self::StatefulSet,
        Self::Deployment,
        Self::ReplicaSet,
        Self::DaemonSet,
        Self::Job,
    ];

    /// The kind, the `apiVersion` and the plural as the API server spells them, and whether objects have a namespace.
    const fn spelling(self) -> (&'static str, &'static str, &'static str, bool) {
        match self {
            Self::Namespace => ("Namespace", "v1", "namespaces", false),
            Self::Node => ("Node", "v1", "nodes", false),
            Self::Pod => ("Pod", "v1", "pods", true),
            Self::Claim => ("PersistentVolumeClaim", "v1", "persistentvolumeclaims", true),
            Self::Volume => ("PersistentVolume", "v1", "persistentvolumes", false),
            Self::StorageClass => ("StorageClass", "storage.k8s.io/v1", "storageclasses", false),
            Self::AttributesClass => {
                ("VolumeAttributesClass", "storage.k8s.io/v1", "volumeattributesclasses", false)
            }
            Self::CsiNode => ("CSINode", "storage.k8s.io/v1", "csinodes", false),
            Self::CsiDriver => ("CSIDriver", "storage.k8s.io/v1", "csidrivers", false),
            Self::Capacity => ("CSIStorageCapacity", "storage.k8s.io/v1", "csistoragecapacities", true),
            Self::StatefulSet => ("StatefulSet", "apps/v1", "statefulsets", true),
            Self::Deployment => ("Deployment", "apps/v1", "deployments", true),
            Self::ReplicaSet => ("ReplicaSet", "apps/v1", "replicasets", true),
            Self::DaemonSet => ("DaemonSet", "apps/v1", "daemonsets", true),
            Self::Job => ("Job", "batch/v1", "jobs", true),
            Self::Event => ("Event", "v1", "events", true),
        }
    }

    /// `PersistentVolumeClaim` for [`Kind::Claim`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spelling().0
    }

    /// `apps/v1` for [`Kind::Deployment`].
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        self.spelling().1
    }

    /// The kind that an object says it is, if it is one of ours.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let kind = object.get("kind")?.as_str()?;
        Self::WATCHED.into_iter().chain([Self::Event]).find(|k| k.name() == kind)
    }

    /// The path of the collection in `namespace`, or of one object in it.
    #[must_use]
    pub fn path(self, namespace: &str, name: Option<&str>) -> String {
        let (_, version, plural, namespaced) = self.spelling();
        let root = if version.contains('/') { "/apis/" } else { "/api/" };
        let place = if namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let tail = name.map(|n| format!("/{n}")).unwrap_or_default();
        format!("{root}{version}{place}/{plural}{tail}")
    }
}

/// Namespace (empty for objects without one) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Name {
    /// Empty for objects of the whole cluster.
    pub namespace: String,
    /// The name within the namespace.
    pub name: String,
}

impl Name {
    /// A name from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Another object of the same namespace.
    #[must_use]
    pub fn beside(&self, name: impl Into<String>) -> Self {
        Self::new(self.namespace.clone(), name)
    }

    /// The name that an object carries.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

/// One version of one object: what a change or deletion is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// The uid that it must still have.
    pub uid: String,
    /// The version that a change must still find.
    pub resource_version: String,
}

impl Target {
    /// The version of an object that the World holds.
    #[must_use]
    pub fn of(kind: Kind, meta: &ObjectMeta) -> Self {
        Self {
            kind,
            name: Name::of(meta),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
        }
    }

    /// An owner reference that makes this object the controller, as upstream's `NewControllerRef` does.
    #[must_use]
    pub fn controller_reference(&self) -> Value {
        json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.name(), "name": self.name.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// Something to tell the user about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The object it is about.
    pub regarding: Target,
    /// `Warning` instead of `Normal`.
    pub warning: bool,
    /// Upstream's reason.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// Who says it.
    pub source: String,
    /// Whether saying it again would tell nothing new: the message describes a state, not something that happened.
    pub once: bool,
}

impl Remark {
    /// Something happened.
    #[must_use]
    pub fn normal(regarding: Target, source: &str, reason: &'static str, message: String) -> Self {
        Self { regarding, warning: false, reason, message, source: source.to_owned(), once: false }
    }

    /// Something stands in the way, for as long as it does.
    #[must_use]
    pub fn warning(regarding: Target, source: &str, reason: &'static str, message: String) -> Self {
        Self { regarding, warning: true, reason, message, source: source.to_owned(), once: true }
    }
}

/// What an actor wants done; performed in order, each with a precondition where it changes or deletes something.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Create the object; when the server refuses it, `otherwise` is said with the server's message behind it.
    Create {
        /// The whole object, with `apiVersion` and kind.
        object: Value,
        /// What to say when it can't be created.
        otherwise: Option<Remark>,
    },
    /// Merge the patch into the object if it is still the version that was looked at.
    Merge {
        /// The object.
        target: Target,
        /// `status`, `finalize` (of a namespace), or the object itself.
        subresource: Option<&'static str>,
        /// The fields to set; `null` removes one.
        patch: Value,
    },
    /// Delete the object (background propagation) if it is still the one that was looked at.
    Delete {
        /// The object; its `resourceVersion` is no precondition.
        target: Target,
        /// Zero takes it away at once.
        grace_seconds: Option<u32>,
    },
    /// Write an event.
    Event(Remark),
}

impl Call {
    /// Create an object without anything to say on failure.
    #[must_use]
    pub fn create(object: Value) -> Self {
        Self::Create { object, otherwise: None }
    }

    /// Change the object itself.
    #[must_use]
    pub fn merge(target: Target, patch: Value) -> Self {
        Self::Merge { target, subresource: None, patch }
    }

    /// Change the status.
    #[must_use]
    pub fn merge_status(target: Target, status: &Value) -> Self {
        Self::Merge { target, subresource: Some("status"), patch: json!({ "status": status }) }
    }

    /// Delete with the object's own grace period.
    #[must_use]
    pub fn delete(target: Target) -> Self {
        Self::Delete { target, grace_seconds: None }
    }
}
