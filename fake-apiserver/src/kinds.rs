//! Decides which kinds exist: one row a kind, and the whole server, discovery included, follows from the
//! rows. Never holds an object. Answers to the REST storage registrations under `kubernetes/pkg/registry`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::table::custom::CustomColumn;

type Text = Cow<'static, str>;

/// One kind as the server serves it.
#[expect(clippy::struct_field_names, reason = "group, version, kind is what Kubernetes calls the three")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) kind: Text,
    pub(crate) plural: Text,
    pub(crate) namespaced: bool,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) subresources: &'static [&'static str],
    /// Field selectors beyond `metadata.name` and `metadata.namespace`.
    pub(crate) fields: &'static [&'static str],
    traits: &'static [Trait],
    /// What tables of a custom kind show beside the name.
    pub(crate) columns: Vec<CustomColumn>,
    /// Registered at run time: stored as it is, listed with `apiVersion` and `kind` on each item.
    pub(crate) custom: bool,
}

/// What sets a kind apart from the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trait {
    /// DELETE answers with the object, not with a `Status`, also when it is gone at once.
    ReturnsDeleted,
    /// PUT creates what is missing.
    Upserts,
    /// `metadata.generation` starts at 1 and counts the changes of the spec.
    Generation,
    /// A delete leaves the object terminating for its grace period until somebody confirms.
    Graceful,
    /// A delete that says nothing of dependents leaves them.
    OrphansByDefault,
    /// `DELETE` of the whole collection is not served.
    NoDeleteCollection,
    /// Belongs to the category `all`.
    All,
}

use Trait::{All, Generation, Graceful, NoDeleteCollection, OrphansByDefault, ReturnsDeleted, Upserts};

const STATUS: &[&str] = &["status"];
const STATUS_SCALE: &[&str] = &["scale", "status"];
const POD: &[&str] = &["binding", "ephemeralcontainers", "eviction", "resize", "status"];
const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const REGARDING_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

const CORE: &str = "";
const APPS: &str = "apps";
const BATCH: &str = "batch";
const STORAGE: &str = "storage.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACED: bool = true;
const CLUSTER: bool = false;

type Row = (
    &'static str,
    &'static str,
    &'static str,
    bool,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
    &'static [Trait],
);

