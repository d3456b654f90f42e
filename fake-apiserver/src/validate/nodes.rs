//! Decides whether a node may be stored. Answers to `ValidateNode` and its update.

use serde_json::{Value, json};

use super::field::Field;
use super::{addresses, names};
use crate::object::text;
use crate::quantity::Quantity;
use crate::status::Cause;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn create(value: &Value) -> Vec<Cause> {
    let mut causes = taints(value);
    let ranges = Field::root(value).at("spec.podCIDRs");
    for range in ranges.items() {
        addresses::range(&range, &mut causes);
    }
    if names::shares_family(ranges.items().iter().map(Field::text)) {
        causes.push(ranges.invalid("may specify no more than one CIDR for each IP family"));
    }
    causes.extend(amounts(value));
    causes
}

/// What a node says it has.
fn amounts(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for part in ["status.capacity", "status.allocatable"] {
        for (name, entry) in Field::root(value).at(part).entries() {
            let Ok(amount) = Quantity::parse(entry.text()) else { continue };
            if amount.is_negative() {
                causes.push(entry.invalid("must be greater than or equal to 0"));
            }
            let counted = name == "pods" || name.contains('/');
            if counted && amount.nanos() % 1_000_000_000 != 0 {
                causes.push(entry.invalid("must be an integer"));
            }
        }
    }
    causes
}

fn taints(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in value["spec"]["taints"].as_array().into_iter().flatten().enumerate() {
        let (key, effect) = (text(taint, &["key"]), text(taint, &["effect"]));
        let field = |name: &str| format!("metadata.taints[{index}].{name}");
        causes.extend(names::qualified_name(key).map(|why| Cause::invalid(field("key"), key, &why)));
        let label = text(taint, &["value"]);
        causes.extend(names::label_value(label).map(|why| Cause::invalid(field("value"), label, &why)));
        if effect.is_empty() {
            causes.push(Cause::required(field("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
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
    let mut addresses: Vec<&Value> = Vec::new();
    for address in Field::root(new).at("status.addresses").items() {
        if addresses.contains(&address.value) {
            let (kind, place) = (address.at("type").text(), address.at("address").text());
            let shown = json!({"Type": kind, "Address": place});
            causes.push(Cause::duplicate(address.path.as_str(), shown));
        }
        addresses.push(address.value);
    }
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
