//! Decides what limit ranges add to a pod's containers and what they refuse. Answers to
//! `kubernetes/plugin/pkg/admission/limitranger`.

use serde_json::{Map, Value, json};

use super::amounts::{Amounts, amounts, of_pod};
use crate::object::{as_map_mut, map_mut, metadata_mut, text};
use crate::quantity::Quantity;
use crate::routes::Target;
use crate::status::{Result, Status};
use crate::store::Store;

const MILLI: i128 = 1_000_000;
/// Above this, amounts are compared in whole units.
const LARGEST_MILLI: i128 = 9_223_372_036_854_775;

fn limits(store: &Store, namespace: &str) -> Vec<Value> {
    let Some(index) = store.kinds.named("LimitRange") else { return Vec::new() };
    let ranges = store.list(index);
    let ranges = ranges.values().filter(|range| range.namespace() == namespace);
    ranges.flat_map(|range| range.value["spec"]["limits"].as_array().cloned().unwrap_or_default()).collect()
}

/// Adds what containers leave open, and notes what was added.
pub(super) fn fill(store: &Store, target: &Target, pod: &mut Value) {
    let limits = limits(store, &target.namespace);
    let of = |field: &str| {
        let maps = limits.iter().filter(|limit| limit["type"] == "Container");
        let mut all = Map::new();
        for (name, amount) in maps.flat_map(|limit| limit[field].as_object().cloned().unwrap_or_default()) {
            all.entry(name).or_insert(amount);
        }
        all
    };
    let (requests, maxima) = (of("defaultRequest"), of("default"));
    let mut notes = Vec::new();
    for (part, called) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod["spec"].get_mut(part).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers {
            let name = text(container, &["name"]).to_owned();
            for (field, defaults, said) in [("requests", &requests, "request"), ("limits", &maxima, "limit")]
            {
                let mut added = Vec::new();
                for (resource, amount) in defaults {
                    let resources = as_map_mut(container).entry("resources").or_insert_with(|| json!({}));
                    let present = map_mut(resources, field);
                    if !present.contains_key(resource) {
                        present.insert(resource.clone(), amount.clone());
                        added.push(resource.as_str());
                    }
                }
                if !added.is_empty() {
                    added.sort_unstable();
                    notes.push(format!("{} {said} for {called} {name}", added.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let annotations = metadata_mut(pod).entry("annotations").or_insert_with(|| json!({}));
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        as_map_mut(annotations).insert("kubernetes.io/limit-ranger".into(), note.into());
    }
}

/// Refuses a pod or a claim that is outside the limits.
pub(super) fn check(store: &Store, target: &Target, value: &Value) -> Result<()> {
    let mut wrong = Vec::new();
    for limit in limits(store, &target.namespace) {
        let kind = text(&limit, &["type"]);
        match (&*target.kind.kind, kind) {
            ("PersistentVolumeClaim", "PersistentVolumeClaim") => claim(&limit, value, &mut wrong),
            ("Pod", "Container") => {
                for part in ["containers", "initContainers"] {
                    for container in value["spec"][part].as_array().into_iter().flatten() {
                        let of = |field: &str| amounts(&container["resources"][field]);
                        bounds(kind, &limit, &of("requests"), &of("limits"), &mut wrong);
                    }
                }
            }
            ("Pod", "Pod") => {
                let spec = &value["spec"];
                bounds(kind, &limit, &of_pod(spec, "requests"), &of_pod(spec, "limits"), &mut wrong);
            }
            _ => {}
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let mut said: Vec<String> = Vec::new();
    for one in wrong {
        if !said.contains(&one) {
            said.push(one);
        }
    }
    let why = if let [one] = &said[..] { one.clone() } else { format!("[{}]", said.join(", ")) };
    let name = text(value, &["metadata", "name"]);
    Err(Status::forbidden(&target.kind.group, &target.kind.plural, name, &why))
}

fn claim(limit: &Value, value: &Value, wrong: &mut Vec<String>) {
    let requests = amounts(&value["spec"]["resources"]["requests"]);
    let kind = "PersistentVolumeClaim";
    for (name, least) in amounts(&limit["min"]) {
        wrong.extend(below(kind, &name, least, &requests, &Amounts::new()));
    }
    for (name, most) in amounts(&limit["max"]) {
        match requests.get(&name) {
            None => {
                wrong.push(format!("maximum {name} usage per {kind} is {most}.  No request is specified"));
            }
            Some(request) if request.nanos() > most.nanos() => {
                wrong.push(format!("maximum {name} usage per {kind} is {most}, but request is {request}"));
            }
            Some(_) => {}
        }
    }
}

fn below(kind: &str, name: &str, least: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let rule = format!("minimum {name} usage per {kind} is {least}");
    let Some(request) = requests.get(name) else { return Some(format!("{rule}.  No request is specified")) };
    if request.nanos() < least.nanos() {
        return Some(format!("{rule}, but request is {request}"));
    }
    let limit = limits.get(name).filter(|limit| limit.nanos() < least.nanos())?;
    Some(format!("{rule}, but limit is {limit}"))
}

fn bounds(kind: &str, limit: &Value, requests: &Amounts, limits: &Amounts, wrong: &mut Vec<String>) {
    for (name, least) in amounts(&limit["min"]) {
        wrong.extend(below(kind, &name, least, requests, limits));
    }
    for (name, most) in amounts(&limit["max"]) {
        let rule = format!("maximum {name} usage per {kind} is {most}");
        match (limits.get(&name), requests.get(&name)) {
            (None, _) => wrong.push(format!("{rule}.  No limit is specified")),
            (Some(limit), _) if limit.nanos() > most.nanos() => {
                wrong.push(format!("{rule}, but limit is {limit}"));
            }
            (_, Some(request)) if request.nanos() > most.nanos() => {
                wrong.push(format!("{rule}, but request is {request}"));
            }
            _ => {}
        }
    }
    for (name, most) in amounts(&limit["maxLimitRequestRatio"]) {
        wrong.extend(ratio(kind, &name, most, requests, limits));
    }
}

fn ratio(kind: &str, name: &str, most: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {kind} is {most}");
    let positive = |amounts: &Amounts| amounts.get(name).copied().filter(|amount| amount.is_positive());
    let Some(request) = positive(requests) else {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    };
    let Some(limit) = positive(limits) else {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    };
    let milli = |amount: Quantity| amount.nanos() / MILLI;
    let (request, limit) = (milli(request).max(1), milli(limit));
    if limit.saturating_mul(1000) <= milli(most).min(LARGEST_MILLI).saturating_mul(request) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "it is shown with six digits, as upstream shows it")]
    let shown = limit as f64 / request as f64;
    Some(format!("{rule}, but provided ratio is {shown:.6}"))
}
