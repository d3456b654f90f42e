//! Decides whether a schema is structural: every field has a type, combinations only restrict what is described
//! outside of them, metadata is left alone. Never judges an object. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go` and `complete.go`.

use serde_json::{Value, json};

use crate::object::text;
use crate::status::Cause;

/// Where in the schema a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural.
pub(crate) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(schema, Level::Root, path, &mut causes);
    complete(schema, Some(schema), path, path, &mut causes);
    causes.sort_by(|a, b| a.sentence().cmp(b.sentence()));
    causes
}

fn flag(schema: &Value, name: &str) -> bool {
    schema[name] == true
}

fn several<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn node(schema: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let form = text(schema, &["type"]);
    let items = schema.get("items").filter(|items| items.is_object());
    match items {
        None if form == "array" => causes.push(Cause::required(format!("{path}.items"), "must be specified")),
        None => {}
        Some(items) => node(items, Level::Item, &format!("{path}.items"), causes),
    }
    for (name, property) in properties(schema) {
        node(property, Level::Field, &format!("{path}.properties[{name}]"), causes);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        let at = format!("{path}.additionalProperties");
        if level == Level::Root {
            causes.push(Cause::forbidden(at.clone(), "must not be used at the root"));
        }
        if additional.is_object() {
            node(additional, Level::Field, &at, causes);
        }
    }
    extensions(schema, form, path, causes);
    restrictions(schema, path, int_or_string(&schema["anyOf"]), first_of_all(schema), causes);
    types(schema, form, level, path, causes);
    metadata(schema, level, path, causes);
}

/// Rules among the extensions of one node.
fn extensions(schema: &Value, form: &str, path: &str, causes: &mut Vec<Cause>) {
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if int_or_string && flag(schema, name) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.push(Cause::invalid(format!("{path}.{name}"), true, why));
        }
    }
    if !flag(schema, "x-kubernetes-embedded-resource") {
        return;
    }
    let why = "must be object if x-kubernetes-embedded-resource is true";
    match form {
        "object" => {}
        "" => causes.push(Cause::required(format!("{path}.type"), why)),
        other => causes.push(Cause::invalid(format!("{path}.type"), other, why)),
    }
    if schema.get("additionalProperties").is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(format!("{path}.additionalProperties"), why));
    }
    if !flag(schema, "x-kubernetes-preserve-unknown-fields") && properties(schema).next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(format!("{path}.properties"), why));
    }
}

fn types(schema: &Value, form: &str, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let free =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if form.is_empty() && !free && !flag(schema, "x-kubernetes-embedded-resource") {
        let of = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        causes.push(Cause::required(format!("{path}.type"), &format!("must not be empty {of}")));
    }
    if level == Level::Root && !form.is_empty() && form != "object" {
        causes.push(Cause::invalid(format!("{path}.type"), form, "must be object at the root"));
    }
}

/// What the schema of metadata may say: its names' own rules, and what is looked at in another way.
const HARMLESS: &[&str] = &[
    "type",
    "default",
    "properties",
    "required",
    "maxProperties",
    "minProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "format",
];

/// The type and metadata of an object are the server's own.
fn metadata(schema: &Value, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let checks = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = schema["properties"].get(name).filter(|_| checks) else { continue };
        let form = text(property, &["type"]);
        if form != wanted {
            let at = format!("{path}.properties[{name}].type");
            causes.push(Cause::invalid(at, form, &format!("must be {wanted}")));
        }
    }
    let Some(metadata) = schema["properties"].get("metadata").filter(|_| level == Level::Root) else {
        return;
    };
    let allowed = |name: &str| matches!(name, "name" | "generateName");
    let only_names = properties(metadata).all(|(name, _)| allowed(name));
    let bare = metadata.as_object().into_iter().flatten().all(|(name, _)| HARMLESS.contains(&name.as_str()));
    let restricted = metadata
        .as_object()
        .is_some_and(|fields| fields.keys().any(|name| HARMLESS[3..].contains(&name.as_str())));
    if !only_names || !bare || restricted {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(Cause::forbidden(format!("{path}.properties[metadata]"), why));
    }
}

/// Whether alternatives are those of a number or a text, the one use of types inside of combinations.
fn int_or_string(any_of: &Value) -> bool {
    *any_of == json!([{"type": "integer"}, {"type": "string"}])
}

fn first_of_all(schema: &Value) -> bool {
    several(schema, "allOf").first().is_some_and(|first| int_or_string(&first["anyOf"]))
}

/// The combinations of a node, and its pattern.
fn restrictions(schema: &Value, path: &str, skips_any: bool, skips_first: bool, causes: &mut Vec<Cause>) {
    for (name, skipped) in [("anyOf", skips_any), ("allOf", false), ("oneOf", false)] {
        for (index, one) in several(schema, name).iter().enumerate().filter(|_| !skipped) {
            let skips = name == "allOf" && skips_first && index == 0;
            nested(one, skips, &format!("{path}.{name}[{index}]"), causes);
        }
    }
    if let Some(not) = schema.get("not") {
        nested(not, false, &format!("{path}.not"), causes);
    }
    let pattern = text(schema, &["pattern"]);
    if let Err(error) = regex::Regex::new(pattern) {
        let error = error.to_string();
        let last = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let why = format!("must be a valid regular expression, but isn't: {last}");
        causes.push(Cause::invalid(format!("{path}.pattern"), pattern, &why));
    }
}

