//! Decides which fields of a custom resource are kept: those that its schema names, and everything below a
//! field that preserves what is unknown. Says which it dropped. Never fills anything in. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning` and `.../defaulting/prunenulls.go`.

use serde_json::Value;

use super::schema::{Additional, Schema};

/// The fields that each object of Kubernetes has, whatever its schema says.
const TYPE_AND_METADATA: &[&str] = &["apiVersion", "kind", "metadata"];

/// Drops the unknown fields of a whole object, and says which those were, in order.
pub(crate) fn prune(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(value, Node { schema: Some(schema), typed: true, keeps: schema.preserves }, "", &mut dropped);
    dropped.sort();
    dropped
}

/// Whether a value, a default say, has no unknown fields.
pub(crate) fn is_pruned(value: &Value, schema: &Schema) -> bool {
    let mut copy = value.clone();
    walk(&mut copy, Node::of(schema), "", &mut Vec::new());
    copy == *value
}

/// What is known of the value that is being pruned.
#[derive(Clone, Copy)]
struct Node<'a> {
    schema: Option<&'a Schema>,
    /// It has a type and metadata, which stay.
    typed: bool,
    /// What it does not know stays.
    keeps: bool,
}

impl<'a> Node<'a> {
    const UNKNOWN: Self = Self { schema: None, typed: false, keeps: false };

    fn of(schema: &'a Schema) -> Self {
        Self { schema: Some(schema), typed: schema.embedded, keeps: schema.preserves }
    }
}

fn walk(value: &mut Value, node: Node<'_>, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            if node.typed && TYPE_AND_METADATA.contains(&name.as_str()) {
                return true;
            }
            let below = child(path, name);
            let schema = node.schema;
            if let Some(property) = schema.and_then(|schema| schema.properties.get(name)) {
                walk(field, Node::of(property), &below, dropped);
                return true;
            }
            match schema.and_then(|schema| schema.additional.as_ref()) {
                Some(Additional::Like(like)) => walk(field, Node::of(like), &below, dropped),
                // Whatever may be there has no schema, and an object without one has no fields.
                Some(Additional::Allowed(_)) => walk(field, Node::UNKNOWN, &below, dropped),
                None if node.keeps => {}
                None => {
                    dropped.push(below);
                    return false;
                }
            }
            true
        }),
        Value::Array(items) => {
            let of = node.schema.and_then(|schema| schema.items.as_deref());
            if of.is_none() && node.keeps {
                return;
            }
            let mut of = of.map_or(Node::UNKNOWN, Node::of);
            of.keeps |= node.keeps;
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, of, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

pub(crate) fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Drops nulls where the schema allows none and has no default to put there.
pub(crate) fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let of = schema.and_then(|schema| schema.field(name));
            if field.is_null() {
                return of.is_none_or(|of| of.nullable || of.default.is_some());
            }
            drop_nulls(field, of);
            true
        }),
        Value::Array(items) => {
            let of = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls(item, of);
            }
        }
        _ => {}
    }
}

/// Fills in what is missing, or null where no null may be, and has a default.
pub(crate) fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                let wanted = match fields.get(name) {
                    None => true,
                    Some(present) => present.is_null() && !property.nullable,
                };
                if wanted {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                let Some(of) = schema.field(name) else { continue };
                if field.is_null() && !of.nullable && !schema.properties.contains_key(name) {
                    *field = of.default.clone().unwrap_or_default();
                }
                fill(field, of);
            }
        }
        Value::Array(items) => {
            let Some(of) = schema.items.as_deref() else { return };
            for item in items {
                if item.is_null() && !of.nullable {
                    *item = of.default.clone().unwrap_or_default();
                }
                fill(item, of);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::read(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 1},
                "name": {"type": "string", "nullable": true},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "inner": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                    "spec": {"type": "object"}}},
                "labels": {"type": "object", "additionalProperties": {"type": "string", "default": "none"}},
                "any": {"type": "object", "additionalProperties": true},
                "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            }},
        }}))
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(before: Value, after: Value, dropped: &[&str]) {
        let mut value = json!({"kind": "A", "apiVersion": "b/v1", "metadata": {"x": 1}, "spec": before});
        assert_eq!(prune(&mut value, &schema()), dropped);
        assert_eq!(value["spec"], after);
        assert_eq!(value["metadata"], json!({"x": 1}));
    }

    #[test]
    fn what_the_schema_does_not_name_goes() {
        check(json!({"size": 1, "odd": {"a": 1}}), json!({"size": 1}), &["spec.odd"]);
        check(json!({"free": {"odd": {"b": 1}}}), json!({"free": {"odd": {"b": 1}}}), &[]);
        check(
            json!({"free": {"inner": {"a": "x", "b": 1}}}),
            json!({"free": {"inner": {"a": "x"}}}),
            &["spec.free.inner.b"],
        );
        check(
            json!({"pod": {"kind": "Pod", "metadata": {"n": 1}, "data": 1, "spec": {"y": 1}}}),
            json!({"pod": {"kind": "Pod", "metadata": {"n": 1}, "spec": {}}}),
            &["spec.pod.data", "spec.pod.spec.y"],
        );
        check(json!({"list": [{"x": 1, "y": 2}]}), json!({"list": [{"x": 1}]}), &["spec.list[0].y"]);
        check(json!({"any": {"a": {"b": 1}}}), json!({"any": {"a": {}}}), &["spec.any.a.b"]);
    }

    #[test]
    fn nulls_go_unless_they_may_stay_or_a_default_takes_their_place() {
        let mut value =
            json!({"spec": {"size": null, "name": null, "labels": {"a": null}, "list": [{"x": null}]}});
        drop_nulls(&mut value, Some(&schema()));
        assert_eq!(value, json!({"spec": {"size": null, "name": null, "labels": {"a": null}, "list": [{}]}}));
        fill(&mut value, &schema());
        assert_eq!(value, json!({"spec": {"size": 1, "name": null, "labels": {"a": "none"}, "list": [{}]}}));
    }

    #[test]
    fn defaults_are_not_put_below_what_is_missing() {
        let mut value = json!({"kind": "A"});
        fill(&mut value, &schema());
        assert_eq!(value, json!({"kind": "A"}));
    }
}
