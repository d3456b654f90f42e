//! Decides whether a pod, or the template of one, may be stored. Fields for Windows and for device claims are
//! not looked into. Answers to `ValidatePodCreate`, `ValidatePodUpdate` and `ValidatePodTemplateSpec`.

pub(crate) mod affinity;
pub(super) mod amounts;
mod containers;
mod env;
mod probes;
mod security;
pub(super) mod status;
mod volumes;

use serde_json::{Value, json};

use self::volumes::Volumes;
use super::field::{Causes, Field};
use super::{metadata, names, selectors};
use crate::object::{as_map_mut, text};
use crate::status::Cause;

const RESTARTS: &[&str] = &["Always", "OnFailure", "Never"];
const DNS: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`, \
    `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations), \
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn create(value: &Value) -> Causes {
    let mut causes = stored(value);
    let spec = Field::root(value).at("spec");
    if !spec.at("ephemeralContainers").is_empty() {
        causes.push(spec.at("ephemeralContainers").forbidden("cannot be set on create"));
    }
    if !spec.at("schedulingGates").is_empty() && !spec.at("nodeName").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.push(spec.at("nodeName").forbidden(why));
    }
    causes
}

/// What holds of a pod however often it was written.
fn stored(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    pod_spec(&spec, text(value, &["metadata", "name"]), true, &mut causes);
    if spec.at("serviceAccountName").is_empty() {
        for volume in spec.at("volumes").items() {
            for source in volume.at("projected.sources").items() {
                let token = source.at("serviceAccountToken");
                if token.is_set() {
                    causes.push(token.forbidden("must not be specified when serviceAccountName is not set"));
                }
            }
        }
    }
    causes
}

/// What is wrong with a template that belongs to nothing.
pub(super) fn alone(value: &Value) -> Causes {
    let mut causes = Causes::new();
    template(&Field::root(value).at("template"), &mut causes);
    causes
}

/// What is wrong with the template of a pod.
pub(super) fn template(template: &Field<'_>, causes: &mut Causes) {
    // Upstream leaves the metadata out of these paths.
    for (field, path) in [("labels", "labels"), ("annotations", "annotations")] {
        let value = template.at("metadata").at(field).value;
        let shown = Field::new(value, format!("{}.{path}", template.path));
        if field == "labels" {
            selectors::labels(&shown, causes);
        } else {
            metadata::annotations(&shown, causes);
        }
    }
    let spec = template.at("spec");
    pod_spec(&spec, "", false, causes);
    if !spec.at("ephemeralContainers").is_empty() {
        causes.push(
            spec.at("ephemeralContainers").forbidden("ephemeral containers not allowed in pod template"),
        );
    }
}

fn template_metadata(field: &Field<'_>, causes: &mut Causes) {
    selectors::labels(&field.at("labels"), causes);
    metadata::annotations(&field.at("annotations"), causes);
}

fn pod_spec(spec: &Field<'_>, name: &str, is_pod: bool, causes: &mut Causes) {
    let good = Volumes::check(spec, name, causes);
    containers::all(spec, &good, is_pod, causes);
    if spec.at("resources").is_set() {
        amounts::resources(&spec.at("resources"), causes);
    }
    host_network(spec, is_pod, causes);
    for (field, supported) in [("restartPolicy", RESTARTS), ("dnsPolicy", DNS)] {
        if spec.at(field).is_empty() {
            causes.push(spec.at(field).required(""));
        } else {
            spec.at(field).must_be_one_of(supported, causes);
        }
    }
    selectors::labels(&spec.at("nodeSelector"), causes);
    security::of_pod(spec, causes);
    affinity::affinity(spec, causes);
    dns(spec, causes);
    for gate in spec.at("readinessGates").items() {
        gate.at("conditionType").follow(names::qualified_name, causes);
    }
    gates(spec, causes);
    affinity::spread(spec, causes);
    named(spec, causes);
    affinity::tolerations(spec, causes);
    for alias in spec.at("hostAliases").items() {
        alias.at("ip").follow(names::address, causes);
        for name in alias.at("hostnames").items() {
            name.follow(names::subdomain, causes);
        }
    }
    let preemption = spec.at("preemptionPolicy");
    if preemption.is_set() {
        if preemption.is_empty() {
            causes.push(preemption.required(""));
        } else {
            preemption.must_be_one_of(&["PreemptLowerPriority", "Never"], causes);
        }
    }
    // What is fixed is limited: the rules are those of a container's limits.
    let overhead = json!({"limits": spec.at("overhead").value});
    amounts::resources(&Field::new(&overhead, spec.at("overhead").path), causes);
    let system = spec.at("os");
    if system.is_set() {
        if system.at("name").is_empty() {
            causes.push(system.at("name").required("cannot be empty"));
        } else {
            Field::new(system.at("name").value, system.path.as_str())
                .must_be_one_of(&["linux", "windows"], causes);
        }
    }
}

