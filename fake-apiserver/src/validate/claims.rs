//! Decides whether a claim may be stored. Answers to `ValidatePersistentVolumeClaim` and its update.

use serde_json::Value;

use super::field::{Causes, Field};
use super::volumes::{VOLUME_MODES, access_modes};
use super::{names, selectors};
use crate::object::{as_map_mut, text};
use crate::quantity::Quantity;
use crate::status::Cause;

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

pub(super) fn create(value: &Value) -> Causes {
    spec(&value["spec"], "spec")
}

/// What is wrong with the spec of a claim, or of the template of one.
pub(super) fn spec(value: &Value, path: &str) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::new(value, path);
    if spec.at("accessModes").is_empty() {
        causes.push(spec.at("accessModes").required("at least 1 access mode is required"));
    }
    selectors::selector(&spec.at("selector"), &mut causes);
    access_modes(&spec, &mut causes);
    let field = format!("{path}.resources[storage]");
    match value["resources"]["requests"]["storage"].as_str() {
        None => causes.push(Cause::required(field, "")),
        Some(text) => {
            if Quantity::parse(text).is_ok_and(|amount| !amount.is_positive()) {
                causes.push(Cause::invalid(field, text, "must be greater than zero"));
            }
        }
    }
    for class in ["storageClassName", "volumeAttributesClassName"] {
        if !spec.at(class).is_empty() {
            spec.at(class).follow(names::subdomain, &mut causes);
        }
    }
    if spec.at("volumeMode").is_set() {
        spec.at("volumeMode").must_be_one_of(VOLUME_MODES, &mut causes);
    }
    sources(&spec, &mut causes);
    causes
}

/// What a claim is to be filled from.
fn sources(spec: &Field<'_>, causes: &mut Causes) {
    for source in [spec.at("dataSource"), spec.at("dataSourceRef")] {
        if !source.is_set() {
            continue;
        }
        source.at("name").need(causes);
        source.at("kind").need(causes);
        let (group, kind) = (source.at("apiGroup"), source.at("kind").text());
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            causes.push(Cause::invalid(source.path.as_str(), kind, why));
        }
        if !group.is_empty() {
            group.follow(names::subdomain, causes);
        }
    }
    let (source, reference) = (spec.at("dataSource").value, spec.at("dataSourceRef").value);
    if source.is_object()
        && reference.is_object()
        && reference.get("namespace").is_none()
        && ["apiGroup", "kind", "name"].iter().any(|part| source[*part] != reference[*part])
    {
        causes.push(Cause::invalid(spec.path.as_str(), serde_json::json!({}), "must match dataSourceRef"));
    }
}

/// The name of a driver, whose letters may be large.
pub(super) fn driver_name(field: &Field<'_>, causes: &mut Causes) {
    let name = field.text();
    if name.is_empty() {
        causes.push(field.required(""));
        return;
    }
    if name.len() > 63 {
        causes.push(Cause::too_long(field.path.as_str(), 63));
    }
    let wrong = names::subdomain(&name.to_lowercase());
    causes.extend(wrong.iter().map(|why| Cause::invalid(field.path.as_str(), name, why)));
}

/// The states in which growing a claim can be.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// What is wrong with a status that was written.
pub(super) fn status(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let status = Field::root(value).at("status");
    let negative = |entry: &Field<'_>| Quantity::parse(entry.text()).is_ok_and(Quantity::is_negative);
    for (_, entry) in status.at("capacity").entries() {
        if negative(&entry) {
            causes.push(entry.invalid("must be a valid resource quantity"));
        }
    }
    let growing = status.at("allocatedResourceStatuses");
    for (name, state) in growing.entries() {
        resource_key(name, &growing.path, &mut causes);
        if !RESIZES.contains(&state.text()) {
            causes.push(Cause::unsupported(growing.path.as_str(), name, RESIZES));
        }
    }
    let amounts = status.at("allocatedResources");
    for (name, entry) in amounts.entries() {
        let before = causes.len();
        resource_key(name, &amounts.path, &mut causes);
        if causes.len() == before && negative(&entry) {
            causes.push(entry.invalid("must be a valid resource quantity"));
        }
    }
    causes
}

fn resource_key(name: &str, path: &str, causes: &mut Causes) {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    if let Some(why) = names::qualified_name(name) {
        causes.push(Cause::invalid(path, name, &why));
    } else if native && name != "storage" {
        causes.push(Cause::unsupported(path, name, &["storage"]));
    }
}

pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = create(new);
    // A claim that has a source of some group may name any: those of older servers did.
    let grouped = |field: &str| old["spec"][field].get("apiGroup").is_some_and(|group| !group.is_null());
    if grouped("dataSource") || grouped("dataSourceRef") {
        causes.retain(|cause| {
            let sentence = cause.sentence();
            !["spec.dataSource.apiGroup: ", "spec.dataSourceRef.apiGroup: "]
                .iter()
                .any(|field| sentence.starts_with(field))
        });
    }
    if old["spec"] != new["spec"] {
        changed_spec(old, new, &mut causes);
    }
    let (before, after) = (beta(old), beta(new));
    let moved = after.is_empty() && text(new, &["spec", "storageClassName"]) == before;
    if before != after && !moved {
        causes.push(Cause::invalid(
            format!("metadata.annotations.{BETA_CLASS}"),
            after,
            "field is immutable",
        ));
    }
    causes
}

/// The class in the place where it once was.
fn beta(claim: &Value) -> &str {
    text(claim, &["metadata", "annotations", BETA_CLASS])
}

fn changed_spec(old: &Value, new: &Value, causes: &mut Causes) {
    let (before, wanted) = (&old["spec"], &new["spec"]);
    if before["volumeMode"] != wanted["volumeMode"] {
        causes.push(Cause::invalid("volumeMode", wanted["volumeMode"].clone(), "field is immutable"));
    }
    let current = &old["status"]["currentVolumeAttributesClassName"];
    let wanted_class = &wanted["volumeAttributesClassName"];
    if !current.is_null()
        && *wanted_class != before["volumeAttributesClassName"]
        && matches!(wanted_class.as_str(), None | Some(""))
    {
        causes.push(Cause::forbidden(
            "spec.volumeAttributesClassName",
            "update to nothing is forbidden when status.currentVolumeAttributesClassName is set",
        ));
    }
    shrinks(old, new, causes);
    if !may_become(old, wanted) {
        causes.push(Cause::forbidden("spec", IMMUTABLE));
    }
}

/// Whether the spec of a claim may become another one.
fn may_become(old: &Value, wanted: &Value) -> bool {
    let bound = text(old, &["status", "phase"]) == "Bound";
    let mut allowed = old["spec"].clone();
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
    // A bound claim may ask for more or less storage, and for nothing else.
    let requests = wanted["resources"].get("requests");
    if let Some(requests) = requests.filter(|requests| bound && requests.is_object())
        && let Some(before) = allowed.pointer_mut("/resources/requests")
    {
        take(before, requests, "storage");
    }
    allowed == *wanted
}

fn take(allowed: &mut Value, wanted: &Value, field: &str) {
    let fields = as_map_mut(allowed);
    match wanted.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// A claim may ask for less only as long as that is more than it has.
fn shrinks(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let amount = |value: &Value, path: &[&str]| Quantity::parse(text(value, path)).map_or(0, Quantity::nanos);
    let request = ["spec", "resources", "requests", "storage"];
    let (before, after) = (amount(old, &request), amount(new, &request));
    if after < before && after <= amount(old, &["status", "capacity", "storage"]) {
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
