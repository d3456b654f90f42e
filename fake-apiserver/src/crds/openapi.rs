//! Decides whether a schema may stand in a definition, besides being structural: which keywords it may use, what lists
//! and defaults have to be like, whether its rules can be read. Never judges an object. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use serde_json::{Value, json};

use super::cost::{Limits, Spent};
use super::extensions::{Rules, lists, rule_programs, rule_texts};
use super::prune::is_pruned;
use super::schema::Schema;
use super::{embedded, rules, structural, values};
use crate::object::text;
use crate::status::Cause;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// What may stand at the root beside a status that is written alone.
const BESIDE_STATUS: &[&str] = &[
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Keywords that nobody may use, and how the real server calls them.
const UNSUPPORTED: &[&str] =
    &["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// What is known of the place that is being judged.
#[derive(Clone)]
struct Place {
    path: String,
    root: bool,
    /// Within metadata, where nothing may be embedded.
    in_metadata: bool,
    /// Why there may be no default here.
    no_default: Option<String>,
    /// The place from which on nobody can tell what a value was before.
    no_old: Option<String>,
    /// Within a combination, where rules are not looked at.
    nested: bool,
    /// How many values there can be here.
    limits: Limits,
}

/// What was found, the mistakes in rules apart: those of a field do not keep anybody from looking at the rules above it.
struct Found {
    schema: Vec<Cause>,
    rules: Vec<Cause>,
    spent: Spent,
}

impl Place {
    fn below(&self, path: &str) -> Self {
        Self { path: format!("{}.{path}", self.path), root: false, ..self.clone() }
    }
}

/// What is wrong with the schema of a version; one that is `unchanged` may have rules that cost too much.
pub(crate) fn check(schema: &Value, path: &str, status: bool, unchanged: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let at = format!("{path}.openAPIV3Schema");
    if status {
        for (name, value) in schema.as_object().into_iter().flatten() {
            if name == "type" && value != "object" {
                let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                causes.push(Cause::invalid(format!("{at}.type"), value.clone(), why));
            } else if !BESIDE_STATUS.contains(&name.as_str()) {
                let why = format!(
                    "only {BESIDE_STATUS:?} fields are allowed at the root of the schema if the status subresource is enabled"
                );
                causes.push(Cause::invalid(at.clone(), schema.clone(), &why));
                break;
            }
        }
    }
    if schema["nullable"] == true {
        causes.push(Cause::forbidden(format!("{at}.nullable"), "nullable cannot be true at the root"));
    }
    let unreadable = unreadable(schema);
    let mut sound = unreadable.is_none();
    if sound {
        let mut found = structural::check(schema, &at);
        if found.is_empty() {
            defaults(&Schema::read(schema), true, false, &at, &mut found);
        }
        sound = found.is_empty();
        causes.extend(found);
    }
    let place = Place {
        path: at.clone(),
        root: true,
        in_metadata: false,
        no_default: None,
        no_old: None,
        nested: !sound,
        limits: Limits::root(),
    };
    let mut found = Found { schema: Vec::new(), rules: Vec::new(), spent: Spent::new(unchanged) };
    node(schema, &place, &mut found);
    causes.extend(found.schema);
    causes.extend(found.rules);
    causes.extend(found.spent.judge(&at));
    if causes.is_empty()
        && let Some(why) = unreadable
    {
        causes.push(Cause::invalid(at, "", &why));
    }
    causes
}

/// What keeps a schema from being read at all.
fn unreadable(schema: &Value) -> Option<String> {
    for name in
        ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"]
    {
        if schema.get(name).is_some() {
            let shown = name.trim_start_matches(|letter| letter == '$' && name == "$schema");
            return Some(format!("OpenAPIV3Schema '{shown}' is not supported"));
        }
    }
    if schema["items"].is_array() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned(),
        );
    }
    below(schema).into_iter().find_map(|(_, one)| unreadable(one))
}

/// All schemas below one, with where they stand.
fn below(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.push((format!("properties[{name}]"), property));
    }
    for name in ["items", "additionalProperties", "not"] {
        if let Some(one) = schema.get(name).filter(|one| one.is_object()) {
            found.push((name.to_owned(), one));
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, one) in schema[name].as_array().into_iter().flatten().enumerate() {
            found.push((format!("{name}[{index}]"), one));
        }
    }
    found
}