/// Group (always version v1), kind, plural, scope, short names, subresources, selectable fields, traits.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    (CORE, "Namespace", "namespaces", CLUSTER, &["ns"], &["finalize", "status"], &["status.phase"], &[NoDeleteCollection]),
    (CORE, "Node", "nodes", CLUSTER, &["no"], STATUS, &["spec.unschedulable"], &[]),
    (CORE, "Pod", "pods", NAMESPACED, &["po"], POD, POD_FIELDS, &[ReturnsDeleted, Generation, Graceful, All]),
    (CORE, "PersistentVolume", "persistentvolumes", CLUSTER, &["pv"], STATUS, &[], &[ReturnsDeleted]),
    (CORE, "PersistentVolumeClaim", "persistentvolumeclaims", NAMESPACED, &["pvc"], STATUS, &[], &[ReturnsDeleted]),
    (CORE, "Event", "events", NAMESPACED, &["ev"], &[], EVENT_FIELDS, &[Upserts]),
    (CORE, "Service", "services", NAMESPACED, &["svc"], STATUS, &["spec.clusterIP", "spec.type"], &[ReturnsDeleted, All]),
    (CORE, "Endpoints", "endpoints", NAMESPACED, &["ep"], &[], &[], &[Upserts]),
    (CORE, "ConfigMap", "configmaps", NAMESPACED, &["cm"], &[], &[], &[]),
    (CORE, "Secret", "secrets", NAMESPACED, &[], &[], &["type"], &[]),
    (CORE, "ServiceAccount", "serviceaccounts", NAMESPACED, &["sa"], &["token"], &[], &[ReturnsDeleted]),
    (CORE, "ResourceQuota", "resourcequotas", NAMESPACED, &["quota"], STATUS, &[], &[ReturnsDeleted]),
    (CORE, "LimitRange", "limitranges", NAMESPACED, &["limits"], &[], &[], &[Upserts]),
    (CORE, "ReplicationController", "replicationcontrollers", NAMESPACED, &["rc"], STATUS_SCALE, &["status.replicas"], &[Generation, OrphansByDefault, All]),
    (APPS, "Deployment", "deployments", NAMESPACED, &["deploy"], STATUS_SCALE, &[], &[Generation, All]),
    (APPS, "ReplicaSet", "replicasets", NAMESPACED, &["rs"], STATUS_SCALE, &["status.replicas"], &[Generation, All]),
    (APPS, "StatefulSet", "statefulsets", NAMESPACED, &["sts"], STATUS_SCALE, &[], &[Generation, All]),
    (APPS, "DaemonSet", "daemonsets", NAMESPACED, &["ds"], STATUS, &[], &[Generation, All]),
    (APPS, "ControllerRevision", "controllerrevisions", NAMESPACED, &[], &[], &[], &[]),
    (BATCH, "Job", "jobs", NAMESPACED, &[], STATUS, &["status.successful"], &[Generation, OrphansByDefault, All]),
    (BATCH, "CronJob", "cronjobs", NAMESPACED, &["cj"], STATUS, &[], &[Generation, All]),
    (STORAGE, "StorageClass", "storageclasses", CLUSTER, &["sc"], &[], &[], &[ReturnsDeleted]),
    (STORAGE, "VolumeAttachment", "volumeattachments", CLUSTER, &[], STATUS, &[], &[ReturnsDeleted]),
    (STORAGE, "CSINode", "csinodes", CLUSTER, &[], &[], &[], &[ReturnsDeleted]),
    (STORAGE, "CSIDriver", "csidrivers", CLUSTER, &[], &[], &[], &[ReturnsDeleted]),
    (STORAGE, "CSIStorageCapacity", "csistoragecapacities", NAMESPACED, &[], &[], &[], &[]),
    (STORAGE, "VolumeAttributesClass", "volumeattributesclasses", CLUSTER, &["vac"], &[], &[], &[ReturnsDeleted]),
    ("coordination.k8s.io", "Lease", "leases", NAMESPACED, &[], &[], &[], &[Upserts]),
    ("events.k8s.io", "Event", "events", NAMESPACED, &["ev"], &[], REGARDING_FIELDS, &[Upserts]),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", NAMESPACED, &["pdb"], STATUS, &[], &[Generation]),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", CLUSTER, &["pc"], &[], &[], &[Generation]),
    (RBAC, "ClusterRole", "clusterroles", CLUSTER, &[], &[], &[], &[]),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings", CLUSTER, &[], &[], &[], &[]),
    (RBAC, "Role", "roles", NAMESPACED, &[], &[], &[], &[]),
    (RBAC, "RoleBinding", "rolebindings", NAMESPACED, &[], &[], &[], &[]),
];

impl Kind {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// How the kind is named where nothing else says what is meant: `storage.k8s.io/v1/StorageClass`.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.api_version(), self.kind)
    }

    pub(crate) fn has(&self, what: Trait) -> bool {
        self.traits.contains(&what)
    }

    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.subresources.contains(&name)
    }

    /// The kind in lower case, under which `kubectl get persistentvolume` finds it.
    pub(crate) fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// The verbs in discovery, in the order in which the real server gives them.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let mut verbs =
            vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        if self.has(NoDeleteCollection) {
            verbs.retain(|verb| *verb != "deletecollection");
        }
        verbs
    }

    /// The two event APIs are two views of one store.
    pub(crate) fn is_events_view(&self) -> bool {
        self.group == "events.k8s.io"
    }

    /// Whether writes of this kind are noise to those who wait until nothing moves.
    pub(crate) fn is_noise(&self) -> bool {
        matches!(
            (&*self.group, &*self.kind),
            (CORE | "events.k8s.io", "Event") | ("coordination.k8s.io", "Lease")
        )
    }
}

