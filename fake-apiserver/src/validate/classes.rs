//! Decides whether a storage class may be stored. Answers to `ValidateStorageClass` and its update.

use serde_json::Value;

use super::names;
use crate::object::text;
use crate::status::Cause;

const MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];

pub(super) fn create(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let provisioner = text(value, &["provisioner"]);
    if provisioner.is_empty() {
        causes.push(Cause::required("provisioner", ""));
    } else if let Some(why) = names::qualified_name(&provisioner.to_lowercase()) {
        causes.push(Cause::invalid("provisioner", provisioner, &why));
    }
    if value["parameters"].as_object().is_some_and(|parameters| parameters.keys().any(String::is_empty)) {
        causes.push(Cause::invalid("parameters", "", "field can not be empty."));
    }
    let policy = text(value, &["reclaimPolicy"]);
    if !policy.is_empty() && !matches!(policy, "Delete" | "Retain") {
        causes.push(Cause::unsupported("reclaimPolicy", policy, &["Delete", "Retain"]));
    }
    let mode = text(value, &["volumeBindingMode"]);
    if !mode.is_empty() && !MODES.contains(&mode) {
        causes.push(Cause::unsupported("volumeBindingMode", mode, MODES));
    }
    causes
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create(new);
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if old.get(field) != new.get(field) {
            causes.push(Cause::invalid(
                field,
                new.get(field).cloned().unwrap_or_default(),
                "field is immutable",
            ));
        }
    }
    causes
}
