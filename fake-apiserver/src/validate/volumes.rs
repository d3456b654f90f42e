//! Decides whether a persistent volume may be stored. Answers to `ValidatePersistentVolume` and its update.

mod legacy;
mod sources;

use serde_json::Value;

use super::field::{Causes, Field};
use super::names;
use super::pods::affinity;
use crate::quantity::Quantity;
use crate::status::Cause;

pub(super) use self::sources::{SOURCES, host_path, required_fields};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(super) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const INLINE: &str = "may not be specified in the context of inline volumes";

pub(super) fn create(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let name = Field::root(value).at("metadata.name").text();
    spec(&Field::root(value).at("spec"), name, &mut causes);
    causes
}

fn spec(spec: &Field<'_>, name: &str, causes: &mut Causes) {
    if spec.at("accessModes").is_empty() {
        causes.push(spec.at("accessModes").required(""));
    }
    access_modes(spec, causes);
    capacity(spec, causes);
    spec.at("persistentVolumeReclaimPolicy").one_of(&["Delete", "Recycle", "Retain"], causes);
    let affinity = spec.at("nodeAffinity");
    if affinity.is_set() {
        let required = affinity.at("required");
        if required.is_set() {
            affinity::node_selector(&required, causes);
        } else {
            causes.push(required.required("must specify required node constraints"));
        }
    }
    sources::check(spec, name, causes);
    let class = spec.at("storageClassName");
    if !class.is_empty() {
        class.follow(names::subdomain, causes);
    }
    let mode = spec.at("volumeMode");
    if mode.is_set() {
        mode.must_be_one_of(VOLUME_MODES, causes);
    }
    attributes_class(spec, causes);
}

/// A volume that an attachment describes itself.
pub(super) fn inline(spec: &Field<'_>, causes: &mut Causes) {
    for field in ["claimRef", "capacity", "nodeAffinity", "storageClassName"] {
        if !spec.at(field).is_empty() {
            causes.push(spec.at(field).forbidden(INLINE));
        }
    }
    if !spec.at("csi").is_set() {
        causes.push(spec.at("csi").required("has to be specified in the context of inline volumes"));
    }
    if spec.at("accessModes").is_empty() {
        causes.push(spec.at("accessModes").required(""));
    }
    access_modes(spec, causes);
    for (field, only) in [("persistentVolumeReclaimPolicy", "Retain"), ("volumeMode", "Filesystem")] {
        if !spec.at(field).is_empty() && spec.at(field).text() != only {
            causes.push(
                spec.at(field).forbidden(&format!("may only be {only} in the context of inline volumes")),
            );
        }
    }
    sources::check(spec, "", causes);
    attributes_class(spec, causes);
}

/// What both volumes and claims say of access modes.
pub(super) fn access_modes(spec: &Field<'_>, causes: &mut Causes) {
    let field = spec.at("accessModes");
    let items = field.items();
    let modes: Vec<&str> = items.iter().map(Field::text).collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        causes.push(Cause::unsupported(field.path.as_str(), *mode, ACCESS_MODES));
    }
    let other = |mode: &&str| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode);
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(other) {
        causes.push(field.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn capacity(spec: &Field<'_>, causes: &mut Causes) {
    let capacity = spec.at("capacity");
    let entries = capacity.entries();
    if entries.is_empty() {
        causes.push(capacity.required(""));
    }
    if entries.len() != 1 || entries[0].0 != "storage" {
        causes.push(Cause::unsupported(capacity.path.as_str(), capacity.value.clone(), &["storage"]));
    }
    for (_, entry) in entries {
        let Ok(amount) = Quantity::parse(entry.text()) else { continue };
        if amount.is_negative() {
            let shown = i64::try_from(amount.units()).unwrap_or(i64::MIN);
            causes.push(Cause::invalid(entry.path.as_str(), shown, "must be a valid resource quantity"));
        }
        if !amount.is_positive() {
            causes.push(entry.invalid("must be greater than zero"));
        }
    }
}

fn attributes_class(spec: &Field<'_>, causes: &mut Causes) {
    let class = spec.at("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    if class.is_empty() {
        causes.push(class.required("an empty string is disallowed"));
    } else {
        class.follow(names::subdomain, causes);
    }
    if !spec.at("csi").is_set() {
        causes.push(spec.at("csi").required("has to be specified when using volumeAttributesClassName"));
    }
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create(new);
    let source = |value: &Value| {
        SOURCES.iter().find_map(|source| Some((*source, value["spec"].get(*source)?.clone())))
    };
    let (before, mut after) = (source(old), source(new));
    // The secret for expansion may be set later, once.
    if let (Some(("csi", was)), Some(("csi", Value::Object(is)))) = (&before, &mut after)
        && was.get("controllerExpandSecretRef").is_none()
    {
        is.remove("controllerExpandSecretRef");
    }
    if before != after {
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
        causes.push(Cause::invalid("nodeAffinity", shown, why));
    }
    let attributes = |value: &Value| value["spec"].get("volumeAttributesClassName").is_some();
    if attributes(old) && !attributes(new) {
        let why = "update from non-nil value to nil is forbidden";
        causes.push(Cause::forbidden("spec.volumeAttributesClassName", why));
    }
    causes
}
