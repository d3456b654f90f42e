//! Decides whether a claim may be stored. Answers to `ValidatePersistentVolumeClaim` and its update.

use serde_json::Value;

use super::names;
use super::volumes::{VOLUME_MODES, access_modes};
use crate::object::{as_map_mut, text};
use crate::quantity::Quantity;
use crate::status::Cause;

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

pub(super) fn create(value: &Value) -> Vec<Cause> {
    let spec = &value["spec"];
    let mut causes = Vec::new();
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    selector(spec, &mut causes);
    causes.extend(access_modes(spec));
    let field = "spec.resources[storage]";
    match spec["resources"]["requests"]["storage"].as_str() {
        None => causes.push(Cause::required(field, "")),
        Some(text) => {
            if Quantity::parse(text).is_ok_and(|amount| !amount.is_positive()) {
                causes.push(Cause::invalid(field, text, "must be greater than zero"));
            }
        }
    }
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
    sources(spec, &mut causes);
    causes
}

/// What a claim is to be filled from.
fn sources(spec: &Value, causes: &mut Vec<Cause>) {
    for field in ["dataSource", "dataSourceRef"] {
        let Some(source) = spec.get(field).filter(|source| !source.is_null()) else { continue };
        for part in ["name", "kind"] {
            if text(source, &[part]).is_empty() {
                causes.push(Cause::required(format!("spec.{field}.{part}"), ""));
            }
        }
        let kind = text(source, &["kind"]);
        if text(source, &["apiGroup"]).is_empty() && kind != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            causes.push(Cause::invalid(format!("spec.{field}"), kind, why));
        }
    }
    if let (Some(source), Some(reference)) = (spec.get("dataSource"), spec.get("dataSourceRef"))
        && reference.get("namespace").is_none()
        && ["apiGroup", "kind", "name"].iter().any(|part| source[*part] != reference[*part])
    {
        causes.push(Cause::invalid("spec", serde_json::json!({}), "must match dataSourceRef"));
    }
}

