//! Decides how all documents look as the older single one: the same schemas and paths in the words of
//! `OpenAPI` 2. Answers to `k8s.io/kube-openapi/pkg/schemaconv` and `.../openapiconv`, the other way round.

use serde_json::{Map, Value, json};

use super::published::Edition;
use super::{component_name, components, kinds_of, list_name, paths, versions};
use crate::kinds::{Kind, Kinds};

/// How deep schemas stand in schemas: deeper than any that is shipped, and as deep as a definition may make one.
const DEPTH: usize = 64;

pub(super) fn document(kinds: &Kinds) -> Value {
    let (mut definitions, mut all) = (Map::new(), Map::new());
    for (group, version) in versions(kinds) {
        let of: Vec<&Kind> = kinds_of(kinds, &group, &version).collect();
        let own: Vec<String> = of
            .iter()
            .filter(|kind| kind.custom)
            .flat_map(|kind| [component_name(kind, ""), list_name(kind)])
            .collect();
        for (name, schema) in components(&of, &group, &version, Edition::Two) {
            // What definitions publish is in the words of this edition already. The components that all groups share
            // name in each document only that group.
            let said = own.contains(&name);
            definitions.entry(name).or_insert_with(|| if said { schema } else { older(&schema, DEPTH) });
        }
        all.extend(paths::of(&of).iter().map(|(path, item)| (path.clone(), path_item(item))));
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": all,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

/// A schema whose references lead to definitions, with nothing around them.
fn older(schema: &Value, depth: usize) -> Value {
    let Some(less) = depth.checked_sub(1) else { return json!({}) };
    match schema {
        Value::Object(fields) => {
            let mut older_fields = Map::new();
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("$ref", Value::String(text)) => {
                        let reference = text.replace("#/components/schemas/", "#/definitions/");
                        older_fields.insert("$ref".into(), reference.into());
                    }
                    ("allOf", Value::Array(all)) if all.len() == 1 => {
                        if let Value::Object(inner) = older(&all[0], less) {
                            older_fields.extend(inner);
                        }
                    }
                    // Either of two types is said by a format alone.
                    ("oneOf" | "anyOf" | "nullable", _) => {}
                    _ => {
                        older_fields.insert(name.clone(), older(value, less));
                    }
                }
            }
            if older_fields.get("format").is_some_and(|format| format == "int-or-string") {
                older_fields.insert("type".into(), "string".into());
            }
            older_fields.into()
        }
        Value::Array(items) => items.iter().map(|item| older(item, less)).collect(),
        other => other.clone(),
    }
}

fn path_item(item: &Value) -> Value {
    let operations = item.as_object().into_iter().flatten();
    let item: Map<String, Value> = operations
        .map(|(name, value)| {
            let value = if name == "parameters" { parameters(value) } else { operation(name, value) };
            (name.clone(), value)
        })
        .collect();
    item.into()
}

/// Parameters say their type themselves.
fn parameters(all: &Value) -> Value {
    let one = |parameter: &Value| {
        let mut parameter = parameter.clone();
        let schema = parameter["schema"].take();
        if let (Some(fields), Value::Object(schema)) = (parameter.as_object_mut(), schema) {
            fields.remove("schema");
            fields.extend(schema);
        }
        parameter
    };
    all.as_array().into_iter().flatten().map(one).collect()
}

/// What an operation takes is one more parameter, what it gives stands in the answer itself.
fn operation(method: &str, value: &Value) -> Value {
    let mut all = match parameters(&value["parameters"]) {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    let content = value["requestBody"]["content"].as_object();
    if let Some(body) = content.and_then(|content| content.values().next()) {
        let required = method != "delete";
        all.insert(0, json!({"name": "body", "in": "body", "required": required, "schema": older(&body["schema"], DEPTH)}));
    }
    let consumes: Vec<&String> = content.into_iter().flat_map(Map::keys).collect();
    let shown = &value["responses"]["200"]["content"]["application/json"]["schema"];
    let mut operation = value.clone();
    if let Some(fields) = operation.as_object_mut() {
        fields.remove("requestBody");
        fields.insert("parameters".into(), all.into());
        fields.insert("consumes".into(), if consumes.is_empty() { json!(["*/*"]) } else { json!(consumes) });
        fields.insert("produces".into(), json!(["application/json", "application/yaml"]));
        fields.insert(
            "responses".into(),
            json!({
                "200": {"description": "OK", "schema": older(shown, DEPTH)}, "401": {"description": "Unauthorized"},
            }),
        );
    }
    operation
}
