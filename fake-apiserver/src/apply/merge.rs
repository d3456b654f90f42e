//! Decides what a configuration makes of an object, and what is left when fields are taken out. Never decides
//! who may. Answers to `sigs.k8s.io/structured-merge-diff/typed/merge.go`, `remove.go` and `validate.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::apply::element::Element;
use crate::apply::set::Set;
use crate::apply::walk::{Form, as_list, as_map, field, form, step};
use crate::schema::{Items, Link, ListShape, MapShape, Scalar};

/// The object with the configuration's values in it.
pub(crate) fn merge(link: &Link, old: &Value, new: &Value) -> Value {
    merge_values(link, Some(old), Some(new)).unwrap_or_default()
}

fn merge_values(link: &Link, old: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let whole = || new.or(old).cloned();
    match form(link.node(), if new.is_some() { new } else { old }) {
        Form::Scalar => whole(),
        Form::List(list) => {
            let nothing = |value| as_list(value).is_none_or(Vec::is_empty);
            if list.how == Items::Atomic || nothing(old) && nothing(new) {
                return whole();
            }
            merge_items(list, as_list(old), as_list(new))
        }
        Form::Map(map) => {
            let nothing = |value| as_map(value).is_none_or(Map::is_empty);
            if link.is_atomic() || nothing(old) && nothing(new) {
                return whole();
            }
            merge_fields(map, as_map(old), as_map(new))
        }
    }
}

