//! Decides whether lists that are sets or maps hold each item once, and which item of the last version an item
//! goes on from. Never looks at lists of another type. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype` and
//! `k8s.io/apiserver/pkg/cel/common/maplist.go`.

use serde_json::{Map, Value};

use super::schema::Schema;
use crate::status::Cause;

/// The items that are there twice.
pub(crate) fn duplicates(schema: &Schema, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, value, "", &mut causes);
    causes
}

fn walk(schema: &Schema, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(like) = schema.additional_schema() {
                    walk(like, field, &format!("{path}[{name}]"), causes);
                } else if let Some(property) = schema.properties.get(name) {
                    walk(property, field, &super::prune::child(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => twice(items, path, causes),
                Some("map") => keyed(schema, items, path, causes),
                _ => {}
            }
            if let Some(of) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    walk(of, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

/// Names the second appearance of each item; the third is not mentioned.
fn twice(items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let mut seen: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), item.clone()));
        }
    }
}

fn keyed(schema: &Schema, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    for (index, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            let why = "must be an object for an array of list-type map";
            causes.push(Cause::invalid(format!("{path}[{index}]"), item.clone(), why));
            return;
        }
    }
    let keys: Vec<Value> = items.iter().map(|item| key(schema, item)).collect();
    twice(&keys, path, causes);
}

/// The part of an item that tells it from the others.
fn key(schema: &Schema, item: &Value) -> Value {
    let fields = schema.list_keys.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// The item of the last version that an item of a list of type map goes on from.
pub(crate) fn counterpart<'a>(schema: &Schema, old: Option<&'a Value>, item: &Value) -> Option<&'a Value> {
    if schema.list_type.as_deref() != Some("map") {
        return None;
    }
    let wanted = key(schema, item);
    old?.as_array()?.iter().find(|one| key(schema, one) == wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(list: &Value, expected: &[&str]) {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object"}},
        }}));
        let causes = duplicates(&schema, list);
        assert_eq!(causes.iter().map(Cause::sentence).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn items_of_sets_and_maps_are_there_once() {
        check(&json!({"set": ["a", "b", "a", "a"]}), &["set[2]: Duplicate value: \"a\""]);
        check(
            &json!({"map": [{"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3}]}),
            &["map[2]: Duplicate value: {\"a\":1,\"b\":2}"],
        );
        check(
            &json!({"map": [{}, 3]}),
            &["map[1]: Invalid value: 3: must be an object for an array of list-type map"],
        );
        check(&json!({"set": "x", "map": [{"a": 1}, {"a": 2}]}), &[]);
    }
}
