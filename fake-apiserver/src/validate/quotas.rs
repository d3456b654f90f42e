//! Decides whether resource quotas and limit ranges may be stored. Never counts what is used. Answers to
//! `ValidateResourceQuota` and `ValidateLimitRange`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::names;
use crate::object::strings;
use crate::quantity::Quantity;
use crate::status::Cause;

/// What can be counted by its number alone.
const WHOLE: &[&str] = &[
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const AMOUNTS: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.storage",
];
const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
const PLAIN_SCOPES: &[&str] =
    &["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"];

fn is_quota_resource(name: &str) -> bool {
    WHOLE.contains(&name)
        || AMOUNTS.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// Whether a name without a domain is a resource at all.
pub(super) fn is_resource(name: &str) -> bool {
    is_quota_resource(name) || name == "storage"
}

fn resource_name(name: &str, path: &str, causes: &mut Causes) {
    let before = causes.len();
    causes.extend(names::qualified_name(name).map(|why| Cause::invalid(path, name, &why)));
    if causes.len() == before && !name.contains('/') && !is_resource(name) {
        causes.push(Cause::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
}

fn amount(field: &Field<'_>) -> Option<Quantity> {
    Quantity::parse(field.value.as_str()?).ok()
}

/// Amounts by resource, as a quota has them.
fn amounts(field: &Field<'_>, causes: &mut Causes) {
    for (name, entry) in field.entries() {
        resource_name(name, &entry.path, causes);
        if !name.contains('/') && !is_quota_resource(name) {
            causes.push(Cause::invalid(entry.path.as_str(), name, "must be a standard resource for quota"));
        }
        let Some(amount) = amount(&entry) else { continue };
        if amount.is_negative() {
            causes.push(entry.invalid("must be greater than or equal to 0"));
        }
        let counted = WHOLE.contains(&name) || name.contains('/') && !name.starts_with("requests.");
        if counted && amount.nanos() % 1_000_000_000 != 0 {
            causes.push(entry.invalid("must be an integer"));
        }
    }
}

pub(super) fn quota(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    amounts(&spec.at("hard"), &mut causes);
    let hard: Vec<&str> = spec.at("hard").entries().into_iter().map(|(name, _)| name).collect();
    let scopes = spec.at("scopes");
    let names = strings(value, &["spec", "scopes"]);
    for scope in &names {
        if !SCOPES.contains(scope) {
            causes.push(scopes.invalid("unsupported scope"));
        }
        unfit(scope, &hard, &scopes, &mut causes);
    }
    conflicts(&names, &scopes, &mut causes);
    let expressions = spec.at("scopeSelector.matchExpressions");
    let items = expressions.items();
    for item in &items {
        scope_requirement(item, &expressions, &hard, &mut causes);
    }
    let names: Vec<&str> = items.iter().map(|item| item.at("scopeName").text()).collect();
    conflicts(&names, &expressions, &mut causes);
    causes
}

fn scope_requirement(item: &Field<'_>, all: &Field<'_>, hard: &[&str], causes: &mut Causes) {
    let scope = item.at("scopeName").text();
    let shown = |name: &str| Field::new(item.at(name).value, format!("{}.{name}", all.path));
    if !SCOPES.contains(&scope) {
        causes.push(shown("scopeName").invalid("unsupported scope"));
    }
    unfit(scope, hard, all, causes);
    let (operator, values) = (shown("operator"), shown("values"));
    if PLAIN_SCOPES.contains(&scope) && operator.text() != "Exists" {
        causes.push(operator.invalid("must be 'Exists' for this scope"));
    }
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => causes
            .push(values.required(
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
        "Exists" | "DoesNotExist" if !values.is_empty() => causes.push(
            values
                .invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"),
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => causes.push(operator.invalid("not a valid selector operator")),
    }
}

/// A scope has to be able to tell apart what the quota counts.
fn unfit(scope: &str, hard: &[&str], field: &Field<'_>, causes: &mut Causes) {
    let fits = |name: &str| match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "requests.storage" | "persistentvolumeclaims"),
        _ => {
            name == "pods"
                || AMOUNTS.contains(&name) && name != "requests.storage"
                || name.contains("hugepages-")
        }
    };
    for _ in hard.iter().filter(|name| is_quota_resource(name) && !fits(name)) {
        causes.push(field.invalid("unsupported scope applied to resource"));
    }
}

fn conflicts(names: &[&str], field: &Field<'_>, causes: &mut Causes) {
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if names.contains(&one) && names.contains(&other) {
            causes.push(field.invalid("conflicting scopes"));
        }
    }
}

pub(super) fn update_quota(old: &Value, new: &Value) -> Causes {
    let mut causes = quota(new);
    let sorted = |value: &Value| {
        let mut scopes: Vec<String> =
            strings(value, &["spec", "scopes"]).into_iter().map(str::to_owned).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    };
    if sorted(old) != sorted(new) {
        causes.push(Field::root(new).at("spec.scopes").invalid("field is immutable"));
    }
    causes
}

pub(super) fn quota_status(value: &Value) -> Causes {
    let mut causes = Causes::new();
    for field in ["status.hard", "status.used"] {
        amounts(&Field::root(value).at(field), &mut causes);
    }
    causes
}

pub(super) fn limit_range(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let mut seen = Vec::new();
    for limit in Field::root(value).at("spec.limits").items() {
        let kind = limit.at("type");
        limit_kind(&kind, &mut causes);
        if seen.contains(&kind.text()) {
            causes.push(kind.duplicate());
        }
        seen.push(kind.text());
        for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            let amounts = limit.at(field);
            if kind.text() == "Pod" && field.starts_with("default") {
                if !amounts.is_empty() {
                    causes.push(amounts.forbidden("may not be specified when `type` is 'Pod'"));
                }
                continue;
            }
            for (name, entry) in amounts.entries() {
                limit_resource(kind.text(), name, &entry.path, &mut causes);
            }
        }
        let storage = |field: &str| limit.at(field).value.get("storage").is_some();
        if kind.text() == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            causes.push(limit.at("limits").required(why));
        }
        ordered(&limit, &mut causes);
    }
    causes
}