/// Defaults have to be what their schema wants.
fn defaults(schema: &Schema, root: bool, in_metadata: bool, path: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = &schema.default {
        let at = format!("{path}.default");
        let typed = Schema { embedded: root || schema.embedded, ..schema.clone() };
        embedded::check(default, &typed, &at, causes);
        if !in_metadata && !is_pruned(default, &typed) {
            causes.push(Cause::invalid(at.clone(), default.clone(), "must not have unknown fields"));
        }
        let wrong = values::check(schema, default, None, &at);
        if wrong.is_empty() {
            let (broken, _) = rules::check(schema, default, None);
            causes.extend(broken.into_iter().map(|cause| cause.within(&at)));
        }
        causes.extend(wrong);
    }
    if let Some(items) = &schema.items {
        defaults(items, false, in_metadata, &format!("{path}.items"), causes);
    }
    for (name, property) in &schema.properties {
        let own = (root || schema.embedded) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        defaults(property, false, in_metadata || own, &format!("{path}.properties[{name}]"), causes);
    }
}

fn node(schema: &Value, place: &Place, found: &mut Found) {
    let before = found.schema.len();
    keywords(schema, place, &mut found.schema);
    let limits = place.limits.below(schema);
    for (name, one) in below(schema) {
        let mut next = Place { limits, ..place.below(&name) };
        next.nested |= matches!(name.split('[').next(), Some("allOf" | "anyOf" | "oneOf" | "not"));
        match name.as_str() {
            "items" if schema["x-kubernetes-list-type"] != "map" => {
                next.no_old = place.no_old.clone().or(Some(place.path.clone()));
            }
            "additionalProperties" if place.in_metadata => {
                next.no_default = Some(" inside additionalProperties applying to object metadata".to_owned());
            }
            _ => {}
        }
        if let Some(property) = name.strip_prefix("properties[").map(|name| name.trim_end_matches(']')) {
            let typed = place.root || schema["x-kubernetes-embedded-resource"] == true;
            if typed && matches!(property, "metadata" | "kind" | "apiVersion") {
                next.in_metadata = true;
                if place.root {
                    next.no_default = Some(format!(" in top-level {property}"));
                }
            }
        }
        node(one, &next, found);
    }
    lists(schema, &place.path, &mut found.schema);
    rule_texts(schema, &place.path, &mut found.schema);
    if found.schema.len() == before && !place.nested {
        let rules = Rules { path: &place.path, no_old: place.no_old.as_deref(), limits: place.limits };
        rule_programs(schema, &rules, &mut found.spent, &mut found.rules);
    }
}

fn keywords(schema: &Value, place: &Place, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{}.{name}", place.path);
    let form = text(schema, &["type"]);
    if !form.is_empty() && !TYPES.contains(&form) {
        causes.push(Cause::unsupported(at("type"), form, TYPES));
    }
    if schema.get("default").is_some_and(|default| !default.is_null())
        && let Some(why) = &place.no_default
    {
        causes.push(Cause::forbidden(at("default"), &format!("must not be set{why}")));
    }
    for name in UNSUPPORTED {
        if schema.get(*name).is_some() {
            causes.push(Cause::forbidden(at(name), &format!("{name} is not supported")));
        }
    }
    if form == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(at("type"), why));
    }
    if schema["items"].is_array() {
        causes.push(Cause::forbidden(at("items"), "items must be a schema object and not an array"));
    }
    if place.in_metadata && schema["x-kubernetes-embedded-resource"] == true {
        let why = "must not be used inside of resource meta";
        causes.push(Cause::forbidden(at("x-kubernetes-embedded-resource"), why));
    }
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(at("uniqueItems"), why));
    }
    let exclusive = schema.get("additionalProperties").is_some_and(|additional| *additional != json!(true));
    if exclusive && schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        let why = "additionalProperties and properties are mutual exclusive";
        causes.push(Cause::forbidden(at("additionalProperties"), why));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let why = "must be true or undefined";
        causes.push(Cause::invalid(at("x-kubernetes-preserve-unknown-fields"), false, why));
    }
    for (name, form_wanted, known) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(given) = schema.get(name).and_then(Value::as_str) else { continue };
        let why = format!("must be {form_wanted} if {name} is specified");
        match form {
            "" => causes.push(Cause::required(at("type"), &why)),
            _ if form != form_wanted => causes.push(Cause::invalid(at("type"), form, &why)),
            _ => {}
        }
        if !known.contains(&given) {
            causes.push(Cause::unsupported(at(name), given, known));
        }
    }
}
