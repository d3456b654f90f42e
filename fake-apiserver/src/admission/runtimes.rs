//! Decides what a pod gets from the class of its runtime: what running it costs besides, and on which nodes it may run. Answers to
//! `kubernetes/plugin/pkg/admission/runtimeclass` and `kubernetes/pkg/util/tolerations`.

use serde_json::{Map, Value};

use crate::object::{as_map_mut, at, map_mut, text};
use crate::quantity::Quantity;
use crate::status::{Result, Status};
use crate::store::Store;

pub(super) fn admit(store: &Store, pod: &mut Value) -> Result<()> {
    let name = text(pod, &["spec", "runtimeClassName"]).to_owned();
    let refuse =
        |pod: &Value, why: &str| Err(Status::forbidden("", "pods", text(pod, &["metadata", "name"]), why));
    let class = store.kinds.named("RuntimeClass").and_then(|index| store.get(index, &name));
    let class = class.map(|class| class.value.share()).filter(|_| !name.is_empty());
    if class.is_none() && !name.is_empty() {
        return refuse(pod, &format!("pod rejected: RuntimeClass \"{name}\" not found"));
    }
    let costs = class.as_ref().and_then(|class| class.get("overhead")).map(|costs| &costs["podFixed"]);
    let own = at(pod, &["spec", "overhead"]);
    match (costs, own) {
        (None, Some(_)) => {
            return refuse(
                pod,
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            );
        }
        (Some(costs), Some(own)) if !same_amounts(costs, own) => {
            return refuse(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
        }
        (Some(costs), _) if costs.is_object() => {
            map_mut(pod, "spec").insert("overhead".into(), costs.clone());
        }
        _ => {}
    }
    let Some(places) = class.as_ref().and_then(|class| class.get("scheduling")) else { return Ok(()) };
    if let Err(why) = select_nodes(pod, &places["nodeSelector"]) {
        return refuse(pod, &why);
    }
    tolerate(pod, &places["tolerations"]);
    Ok(())
}

/// Whether two lists of amounts say the same, however they are written.
fn same_amounts(one: &Value, other: &Value) -> bool {
    let none = Map::new();
    let (one, other) = (one.as_object().unwrap_or(&none), other.as_object().unwrap_or(&none));
    let amount = |value: &Value| Quantity::parse(value.as_str()?).ok().map(Quantity::nanos);
    one.len() == other.len()
        && one.iter().all(|(name, value)| other.get(name).is_some_and(|same| amount(same) == amount(value)))
}

/// Adds the labels of the nodes that have the runtime, or says which of them the pod contradicts.
fn select_nodes(pod: &mut Value, wanted: &Value) -> std::result::Result<(), String> {
    let Some(wanted) = wanted.as_object().filter(|wanted| !wanted.is_empty()) else { return Ok(()) };
    let selector = map_mut(pod, "spec").entry("nodeSelector").or_insert_with(|| Value::Object(Map::new()));
    let selector = as_map_mut(selector);
    for (key, value) in wanted {
        let own = selector.entry(key.clone()).or_insert_with(|| value.clone());
        if own != value {
            let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                shown(value),
                shown(own)
            ));
        }
    }
    Ok(())
}

/// Adds the tolerations of the class; one that another says more than goes.
fn tolerate(pod: &mut Value, more: &Value) {
    let mut all = at(pod, &["spec", "tolerations"]).and_then(Value::as_array).cloned().unwrap_or_default();
    all.extend(more.as_array().cloned().unwrap_or_default());
    let mut merged: Vec<Value> = Vec::new();
    for (place, one) in all.iter().enumerate() {
        let said = merged.iter().any(|other| covers(other, one));
        let will_be = all[place + 1..].iter().any(|other| other != one && covers(other, one));
        if !said && !will_be {
            merged.push(one.clone());
        }
    }
    if !merged.is_empty() {
        map_mut(pod, "spec").insert("tolerations".into(), merged.into());
    }
}

/// Whether a toleration tolerates all that another does.
fn covers(one: &Value, other: &Value) -> bool {
    fn said<'a>(toleration: &'a Value, field: &str) -> &'a str {
        text(toleration, &[field])
    }
    let exists = said(one, "operator") == "Exists";
    if one == other {
        return true;
    }
    if said(one, "key") != said(other, "key") && !(said(one, "key").is_empty() && exists) {
        return false;
    }
    if said(one, "effect") != said(other, "effect") && !said(one, "effect").is_empty() {
        return false;
    }
    let seconds = |value: &Value| value["tolerationSeconds"].as_i64();
    if said(one, "effect") == "NoExecute"
        && let Some(most) = seconds(one)
        && seconds(other).is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    exists || said(other, "operator") == "Equal" && said(one, "value") == said(other, "value")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_that_another_covers_is_said_once() {
        let seconds = |seconds: Option<i64>| json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let mut pod = json!({"spec": {"tolerations": [seconds(Some(300)), {"key": "b", "operator": "Equal", "value": "c"}]}});
        tolerate(
            &mut pod,
            &json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Equal", "value": "c"}]),
        );
        let expected =
            json!([{"key": "b", "operator": "Equal", "value": "c"}, {"key": "a", "operator": "Exists"}]);
        assert_eq!(pod["spec"]["tolerations"], expected);
        assert!(covers(&seconds(Some(10)), &seconds(Some(5))) && !covers(&seconds(Some(5)), &seconds(None)));
    }

    #[test]
    fn amounts_are_the_same_however_they_are_written() {
        assert!(same_amounts(&json!({"cpu": "1"}), &json!({"cpu": "1000m"})));
        assert!(!same_amounts(&json!({"cpu": "1"}), &json!({"cpu": "1", "memory": "1"})));
    }
}