fn limit_kind(kind: &Field<'_>, causes: &mut Causes) {
    let before = causes.len();
    kind.follow(names::qualified_name, causes);
    let known = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
    if causes.len() == before && !kind.text().contains('/') && !known {
        causes.push(kind.invalid("must be a standard limit type or fully qualified"));
    }
}

fn limit_resource(kind: &str, name: &str, path: &str, causes: &mut Causes) {
    let for_pods = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    match kind {
        "Pod" | "Container" => {
            let before = causes.len();
            causes.extend(names::qualified_name(name).map(|why| Cause::invalid(path, name, &why)));
            if causes.len() > before || name.contains('/') {
                return;
            }
            if !is_resource(name) {
                causes.push(Cause::invalid(
                    path,
                    name,
                    "must be a standard resource type or fully qualified",
                ));
            }
            if !for_pods {
                causes.push(Cause::invalid(path, name, "must be a standard resource for containers"));
            }
        }
        _ => resource_name(name, path, causes),
    }
}

fn ordered(limit: &Field<'_>, causes: &mut Causes) {
    let fields: &[&str] = if limit.at("type").text() == "Pod" {
        &["min", "max"]
    } else {
        &["min", "max", "default", "defaultRequest"]
    };
    let of = |field: &str, name: &str| {
        let known = fields.contains(&field) || field == "maxLimitRequestRatio";
        known.then(|| limit.at(field)).and_then(|map| Quantity::parse(map.value.get(name)?.as_str()?).ok())
    };
    let mut names: Vec<&str> = ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"]
        .iter()
        .flat_map(|field| limit.at(field).entries())
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        for (less, more, blamed) in [
            ("min", "max", "min"),
            ("min", "defaultRequest", "defaultRequest"),
            ("defaultRequest", "max", "defaultRequest"),
            ("defaultRequest", "default", "defaultRequest"),
            ("min", "default", "default"),
            ("default", "max", "default"),
        ] {
            if let (Some(small), Some(large)) = (of(less, name), of(more, name))
                && small.nanos() > large.nanos()
            {
                let why = format!("{less} value {small} is greater than {more} value {large}");
                let path = format!("{}[{name}]", limit.at(blamed).path);
                causes.push(Cause::invalid(path, small.to_string(), &why));
            }
        }
        let Some(ratio) = of("maxLimitRequestRatio", name) else { continue };
        let path = format!("{}[{name}]", limit.at("maxLimitRequestRatio").path);
        if ratio.nanos() < 1_000_000_000 {
            causes.push(Cause::invalid(
                path.as_str(),
                ratio.to_string(),
                &format!("ratio {ratio} is less than 1"),
            ));
        }
        if let (Some(min), Some(max)) = (of("min", name), of("max", name))
            && ratio.nanos().saturating_mul(min.nanos()) > max.nanos().saturating_mul(1_000_000_000)
        {
            causes.push(Cause::invalid(
                path,
                ratio.to_string(),
                &format!("ratio {ratio} is greater than max/min"),
            ));
        }
    }
}
