//! Decides how the schema of a definition's version is published: as it was given, with what every object has around it, for
//! `OpenAPI` 3, and without what clients of version 2 can't read. Never judges a schema. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/controller/openapi/{builder,v2}` and to `Structural.Unfold`.

use serde_json::{Map, Value, json};

use super::META;
use crate::kinds::Kind;
use crate::object::as_map_mut;
use crate::schema;

/// How deep schemas stand in schemas: deeper than a definition may make one.
const DEPTH: usize = 64;

const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// The version of `OpenAPI`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edition {
    Two,
    Three,
}

impl Edition {
    fn reference(self, name: &str) -> String {
        match self {
            Self::Two => format!("#/definitions/{name}"),
            Self::Three => format!("#/components/schemas/{name}"),
        }
    }

    /// A reference with words of its own.
    fn described(self, name: &str, description: &str) -> Value {
        let to = self.reference(&format!("{META}{name}"));
        match self {
            Self::Two => json!({"description": description, "$ref": to}),
            Self::Three => json!({"description": description, "allOf": [{"$ref": to}]}),
        }
    }
}

/// The schema of the objects of a kind that has a definition.
pub(super) fn object(kind: &Kind, edition: Edition) -> Value {
    let published = kind.definition.as_ref().and_then(|version| version.published.as_ref());
    let free = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    // Where some properties are named, old clients refuse all others.
    let mut object = match published {
        Some(schema) if edition == Edition::Three || !free(schema) => {
            let mut object = shown(schema, edition, DEPTH);
            let properties =
                as_map_mut(as_map_mut(&mut object).entry("properties").or_insert_with(|| json!({})));
            properties.insert("metadata".into(), edition.described("ObjectMeta", METADATA));
            add_type(properties);
            object
        }
        _ => json!({"type": "object"}),
    };
    name(kind, &kind.kind, &mut object);
    object
}

/// The schema of their lists.
pub(super) fn list(kind: &Kind, component: &str, edition: Edition) -> Value {
    let more =
        "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let mut list = json!({
        "description": format!("{} is a list of {}", kind.list_kind(), kind.kind),
        "type": "object", "required": ["items"],
        "properties": {
            "items": {
                "description": format!("List of {}. {more}", kind.plural), "type": "array",
                "items": {"$ref": edition.reference(component)},
            },
            "metadata": edition.described("ListMeta", LIST_METADATA),
        },
    });
    add_type(as_map_mut(&mut list["properties"]));
    name(kind, &kind.list_kind(), &mut list);
    list
}

/// What kind a schema is of, and by which fields its objects can be selected.
fn name(kind: &Kind, name: &str, schema: &mut Value) {
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": kind.group, "version": kind.version, "kind": name}]);
    let selectable = kind.definition.iter().flat_map(|version| &version.selectable);
    let selectable: Vec<Value> = selectable.map(|path| json!({"fieldPath": path})).collect();
    if !selectable.is_empty() {
        schema["x-kubernetes-selectable-fields"] = selectable.into();
    }
}

/// `apiVersion` and `kind`, as every kind has them.
fn add_type(properties: &mut Map<String, Value>) {
    let Some(any) = schema::component("io.k8s.api.core.v1.ConfigMap") else { return };
    for field in ["apiVersion", "kind"] {
        properties.insert(field.into(), any.value()["properties"][field].clone());
    }
}

/// A schema and those in it.
fn shown(schema: &Value, edition: Edition, depth: usize) -> Value {
    let (Some(fields), Some(less)) = (schema.as_object(), depth.checked_sub(1)) else { return json!({}) };
    let mut fields = fields.clone();
    if edition == Edition::Two {
        reduce(&mut fields);
    } else {
        unfold(&mut fields);
    }
    for (name, inner) in &mut fields {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|one| *one = shown(one, edition, less));
            }
            ("items" | "additionalProperties", inner @ Value::Object(_)) => {
                *inner = shown(inner, edition, less);
            }
            _ => {}
        }
    }
    let is = |name: &str| fields.get(name).is_some_and(|flag| flag == true);
    let free = edition == Edition::Two && is("x-kubernetes-preserve-unknown-fields");
    if is("x-kubernetes-embedded-resource") && !free {
        embed(&mut fields, edition);
    }
    fields.into()
}

/// What an object in an object has.
fn embed(fields: &mut Map<String, Value>, edition: Edition) {
    let properties = as_map_mut(fields.entry("properties").or_insert_with(|| json!({})));
    for (name, description) in [("apiVersion", EMBEDDED_VERSION), ("kind", EMBEDDED_KIND)] {
        properties.insert(name.into(), json!({"description": description, "type": "string"}));
    }
    properties.insert("metadata".into(), edition.described("ObjectMeta", METADATA));
    let required = fields.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|one| one == name) {
                required.push(name.into());
            }
        }
    }
}

