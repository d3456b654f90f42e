//! Decides whether a namespace's quotas have room for an object, and counts it. What is limited is in a
//! quota's status, which somebody else keeps; a delete gives nothing back. Answers to
//! `k8s.io/apiserver/pkg/admission/plugin/resourcequota` and `kubernetes/pkg/quota/v1/evaluator`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::amounts::{Amounts, amounts, of_pod};
use crate::object::{Object, map_mut, strings, text};
use crate::quantity::Quantity;
use crate::routes::Target;
use crate::status::{Result, Status};
use crate::store::Store;

const COMPUTE: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
/// What is counted by its number under the name of its resource alone.
const COUNTED: &[&str] = &["configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

/// Charges a new object, or what a changed one takes more than before.
pub(super) fn charge(
    store: &mut Store,
    target: &Target,
    value: &Value,
    old: Option<&Value>,
    dry: bool,
) -> Result<()> {
    if !target.kind.namespaced || target.kind.custom {
        return Ok(());
    }
    let counts_changes = matches!(&*target.kind.kind, "PersistentVolumeClaim" | "Service");
    if old.is_some() && !counts_changes {
        return Ok(());
    }
    let Some(index) = store.kinds.named("ResourceQuota") else { return Ok(()) };
    let quotas = store.list(index);
    let quotas: Vec<Arc<Object>> =
        quotas.values().filter(|quota| quota.namespace() == target.namespace).cloned().collect();
    let mut charged = Vec::new();
    for quota in &quotas {
        if let Some(used) = used_then(target, &quota.value, value, old)? {
            charged.push((quota, used));
        }
    }
    if dry {
        return Ok(());
    }
    for (quota, used) in charged {
        let mut next = Value::clone(&quota.value);
        let used: serde_json::Map<String, Value> =
            used.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect();
        map_mut(&mut next, "status").insert("used".into(), Value::Object(used));
        store.put(index, crate::object::key_of(quota.namespace(), quota.name()), next);
    }
    Ok(())
}

/// What a quota has used when the object is stored; nothing when it does not care.
fn used_then(target: &Target, quota: &Value, value: &Value, old: Option<&Value>) -> Result<Option<Amounts>> {
    let hard = amounts(&quota["status"]["hard"]);
    let (name, object) = (text(quota, &["metadata", "name"]), text(value, &["metadata", "name"]));
    let refuse = |why: String| Err(Status::forbidden(&target.kind.group, &target.kind.plural, object, &why));
    let usage = usage(target, value);
    let limited: Vec<&str> = hard.keys().map(String::as_str).filter(|name| counts(target, name)).collect();
    if limited.is_empty() || !in_scope(target, quota, value) {
        return Ok(None);
    }
    if let Some(why) = unspecified(target, &limited, value) {
        return refuse(format!("failed quota: {name}: {why}"));
    }
    let used = amounts(&quota["status"]["used"]);
    if limited.iter().any(|name| !used.contains_key(*name)) {
        return refuse(format!("status unknown for quota: {name}, resources: {}", limited.join(",")));
    }
    let mut delta = usage;
    if let Some(old) = old {
        for (name, before) in self::usage(target, old) {
            if let Some(amount) = delta.get_mut(&name) {
                *amount = amount.minus(before);
            }
        }
    }
    delta.retain(|name, amount| amount.is_positive() && hard.contains_key(name));
    if delta.is_empty() {
        return Ok(None);
    }
    let mut then = used.clone();
    let mut exceeded = Vec::new();
    for (name, amount) in &delta {
        let sum = used.get(name).copied().unwrap_or_else(Quantity::zero).plus(*amount);
        if hard.get(name).is_some_and(|hard| sum.nanos() > hard.nanos()) {
            exceeded.push(name.as_str());
        }
        then.insert(name.clone(), sum);
    }
    if exceeded.is_empty() {
        return Ok(Some(then));
    }
    let shown = |amounts: &Amounts| {
        let parts = exceeded.iter().filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
        parts.collect::<Vec<_>>().join(",")
    };
    refuse(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        shown(&delta),
        shown(&used),
        shown(&hard)
    ))
}

fn qualified(target: &Target) -> String {
    let kind = &target.kind;
    if kind.group.is_empty() { kind.plural.to_string() } else { format!("{}.{}", kind.plural, kind.group) }
}

/// Whether a resource of a quota is counted for objects of the kind.
fn counts(target: &Target, name: &str) -> bool {
    if name.strip_prefix("count/") == Some(qualified(target).as_str()) {
        return true;
    }
    match &*target.kind.kind {
        "Pod" if target.kind.group.is_empty() => {
            let extended = name
                .strip_prefix("requests.")
                .is_some_and(|rest| rest.contains('/') || rest.starts_with("hugepages-"));
            name == "pods"
                || COMPUTE.contains(&name)
                || extended
                || matches!(
                    name,
                    "ephemeral-storage" | "requests.ephemeral-storage" | "limits.ephemeral-storage"
                )
                || name.starts_with("hugepages-")
        }
        "PersistentVolumeClaim" => {
            matches!(name, "persistentvolumeclaims" | "requests.storage")
                || name.ends_with(".storageclass.storage.k8s.io/requests.storage")
                || name.ends_with(".storageclass.storage.k8s.io/persistentvolumeclaims")
        }
        "Service" => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        _ => target.kind.group.is_empty() && COUNTED.contains(&name) && name == target.kind.plural,
    }
}

