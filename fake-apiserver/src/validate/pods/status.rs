//! Decides whether a pod's status may be written. Answers to `ValidatePodStatusUpdate`.

use serde_json::Value;

use crate::object::text;
use crate::status::Cause;
use crate::validate::field::{Causes, Field};
use crate::validate::names;

pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    let status = Field::root(new).at("status");
    let quality = status.at("qosClass");
    if quality.text() != text(old, &["status", "qosClass"]) {
        causes.push(quality.invalid("field is immutable"));
    }
    let nominated = status.at("nominatedNodeName");
    if !nominated.is_empty() && nominated.value != &old["status"]["nominatedNodeName"] {
        if text(new, &["spec", "nodeName"]).is_empty() {
            nominated.follow(names::subdomain, &mut causes);
        } else {
            causes.push(nominated.forbidden("may not be set on pods that are already bound to a node"));
        }
    }
    if let Some(first) = status.at("hostIPs").items().first()
        && first.at("ip").text() != status.at("hostIP").text()
    {
        causes.push(first.at("ip").invalid("must be equal to `hostIP`"));
    }
    for condition in status.at("conditions").items() {
        let kind = condition.at("type").text();
        // What belongs to Kubernetes itself needs no domain.
        if kind.contains('/') || kind.is_empty() {
            condition.at("type").follow(names::qualified_name, &mut causes);
        }
    }
    addresses(&status, "podIPs", &mut causes);
    addresses(&status, "hostIPs", &mut causes);
    causes
}

fn addresses(status: &Field<'_>, list: &str, causes: &mut Causes) {
    let all = status.at(list);
    let items = all.items();
    let mut seen = Vec::new();
    for item in &items {
        let ip = item.at("ip");
        Field::new(ip.value, item.path.as_str()).follow(names::address, causes);
        if seen.contains(&ip.text()) {
            causes.push(Cause::duplicate(item.path.as_str(), ip.text()));
        }
        seen.push(ip.text());
    }
    if items.len() > 2 {
        causes.push(all.invalid("may specify no more than one IP for each IP family"));
    }
}
