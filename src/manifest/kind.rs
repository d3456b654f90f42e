//! The kinds that simulate understands, and how each is served.
//!
//! Decides whether an apiVersion is the served one, an old one with the same fields, or a wrong one, and whether a
//! kind lives in a namespace. Never looks at anything but apiVersion and kind.

use k8s_openapi::api::{apps::v1 as apps, batch::v1 as batch, core::v1 as core, storage::v1 as storage};

use super::conform::{Conformity, conforms};
use serde_json::Value;

/// A kind whose objects are checked against their schema.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) api_version: &'static str,
    pub(super) namespaced: bool,
    /// Old versions whose fields are the same, so that reading them as the served one loses nothing.
    same_fields: &'static [&'static str],
    /// Fields without which the API server refuses the object.
    pub(super) required: &'static [&'static [&'static str]],
    pub(super) conforms: fn(&Value) -> Conformity<'_>,
}

const CORE: Kind = Kind {
    name: "",
    api_version: "v1",
    namespaced: true,
    same_fields: &[],
    required: &[],
    conforms: conforms::<core::Pod>,
};

const STORAGE: Kind = Kind { api_version: "storage.k8s.io/v1", namespaced: false, ..CORE };

const APPS: Kind = Kind { api_version: "apps/v1", required: &[&["spec", "template"]], ..CORE };

static KINDS: [Kind; 15] = [
    Kind {
        name: "PersistentVolume",
        namespaced: false,
        required: &[&["spec", "capacity", "storage"], &["spec", "accessModes"]],
        conforms: conforms::<core::PersistentVolume>,
        ..CORE
    },
    Kind {
        name: "PersistentVolumeClaim",
        required: &[&["spec", "accessModes"], &["spec", "resources", "requests", "storage"]],
        conforms: conforms::<core::PersistentVolumeClaim>,
        ..CORE
    },
    Kind { name: "Pod", required: &[&["spec", "containers"]], ..CORE },
    Kind { name: "Node", namespaced: false, conforms: conforms::<core::Node>, ..CORE },
    Kind { name: "Namespace", namespaced: false, conforms: conforms::<core::Namespace>, ..CORE },
    Kind {
        name: "StorageClass",
        same_fields: &["storage.k8s.io/v1beta1"],
        required: &[&["provisioner"]],
        conforms: conforms::<storage::StorageClass>,
        ..STORAGE
    },
    Kind {
        name: "VolumeAttributesClass",
        same_fields: &["storage.k8s.io/v1beta1", "storage.k8s.io/v1alpha1"],
        required: &[&["driverName"]],
        conforms: conforms::<storage::VolumeAttributesClass>,
        ..STORAGE
    },
    Kind { name: "CSINode", conforms: conforms::<storage::CSINode>, ..STORAGE },
    Kind { name: "CSIDriver", conforms: conforms::<storage::CSIDriver>, ..STORAGE },
    Kind {
        name: "CSIStorageCapacity",
        namespaced: true,
        same_fields: &["storage.k8s.io/v1beta1"],
        required: &[&["storageClassName"]],
        conforms: conforms::<storage::CSIStorageCapacity>,
        ..STORAGE
    },
    Kind { name: "StatefulSet", conforms: conforms::<apps::StatefulSet>, ..APPS },
    Kind { name: "Deployment", conforms: conforms::<apps::Deployment>, ..APPS },
    Kind { name: "ReplicaSet", required: &[], conforms: conforms::<apps::ReplicaSet>, ..APPS },
    Kind { name: "DaemonSet", conforms: conforms::<apps::DaemonSet>, ..APPS },
    Kind { name: "Job", api_version: "batch/v1", conforms: conforms::<batch::Job>, ..APPS },
];

/// What an apiVersion and a kind stand for.
pub(super) enum Served {
    /// A kind we know, by its served version.
    Known(&'static Kind),
    /// A kind we know, by an old version that reads the same.
    Old(&'static Kind),
    /// A kind we know, by a version that is not served.
    Gone(&'static Kind),
    /// A kind that is stored, and moves nothing.
    Inert,
}

/// The group of an apiVersion; the core group is the empty one.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// How this kind is served.
pub(super) fn served(api_version: &str, kind: &str) -> Served {
    let Some(known) = KINDS.iter().find(|known| known.name == kind) else { return Served::Inert };
    if known.api_version == api_version {
        return Served::Known(known);
    }
    if known.same_fields.contains(&api_version) {
        return Served::Old(known);
    }
    // Deployments and their kin were served by `extensions` once; any other group has a kind of its own.
    let once = group(known.api_version) == "apps" && group(api_version) == "extensions";
    if once || group(api_version) == group(known.api_version) { Served::Gone(known) } else { Served::Inert }
}

/// The known kind of this name, whatever its version; for deletes, which name no version.
pub(super) fn named(kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.name == kind)
}

/// The names of all known kinds, for messages.
pub(super) fn names() -> String {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}
