//! Decides the defaults of the kinds that volumes are made of.

use serde_json::{Value, json};

use super::{default_in, items, map};
use crate::object::as_map_mut;

pub(super) fn volume(value: &mut Value) {
    default_in(map(value, "status"), "phase", "Pending".into());
    let spec = map(value, "spec");
    default_in(spec, "persistentVolumeReclaimPolicy", "Retain".into());
    default_in(spec, "volumeMode", "Filesystem".into());
    drop_empty(spec, &["storageClassName"]);
    if let Some(path) = spec.get_mut("hostPath") {
        default_in(path, "type", "".into());
    }
    for (source, field, default) in SOURCE_DEFAULTS {
        if let Some(source) = spec.get_mut(*source) {
            default_in(source, field, (*default).into());
        }
    }
    if let Some(disk) = spec.get_mut("azureDisk") {
        default_in(disk, "readOnly", false.into());
    }
}

/// What the older plugins take for granted.
const SOURCE_DEFAULTS: &[(&str, &str, &str)] = &[
    ("iscsi", "iscsiInterface", "default"),
    ("rbd", "pool", "rbd"),
    ("rbd", "user", "admin"),
    ("rbd", "keyring", "/etc/ceph/keyring"),
    ("azureDisk", "cachingMode", "ReadWrite"),
    ("azureDisk", "kind", "Shared"),
    ("azureDisk", "fsType", "ext4"),
    ("scaleIO", "storageMode", "ThinProvisioned"),
    ("scaleIO", "fsType", "xfs"),
];

pub(super) fn claim(value: &mut Value) {
    default_in(map(value, "status"), "phase", "Pending".into());
    super::condition_times(value);
    super::drop_empty_maps(map(value, "status"));
    claim_form(map(value, "spec"));
}

/// What the spec of every claim is given, and that of its templates.
fn claim_form(spec: &mut Value) {
    default_in(spec, "volumeMode", "Filesystem".into());
    default_in(spec, "resources", json!({}));
    drop_empty(spec, &["volumeName"]);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = as_map_mut(spec).get_mut(field) {
            default_in(source, "apiGroup", Value::Null);
        }
    }
}

/// The templates in which claims appear.
pub(super) fn claim_template(spec: &mut Value) {
    claim_form(spec);
    sources(spec, false);
}

/// Brings the two fields for a source together, after the writer has got what it wrote. A claim that had a source may name
/// any, though new ones may not.
pub(crate) fn claim_sources(old: Option<&Value>, value: &mut Value) {
    let had = |field: &str| old.is_some_and(|old| old["spec"].get(field).is_some());
    sources(map(value, "spec"), had("dataSource") || had("dataSourceRef"));
}

/// The older field can only name claims and snapshots, and a reference across namespaces needs a feature that
/// is off.
fn sources(spec: &mut Value, any: bool) {
    let is = |source: &Value, group: &str, kind: &str| {
        source.get("apiGroup").and_then(Value::as_str).unwrap_or_default() == group && source["kind"] == kind
    };
    let fields = as_map_mut(spec);
    let supported = |source: &Value| {
        is(source, "", "PersistentVolumeClaim") || is(source, "snapshot.storage.k8s.io", "VolumeSnapshot")
    };
    if !any
        && !fields.contains_key("dataSourceRef")
        && fields.get("dataSource").is_some_and(|source| !supported(source))
    {
        fields.remove("dataSource");
    }
    if fields.get("dataSourceRef").is_some_and(|reference| reference.get("namespace").is_some()) {
        fields.remove("dataSourceRef");
    }
    match (fields.get("dataSource").cloned(), fields.get("dataSourceRef").cloned()) {
        (Some(source), None) => default_in(spec, "dataSourceRef", source),
        (None, Some(reference)) => default_in(spec, "dataSource", reference),
        _ => {}
    }
}

pub(super) fn class(value: &mut Value) {
    default_in(value, "reclaimPolicy", "Delete".into());
    default_in(value, "volumeBindingMode", "Immediate".into());
}

pub(super) fn driver(value: &mut Value) {
    let spec = map(value, "spec");
    default_in(spec, "attachRequired", true.into());
    default_in(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType".into());
    as_map_mut(spec).retain(|name, field| name != "volumeLifecycleModes" || *field != json!([]));
    default_in(spec, "volumeLifecycleModes", json!(["Persistent"]));
    for field in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
        default_in(spec, field, false.into());
    }
}

pub(super) fn csi_node(value: &mut Value) {
    let spec = map(value, "spec");
    for driver in items(spec, "drivers") {
        default_in(driver, "topologyKeys", Value::Null);
    }
}

/// Removes fields that Go leaves out when they are empty.
fn drop_empty(value: &mut Value, fields: &[&str]) {
    as_map_mut(value).retain(|name, field| !(fields.contains(&name.as_str()) && field == ""));
}
