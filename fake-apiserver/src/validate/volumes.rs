//! Decides whether a persistent volume may be stored. Answers to `ValidatePersistentVolume` and its update.

use serde_json::Value;

use super::names;
use crate::object::text;
use crate::quantity::Quantity;
use crate::status::Cause;

pub(super) const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(super) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Every kind of volume source; exactly one must be there.
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flocker",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
    "flexVolume",
];

pub(super) fn create(value: &Value) -> Vec<Cause> {
    let spec = &value["spec"];
    let mut causes = Vec::new();
    let modes = spec["accessModes"].as_array();
    if modes.is_none_or(Vec::is_empty) {
        causes.push(Cause::required("spec.accessModes", ""));
    }
    causes.extend(access_modes(spec));
    capacity(spec, &mut causes);
    let policy = text(spec, &["persistentVolumeReclaimPolicy"]);
    if !policy.is_empty() && !matches!(policy, "Delete" | "Recycle" | "Retain") {
        let supported = &["Delete", "Recycle", "Retain"];
        causes.push(Cause::unsupported("spec.persistentVolumeReclaimPolicy", policy, supported));
    }
    node_affinity(spec, &mut causes);
    sources(spec, &mut causes);
    let class = text(spec, &["storageClassName"]);
    if !class.is_empty() {
        causes.extend(
            names::subdomain(class).iter().map(|why| Cause::invalid("spec.storageClassName", class, why)),
        );
    }
    let mode = text(spec, &["volumeMode"]);
    if !mode.is_empty() && !VOLUME_MODES.contains(&mode) {
        causes.push(Cause::unsupported("spec.volumeMode", mode, VOLUME_MODES));
    }
    attributes_class(spec, &mut causes);
    causes
}

