//! Decides whether a pod may be stored: what a scheduler or a kubelet could not do without. Checks of
//! security contexts, probes and the many volume sources are left out. Answers to `ValidatePodCreate` and
//! `ValidatePodUpdate`.

use serde_json::{Value, json};

use super::names;
use crate::object::{as_map_mut, text};
use crate::quantity::Quantity;
use crate::status::Cause;

const RESTARTS: &[&str] = &["Always", "OnFailure", "Never"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`, \
    `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations), \
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn create(value: &Value) -> Vec<Cause> {
    let mut causes = spec(&value["spec"], "spec");
    let gated = list(&value["spec"], "schedulingGates").next().is_some();
    if gated && !text(value, &["spec", "nodeName"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.push(Cause::forbidden("spec.nodeName", why));
    }
    causes
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// What is wrong with a pod's spec, or a template's.
pub(super) fn spec(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    volumes(spec, path, &mut causes);
    if list(spec, "containers").next().is_none() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    containers(spec, path, &mut causes);
    let restart = text(spec, &["restartPolicy"]);
    if !restart.is_empty() && !RESTARTS.contains(&restart) {
        causes.push(Cause::unsupported(format!("{path}.restartPolicy"), restart, RESTARTS));
    }
    for key in spec["nodeSelector"].as_object().into_iter().flatten().map(|(key, _)| key) {
        let field = format!("{path}.nodeSelector");
        causes.extend(names::qualified_name(key).map(|why| Cause::invalid(field, key.as_str(), &why)));
    }
    let node = text(spec, &["nodeName"]);
    if !node.is_empty() {
        let wrong = names::subdomain(node);
        causes.extend(wrong.iter().map(|why| Cause::invalid(format!("{path}.nodeName"), node, why)));
    }
    let required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if affinity.is_object() && list(affinity, "nodeSelectorTerms").next().is_none() {
        let why = "must have at least one node selector term";
        causes.push(Cause::required(format!("{path}.{required}.nodeSelectorTerms"), why));
    }
    tolerations(spec, path, &mut causes);
    causes
}

fn volumes(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, volume) in list(spec, "volumes").enumerate() {
        let field = format!("{path}.volumes[{index}]");
        let name = text(volume, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else if seen.contains(&name) {
            causes.push(Cause::duplicate(format!("{field}.name"), name));
        } else {
            let wrong = names::label(name);
            causes.extend(wrong.iter().map(|why| Cause::invalid(format!("{field}.name"), name, why)));
        }
        seen.push(name);
        let sources = volume
            .as_object()
            .into_iter()
            .flatten()
            .map(|(source, _)| source)
            .filter(|source| *source != "name");
        for source in sources.skip(1) {
            causes.push(Cause::forbidden(
                format!("{field}.{source}"),
                "may not specify more than 1 volume type",
            ));
        }
        if volume.get("persistentVolumeClaim").is_some_and(|claim| text(claim, &["claimName"]).is_empty()) {
            causes.push(Cause::required(format!("{field}.persistentVolumeClaim.claimName"), ""));
        }
    }
}

fn containers(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen: Vec<&str> = Vec::new();
    for part in ["containers", "initContainers"] {
        for (index, container) in list(spec, part).enumerate() {
            let field = |name: &str| format!("{path}.{part}[{index}].{name}");
            let name = text(container, &["name"]);
            if name.is_empty() {
                causes.push(Cause::required(field("name"), ""));
            } else if seen.contains(&name) {
                causes.push(Cause::duplicate(field("name"), name));
            } else {
                causes.extend(names::label(name).iter().map(|why| Cause::invalid(field("name"), name, why)));
            }
            seen.push(name);
            if text(container, &["image"]).is_empty() {
                causes.push(Cause::required(field("image"), ""));
            }
            let limits = container["resources"]["limits"].as_object().into_iter().flatten();
            for (resource, limit) in limits {
                let limit = limit.as_str().unwrap_or_default();
                let request = text(container, &["resources", "requests", resource]);
                let amount = |text: &str| Quantity::parse(text).ok().map(Quantity::nanos);
                if amount(request).zip(amount(limit)).is_some_and(|(request, limit)| request > limit) {
                    let why = format!("must be less than or equal to {resource} limit of {limit}");
                    causes.push(Cause::invalid(field("resources.requests"), request, &why));
                }
            }
        }
    }
}

fn tolerations(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, one) in list(spec, "tolerations").enumerate() {
        let field = |name: &str| format!("{path}.tolerations[{index}].{name}");
        let (key, operator, effect) = (text(one, &["key"]), text(one, &["operator"]), text(one, &["effect"]));
        if key.is_empty() && operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(field("operator"), operator, why));
        }
        if one.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(Cause::invalid(field("effect"), effect, why));
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            causes.push(Cause::unsupported(field("effect"), effect, EFFECTS));
        }
    }
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create(new);
    let (before, after) = (&old["spec"], &new["spec"]);
    for part in ["containers", "initContainers"] {
        if list(before, part).count() != list(after, part).count() {
            causes.push(Cause::forbidden(
                format!("spec.{part}"),
                "pod updates may not add or remove containers",
            ));
            return causes;
        }
    }
    let gates = |spec: &Value| {
        list(spec, "schedulingGates").map(|gate| text(gate, &["name"]).to_owned()).collect::<Vec<_>>()
    };
    for (index, gate) in gates(after).iter().enumerate() {
        if !gates(before).contains(gate) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            causes.push(Cause::forbidden(format!("spec.schedulingGates[{index}].name"), &why));
        }
    }
    kept_tolerations(before, after, &mut causes);
    let mut allowed = before.clone();
    allow(&mut allowed, after, &mut causes);
    if allowed != *after {
        causes.push(Cause::forbidden("spec", UPDATABLE));
    }
    causes
}