fn merge_fields(
    map: &MapShape,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
) -> Option<Value> {
    let names = old.into_iter().chain(new).flat_map(|fields| fields.keys());
    let names: BTreeSet<&String> = names.collect();
    let mut merged = Map::new();
    for name in names {
        let Some(link) = field(map, name) else { continue };
        let value = merge_values(link, old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
        if let Some(value) = value {
            merged.insert(name.clone(), value);
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// Items in the order of the configuration where it names them, and else as they stood.
fn merge_items(list: &ListShape, old: Option<&Vec<Value>>, new: Option<&Vec<Value>>) -> Option<Value> {
    let index = |items: Option<&Vec<Value>>| -> Vec<(Element, Value)> {
        let items = items.into_iter().flatten();
        items.filter_map(|item| Some((step(list, item).ok()?, item.clone()))).collect()
    };
    let (old, new) = (index(old), index(new));
    // Items of the object that can't be told apart are replaced, not merged.
    let mut before: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (step, item) in &old {
        before.entry(step).and_modify(|one| *one = None).or_insert(Some(item));
    }
    let after: BTreeMap<&Element, &Value> = new.iter().map(|(step, item)| (step, item)).collect();
    let mut shared = new.iter().map(|(step, _)| step).filter(|step| before.contains_key(step));
    let mut next = shared.next();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut left, mut right) = (old.iter().peekable(), new.iter().peekable());
    while left.peek().is_some() || right.peek().is_some() {
        if let Some((step, item)) = left.peek() {
            let Some(_) = after.get(step) else {
                merged.extend(merge_values(&list.items, Some(item), None));
                left.next();
                continue;
            };
            if right.peek().is_some_and(|(other, _)| other == step) {
                left.next();
            } else if right.peek().is_some() && next.is_some_and(|next| next != step) {
                // Shared, but its turn comes later.
                left.next();
                continue;
            } else if done.contains(step) {
                left.next();
            }
        }
        if let Some((step, item)) = right.next() {
            done.insert(step);
            let old = before.get(step).copied().flatten();
            merged.extend(merge_values(&list.items, old, Some(item)));
            if next == Some(step) {
                next = shared.next();
            }
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged))
}

/// The value without the paths of a set.
pub(crate) fn remove(link: Option<&Link>, value: &Value, gone: &Set) -> Value {
    let Some(link) = link else { return value.clone() };
    match form(link.node(), Some(value)) {
        Form::Scalar => value.clone(),
        Form::List(list) => {
            if list.how == Items::Atomic {
                return Value::Null;
            }
            let mut kept = Vec::new();
            for item in as_list(Some(value)).into_iter().flatten() {
                match step(list, item) {
                    Ok(step) if gone.has(&step) => {}
                    Ok(step) => match gone.below(&step) {
                        Some(below) => kept.push(remove(Some(&list.items), item, below)),
                        None => kept.push(item.clone()),
                    },
                    Err(_) => kept.push(item.clone()),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        Form::Map(map) => {
            if link.is_atomic() {
                return Value::Null;
            }
            let mut kept = Map::new();
            for (name, inner) in as_map(Some(value)).into_iter().flatten() {
                let step = Element::Field(name.clone());
                if gone.has(&step) {
                    continue;
                }
                let inner = match gone.below(&step) {
                    Some(below) => remove(field(map, name), inner, below),
                    None => inner.clone(),
                };
                kept.insert(name.clone(), inner);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
    }
}

/// What of a configuration its schema does not allow: a line a mistake.
pub(crate) fn mistakes(link: &Link, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    judge(link, value, &mut String::new(), &mut found);
    found
}

fn judge(link: &Link, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let say =
        |path: &str, what: &str| if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") };
    if value.is_null() {
        return;
    }
    let node = link.node();
    match form(node, Some(value)) {
        Form::Scalar => {
            let wanted = match (node.scalar, value) {
                (Some(Scalar::Integer(_) | Scalar::Number), Value::Number(_)) => return,
                (Some(Scalar::Integer(_) | Scalar::Number), _) => {
                    let form = go_type(value);
                    return found.push(say(path, &format!("expected numeric (int or float), got {form}")));
                }
                (Some(Scalar::String | Scalar::Bytes), Value::String(_)) => return,
                (Some(Scalar::String | Scalar::Bytes), _) => "string",
                (Some(Scalar::Boolean), Value::Bool(_)) => return,
                (Some(Scalar::Boolean), _) => "boolean",
                (_, Value::Array(_) | Value::Object(_)) => "any scalar",
                _ => return,
            };
            found.push(say(path, &format!("expected {wanted}, got {value}")));
        }
        Form::List(list) => {
            let Value::Array(items) = value else {
                found.push(say(path, &format!("expected list, got {value}")));
                return;
            };
            judge_items(list, items, path, found);
        }
        Form::Map(map) => {
            let Value::Object(fields) = value else {
                found.push(say(path, &format!("expected map, got {value}")));
                return;
            };
            for (name, inner) in fields {
                let length = path.len();
                path.push('.');
                path.push_str(name);
                match field(map, name) {
                    Some(link) => judge(link, inner, path, found),
                    None => found.push(say(path, "field not declared in schema")),
                }
                path.truncate(length);
            }
        }
    }
}

/// What Go's decoder makes of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn judge_items(list: &ListShape, items: &[Value], path: &mut String, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (place, item) in items.iter().enumerate() {
        let step = if list.how == Items::Atomic {
            Element::Index(i64::try_from(place).unwrap_or(i64::MAX))
        } else {
            match step(list, item) {
                Ok(step) => step,
                Err(why) => {
                    found.push(format!("{path}: element {place}: {why}"));
                    return;
                }
            }
        };
        let shown = step.to_string();
        if !seen.insert(step) {
            found.push(format!("{path}: duplicate entries for key {shown}"));
        }
        let length = path.len();
        path.push_str(&shown);
        judge(&list.items, item, path, found);
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::of;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check_merge(old: Value, new: Value, expected: Value) {
        assert_eq!(merge(&of("v1", "Pod").unwrap(), &old, &new), expected);
    }

    fn names(names: &[&str]) -> Value {
        let items: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": items}})
    }

    #[test]
    fn items_take_the_order_of_the_configuration() {
        check_merge(names(&["a", "b", "c"]), names(&["b"]), names(&["a", "b", "c"]));
        check_merge(names(&["a", "b", "c"]), names(&["c", "a"]), names(&["b", "c", "a"]));
        check_merge(names(&["a", "b"]), names(&["x", "b"]), names(&["a", "x", "b"]));
        check_merge(names(&["a", "b"]), names(&["x"]), names(&["a", "b", "x"]));
        check_merge(names(&[]), names(&["x", "y"]), names(&["x", "y"]));
    }

    #[test]
    fn maps_are_merged_and_atomic_ones_replaced() {
        check_merge(
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"nodeSelector": {"a": "1"}}}),
            json!({"metadata": {"labels": {"b": "1"}}, "spec": {"nodeSelector": {"b": "1"}}}),
            json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"nodeSelector": {"b": "1"}}}),
        );
    }

    #[test]
    fn what_is_removed_takes_emptied_lists_along() {
        let pod = of("v1", "Pod").unwrap();
        let gone = Set::decode(&json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {}}}})).unwrap();
        assert_eq!(remove(Some(&pod), &names(&["a", "b"]), &gone), names(&["b"]));
        assert_eq!(remove(Some(&pod), &names(&["a"]), &gone), json!({"spec": {"containers": null}}));
    }

    #[test]
    fn a_configuration_is_judged_by_the_schema() {
        let pod = of("v1", "Pod").unwrap();
        let value =
            json!({"spec": {"bogus": 1, "containers": [{"name": "a"}, {"name": "a"}], "hostname": 1}});
        let found = mistakes(&pod, &value);
        assert_eq!(
            found,
            [
                ".spec.bogus: field not declared in schema",
                ".spec.containers: duplicate entries for key [name=\"a\"]",
                ".spec.hostname: expected string, got 1",
            ]
        );
    }
}
