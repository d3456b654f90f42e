//! Decides whether a pod may be evicted: what its disruption budget allows, and what is noted before the pod
//! is deleted. Never brings a budget up to date; that is a controller's work. Answers to
//! `kubernetes/pkg/registry/core/pod/storage/eviction.go`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::object::{Object, as_map_mut, at, key_of, map_mut, text};
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;
use crate::validate::selectors;
use crate::verbs::{delete, dry_run};

const BLOCKED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// How many evictions may wait for the budget's controller.
const MOST_DISRUPTED: usize = 2000;

pub(crate) fn evict(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let eviction = request.json("Eviction")?;
    let (kind, version) = (text(&eviction, &["kind"]), text(&eviction, &["apiVersion"]));
    if !matches!(kind, "" | "Eviction") {
        let version = if version.is_empty() { "policy/v1" } else { version };
        let (_, short) = crate::kinds::split_api_version(version);
        let why = format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        );
        let what = format!("{kind} in version \"{short}\" cannot be handled as a Eviction");
        return Err(Status::bad_request(format!("{what}: {why}")));
    }
    let name = text(&eviction, &["metadata", "name"]);
    if name != target.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = &eviction["deleteOptions"];
    let asked = crate::object::strings(options, &["dryRun"]).into_iter();
    let dry = dry_run(request.query.all("dryRun").chain(asked), "CreateOptions")?;
    let mut store = server.lock();
    let pod = store.get(target.index, &target.key()).map(Object::apart);
    let pod = pod.ok_or_else(|| Status::not_found("", "pods", &target.name))?;
    delete::check_eviction(target, &pod, options)?;
    if !is_past_harm(&pod.value) {
        ask_budget(server, &mut store, target, &pod.value, dry)?;
    }
    if !dry {
        note(server, &mut store, target, &pod);
    }
    delete::evicted(server, &mut store, target, options, dry)?;
    server.announce(&store);
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::json(201, &done))
}

/// Whether nobody is harmed when the pod goes: it is over, has not begun, or is going already.
fn is_past_harm(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed" | "Pending")
        || at(pod, &["metadata", "deletionTimestamp"]).is_some()
}

fn ask_budget(server: &Server, store: &mut Store, target: &Target, pod: &Value, dry: bool) -> Result<()> {
    let Some(index) = store.kinds.named("PodDisruptionBudget") else { return Ok(()) };
    let labels = &pod["metadata"]["labels"];
    let budgets = store.list(index);
    let mut mine = budgets.values().filter(|budget| {
        budget.namespace() == target.namespace
            && selectors::picks(&budget.value["spec"]["selector"], labels) == Some(true)
    });
    let Some(budget) = mine.next().cloned() else { return Ok(()) };
    if mine.next().is_some() {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::untranslated(why));
    }
    let status = &budget.value["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    if !ready {
        let always = text(&budget.value, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        let healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        if always || healthy {
            return Ok(());
        }
    }
    let generation = budget.value["metadata"]["generation"].as_i64().unwrap_or(0);
    if number("observedGeneration") < generation {
        let why = format!("The disruption budget {} is still being processed by the server.", budget.name());
        return Err(too_many(&why, Some(10)));
    }
    let forbidden = |why: &str| Err(Status::forbidden("policy", "poddisruptionbudget", budget.name(), why));
    if number("disruptionsAllowed") < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_DISRUPTED) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if number("disruptionsAllowed") == 0 {
        return Err(too_many(&why_none(&budget), None));
    }
    if !dry {
        let next = decremented(server, &budget, &target.name);
        store.put(index, key_of(budget.namespace(), budget.name()), next);
    }
    Ok(())
}

fn why_none(budget: &Object) -> String {
    let (name, status) = (budget.name(), &budget.value["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let told = conditions.iter().find(|one| {
        one["type"] == "DisruptionAllowed" && one["status"] == "False" && !text(one, &["message"]).is_empty()
    });
    let said = |field: &str| told.map(|one| text(one, &[field])).unwrap_or_default();
    if said("reason") == "SyncFailed" {
        let why = said("message");
        return format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        );
    }
    let (has, needs) = (number("currentHealthy"), number("desiredHealthy"));
    if has <= needs {
        return format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently");
    }
    let blocked = format!("The disruption budget {name} does not allow evicting pods currently");
    match told {
        Some(_) => format!("{blocked} ({}): {}", said("reason"), said("message")),
        None => blocked,
    }
}

fn too_many(why: &str, seconds: Option<u64>) -> Box<Status> {
    let mut refusal = Status::new(429, "TooManyRequests", BLOCKED);
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    if let Some(seconds) = seconds {
        details["retryAfterSeconds"] = seconds.into();
    }
    refusal.details = Some(details);
    Box::new(refusal)
}

/// The budget with one disruption less, that of the pod.
fn decremented(server: &Server, budget: &Object, pod: &str) -> Value {
    let mut next = Value::clone(&budget.value);
    let now = server.timestamp();
    let left = budget.value["status"]["disruptionsAllowed"].as_i64().unwrap_or(1) - 1;
    let seen = budget.value["status"]["observedGeneration"].clone();
    let status = map_mut(&mut next, "status");
    status.insert("disruptionsAllowed".into(), left.into());
    let pods = as_map_mut(status.entry("disruptedPods").or_insert_with(|| json!({})));
    pods.insert(pod.to_owned(), now.as_str().into());
    if left == 0 {
        let mut condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": now,
        });
        if seen.is_i64() {
            condition["observedGeneration"] = seen;
        }
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Value::Array(conditions) = conditions {
            conditions.retain(|one| one["type"] != "DisruptionAllowed");
            conditions.push(condition);
        }
    }
    next
}

/// Notes in the pod's status why it goes.
fn note(server: &Server, store: &mut Store, target: &Target, pod: &Arc<Object>) {
    let mut next = Value::clone(&pod.value);
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": server.timestamp(),
    });
    let conditions = map_mut(&mut next, "status").entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        if conditions.iter().any(|one| one["type"] == "DisruptionTarget" && one["status"] == "True") {
            return;
        }
        conditions.retain(|one| one["type"] != "DisruptionTarget");
        conditions.push(condition);
    }
    store.put(target.index, target.key(), next);
}
