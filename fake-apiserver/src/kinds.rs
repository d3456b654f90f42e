//! Decides which kinds exist: one row a kind, and the whole server, discovery included, follows from the
//! rows. Never holds an object. Answers to the REST storage registrations under `kubernetes/pkg/registry`.

mod index;
mod views;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::crds::Custom;
use crate::schema::Link;
use crate::table::custom::CustomColumn;

pub(crate) use index::Kinds;

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
    /// Registered at run time: listed with `apiVersion` and `kind` on each item, and stored as it is unless it has a
    /// definition.
    pub(crate) custom: bool,
    /// What its objects have to be like, for kinds that come from a `CustomResourceDefinition`.
    pub(crate) definition: Option<Custom>,
    pub(crate) found: Found,
}

/// What was looked up for a kind, once: it follows from the other fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The tree of its schema.
    pub(crate) tree: OnceLock<Link>,
    /// The place of its type among the shapes.
    pub(crate) shape: OnceLock<Option<usize>>,
}

impl PartialEq for Found {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Found {}

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
    /// A PUT has to say which version it replaces.
    Conditional,
}

use Trait::{
    All, Conditional, Generation, Graceful, NoDeleteCollection, OrphansByDefault, ReturnsDeleted, Upserts,
};

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
const RESOURCE: &str = "resource.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
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

/// Group (with its version where that is not v1), kind, plural, scope, short names, subresources, selectable fields, traits.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    (CORE, "Namespace", "namespaces", CLUSTER, &["ns"], &["finalize", "status"], &["status.phase"], &[NoDeleteCollection]),
    (CORE, "Node", "nodes", CLUSTER, &["no"], STATUS, &["spec.unschedulable"], &[]),
    (CORE, "Pod", "pods", NAMESPACED, &["po"], POD, POD_FIELDS, &[ReturnsDeleted, Generation, Graceful, All]),
    (CORE, "PersistentVolume", "persistentvolumes", CLUSTER, &["pv"], STATUS, &[], &[ReturnsDeleted]),
    (CORE, "PersistentVolumeClaim", "persistentvolumeclaims", NAMESPACED, &["pvc"], STATUS, &[], &[ReturnsDeleted]),
    (CORE, "Event", "events", NAMESPACED, &["ev"], &[], EVENT_FIELDS, &[Upserts]),
    (CORE, "Service", "services", NAMESPACED, &["svc"], STATUS, &["spec.clusterIP", "spec.type"], &[ReturnsDeleted, Upserts, All]),
    (CORE, "Endpoints", "endpoints", NAMESPACED, &["ep"], &[], &[], &[Upserts]),
    (CORE, "ConfigMap", "configmaps", NAMESPACED, &["cm"], &[], &[], &[]),
    (CORE, "Secret", "secrets", NAMESPACED, &[], &[], &["type"], &[]),
    (CORE, "ServiceAccount", "serviceaccounts", NAMESPACED, &["sa"], &["token"], &[], &[ReturnsDeleted]),
    (CORE, "ResourceQuota", "resourcequotas", NAMESPACED, &["quota"], STATUS, &[], &[ReturnsDeleted]),
    (CORE, "LimitRange", "limitranges", NAMESPACED, &["limits"], &[], &[], &[Upserts]),
    (CORE, "ReplicationController", "replicationcontrollers", NAMESPACED, &["rc"], STATUS_SCALE, &["status.replicas"], &[Generation, OrphansByDefault, All]),
    (CORE, "PodTemplate", "podtemplates", NAMESPACED, &[], &[], &[], &[ReturnsDeleted, Generation]),
    (APPS, "Deployment", "deployments", NAMESPACED, &["deploy"], STATUS_SCALE, &[], &[Generation, All]),
    (APPS, "ReplicaSet", "replicasets", NAMESPACED, &["rs"], STATUS_SCALE, &[], &[Generation, All]),
    (APPS, "StatefulSet", "statefulsets", NAMESPACED, &["sts"], STATUS_SCALE, &["status.successful"], &[Generation, All]),
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
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", NAMESPACED, &["hpa"], STATUS, &[], &[All]),
    ("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", NAMESPACED, &["hpa"], STATUS, &[], &[All]),
    (NETWORKING, "Ingress", "ingresses", NAMESPACED, &["ing"], STATUS, &[], &[Generation]),
    (NETWORKING, "IngressClass", "ingressclasses", CLUSTER, &[], &[], &[], &[Generation]),
    (NETWORKING, "NetworkPolicy", "networkpolicies", NAMESPACED, &["netpol"], &[], &[], &[Generation]),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices", NAMESPACED, &[], &[], &[], &[Generation]),
    ("node.k8s.io", "RuntimeClass", "runtimeclasses", CLUSTER, &[], &[], &[], &[Upserts]),
    ("coordination.k8s.io", "Lease", "leases", NAMESPACED, &[], &[], &[], &[Upserts]),
    ("events.k8s.io", "Event", "events", NAMESPACED, &["ev"], &[], REGARDING_FIELDS, &[Upserts]),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", NAMESPACED, &["pdb"], STATUS, &[], &[Generation]),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", CLUSTER, &["pc"], &[], &[], &[Generation]),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", CLUSTER, &["crd", "crds"], STATUS, &[], &[Generation, Conditional]),
    (RESOURCE, "DeviceClass", "deviceclasses", CLUSTER, &[], &[], &[], &[ReturnsDeleted, Generation]),
    (RESOURCE, "ResourceClaim", "resourceclaims", NAMESPACED, &[], STATUS, &[], &[ReturnsDeleted]),
    (RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", NAMESPACED, &[], &[], &[], &[ReturnsDeleted]),
    (RESOURCE, "ResourceSlice", "resourceslices", CLUSTER, &[], &[], &["spec.driver", "spec.nodeName"], &[ReturnsDeleted, Generation]),
    (RBAC, "ClusterRole", "clusterroles", CLUSTER, &[], &[], &[], &[Upserts]),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings", CLUSTER, &[], &[], &[], &[Upserts]),
    (RBAC, "Role", "roles", NAMESPACED, &[], &[], &[], &[Upserts]),
    (RBAC, "RoleBinding", "rolebindings", NAMESPACED, &[], &[], &[], &[Upserts]),
];

