//! Decides whether a node may be stored. Answers to `ValidateNode` and its update.

use serde_json::{Value, json};

use crate::object::text;
use crate::status::Cause;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn create(value: &Value) -> Vec<Cause> {
    let mut causes = taints(value);
    for (index, cidr) in value["spec"]["podCIDRs"].as_array().into_iter().flatten().enumerate() {
        let cidr = cidr.as_str().unwrap_or_default();
        let parsed = cidr.split_once('/').and_then(|(address, bits)| {
            Some((address.parse::<std::net::IpAddr>().ok()?, bits.parse::<u8>().ok()?))
        });
        if parsed.is_none_or(|(address, bits)| bits > if address.is_ipv4() { 32 } else { 128 }) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(Cause::invalid(format!("spec.podCIDRs[{index}]"), cidr, why));
        }
    }
    causes
}

fn taints(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in value["spec"]["taints"].as_array().into_iter().flatten().enumerate() {
        let (key, effect) = (text(taint, &["key"]), text(taint, &["effect"]));
        if !EFFECTS.contains(&effect) {
            causes.push(Cause::unsupported(format!("metadata.taints[{index}].effect"), effect, EFFECTS));
        } else if seen.contains(&(key, effect)) {
            let shown =
                json!({"Key": key, "Value": text(taint, &["value"]), "Effect": effect, "TimeAdded": null});
            let mut cause = Cause::duplicate(format!("metadata.taints[{index}]"), shown);
            cause.explain("taints must be unique by key and effect pair");
            causes.push(cause);
        }
        seen.push((key, effect));
    }
    causes
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create(new);
    // Upstream checks taints once for the node and once for its update.
    causes.extend(taints(new));
    let provider = |value: &Value| text(value, &["spec", "providerID"]).to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        let why = "node updates may not change providerID except from \"\" to valid";
        causes.push(Cause::forbidden("spec.providerID", why));
    }
    let range = |value: &Value| value["spec"].get("podCIDRs").cloned();
    if range(old).is_some() && range(old) != range(new) {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        causes.push(Cause::forbidden("spec.podCIDRs", why));
    }
    causes
}
