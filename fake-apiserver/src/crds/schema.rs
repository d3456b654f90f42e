//! Decides how the schema of a custom resource is held: each node read once, when its definition is stored.
//! Never judges the schema and never looks at an object. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/structural.go` and its `convert.go`.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::rules::Rule;
use crate::object::{strings, text};

/// One node of a schema.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the schema's own")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty for anything.
    pub(crate) form: String,
    pub(crate) format: String,
    pub(crate) default: Option<Value>,
    pub(crate) nullable: bool,
    /// Fields that the schema does not know are kept.
    pub(crate) preserves: bool,
    /// The value is an object of Kubernetes itself, with a type and metadata.
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_type: Option<String>,
    pub(crate) list_keys: Vec<String>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) lengths: Range,
    pub(crate) items_count: Range,
    pub(crate) properties_count: Range,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) values: Vec<Value>,
    pub(crate) required: Vec<String>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Option<Additional>,
    pub(crate) rules: Vec<Rule>,
}

/// Which fields an object may have besides its properties.
#[derive(Clone, Debug)]
pub(crate) enum Additional {
    Allowed(bool),
    Like(Box<Schema>),
}

/// A limit of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) limit: f64,
    pub(crate) exclusive: bool,
}

/// How many there may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range {
    pub(crate) least: Option<i64>,
    pub(crate) most: Option<i64>,
}

/// A regular expression as it is written, and compiled if it can be.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) compiled: Option<Regex>,
}

impl Schema {
    /// Reads a node and all below it; the parser of requests bounds how deep that can be.
    pub(crate) fn read(value: &Value) -> Self {
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let word = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let several = |name: &str| -> Vec<Self> {
            value[name].as_array().into_iter().flatten().map(Self::read).collect()
        };
        let one =
            |name: &str| value.get(name).filter(|one| one.is_object()).map(|one| Box::new(Self::read(one)));
        let list = |name: &str| strings(value, &[name]).into_iter().map(str::to_owned).collect();
        let bound = |name: &str, exclusive: &str| {
            let limit = value.get(name)?.as_f64()?;
            Some(Bound { limit, exclusive: flag(exclusive) })
        };
        Self {
            form: text(value, &["type"]).to_owned(),
            format: text(value, &["format"]).to_owned(),
            default: value.get("default").filter(|default| !default.is_null()).cloned(),
            nullable: flag("nullable"),
            preserves: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list_type: word("x-kubernetes-list-type"),
            list_keys: list("x-kubernetes-list-map-keys"),
            maximum: bound("maximum", "exclusiveMaximum"),
            minimum: bound("minimum", "exclusiveMinimum"),
            multiple_of: value.get("multipleOf").and_then(Value::as_f64),
            lengths: Range::read(value, "Length"),
            items_count: Range::read(value, "Items"),
            properties_count: Range::read(value, "Properties"),
            pattern: word("pattern").filter(|pattern| !pattern.is_empty()).map(Pattern::new),
            values: value["enum"].as_array().cloned().unwrap_or_default(),
            required: list("required"),
            all_of: several("allOf"),
            any_of: several("anyOf"),
            one_of: several("oneOf"),
            not: one("not"),
            items: one("items"),
            properties: value["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), Self::read(schema)))
                .collect(),
            additional: match value.get("additionalProperties") {
                Some(Value::Bool(allowed)) => Some(Additional::Allowed(*allowed)),
                Some(Value::Object(_)) => one("additionalProperties").map(Additional::Like),
                _ => None,
            },
            rules: value["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
                .map(Rule::read)
                .collect(),
        }
    }

    /// What the value of a field has to look like: its own schema, or that of all other fields.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Some(Additional::Like(schema)) => Some(schema),
            _ => None,
        })
    }

    /// Whether an object may have a field, or keeps it anyway.
    pub(crate) fn additional_schema(&self) -> Option<&Self> {
        match &self.additional {
            Some(Additional::Like(schema)) => Some(schema),
            _ => None,
        }
    }
}

impl Range {
    fn read(value: &Value, of: &str) -> Self {
        let number = |name: String| value.get(name).and_then(Value::as_i64);
        Self { least: number(format!("min{of}")), most: number(format!("max{of}")) }
    }
}

impl Pattern {
    fn new(text: String) -> Self {
        // The real server's expressions have no look-around either; what differs is how classes are named.
        let compiled = Regex::new(&text).ok();
        Self { text, compiled }
    }
}

/// A number as JSON has it after a round trip through the real server: what is whole is an integer.
pub(crate) fn settle_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(fields) => fields.values_mut().for_each(settle_numbers),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            // Beyond this a float has no place for the last digits, and Go writes it with an exponent.
            if float.fract() == 0.0 && float.abs() < 1e15 {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        _ => {}
    }
}