fn selector(spec: &Value, causes: &mut Vec<Cause>) {
    for (key, value) in spec["selector"]["matchLabels"].as_object().into_iter().flatten() {
        let field = "spec.selector.matchLabels";
        causes.extend(names::qualified_name(key).map(|why| Cause::invalid(field, key.as_str(), &why)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(names::label_value(value).map(|why| Cause::invalid(field, value, &why)));
    }
    let expressions = spec["selector"]["matchExpressions"].as_array().into_iter().flatten();
    for (index, expression) in expressions.enumerate() {
        let field = |name: &str| format!("spec.selector.matchExpressions[{index}].{name}");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match text(expression, &["operator"]) {
            "In" | "NotIn" if values == 0 => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(Cause::required(field("values"), why));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(field("values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => causes.push(Cause::invalid(field("operator"), other, "not a valid selector operator")),
        }
        let key = text(expression, &["key"]);
        causes.extend(names::qualified_name(key).map(|why| Cause::invalid(field("key"), key, &why)));
        for (at, value) in expression["values"].as_array().into_iter().flatten().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let wrong = names::label_value(value);
            causes.extend(wrong.map(|why| Cause::invalid(field(&format!("values[{at}]")), value, &why)));
        }
    }
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create(new);
    let bound = text(old, &["status", "phase"]) == "Bound";
    let mut allowed = old["spec"].clone();
    let wanted = &new["spec"];
    // Each change that is allowed is made to the old spec; what differs then is not allowed.
    if text(&allowed, &["volumeName"]).is_empty() {
        take(&mut allowed, wanted, "volumeName");
    }
    if allowed.get("storageClassName").is_none() {
        take(&mut allowed, wanted, "storageClassName");
    }
    if bound {
        take(&mut allowed, wanted, "volumeAttributesClassName");
    }
    if bound || allowed["resources"]["requests"] == wanted["resources"]["requests"] {
        let requests = wanted["resources"].get("requests").cloned();
        as_map_mut(allowed.get_mut("resources").unwrap_or(&mut Value::Null))
            .extend(requests.map(|requests| ("requests".to_owned(), requests)));
        if bound {
            shrinks(old, new, &mut causes);
        }
    }
    if allowed != *wanted {
        causes.push(Cause::forbidden("spec", IMMUTABLE));
    }
    let beta = |value: &Value| text(value, &["metadata", "annotations", BETA_CLASS]).to_owned();
    let moved = beta(new).is_empty() && text(new, &["spec", "storageClassName"]) == beta(old);
    if beta(old) != beta(new) && !moved {
        causes.push(Cause::invalid(
            format!("metadata.annotations.{BETA_CLASS}"),
            beta(new),
            "field is immutable",
        ));
    }
    causes
}

fn take(allowed: &mut Value, wanted: &Value, field: &str) {
    let fields = as_map_mut(allowed);
    match wanted.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// A bound claim may ask for less only down to what it has.
fn shrinks(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let amount = |value: &Value, path: &[&str]| Quantity::parse(text(value, path)).ok();
    let request = ["spec", "resources", "requests", "storage"];
    let (before, after) = (amount(old, &request), amount(new, &request));
    let has = amount(old, &["status", "capacity", "storage"]);
    let (Some(before), Some(after)) = (before, after) else { return };
    let less = |a: Quantity, b: Quantity| a.nanos() < b.nanos();
    if less(after, before) && !has.is_some_and(|has| less(has, after)) {
        let why = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::map_mut;

    fn claim(phase: &str) -> Value {
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "volumeMode": "Filesystem"},
            "status": {"phase": phase, "capacity": {"storage": "2Gi"}},
        })
    }

    #[track_caller]
    fn check(phase: &str, edit: impl FnOnce(&mut serde_json::Map<String, Value>), refused: bool) {
        let old = claim(phase);
        let mut new = old.clone();
        edit(map_mut(&mut new, "spec"));
        assert_eq!(!update(&old, &new).is_empty(), refused);
    }

    #[test]
    fn a_selector_asks_for_what_can_be_a_label() {
        let wrong = |selector: Value| {
            let mut claim = claim("");
            claim["spec"]["selector"] = selector;
            let causes = create(&claim);
            let fields = causes.iter().map(|cause| cause.sentence().split(": ").next().unwrap_or_default());
            fields.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(wrong(json!({"matchLabels": {"tier": "has this"}})), "spec.selector.matchLabels");
        assert_eq!(wrong(json!({"matchLabels": {"a b": "gold"}})), "spec.selector.matchLabels");
        assert_eq!(wrong(json!({"matchLabels": {"example.com/tier": "gold", "none": ""}})), "");
        let among = |key: &str, value: &str| {
            wrong(json!({"matchExpressions": [{"key": key, "operator": "In", "values": ["gold", value]}]}))
        };
        assert_eq!(among("tier", "has this"), "spec.selector.matchExpressions[0].values[1]");
        assert_eq!(among("a b", "iron"), "spec.selector.matchExpressions[0].key");
        assert_eq!(among("tier", "iron"), "");
    }

    #[test]
    fn only_what_binding_and_growing_need_may_change() {
        let storage = |size: &str| json!({"requests": {"storage": size}});
        check("Pending", |spec| drop(spec.insert("volumeName".into(), "p1".into())), false);
        check("Pending", |spec| drop(spec.insert("storageClassName".into(), "sc1".into())), false);
        check("Pending", |spec| drop(spec.insert("resources".into(), storage("3Gi"))), true);
        check("Bound", |spec| drop(spec.insert("resources".into(), storage("3Gi"))), false);
        check("Bound", |spec| drop(spec.insert("resources".into(), storage("1Gi"))), true);
        check("Bound", |spec| drop(spec.insert("accessModes".into(), json!(["ReadOnlyMany"]))), true);
        check("Pending", |spec| drop(spec.insert("volumeMode".into(), "Block".into())), true);
    }
}