/// All kinds that are served, with an index for each way of asking.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    all: Vec<Arc<Kind>>,
    by_plural: HashMap<String, Vec<usize>>,
}

impl Kinds {
    pub(crate) fn served() -> Self {
        let mut kinds = Self { all: Vec::new(), by_plural: HashMap::new() };
        for (group, kind, plural, namespaced, short_names, subresources, fields, traits) in
            ROWS.iter().copied()
        {
            kinds.add(Kind {
                group: group.into(),
                version: "v1".into(),
                kind: kind.into(),
                plural: plural.into(),
                namespaced,
                short_names,
                subresources,
                fields,
                traits,
                columns: Vec::new(),
                custom: false,
            });
        }
        kinds
    }

    /// Serves one more kind; one that is already served stays as it is.
    pub(crate) fn register(&mut self, api_version: &str, kind: &str, namespaced: bool) -> usize {
        let (group, version) = split_api_version(api_version);
        if let Some(index) = self.by_kind(group, version, kind) {
            return index;
        }
        self.add(Kind {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: kind.to_owned().into(),
            plural: plural_of(kind).into(),
            namespaced,
            short_names: &[],
            subresources: STATUS,
            fields: &[],
            traits: &[Generation],
            columns: Vec::new(),
            custom: true,
        })
    }

    fn add(&mut self, kind: Kind) -> usize {
        let index = self.all.len();
        self.by_plural.entry(kind.plural.to_string()).or_default().push(index);
        self.all.push(Arc::new(kind));
        index
    }

    pub(crate) fn all(&self) -> &[Arc<Kind>] {
        &self.all
    }

    pub(crate) fn get(&self, index: usize) -> &Arc<Kind> {
        &self.all[index]
    }

    /// The kind that a URL names.
    pub(crate) fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<usize> {
        let candidates = self.by_plural.get(plural)?;
        candidates.iter().copied().find(|index| {
            let kind = &self.all[*index];
            kind.group == group && kind.version == version
        })
    }

    /// The kind that an object names.
    pub(crate) fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<usize> {
        self.all.iter().position(|one| one.kind == kind && one.group == group && one.version == version)
    }

    /// The first kind of that name in any group: what a test means by "Pod".
    pub(crate) fn named(&self, kind: &str) -> Option<usize> {
        self.all.iter().position(|one| one.kind == kind)
    }

    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.all.iter().any(|kind| kind.group == group && kind.version == version)
    }
}

/// `("storage.k8s.io", "v1")` of `storage.k8s.io/v1`, and `("", "v1")` of `v1`.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The plural that code generators guess for a kind.
fn plural_of(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.as_bytes().last() {
        Some(b's' | b'x') => format!("{lower}es"),
        Some(b'y') => format!("{}ies", &lower[..lower.len() - 1]),
        _ if lower.ends_with("ch") || lower.ends_with("sh") => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_found_by_its_url_and_its_kind() {
        let kinds = Kinds::served();
        for (index, kind) in kinds.all().iter().enumerate() {
            assert_eq!(kinds.by_plural(&kind.group, &kind.version, &kind.plural), Some(index));
            assert_eq!(kinds.by_kind(&kind.group, &kind.version, &kind.kind), Some(index));
        }
    }

    #[test]
    fn registering_twice_changes_nothing() {
        let mut kinds = Kinds::served();
        let first = kinds.register("example.com/v1", "Policy", true);
        assert_eq!(kinds.register("example.com/v1", "Policy", true), first);
        assert_eq!(kinds.by_plural("example.com", "v1", "policies"), Some(first));
        assert_eq!(kinds.register("v1", "Pod", true), kinds.named("Pod").unwrap());
    }
}
