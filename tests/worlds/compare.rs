//! What a simulated end state has that the recorded one has not, and the reverse.

use std::collections::{BTreeMap, BTreeSet};

use pvbind::objects::quantity::Amount;
use serde_json::Value;

use crate::normal::{Normal, text};

fn identity(object: &Value) -> String {
    let (namespace, name) = (text(object, "/namespace"), text(object, "/name"));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn by_identity(objects: &[Value]) -> BTreeMap<String, &Value> {
    objects.iter().map(|object| (identity(object), object)).collect()
}

/// Whether two values of a field say the same.
fn same(field: &str, wanted: &Value, actual: &Value) -> bool {
    let set = |value: &Value| -> BTreeSet<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    match field {
        "capacity" => {
            let amount = |value: &Value| Amount::parse(value.as_str().unwrap_or_default());
            amount(wanted) == amount(actual)
        }
        "accessModes" => set(wanted) == set(actual),
        _ => wanted == actual,
    }
}

fn compare(section: &str, wanted: &[Value], actual: &[Value], differences: &mut Vec<String>) {
    let (wanted, actual) = (by_identity(wanted), by_identity(actual));
    for key in wanted.keys().filter(|key| !actual.contains_key(*key)) {
        differences.push(format!("{section} {key}: missing"));
    }
    for key in actual.keys().filter(|key| !wanted.contains_key(*key)) {
        differences.push(format!("{section} {key}: should not be there"));
    }
    for (key, wanted) in &wanted {
        let Some(actual) = actual.get(key) else { continue };
        for (field, wanted) in wanted.as_object().expect("an object") {
            // Why a pod is placed or not is said in other words; a null varies by design.
            if matches!(field.as_str(), "namespace" | "name" | "scheduled") || wanted.is_null() {
                continue;
            }
            let actual = actual.get(field).unwrap_or_else(|| panic!("unknown field {field} in a record"));
            if !same(field, wanted, actual) {
                differences.push(format!("{section} {key}: {field} is {actual}, recorded {wanted}"));
            }
        }
    }
}

/// Every difference, in a sentence each.
pub fn differences(wanted: &Value, actual: &Normal) -> Vec<String> {
    let section = |name: &str| wanted[name].as_array().cloned().unwrap_or_default();
    let mut differences = Vec::new();
    compare("claim", &section("claims"), &actual.claims, &mut differences);
    compare("volume", &section("volumes"), &actual.volumes, &mut differences);
    compare("pod", &section("pods"), &actual.pods, &mut differences);
    for event in section("events") {
        let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let event = (field("type"), field("reason"), field("regarding"));
        if event.2.starts_with("PersistentVolume") && !actual.events.contains(&event) {
            differences.push(format!("event {} {} on {}: missing", event.0, event.1, event.2));
        }
    }
    differences
}
