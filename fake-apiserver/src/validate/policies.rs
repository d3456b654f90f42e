//! Decides whether disruption budgets, priority classes and roles may be stored. Answers to
//! `kubernetes/pkg/apis/{policy,scheduling,rbac}/validation`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::{metadata, names, selectors, workloads};
use crate::object::text;
use crate::status::Cause;

const HIGHEST: i64 = 1_000_000_000;
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn budget(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    let (least, most) = (spec.at("minAvailable"), spec.at("maxUnavailable"));
    if least.is_set() && most.is_set() {
        causes.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    for amount in [&least, &most] {
        if !amount.is_set() {
            continue;
        }
        workloads::int_or_percent(amount, &mut causes);
        let share = amount.text().strip_suffix('%').and_then(|share| share.parse::<i64>().ok());
        if share.is_some_and(|share| share > 100) {
            causes.push(amount.invalid("must not be greater than 100%"));
        }
    }
    selectors::selector(&spec.at("selector"), &mut causes);
    let policy = spec.at("unhealthyPodEvictionPolicy");
    if policy.is_set() {
        policy.must_be_one_of(&["AlwaysAllow", "IfHealthyBudget"], &mut causes);
    }
    causes
}

pub(super) fn budget_status(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let status = Field::root(value).at("status");
    metadata::conditions(&status.at("conditions"), &mut causes);
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.at(field).at_least(0, &mut causes);
    }
    causes
}

pub(super) fn priority(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let name = text(value, &["metadata", "name"]);
    let number = value["value"].as_i64().unwrap_or(0);
    let system = match name {
        "system-node-critical" => Some(2_000_001_000),
        "system-cluster-critical" => Some(2_000_000_000),
        _ => None,
    };
    if name.starts_with("system-") {
        if system != Some(number) || value["globalDefault"] == true {
            let why = "priority class names with 'system-' prefix are reserved for system use only";
            causes.push(Cause::forbidden("metadata.name", why));
        }
    } else if number > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        causes.push(Cause::forbidden("value", &why));
    }
    let policy = Field::root(value).at("preemptionPolicy");
    if policy.is_set() {
        if policy.is_empty() {
            causes.push(policy.required(""));
        } else {
            policy.must_be_one_of(&["PreemptLowerPriority", "Never"], &mut causes);
        }
    }
    causes
}

pub(super) fn update_priority(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    if old["value"] != new["value"] {
        causes.push(Cause::forbidden("value", "may not be changed in an update."));
    }
    if old["preemptionPolicy"] != new["preemptionPolicy"] {
        causes.push(Field::root(new).at("preemptionPolicy").invalid("field is immutable"));
    }
    causes
}

pub(super) fn role(kind: &str, value: &Value) -> Causes {
    let mut causes = Causes::new();
    let root = Field::root(value);
    for rule in root.at("rules").items() {
        if rule.at("verbs").is_empty() {
            causes.push(rule.at("verbs").required("verbs must contain at least one value"));
        }
        let (urls, resources) = (rule.at("nonResourceURLs"), rule.at("resources"));
        if !urls.is_empty() {
            if kind == "Role" {
                causes.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
            }
            if !(rule.at("apiGroups").is_empty()
                && resources.is_empty()
                && rule.at("resourceNames").is_empty())
            {
                causes
                    .push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
            }
            continue;
        }
        if rule.at("apiGroups").is_empty() {
            causes.push(rule.at("apiGroups").required("resource rules must supply at least one api group"));
        }
        if resources.is_empty() {
            causes.push(resources.required("resource rules must supply at least one resource"));
        }
    }
    for selector in root.at("aggregationRule.clusterRoleSelectors").items() {
        let before = causes.len();
        selectors::selector(&selector, &mut causes);
        if causes.len() > before {
            causes.push(selector.invalid("invalid label selector"));
        }
    }
    if root.at("aggregationRule").is_set() && root.at("aggregationRule.clusterRoleSelectors").is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        causes.push(root.at("aggregationRule.clusterRoleSelectors").required(why));
    }
    causes
}

pub(super) fn binding(kind: &str, value: &Value) -> Causes {
    let mut causes = Causes::new();
    let root = Field::root(value);
    let reference = root.at("roleRef");
    let group = reference.at("apiGroup");
    if group.text() != RBAC {
        causes.push(group.unsupported(&[RBAC]));
    }
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    reference.at("kind").must_be_one_of(kinds, &mut causes);
    let name = reference.at("name");
    if name.is_empty() {
        causes.push(name.required(""));
    } else {
        name.follow(metadata::path_segment, &mut causes);
    }
    // In a namespace, an account without one is of that namespace.
    let namespaced = kind == "RoleBinding";
    for subject in root.at("subjects").items() {
        let name = subject.at("name");
        if name.is_empty() {
            causes.push(name.required(""));
        }
        let (kind, group) = (subject.at("kind"), subject.at("apiGroup"));
        match kind.text() {
            "ServiceAccount" => {
                if !name.is_empty() {
                    name.follow(names::subdomain, &mut causes);
                }
                if !group.is_empty() {
                    causes.push(group.unsupported(&[""]));
                }
                if !namespaced && subject.at("namespace").is_empty() {
                    causes.push(subject.at("namespace").required(""));
                }
            }
            "User" | "Group" => {
                if group.text() != RBAC {
                    causes.push(group.unsupported(&[RBAC]));
                }
            }
            _ => causes.push(kind.unsupported(&["ServiceAccount", "User", "Group"])),
        }
    }
    causes
}

pub(super) fn update_binding(kind: &str, old: &Value, new: &Value) -> Causes {
    let mut causes = binding(kind, new);
    if old["roleRef"] != new["roleRef"] {
        causes.push(Field::root(new).at("roleRef").invalid("cannot change roleRef"));
    }
    causes
}
