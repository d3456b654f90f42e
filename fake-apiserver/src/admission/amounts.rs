//! Decides how much a pod asks for in all. Never refuses. Answers to `PodRequests` and `PodLimits` of
//! `k8s.io/component-helpers/resource`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity::Quantity;

/// Amounts by resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// The amounts of a map in an object.
pub(crate) fn amounts(value: &Value) -> Amounts {
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?)))
        .collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let before = sum.get(name).copied().unwrap_or_else(Quantity::zero);
        sum.insert(name.clone(), before.plus(*amount));
    }
}

fn at_least(sum: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if sum.get(name).is_none_or(|present| present.nanos() < amount.nanos()) {
            sum.insert(name.clone(), *amount);
        }
    }
}

/// What a pod's containers take together, in `requests` or `limits`: those that run side by side added up, and no less
/// than any that runs before them.
pub(crate) fn of_pod(spec: &Value, part: &str) -> Amounts {
    let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let mut sum = Amounts::new();
    for container in list("containers") {
        add(&mut sum, &amounts(&container["resources"][part]));
    }
    let (mut sidecars, mut before) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let own = amounts(&container["resources"][part]);
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            sidecars.clone_from(&at_once);
        }
        at_least(&mut before, &at_once);
    }
    at_least(&mut sum, &before);
    sum.extend(amounts(&spec["resources"][part]));
    sum
}