fn kept_tolerations(before: &Value, after: &Value, causes: &mut Vec<Cause>) {
    let plain = |one: &Value| {
        let mut one = one.clone();
        as_map_mut(&mut one).remove("tolerationSeconds");
        one
    };
    let now: Vec<Value> = list(after, "tolerations").map(plain).collect();
    if list(before, "tolerations").any(|one| !now.contains(&plain(one))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", why));
    }
}

/// Makes every change to `spec` that is allowed.
fn allow(spec: &mut Value, wanted: &Value, causes: &mut Vec<Cause>) {
    let gated = list(spec, "schedulingGates").next().is_some();
    for part in ["containers", "initContainers"] {
        let images: Vec<Value> = list(wanted, part).map(|container| container["image"].clone()).collect();
        let containers = spec.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, image) in containers.zip(images) {
            as_map_mut(container).insert("image".into(), image);
        }
    }
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"];
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        free.push("terminationGracePeriodSeconds");
    }
    if gated {
        let before = spec["nodeSelector"].as_object().cloned().unwrap_or_default();
        if before.iter().any(|(key, value)| wanted["nodeSelector"].get(key) != Some(value)) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            let shown = wanted.get("nodeSelector").cloned().unwrap_or_else(|| json!({}));
            causes.push(Cause::invalid("spec.nodeSelector", shown, why));
        }
        free.extend(["nodeSelector", "affinity"]);
    }
    for field in free {
        match wanted.get(field) {
            Some(value) => as_map_mut(spec).insert(field.into(), value.clone()),
            None => as_map_mut(spec).remove(field),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"spec": {
            "containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}],
        }})
    }

    #[test]
    fn a_pod_may_only_change_little() {
        let old = pod();
        for (field, value, refused) in [
            ("activeDeadlineSeconds", json!(5), false),
            ("containers", json!([{"name": "c", "image": "j"}]), false),
            ("containers", json!([{"name": "d", "image": "i"}]), true),
            ("nodeName", json!("n1"), true),
            ("volumes", json!([]), true),
        ] {
            let mut new = old.clone();
            new["spec"][field] = value;
            assert_eq!(!update(&old, &new).is_empty(), refused, "{field}");
        }
    }

    #[test]
    fn volumes_have_one_source_and_claims_a_name() {
        assert!(create(&pod()).is_empty());
        let mut two = pod();
        two["spec"]["volumes"][0]["emptyDir"] = json!({});
        assert_eq!(create(&two).len(), 1);
        let mut unnamed = pod();
        unnamed["spec"]["volumes"][0]["persistentVolumeClaim"] = json!({});
        assert_eq!(create(&unnamed).len(), 1);
    }
}