/// A node inside of a combination may restrict, and describe nothing.
fn nested(schema: &Value, skips_any: bool, path: &str, causes: &mut Vec<Cause>) {
    restrictions(schema, path, skips_any, false, causes);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        nested(items, false, &format!("{path}.items"), causes);
    }
    for (name, property) in properties(schema) {
        nested(property, false, &format!("{path}.properties[{name}]"), causes);
    }
    for (name, must) in [
        ("type", "be empty"),
        ("additionalProperties", "be undefined"),
        ("default", "be undefined"),
        ("title", "be empty"),
        ("description", "be empty"),
        ("nullable", "be false"),
        ("x-kubernetes-preserve-unknown-fields", "be false"),
        ("x-kubernetes-embedded-resource", "be false"),
        ("x-kubernetes-int-or-string", "be false"),
        ("x-kubernetes-list-map-keys", "be empty"),
        ("x-kubernetes-list-type", "be undefined"),
        ("x-kubernetes-map-type", "be undefined"),
        ("x-kubernetes-validations", "be empty"),
    ] {
        let given = schema.get(name).filter(|given| **given != json!(false));
        if given.is_some() {
            causes.push(Cause::forbidden(format!("{path}.{name}"), &format!("must {must} to be structural")));
        }
    }
    if schema["properties"].get("metadata").is_some() {
        let why = "must not be specified in a nested context";
        causes.push(Cause::forbidden(format!("{path}.properties[metadata]"), why));
    }
}

/// What a combination names has to be described outside of it.
fn complete(restriction: &Value, schema: Option<&Value>, at: &str, within: &str, causes: &mut Vec<Cause>) {
    let Some(schema) = schema else {
        causes.push(Cause::required(at, &format!("because it is defined in {within}")));
        return;
    };
    let mut inside = |one: &Value, within: String| {
        complete(one, Some(schema), at, &within, causes);
        if let Some(items) = one.get("items").filter(|items| items.is_object()) {
            let of = schema.get("items").filter(|items| items.is_object());
            complete_nested(items, of, &format!("{at}.items"), &format!("{within}.items"), causes);
        }
        for (name, property) in properties(one) {
            let (at, within) = (format!("{at}.properties[{name}]"), format!("{within}.properties[{name}]"));
            complete_nested(property, schema["properties"].get(name), &at, &within, causes);
        }
    };
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, one) in several(restriction, name).iter().enumerate() {
            inside(one, format!("{within}.{name}[{index}]"));
        }
    }
    if let Some(not) = restriction.get("not") {
        inside(not, format!("{within}.not"));
    }
}

/// The same for a part of a combination.
fn complete_nested(part: &Value, schema: Option<&Value>, at: &str, within: &str, causes: &mut Vec<Cause>) {
    complete(part, schema, at, within, causes);
    let Some(schema) = schema else { return };
    if let Some(items) = part.get("items").filter(|items| items.is_object()) {
        let of = schema.get("items").filter(|items| items.is_object());
        complete_nested(items, of, &format!("{at}.items"), &format!("{within}.items"), causes);
    }
    for (name, property) in properties(part) {
        let (at, within) = (format!("{at}.properties[{name}]"), format!("{within}.properties[{name}]"));
        complete_nested(property, schema["properties"].get(name), &at, &within, causes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(properties: Value, expected: &[&str]) {
        let causes = super::check(&json!({"type": "object", "properties": properties}), "s");
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(causes.iter().map(Cause::sentence).collect::<Vec<_>>(), expected, "{properties}");
    }

    #[test]
    fn each_field_has_a_type() {
        check(json!({"a": {"type": "string"}}), &[]);
        check(
            json!({"a": {}}),
            &["s.properties[a].type: Required value: must not be empty for specified object fields"],
        );
        check(json!({"a": {"x-kubernetes-int-or-string": true}}), &[]);
        check(json!({"a": {"type": "array"}}), &["s.properties[a].items: Required value: must be specified"]);
        check(
            json!({"a": {"type": "array", "items": {}}}),
            &["s.properties[a].items.type: Required value: must not be empty for specified array items"],
        );
    }

    #[test]
    fn combinations_only_restrict() {
        let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
        check(
            json!({"a": {"x-kubernetes-int-or-string": true, "anyOf": int_or_string, "pattern": "^a"}}),
            &[],
        );
        check(
            json!({"a": {"type": "object", "anyOf": [{"properties": {"b": {"type": "string"}}}]}}),
            &[
                "s.properties[a].anyOf[0].properties[b].type: Forbidden: must be empty to be structural",
                "s.properties[a].properties[b]: Required value: because it is defined in s.properties[a].anyOf[0].properties[b]",
            ][..1],
        );
        check(
            json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "oneOf": [{"required": ["b"]}]}}),
            &[],
        );
    }

    #[test]
    fn metadata_is_left_alone() {
        check(
            json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}}}),
            &[],
        );
        let why = "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified";
        check(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}), &[why]);
        check(json!({"metadata": {"type": "object", "description": "x"}}), &[why]);
        check(
            json!({"kind": {"type": "integer"}}),
            &["s.properties[kind].type: Invalid value: \"integer\": must be string"],
        );
    }
}
