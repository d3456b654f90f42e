//! Decides whether what a pod says of nodes and of other pods makes sense: affinity, tolerations, spreading.
//! Answers to `validateAffinity`, `ValidateTolerations` and `validateTopologySpreadConstraints`.

use crate::status::Cause;
use crate::validate::field::{Causes, Field};
use crate::validate::{names, selectors};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A selector of nodes, also of a volume.
pub(crate) fn node_selector(selector: &Field<'_>, causes: &mut Causes) {
    let terms = selector.at("nodeSelectorTerms");
    if terms.is_empty() {
        causes.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        node_term(&term, true, causes);
    }
}

fn node_term(term: &Field<'_>, values: bool, causes: &mut Causes) {
    for one in term.at("matchExpressions").items() {
        let all = one.at("values");
        match one.at("operator").text() {
            "In" | "NotIn" if all.is_empty() => {
                causes.push(all.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !all.is_empty() => {
                causes.push(
                    all.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
                );
            }
            "Gt" | "Lt" if all.len() != 1 => {
                causes.push(all.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => causes.push(one.at("operator").invalid("not a valid selector operator")),
        }
        one.at("key").follow(names::qualified_name, causes);
        for value in all.items().iter().filter(|_| values) {
            value.follow(names::label_value, causes);
        }
    }
    for one in term.at("matchFields").items() {
        let all = one.at("values");
        match one.at("operator").text() {
            "In" | "NotIn" if all.len() != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                causes.push(all.required(why));
            }
            "In" | "NotIn" => {}
            _ => causes.push(one.at("operator").invalid("not a valid selector operator")),
        }
        if one.at("key").text() == "metadata.name" {
            for value in all.items() {
                value.follow(names::subdomain, causes);
            }
        } else {
            causes.push(one.at("key").invalid("not a valid field selector key"));
        }
    }
}

pub(super) fn affinity(spec: &Field<'_>, causes: &mut Causes) {
    let affinity = spec.at("affinity");
    let nodes = affinity.at("nodeAffinity");
    let required = nodes.at("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() {
        node_selector(&required, causes);
    }
    for term in nodes.at("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&term, causes);
        node_term(&term.at("preference"), false, causes);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.at(kind);
        for term in pods.at("requiredDuringSchedulingIgnoredDuringExecution").items() {
            pod_term(&term, causes);
        }
        for term in pods.at("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(&term, causes);
            pod_term(&term.at("podAffinityTerm"), causes);
        }
    }
}

fn weight(term: &Field<'_>, causes: &mut Causes) {
    if !(1..=100).contains(&term.at("weight").number().unwrap_or(0)) {
        causes.push(term.at("weight").invalid("must be in the range 1-100"));
    }
}

fn pod_term(term: &Field<'_>, causes: &mut Causes) {
    selectors::selector(&term.at("labelSelector"), causes);
    selectors::selector(&term.at("namespaceSelector"), causes);
    for name in term.at("namespaces").items() {
        Field::new(name.value, term.at("namespace").path).follow(names::label, causes);
    }
    for part in ["matchLabelKeys", "mismatchLabelKeys"] {
        for key in term.at(part).items() {
            key.follow(names::qualified_name, causes);
            if !term.at("labelSelector").is_set() {
                causes.push(term.at(part).forbidden("must not be specified when labelSelector is not set"));
            }
        }
    }
    let key = term.at("topologyKey");
    if key.is_empty() {
        causes.push(key.required("can not be empty"));
    }
    key.follow(names::qualified_name, causes);
}

pub(in crate::validate) fn tolerations(spec: &Field<'_>, causes: &mut Causes) {
    for one in spec.at("tolerations").items() {
        let (key, operator, effect) = (one.at("key"), one.at("operator"), one.at("effect"));
        let value = one.at("value").text();
        if !key.is_empty() {
            key.follow(names::qualified_name, causes);
        }
        if key.is_empty() && operator.text() != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(operator.path.as_str(), operator.text(), why));
        }
        if one.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(Cause::invalid(effect.path.as_str(), effect.text(), why));
        }
        match operator.text() {
            "" | "Equal" => causes.extend(
                names::label_value(value).map(|why| Cause::invalid(operator.path.as_str(), value, &why)),
            ),
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                causes.push(Cause::invalid(operator.path.as_str(), value, why));
            }
            "Exists" => {}
            _ => causes.push(operator.unsupported(&["Equal", "Exists"])),
        }
        effect.one_of(EFFECTS, causes);
    }
}

pub(super) fn spread(spec: &Field<'_>, causes: &mut Causes) {
    let all = spec.at("topologySpreadConstraints").items();
    for (index, one) in all.iter().enumerate() {
        let (skew, key, action) = (one.at("maxSkew"), one.at("topologyKey"), one.at("whenUnsatisfiable"));
        if skew.number().unwrap_or(0) <= 0 {
            causes.push(skew.invalid("must be greater than zero"));
        }
        if key.is_empty() {
            causes.push(key.required("can not be empty"));
        }
        action.must_be_one_of(&["DoNotSchedule", "ScheduleAnyway"], causes);
        let same = |other: &Field<'_>| {
            other.at("topologyKey").text() == key.text()
                && other.at("whenUnsatisfiable").text() == action.text()
        };
        if all[index + 1..].iter().any(same) {
            let path = format!("{}.{{topologyKey, whenUnsatisfiable}}", one.path);
            causes.push(Cause::duplicate(path, format!("{{{}, {}}}", key.text(), action.text())));
        }
        let domains = one.at("minDomains");
        if domains.is_set() {
            if domains.number().unwrap_or(0) <= 0 {
                causes.push(domains.invalid("must be greater than zero"));
            }
            if action.text() != "DoNotSchedule" {
                causes.push(domains.invalid("can only use minDomains if whenUnsatisfiable=DoNotSchedule"));
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if one.at(policy).is_set() {
                one.at(policy).must_be_one_of(&["Honor", "Ignore"], causes);
            }
        }
        for key in one.at("matchLabelKeys").items() {
            key.follow(names::qualified_name, causes);
            if !one.at("labelSelector").is_set() {
                causes.push(
                    one.at("matchLabelKeys").forbidden("must not be specified when labelSelector is not set"),
                );
            }
        }
        selectors::selector(&one.at("labelSelector"), causes);
    }
}
