//! Decides what a typed object looks like as JSON: which fields it has, of which types, and which of them are
//! left out when they are empty. Two are described here: a definition, and the metadata that every object has.
//! Never judges what a field says. Answers to `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go`
//! and `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`.

use serde_json::{Map, Value};

use super::prune::child;
use crate::object::is_empty;

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Text,
    Flag,
    Whole,
    Number,
    /// A time, or null.
    Time,
    Any,
    Fields(&'static [Field]),
    List(&'static Shape),
    Map(&'static Shape),
    /// A node of a schema.
    Schema,
    /// A node of a schema, or whether anything is allowed.
    SchemaOrFlag,
    /// A node of a schema, or several.
    SchemaOrList,
}

/// When a field is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Never: an absent one is shown empty.
    Always,
    /// When it is empty.
    Filled,
    /// When it was not given.
    Given,
}

pub(crate) type Field = (&'static str, Keep, Shape);

use Keep::{Always, Filled, Given};
use Shape::{Any, Fields, Flag, List, Number, Schema, SchemaOrFlag, SchemaOrList, Text, Time, Whole};

const TEXTS: Shape = List(&Text);

const NAMES: Shape = Fields(&[
    ("plural", Always, Text),
    ("singular", Filled, Text),
    ("shortNames", Filled, TEXTS),
    ("kind", Always, Text),
    ("listKind", Filled, Text),
    ("categories", Filled, TEXTS),
]);

const CONVERSION: Shape = Fields(&[
    ("strategy", Always, Text),
    (
        "webhook",
        Given,
        Fields(&[
            (
                "clientConfig",
                Given,
                Fields(&[
                    ("url", Given, Text),
                    (
                        "service",
                        Given,
                        Fields(&[
                            ("namespace", Always, Text),
                            ("name", Always, Text),
                            ("path", Given, Text),
                            ("port", Given, Whole),
                        ]),
                    ),
                    ("caBundle", Filled, Text),
                ]),
            ),
            ("conversionReviewVersions", Always, TEXTS),
        ]),
    ),
]);

const SCALE: Shape = Fields(&[
    ("specReplicasPath", Always, Text),
    ("statusReplicasPath", Always, Text),
    ("labelSelectorPath", Given, Text),
]);

const COLUMN: Shape = Fields(&[
    ("name", Always, Text),
    ("type", Always, Text),
    ("format", Filled, Text),
    ("description", Filled, Text),
    ("priority", Filled, Whole),
    ("jsonPath", Always, Text),
]);

const VERSION: Shape = Fields(&[
    ("name", Always, Text),
    ("served", Always, Flag),
    ("storage", Always, Flag),
    ("deprecated", Filled, Flag),
    ("deprecationWarning", Given, Text),
    ("schema", Given, Fields(&[("openAPIV3Schema", Given, Schema)])),
    ("subresources", Given, Fields(&[("status", Given, Fields(&[])), ("scale", Given, SCALE)])),
    ("additionalPrinterColumns", Filled, List(&COLUMN)),
    ("selectableFields", Filled, List(&Fields(&[("jsonPath", Always, Text)]))),
]);

const CONDITION: Shape = Fields(&[
    ("type", Always, Text),
    ("status", Always, Text),
    ("lastTransitionTime", Always, Time),
    ("reason", Filled, Text),
    ("message", Filled, Text),
    ("observedGeneration", Filled, Whole),
]);

/// A definition, without its metadata.
pub(crate) const DEFINITION: &[Field] = &[
    ("apiVersion", Given, Text),
    ("kind", Given, Text),
    ("metadata", Given, Fields(super::embedded::METADATA)),
    (
        "spec",
        Always,
        Fields(&[
            ("group", Always, Text),
            ("names", Always, NAMES),
            ("scope", Always, Text),
            ("versions", Always, List(&VERSION)),
            ("conversion", Given, CONVERSION),
            ("preserveUnknownFields", Filled, Flag),
        ]),
    ),
    (
        "status",
        Always,
        Fields(&[
            ("conditions", Always, List(&CONDITION)),
            ("acceptedNames", Always, NAMES),
            ("storedVersions", Always, TEXTS),
            ("observedGeneration", Filled, Whole),
        ]),
    ),
];

const RULE: Shape = Fields(&[
    ("rule", Always, Text),
    ("message", Filled, Text),
    ("messageExpression", Filled, Text),
    ("reason", Given, Text),
    ("fieldPath", Filled, Text),
    ("optionalOldSelf", Given, Flag),
]);

const SCHEMA: &[Field] = &[
    ("id", Filled, Text),
    ("$schema", Filled, Text),
    ("$ref", Given, Text),
    ("description", Filled, Text),
    ("type", Filled, Text),
    ("format", Filled, Text),
    ("title", Filled, Text),
    ("default", Given, Any),
    ("maximum", Given, Number),
    ("exclusiveMaximum", Filled, Flag),
    ("minimum", Given, Number),
    ("exclusiveMinimum", Filled, Flag),
    ("maxLength", Given, Whole),
    ("minLength", Given, Whole),
    ("pattern", Filled, Text),
    ("maxItems", Given, Whole),
    ("minItems", Given, Whole),
    ("uniqueItems", Filled, Flag),
    ("multipleOf", Given, Number),
    ("enum", Filled, List(&Any)),
    ("maxProperties", Given, Whole),
    ("minProperties", Given, Whole),
    ("required", Filled, TEXTS),
    ("items", Given, SchemaOrList),
    ("allOf", Filled, List(&Schema)),
    ("oneOf", Filled, List(&Schema)),
    ("anyOf", Filled, List(&Schema)),
    ("not", Given, Schema),
    ("properties", Filled, Shape::Map(&Schema)),
    ("additionalProperties", Given, SchemaOrFlag),
    ("patternProperties", Filled, Shape::Map(&Schema)),
    ("dependencies", Filled, Shape::Map(&Any)),
    ("additionalItems", Given, SchemaOrFlag),
    ("definitions", Filled, Shape::Map(&Schema)),
    ("externalDocs", Given, Fields(&[("description", Filled, Text), ("url", Filled, Text)])),
    ("example", Given, Any),
    ("nullable", Filled, Flag),
    ("x-kubernetes-preserve-unknown-fields", Given, Flag),
    ("x-kubernetes-embedded-resource", Filled, Flag),
    ("x-kubernetes-int-or-string", Filled, Flag),
    ("x-kubernetes-list-map-keys", Filled, TEXTS),
    ("x-kubernetes-list-type", Given, Text),
    ("x-kubernetes-map-type", Given, Text),
    ("x-kubernetes-validations", Filled, List(&RULE)),
];

/// Brings a value into its shape: unknown fields go and are named in `unknown`, empty ones go or come as the shape has them.
///
/// # Errors
/// When a value is of another type.
pub(crate) fn settle(
    shape: &Shape,
    value: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let fits = match (shape, &*value) {
        (Shape::Any, _) | (_, Value::Null) => true,
        (Shape::Text, Value::String(_))
        | (Shape::Flag | Shape::SchemaOrFlag, Value::Bool(_))
        | (Shape::Number, Value::Number(_))
        | (
            Shape::Fields(_) | Shape::Map(_) | Shape::Schema | Shape::SchemaOrFlag | Shape::SchemaOrList,
            Value::Object(_),
        )
        | (Shape::List(_) | Shape::SchemaOrList, Value::Array(_)) => true,
        (Shape::Whole, Value::Number(number)) => number.is_i64() || number.is_u64(),
        (Shape::Time, Value::String(time)) => time.is_empty() || time.parse::<jiff::Timestamp>().is_ok(),
        _ => false,
    };
    if !fits {
        let form = match value {
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            _ => "object",
        };
        return Err(format!("json: cannot unmarshal {form} into Go struct field {path} of another type"));
    }
    match (shape, value) {
        (Shape::Fields(fields), value @ Value::Object(_)) => settle_fields(fields, value, path, unknown),
        (Shape::Schema | Shape::SchemaOrFlag | Shape::SchemaOrList, value @ Value::Object(_)) => {
            settle_fields(SCHEMA, value, path, unknown)
        }
        (Shape::List(of), Value::Array(items)) => settle_items(of, items, path, unknown),
        (Shape::SchemaOrList, Value::Array(items)) => settle_items(&Shape::Schema, items, path, unknown),
        (Shape::Map(of), Value::Object(fields)) => {
            for (name, field) in fields {
                settle(of, field, &child(path, name), unknown)?;
                if field.is_null() {
                    *field = empty(of);
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn settle_items(
    of: &Shape,
    items: &mut [Value],
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    for (index, item) in items.iter_mut().enumerate() {
        settle(of, item, &format!("{path}[{index}]"), unknown)?;
        if item.is_null() {
            *item = empty(of);
        }
    }
    Ok(())
}

fn settle_fields(
    shape: &[Field],
    value: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let mut given = match value.take() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let mut settled = Map::new();
    for (name, keep, shape) in shape {
        let mut field = given.remove(*name).unwrap_or_default();
        settle(shape, &mut field, &child(path, name), unknown)?;
        if field.is_null() && *keep == Keep::Always {
            field = empty(shape);
        }
        let empty = field.is_null() || *keep == Keep::Filled && is_empty(&field);
        if !empty || *keep == Keep::Always {
            settled.insert((*name).to_owned(), field);
        }
    }
    unknown.extend(given.keys().map(|name| child(path, name)));
    *value = Value::Object(settled);
    Ok(())
}

/// What an absent field shows as.
fn empty(shape: &Shape) -> Value {
    match shape {
        Shape::Text => "".into(),
        Shape::Flag => false.into(),
        Shape::Whole | Shape::Number => 0.into(),
        Shape::Fields(fields) => {
            let always = fields.iter().filter(|(_, keep, _)| *keep == Keep::Always);
            Value::Object(always.map(|(name, _, shape)| ((*name).to_owned(), empty(shape))).collect())
        }
        Shape::Schema => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_shown_as_the_real_server_shows_it() {
        let mut value = json!({"spec": {"group": "a.b", "names": {"plural": "as", "kind": "A", "shortNames": []},
            "bogus": 1, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {},
            "nullable": false, "minimum": 0, "odd": 1}}}]}});
        let mut unknown = Vec::new();
        settle(&Fields(DEFINITION), &mut value, "", &mut unknown).unwrap();
        assert_eq!(unknown, ["spec.versions[0].schema.openAPIV3Schema.odd", "spec.bogus"]);
        let version = json!({"name": "v1", "served": false, "storage": false,
            "schema": {"openAPIV3Schema": {"type": "object", "minimum": 0}}});
        assert_eq!(
            value["spec"],
            json!({"group": "a.b", "names": {"plural": "as", "kind": "A"}, "scope": "",
            "versions": [version]})
        );
        assert_eq!(
            value["status"],
            json!({"conditions": null, "storedVersions": null,
            "acceptedNames": {"plural": "", "kind": ""}})
        );
    }

    #[test]
    fn another_type_is_an_error() {
        for value in [json!({"spec": []}), json!({"spec": {"group": 1}}), json!({"spec": {"versions": [1]}})]
        {
            let mut copy = value.clone();
            assert!(settle(&Fields(DEFINITION), &mut copy, "", &mut Vec::new()).is_err(), "{value}");
        }
    }
}
