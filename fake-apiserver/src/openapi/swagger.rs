//! Decides how all documents look as the older single one: the same schemas and paths in the words of
//! `OpenAPI` 2. Answers to `k8s.io/kube-openapi/pkg/schemaconv` and `.../openapiconv`, the other way round.

use serde_json::{Map, Value, json};

use super::published::Edition;
use super::{component_name, components, kinds_of, list_name, paths, versions};
use crate::kinds::{Kind, Kinds};

/// How deep schemas stand in schemas: deeper than any that is shipped, and as deep as a definition may make one.
const DEPTH: usize = 64;

pub(super) fn document(kinds: &Kinds) -> Value {
    let (mut definitions, mut all, mut shared) = (Map::new(), Map::new(), Map::new());
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
        // The paths of definitions keep their parameters to themselves.
        let mut common = own.is_empty().then_some(&mut shared);
        for (path, item) in &paths::of(&of) {
            all.insert(path.clone(), path_item(item, common.as_deref_mut()));
        }
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": all,
        "definitions": definitions, "parameters": shared,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

/// A schema whose references lead to definitions, with nothing around them.
fn older(schema: &Value, depth: usize) -> Value {
    older_part(schema, false, depth)
}

/// The same of a part; `names` when its fields are the names of properties.
fn older_part(schema: &Value, names: bool, depth: usize) -> Value {
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
                    // Either of two types is said by a format alone, and defaults are not said at all.
                    ("oneOf" | "anyOf" | "nullable", _) if !names => {}
                    ("default", _) if !names => {}
                    _ => {
                        let properties = name == "properties" && !names;
                        older_fields.insert(name.clone(), older_part(value, properties, less));
                    }
                }
            }
            let either = older_fields.get("format").is_some_and(|format| format == "int-or-string");
            if !names && (either || fields.contains_key("oneOf")) {
                older_fields.insert("type".into(), "string".into());
            }
            older_fields.into()
        }
        Value::Array(items) => items.iter().map(|item| older(item, less)).collect(),
        other => other.clone(),
    }
}

fn path_item(item: &Value, mut shared: Option<&mut Map<String, Value>>) -> Value {
    let mut older_item = Map::new();
    for (name, value) in item.as_object().into_iter().flatten() {
        let mut value = if name == "parameters" {
            json!({"parameters": parameters(value)})
        } else {
            operation(name, value)
        };
        if let (Some(shared), Some(Value::Array(all))) = (shared.as_deref_mut(), value.get_mut("parameters"))
        {
            for parameter in all.iter_mut() {
                share(name, parameter, shared);
            }
        }
        let value = if name == "parameters" { value["parameters"].take() } else { value };
        older_item.insert(name.clone(), value);
    }
    older_item.into()
}

/// Parameters that stand in one place, each with the ending of its name there, which upstream makes of all that it says.
const SHARED: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "HC2hJt-J"),
    ("continue", "QfD61s0i"),
    ("fieldManager", "Qy4HdaTW"),
    ("fieldSelector", "xIcQKXFG"),
    ("force", "tOGGb0Yi"),
    ("gracePeriodSeconds", "-K5HaBOS"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "QbNkfIqj"),
    ("labelSelector", "5Zw57w4C"),
    ("limit", "1NfNmdNH"),
    ("namespace", "vgWSWtn3"),
    ("orphanDependents", "uRB25kX5"),
    ("pretty", "tJGM1-ng"),
    ("propagationPolicy", "6jk3prlO"),
    ("resourceVersion", "5WAnf1kx"),
    ("resourceVersionMatch", "t8XhRHeC"),
    ("sendInitialEvents", "rLXlEK_k"),
    ("shardSelector", "Kgyki_3_"),
    ("timeoutSeconds", "yvYezaOC"),
    ("watch", "XNNPZGbK"),
];

/// Puts a parameter where all paths find it, and a reference in its place, if it is one of those.
fn share(method: &str, parameter: &mut Value, shared: &mut Map<String, Value>) {
    let name = parameter["name"].as_str().unwrap_or_default();
    let ending = match (name, method) {
        ("body", "delete") => Some("2Y1dVQaQ"),
        ("body", "patch") => Some("78PwaGsr"),
        ("fieldManager", "patch") => Some("7c6nTn1T"),
        _ => SHARED.iter().find(|(one, _)| *one == name).map(|(_, ending)| *ending),
    };
    if let Some(ending) = ending {
        let key = format!("{name}-{ending}");
        let reference = json!({"$ref": format!("#/parameters/{key}")});
        shared.insert(key, std::mem::replace(parameter, reference));
    }
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
        let mut taken = json!({"name": "body", "in": "body", "schema": older(&body["schema"], DEPTH)});
        if method != "delete" {
            taken["required"] = true.into();
        }
        all.insert(0, taken);
    }
    let mut consumes: Vec<&String> = content.into_iter().flat_map(Map::keys).collect();
    // Of the patches, applying came last.
    consumes.sort_by_key(|form| form.starts_with("application/apply"));
    let mut produces: Vec<&String> =
        value["responses"]["200"]["content"].as_object().into_iter().flat_map(Map::keys).collect();
    produces.sort_by_key(|form| (form.contains("stream"), form.contains("protobuf")));
    let mut operation = value.clone();
    if let Some(fields) = operation.as_object_mut() {
        fields.remove("requestBody");
        if all.is_empty() {
            fields.remove("parameters");
        } else {
            fields.insert("parameters".into(), all.into());
        }
        fields.insert("consumes".into(), if consumes.is_empty() { json!(["*/*"]) } else { json!(consumes) });
        fields.insert("produces".into(), json!(produces));
        fields.insert("schemes".into(), json!(["https"]));
        fields.insert("responses".into(), responses(&value["responses"]));
    }
    operation
}

/// Answers show one schema, whatever form it is in.
fn responses(all: &Value) -> Value {
    let one = |(code, answer): (&String, &Value)| {
        let mut older_answer = json!({"description": answer["description"]});
        if let Some(shown) = answer.pointer("/content/application~1json/schema") {
            older_answer["schema"] = older(shown, DEPTH);
        }
        (code.clone(), older_answer)
    };
    all.as_object().into_iter().flatten().map(one).collect::<Map<String, Value>>().into()
}