fn host_network(spec: &Field<'_>, is_pod: bool, causes: &mut Causes) {
    if !spec.at("hostNetwork").is_true() {
        return;
    }
    for container in spec.at("containers").items() {
        for port in container.at("ports").items() {
            let (host, own) = (port.at("hostPort"), port.at("containerPort").number().unwrap_or(0));
            let number = host.number().unwrap_or(0);
            if (is_pod || number != 0) && number != own {
                causes.push(host.invalid("must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}

fn named(spec: &Field<'_>, causes: &mut Causes) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let name = spec.at(field);
        if !name.is_empty() || field == "runtimeClassName" && name.is_set() {
            name.follow(names::subdomain, causes);
        }
    }
    for field in ["hostname", "subdomain"] {
        if !spec.at(field).is_empty() {
            spec.at(field).follow(names::label, causes);
        }
    }
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.between(1, i64::from(i32::MAX), causes);
    }
}

fn dns(spec: &Field<'_>, causes: &mut Causes) {
    let config = spec.at("dnsConfig");
    let servers = config.at("nameservers");
    if spec.at("dnsPolicy").text() == "None" {
        if !config.is_set() {
            causes.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            causes.push(servers.required(why));
            return;
        }
    }
    if servers.len() > 3 {
        causes.push(servers.invalid("must not have more than 3 nameservers"));
    }
    for server in servers.items() {
        server.follow(names::address, causes);
    }
    let searches = config.at("searches");
    if searches.len() > 32 {
        causes.push(searches.invalid("must not have more than 32 search paths"));
    }
    for search in searches.items().iter().filter(|search| search.text() != ".") {
        let plain = search.text().strip_suffix('.').unwrap_or(search.text()).replace('_', "a");
        causes.extend(names::subdomain(&plain).iter().map(|why| search.invalid(why)));
    }
    for option in config.at("options").items() {
        if option.at("name").is_empty() {
            causes.push(option.required("must not be empty"));
        }
    }
}

fn gates(spec: &Field<'_>, causes: &mut Causes) {
    let mut seen = Vec::new();
    for gate in spec.at("schedulingGates").items() {
        let name = gate.at("name").text();
        causes.extend(names::qualified_name(name).map(|why| Cause::invalid(gate.path.as_str(), name, &why)));
        if seen.contains(&name) {
            causes.push(Cause::duplicate(gate.path.as_str(), name));
        }
        seen.push(name);
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = stored(new);
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
    deadline(before, after, &mut causes);
    kept_tolerations(before, after, &mut causes);
    let mut allowed = before.clone();
    allow(&mut allowed, after, &mut causes);
    if allowed != *after {
        causes.push(Cause::forbidden("spec", UPDATABLE));
    }
    causes
}

/// A deadline can be set, and can come nearer.
fn deadline(before: &Value, after: &Value, causes: &mut Vec<Cause>) {
    let field = Field::root(after).at("activeDeadlineSeconds");
    let shown = Field::new(field.value, "spec.activeDeadlineSeconds");
    match (before["activeDeadlineSeconds"].as_i64(), field.number()) {
        (Some(_), None) => causes.push(shown.invalid("must not update from a positive integer to nil value")),
        (Some(was), Some(is)) if is > was => {
            causes.push(shown.invalid("must be less than or equal to previous value"));
        }
        _ => {}
    }
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
            match image {
                Value::Null => as_map_mut(container).remove("image"),
                image => as_map_mut(container).insert("image".into(), image),
            };
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
        let path = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = |spec: &Value| spec["affinity"]["nodeAffinity"][path]["nodeSelectorTerms"].clone();
        let (was, is) = (terms(spec), terms(wanted));
        if was.as_array().map(Vec::len).is_some_and(|count| Some(count) != is.as_array().map(Vec::len)) {
            let field = format!("spec.affinity.nodeAffinity.{path}.nodeSelectorTerms");
            causes.push(Cause::invalid(
                field,
                is,
                "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
            ));
        } else {
            terms_only_grow(&was, &is, path, causes);
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

/// Each term of a gated pod may get more requirements behind those that it has.
fn terms_only_grow(was: &Value, is: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (was, is) = (was.as_array().into_iter().flatten(), is.as_array().into_iter().flatten());
    for (index, (before, after)) in was.zip(is).enumerate() {
        let parts = ["matchExpressions", "matchFields"];
        let all = |term: &Value, part: &str| term[part].as_array().cloned().unwrap_or_default();
        let selects = |term: &Value| parts.iter().any(|part| !all(term, part).is_empty());
        let grows = parts.iter().all(|part| all(after, part).starts_with(&all(before, part)));
        if !grows || !selects(before) && selects(after) {
            let field = format!("spec.affinity.nodeAffinity.{path}.nodeSelectorTerms[{index}]");
            let why = "only additions are allowed (no mutations or deletions)";
            causes.push(Cause::invalid(field, after.clone(), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        let container = |image: &str| json!({"name": "c", "image": image, "imagePullPolicy": "Always", "terminationMessagePolicy": "File"});
        json!({"spec": {
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "containers": [container("i")], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}],
        }})
    }

    #[test]
    fn a_pod_may_only_change_little() {
        let old = pod();
        let with = |field: &str, value: &str| {
            let mut containers = old["spec"]["containers"].clone();
            containers[0][field] = value.into();
            containers
        };
        for (field, value, refused) in [
            ("activeDeadlineSeconds", json!(5), false),
            ("containers", with("image", "j"), false),
            ("containers", with("name", "d"), true),
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
