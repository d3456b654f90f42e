//! Decides what becomes of the type and metadata of objects, the whole one and those embedded in it: unknown
//! fields of metadata go, empty ones too, and embedded objects name their type. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use serde_json::Value;

use super::prune::child;
use super::schema::Schema;
use super::shape::Keep::{Always, Filled, Given};
use super::shape::Shape::{Any, Fields, Flag, List, Text, Time, Whole};
use super::shape::{Field, Shape, settle};
use crate::status::Cause;
use crate::validate::names;

/// The metadata of an object.
pub(crate) const METADATA: &[Field] = &[
    ("name", Filled, Text),
    ("generateName", Filled, Text),
    ("namespace", Filled, Text),
    ("selfLink", Filled, Text),
    ("uid", Filled, Text),
    ("resourceVersion", Filled, Text),
    ("generation", Filled, Whole),
    ("creationTimestamp", Given, Time),
    ("deletionTimestamp", Given, Time),
    ("deletionGracePeriodSeconds", Given, Whole),
    ("labels", Filled, Shape::Map(&Text)),
    ("annotations", Filled, Shape::Map(&Text)),
    (
        "ownerReferences",
        Filled,
        List(&Fields(&[
            ("apiVersion", Always, Text),
            ("kind", Always, Text),
            ("name", Always, Text),
            ("uid", Always, Text),
            ("controller", Given, Flag),
            ("blockOwnerDeletion", Given, Flag),
        ])),
    ),
    ("finalizers", Filled, List(&Text)),
    (
        "managedFields",
        Filled,
        List(&Fields(&[
            ("manager", Filled, Text),
            ("operation", Filled, Text),
            ("apiVersion", Filled, Text),
            ("time", Given, Time),
            ("fieldsType", Filled, Text),
            ("fieldsV1", Given, Any),
            ("subresource", Filled, Text),
        ])),
    ),
];

/// Brings the metadata of an object into its form, and says which fields of it are unknown.
///
/// # Errors
/// When a field is of another type.
pub(crate) fn settle_metadata(
    value: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value.get_mut("metadata") {
        Some(Value::Null) | None => Ok(()),
        Some(metadata) => {
            let before = unknown.len();
            settle(&Shape::Fields(METADATA), metadata, &child(path, "metadata"), unknown)?;
            unknown[before..].sort();
            Ok(())
        }
    }
}

/// The same for all objects that are embedded in a value.
///
/// # Errors
/// When a field of some metadata, or a type, is of another type.
pub(crate) fn settle_embedded(
    value: &mut Value,
    schema: &Schema,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(_) => {
            if schema.embedded {
                for name in ["apiVersion", "kind"] {
                    if value.get(name).is_some_and(|text| !text.is_string()) {
                        return Err(format!("{}: must be a string", child(path, name)));
                    }
                }
                settle_metadata(value, path, unknown)?;
            }
            for (name, field) in value.as_object_mut().into_iter().flatten() {
                if let Some(of) = schema.field(name) {
                    settle_embedded(field, of, &child(path, name), unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    settle_embedded(item, of, &format!("{path}[{index}]"), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// What is wrong with the embedded objects of a value.
pub(crate) fn check(value: &Value, schema: &Schema, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                check_one(value, path, causes);
            }
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check(field, property, &child(path, name), causes);
                } else if let Some(like) = schema.additional_schema() {
                    check(field, like, &format!("{path}[{name}]"), causes);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(of) = &schema.items {
                    check(item, of, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn check_one(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        let Some(given) = value.get(name) else {
            causes.push(Cause::required(field, ""));
            continue;
        };
        match given.as_str() {
            None => causes.push(Cause::invalid(field, given.clone(), "must be a string")),
            Some("") => causes.push(Cause::invalid(field, "", "must not be empty")),
            Some(version) if name == "apiVersion" => {
                if version.matches('/').count() > 1 {
                    let why = format!("unexpected GroupVersion string: {version}");
                    causes.push(Cause::invalid(field, version, &why));
                }
            }
            Some(kind) => {
                let wrong = names::label_1035(&kind.to_lowercase());
                if !wrong.is_empty() {
                    let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    causes.push(Cause::invalid(field, kind, &why));
                }
            }
        }
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if name == "." || name == ".." || name.contains(['/', '%']) {
        let why = "may not contain '/' or '%'";
        causes.push(Cause::invalid(child(path, "metadata.name"), name, why));
    }
    for (key, label) in value["metadata"]["labels"].as_object().into_iter().flatten() {
        let field = child(path, "metadata.labels");
        if let Some(why) = names::qualified_name(key) {
            causes.push(Cause::invalid(field.clone(), key.as_str(), &why));
        }
        let label = label.as_str().unwrap_or_default();
        if let Some(why) = names::label_value(label) {
            causes.push(Cause::invalid(field, label, &why));
        }
    }
}