/// What both volumes and claims say of access modes.
pub(super) fn access_modes(spec: &Value) -> Vec<Cause> {
    let modes: Vec<&str> =
        spec["accessModes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let unknown = modes.iter().filter(|mode| !ACCESS_MODES.contains(mode));
    let mut causes: Vec<Cause> =
        unknown.map(|mode| Cause::unsupported("spec.accessModes", *mode, ACCESS_MODES)).collect();
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(|mode| *mode != "ReadWriteOncePod") {
        causes.push(Cause::forbidden(
            "spec.accessModes",
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
    causes
}

fn capacity(spec: &Value, causes: &mut Vec<Cause>) {
    let capacity = spec.get("capacity").filter(|capacity| !capacity.is_null());
    let amounts = capacity.and_then(Value::as_object);
    if amounts.is_none_or(serde_json::Map::is_empty) {
        causes.push(Cause::required("spec.capacity", ""));
    }
    if amounts.is_none_or(|amounts| amounts.len() != 1 || !amounts.contains_key("storage")) {
        causes.push(Cause::unsupported("spec.capacity", capacity.cloned().unwrap_or_default(), &["storage"]));
    }
    let storage = amounts.and_then(|amounts| amounts.get("storage")).and_then(Value::as_str);
    if let Some((text, amount)) = storage.and_then(|text| Some((text, Quantity::parse(text).ok()?))) {
        let field = "spec.capacity[storage]";
        if amount.is_negative() {
            let shown = i64::try_from(amount.units()).unwrap_or(i64::MIN);
            causes.push(Cause::invalid(field, shown, "must be a valid resource quantity"));
        }
        if !amount.is_positive() {
            causes.push(Cause::invalid(field, text, "must be greater than zero"));
        }
    }
}

fn node_affinity(spec: &Value, causes: &mut Vec<Cause>) {
    let Some(affinity) = spec.get("nodeAffinity").filter(|affinity| !affinity.is_null()) else { return };
    let Some(required) = affinity.get("required") else {
        causes.push(Cause::required("spec.nodeAffinity.required", "must specify required node constraints"));
        return;
    };
    if required["nodeSelectorTerms"].as_array().is_none_or(Vec::is_empty) {
        let field = "spec.nodeAffinity.required.nodeSelectorTerms";
        causes.push(Cause::required(field, "must have at least one node selector term"));
    }
}

fn sources(spec: &Value, causes: &mut Vec<Cause>) {
    let present: Vec<&str> = SOURCES
        .iter()
        .copied()
        .filter(|source| spec.get(*source).is_some_and(|source| !source.is_null()))
        .collect();
    let Some((first, more)) = present.split_first() else {
        causes.push(Cause::required("spec", "must specify a volume type"));
        return;
    };
    source(spec, first, causes);
    let why = "may not specify more than 1 volume type";
    causes.extend(more.iter().map(|source| Cause::forbidden(format!("spec.{source}"), why)));
}

/// The fields without which a source names nothing.
fn source(spec: &Value, source: &str, causes: &mut Vec<Cause>) {
    let required: &[&str] = match source {
        "hostPath" | "local" => &["path"],
        "nfs" => &["server", "path"],
        "csi" => &["driver", "volumeHandle"],
        _ => &[],
    };
    for field in required {
        if text(spec, &[source, field]).is_empty() {
            causes.push(Cause::required(format!("spec.{source}.{field}"), ""));
        }
    }
    source_form(spec, source, causes);
    if source == "local" && spec.get("nodeAffinity").is_none() {
        causes.push(Cause::required("spec.nodeAffinity", "Local volume requires node affinity"));
    }
}

/// What a source's fields may look like once they are there.
fn source_form(spec: &Value, source: &str, causes: &mut Vec<Cause>) {
    let path = text(spec, &[source, "path"]);
    match source {
        "hostPath" => {
            if path.split('/').any(|part| part == "..") {
                causes.push(Cause::invalid("spec.hostPath.path", path, "must not contain '..'"));
            }
            let kind = text(spec, &["hostPath", "type"]);
            if !HOST_PATH_TYPES.contains(&kind) {
                causes.push(Cause::unsupported("spec.hostPath.type", kind, HOST_PATH_TYPES));
            }
            if path == "/" && text(spec, &["persistentVolumeReclaimPolicy"]) == "Recycle" {
                let why = "may not be 'recycle' for a hostPath mount of '/'";
                causes.push(Cause::forbidden("spec.persistentVolumeReclaimPolicy", why));
            }
        }
        "nfs" if !path.is_empty() && !path.starts_with('/') => {
            causes.push(Cause::invalid("spec.nfs.path", path, "must be an absolute path"));
        }
        "csi" => {
            let driver = text(spec, &["csi", "driver"]);
            if !driver.is_empty() {
                let wrong = names::subdomain(&driver.to_lowercase());
                causes.extend(wrong.iter().map(|why| Cause::invalid("spec.csi.driver", driver, why)));
            }
        }
        _ => {}
    }
}

fn attributes_class(spec: &Value, causes: &mut Vec<Cause>) {
    let Some(class) = spec.get("volumeAttributesClassName").filter(|class| !class.is_null()) else { return };
    if class == "" {
        causes.push(Cause::required("spec.volumeAttributesClassName", "an empty string is disallowed"));
    } else if spec.get("csi").is_none() {
        causes.push(Cause::required("spec.csi", "has to be specified when using volumeAttributesClassName"));
    }
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create(new);
    let source = |value: &Value| {
        let mut source =
            SOURCES.iter().find_map(|source| Some((*source, value["spec"].get(*source)?.clone())));
        if let Some((_, Value::Object(fields))) = &mut source {
            // The secret for expansion may be set later.
            fields.remove("controllerExpandSecretRef");
        }
        source
    };
    if source(old) != source(new) {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(Cause::forbidden("spec.persistentvolumesource", why));
    }
    if old["spec"]["volumeMode"] != new["spec"]["volumeMode"] {
        causes.push(Cause::invalid("volumeMode", new["spec"]["volumeMode"].clone(), "field is immutable"));
    }
    let affinity = |value: &Value| value["spec"].get("nodeAffinity").cloned();
    if let Some(before) = affinity(old)
        && Some(&before) != affinity(new).as_ref()
    {
        let shown = affinity(new).unwrap_or_default();
        let why = "field is immutable, except for updating from beta label to GA";
        causes.push(Cause::invalid("spec.nodeAffinity", shown, why));
    }
    let attributes = |value: &Value| value["spec"].get("volumeAttributesClassName").is_some();
    if attributes(old) && !attributes(new) {
        let why = "update from non-nil value to nil is forbidden";
        causes.push(Cause::forbidden("spec.volumeAttributesClassName", why));
    }
    causes
}