/// Says of an integer or string that it is one of the two, unless the schema does.
fn unfold(fields: &mut Map<String, Value>) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    if fields.get("x-kubernetes-int-or-string").is_none_or(|flag| flag != true) {
        return;
    }
    let says = |schema: Option<&Value>| schema.is_some_and(|any| *any == either);
    let first = fields.get("allOf").and_then(|all| all.get(0)).and_then(|one| one.get("anyOf"));
    if says(fields.get("anyOf")) || says(first) {
        return;
    }
    if !fields.contains_key("anyOf") {
        fields.insert("anyOf".into(), either);
    } else if let Value::Array(all) = fields.entry("allOf").or_insert_with(|| json!([])) {
        all.insert(0, json!({"anyOf": either}));
    }
}

/// Takes away what clients of version 2 don't know, or would misread.
fn reduce(fields: &mut Map<String, Value>) {
    for name in ["allOf", "oneOf", "anyOf", "not", "default"] {
        fields.remove(name);
    }
    let is = |fields: &Map<String, Value>, name: &str| fields.get(name).is_some_and(|flag| flag == true);
    let (nullable, free) = (is(fields, "nullable"), is(fields, "x-kubernetes-preserve-unknown-fields"));
    fields.remove("nullable");
    if nullable {
        fields.remove("type");
    }
    if nullable || free {
        fields.remove("items");
        fields.remove("properties");
    }
    let form = fields.get("type").and_then(Value::as_str);
    if form == Some("array") && !fields.contains_key("items") || form == Some("object") && free {
        fields.remove("type");
    }
    if fields.get("additionalProperties").is_some_and(|inner| inner["nullable"] == true) {
        fields.remove("required");
    }
    let Some(Value::Object(properties)) = fields.get("properties") else { return };
    let nullable: Vec<String> = properties
        .iter()
        .filter(|(_, inner)| inner["nullable"] == true)
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.retain(|name| !nullable.iter().any(|one| name == one));
        if required.is_empty() {
            fields.remove("required");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(given: Value, three: Value, two: Value) {
        assert_eq!(shown(&given, Edition::Three, DEPTH), three);
        assert_eq!(shown(&given, Edition::Two, DEPTH), two);
    }

    #[test]
    fn either_of_two_types_is_said_once() {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let bare = json!({"x-kubernetes-int-or-string": true});
        let said = json!({"x-kubernetes-int-or-string": true, "anyOf": either});
        check(bare.clone(), said.clone(), bare.clone());
        check(said.clone(), said, bare.clone());
        let other = json!([{"minimum": 1}]);
        check(
            json!({"x-kubernetes-int-or-string": true, "anyOf": other}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": other, "allOf": [{"anyOf": either}]}),
            bare,
        );
    }

    #[test]
    fn the_older_edition_says_less() {
        let text = json!({"type": "string"});
        let maybe = json!({"type": "string", "nullable": true, "maxLength": 3});
        let object = |required: Value, nullable: Value| json!({"type": "object", "required": required, "properties": {"a": nullable, "b": text}});
        check(
            object(json!(["a", "b"]), maybe.clone()),
            object(json!(["a", "b"]), maybe.clone()),
            object(json!(["b"]), json!({"maxLength": 3})),
        );
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": text}});
        check(free.clone(), free, json!({"x-kubernetes-preserve-unknown-fields": true}));
        let list =
            json!({"type": "array", "items": {"type": "object", "default": {}, "not": {"required": ["x"]}}});
        check(list.clone(), list, json!({"type": "array", "items": {"type": "object"}}));
        let map = json!({"type": "object", "additionalProperties": maybe});
        check(map.clone(), map, json!({"type": "object", "additionalProperties": {"maxLength": 3}}));
    }

    #[test]
    fn an_object_in_an_object_has_metadata() {
        let embedded =
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"]});
        let three = shown(&embedded, Edition::Three, DEPTH);
        assert_eq!(three["required"], json!(["kind", "apiVersion"]));
        let metadata = &three["properties"]["metadata"];
        assert_eq!(metadata["allOf"][0]["$ref"], format!("#/components/schemas/{META}ObjectMeta"));
        let two = shown(&embedded, Edition::Two, DEPTH);
        assert_eq!(two["properties"]["metadata"]["$ref"], format!("#/definitions/{META}ObjectMeta"));
    }
}