/// What an object takes.
fn usage(target: &Target, value: &Value) -> Amounts {
    let one = Quantity::whole(1);
    let mut usage = Amounts::from([(format!("count/{}", qualified(target)), one)]);
    match &*target.kind.kind {
        "Pod" => pod(value, &mut usage),
        "PersistentVolumeClaim" => {
            let request = amounts(&value["spec"]["resources"]["requests"]).get("storage").copied();
            let class = text(value, &["spec", "storageClassName"]);
            usage.insert("persistentvolumeclaims".into(), one);
            usage.extend(request.map(|request| ("requests.storage".to_owned(), request)));
            if !class.is_empty() {
                let of_class = |what: &str| format!("{class}.storageclass.storage.k8s.io/{what}");
                usage.insert(of_class("persistentvolumeclaims"), one);
                usage.extend(request.map(|request| (of_class("requests.storage"), request)));
            }
        }
        "Service" => {
            let ports = value["spec"]["ports"].as_array().map_or(0, Vec::len);
            let ports = Quantity::whole(i128::try_from(ports).unwrap_or(0));
            usage.insert("services".into(), one);
            match text(value, &["spec", "type"]) {
                "NodePort" => drop(usage.insert("services.nodeports".into(), ports)),
                "LoadBalancer" => {
                    if value["spec"]["allocateLoadBalancerNodePorts"] != false {
                        usage.insert("services.nodeports".into(), ports);
                    }
                    usage.insert("services.loadbalancers".into(), one);
                }
                _ => {}
            }
        }
        _ => drop(usage.insert(target.kind.plural.to_string(), one)),
    }
    usage
}

fn pod(value: &Value, usage: &mut Amounts) {
    usage.insert("pods".into(), Quantity::whole(1));
    let plain =
        |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    for (name, amount) in of_pod(&value["spec"], "requests") {
        usage.insert(format!("requests.{name}"), amount);
        if plain(&name) {
            usage.insert(name, amount);
        }
    }
    for (name, amount) in of_pod(&value["spec"], "limits") {
        if plain(&name) {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
}

/// What a pod's containers leave open though a quota counts it.
fn unspecified(target: &Target, limited: &[&str], value: &Value) -> Option<String> {
    if target.kind.kind != "Pod" {
        return None;
    }
    let mut missing: std::collections::BTreeMap<&str, Vec<String>> = std::collections::BTreeMap::new();
    for part in ["containers", "initContainers"] {
        for container in value["spec"][part].as_array().into_iter().flatten() {
            for resource in limited.iter().filter(|name| COMPUTE.contains(name)) {
                let (field, name) = match resource.split_once('.') {
                    Some((field, name)) => (field, name),
                    None => ("requests", *resource),
                };
                let anywhere = [&container["resources"], &value["spec"]["resources"]];
                if anywhere.iter().all(|resources| resources[field].get(name).is_none()) {
                    missing.entry(resource).or_default().push(text(container, &["name"]).to_owned());
                }
            }
        }
    }
    let parts: Vec<String> = missing
        .into_iter()
        .map(|(resource, mut names)| {
            names.sort_unstable();
            format!("{resource} for: {}", names.join(","))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("must specify {}", parts.join("; ")))
}

/// Whether an object is among those that a quota is about.
fn in_scope(target: &Target, quota: &Value, value: &Value) -> bool {
    let plain = strings(quota, &["spec", "scopes"]).into_iter();
    let plain = plain.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let selected = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().cloned().unwrap_or_default();
    plain.chain(selected).all(|scope| fits(target, &scope, value))
}

fn fits(target: &Target, scope: &Value, value: &Value) -> bool {
    let spec = &value["spec"];
    let selects = |name: &str| {
        let values = strings(scope, &["values"]);
        match text(scope, &["operator"]) {
            "In" => values.contains(&name),
            "NotIn" => !values.contains(&name),
            "Exists" => !name.is_empty(),
            _ => name.is_empty(),
        }
    };
    match (text(scope, &["scopeName"]), &*target.kind.kind) {
        ("VolumeAttributesClass", "PersistentVolumeClaim") => {
            selects(text(spec, &["volumeAttributesClassName"]))
        }
        ("PriorityClass", "Pod") => selects(text(spec, &["priorityClassName"])),
        ("Terminating", "Pod") => spec["activeDeadlineSeconds"].is_i64(),
        ("NotTerminating", "Pod") => !spec["activeDeadlineSeconds"].is_i64(),
        ("BestEffort", "Pod") => crate::defaults::quality(value) == "BestEffort",
        ("NotBestEffort", "Pod") => crate::defaults::quality(value) != "BestEffort",
        ("CrossNamespacePodAffinity", "Pod") => crosses(&spec["affinity"]),
        _ => false,
    }
}

/// Whether a pod looks at pods of other namespaces.
fn crosses(affinity: &Value) -> bool {
    let terms = ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|kind| {
        let list = |field: &str| affinity[kind][field].as_array().cloned().unwrap_or_default();
        let preferred = list("preferredDuringSchedulingIgnoredDuringExecution");
        let mut terms = list("requiredDuringSchedulingIgnoredDuringExecution");
        terms.extend(preferred.into_iter().map(|term| term["podAffinityTerm"].clone()));
        terms
    });
    terms.into_iter().any(|term| {
        term["namespaces"].as_array().is_some_and(|names| !names.is_empty())
            || term["namespaceSelector"].is_object()
    })
}
