//! Decides whether a pod's status may be written. Answers to `ValidatePodStatusUpdate`.

use serde_json::Value;

use crate::object::text;
use crate::validate::field::{Causes, Field};
use crate::validate::{addresses, names};

/// Conditions that Kubernetes itself sets.
const SYSTEM: &[&str] = &["PodScheduled", "Ready", "Initialized"];

pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    let status = Field::root(new).at("status");
    let quality = status.at("qosClass");
    if quality.text() != text(old, &["status", "qosClass"]) {
        causes.push(quality.invalid("field is immutable"));
    }
    let nominated = status.at("nominatedNodeName");
    if !nominated.is_empty() && nominated.value != &old["status"]["nominatedNodeName"] {
        nominated.follow(names::subdomain, &mut causes);
        if !text(new, &["spec", "nodeName"]).is_empty() {
            causes.push(nominated.forbidden("may not be set on pods that are already bound to a node"));
        }
    }
    if let Some(first) = status.at("hostIPs").items().first()
        && first.at("ip").text() != status.at("hostIP").text()
    {
        causes.push(first.at("ip").invalid("must be equal to `hostIP`"));
    }
    for condition in status.at("conditions").items() {
        not_negative(&condition.at("observedGeneration"), &mut causes);
        let kind = condition.at("type").text();
        if !SYSTEM.contains(&kind) {
            // The field is called so upstream.
            let field = Field::new(condition.at("type").value, format!("{}.Type", condition.path));
            field.follow(names::qualified_names, &mut causes);
        }
    }
    not_negative(&status.at("observedGeneration"), &mut causes);
    of_family(&status, "podIPs", &mut causes);
    of_family(&status, "hostIPs", &mut causes);
    causes
}

fn of_family(status: &Field<'_>, list: &str, causes: &mut Causes) {
    let all = status.at(list);
    let items = all.items();
    for item in &items {
        addresses::address(&Field::new(item.at("ip").value, item.path.as_str()), causes);
    }
    if names::shares_family(items.iter().map(|item| item.at("ip").text())) {
        causes.push(all.invalid("may specify no more than one IP for each IP family"));
    }
}

fn not_negative(field: &Field<'_>, causes: &mut Causes) {
    if field.number().is_some_and(|number| number < 0) {
        causes.push(field.invalid("must be a non-negative integer"));
    }
}