/// The kind of every `/scale`, which has no objects of its own.
pub(crate) fn scale() -> Arc<Kind> {
    static SCALE: LazyLock<Arc<Kind>> = LazyLock::new(|| {
        Arc::new(Kind {
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            plural: "scales".into(),
            namespaced: true,
            short_names: &[],
            subresources: &[],
            fields: &[],
            traits: &[],
            columns: Vec::new(),
            custom: false,
            definition: None,
            found: Found::default(),
        })
    });
    SCALE.clone()
}

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

    /// One served version of a definition.
    pub(crate) fn custom(
        group: String,
        version: String,
        kind: String,
        plural: String,
        namespaced: bool,
        definition: Custom,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced,
            short_names: &[],
            subresources: definition.subresources(),
            fields: &[],
            traits: &[Generation, Conditional],
            columns: definition.columns.clone(),
            custom: true,
            definition: Some(definition),
            found: Found::default(),
        }
    }

    /// The name of one, under which `kubectl get persistentvolume` finds it: most often the kind in lower case.
    pub(crate) fn singular(&self) -> String {
        match &self.definition {
            Some(definition) => definition.singular.clone(),
            None => self.kind.to_lowercase(),
        }
    }

    /// The kind of a list.
    pub(crate) fn list_kind(&self) -> String {
        match &self.definition {
            Some(definition) => definition.list_kind.clone(),
            None => format!("{}List", self.kind),
        }
    }

    pub(crate) fn short_names(&self) -> Vec<&str> {
        match &self.definition {
            Some(definition) => definition.short_names.iter().map(String::as_str).collect(),
            None => self.short_names.to_vec(),
        }
    }

    /// The groups of kinds that `kubectl get` knows by one name.
    pub(crate) fn categories(&self) -> Vec<&str> {
        match &self.definition {
            Some(definition) => definition.categories.iter().map(String::as_str).collect(),
            None if self.has(All) => vec!["all"],
            None if crate::crds::is_definition(self) => vec!["api-extensions"],
            None => Vec::new(),
        }
    }

    /// The verbs in discovery, in the order in which the real server gives them.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        if self.definition.is_some() {
            return vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        }
        let mut verbs =
            vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        if self.has(NoDeleteCollection) {
            verbs.retain(|verb| *verb != "deletecollection");
        }
        verbs
    }

    /// Whether a PUT has to say which version it replaces.
    pub(crate) fn needs_version(&self) -> bool {
        matches!(
            &*self.kind,
            "Lease"
                | "PodDisruptionBudget"
                | "CSIDriver"
                | "CSINode"
                | "CSIStorageCapacity"
                | "RuntimeClass"
                | "VolumeAttachment"
        ) && !self.custom
    }

    /// Whether writes of this kind are noise to those who wait until nothing moves.
    pub(crate) fn is_noise(&self) -> bool {
        matches!(
            (&*self.group, &*self.kind),
            (CORE | "events.k8s.io", "Event") | ("coordination.k8s.io", "Lease")
        )
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
