//! Decides what is said of fields that a custom resource may not have, or has twice: nothing, a warning or a refusal, as
//! the request asks. Never changes the object. Answers to the strict decoders of
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go` and `sigs.k8s.io/json`.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::definition::is_definition;
use super::objects;
use super::shape::{DEFINITION, Shape, settle};
use crate::kinds::Kind;
use crate::object::text;
use crate::request::Request;
use crate::status::{Cause, Result, Status};

/// What the request wants to hear of unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Validation {
    Ignore,
    Warn,
    Strict,
}

impl Validation {
    fn of(request: &Request) -> Self {
        match request.query.get("fieldValidation") {
            "Ignore" => Self::Ignore,
            "Strict" => Self::Strict,
            _ => Self::Warn,
        }
    }
}

/// Whether this module judges the fields of a kind.
pub(crate) fn judges(kind: &Kind) -> bool {
    kind.definition.is_some() || is_definition(kind)
}

/// Refuses an object that is not of a kind; unlike those of typed kinds, it has to name it.
pub(crate) fn check_type(kind: &Kind, value: &Value) -> Result<()> {
    let refuse = |why: String| {
        Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why}",
            kind.kind
        )))
    };
    for name in ["kind", "apiVersion"] {
        if value.get(name).is_some_and(|one| !one.is_string() && !one.is_null()) {
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal into Go struct field .{name} of type string"
            );
            return refuse(why);
        }
    }
    let (given, version) = (text(value, &["kind"]), text(value, &["apiVersion"]));
    if given.is_empty() && value.is_object() {
        return refuse(format!("Object 'Kind' is missing in '{value}'"));
    }
    let expected = kind.api_version();
    if value.is_object() && version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if value.is_object() && given != kind.kind {
        let cause = Cause::invalid("kind", given, &format!("must be {}", kind.kind));
        return Err(Status::invalid(&kind.group, given, text(value, &["metadata", "name"]), &[cause]));
    }
    let mut copy = value.clone();
    let prepared = kind.definition.as_ref().map(|version| objects::prepare(version, &mut copy));
    if let Some(Err(why)) = prepared {
        let (name, version) = (&kind.kind, &kind.version);
        return Err(Status::bad_request(format!(
            "{name} in version \"{version}\" cannot be handled as a {name}: {why}"
        )));
    }
    Ok(())
}

/// The fields of a value that its kind does not have.
fn unknown(kind: &Kind, value: &Value) -> Vec<String> {
    let mut value = value.clone();
    if let Some(version) = &kind.definition {
        return objects::prepare(version, &mut value).unwrap_or_default();
    }
    let mut unknown = Vec::new();
    // One that is of another type is refused later.
    let _ = settle(&Shape::Fields(DEFINITION), &mut value, "", &mut unknown);
    unknown.sort();
    unknown
}

/// What is to be warned of in the body of a request.
///
/// # Errors
/// When there is something, and the request is strict.
pub(crate) fn field_warnings(kind: &Kind, request: &Request) -> Result<Vec<String>> {
    let validation = Validation::of(request);
    if validation == Validation::Ignore || !judges(kind) {
        return Ok(Vec::new());
    }
    let Ok(value) = serde_json::from_slice::<Value>(&request.body) else { return Ok(Vec::new()) };
    let mut found = duplicates(&request.body);
    found.extend(unknown(kind, &value).into_iter().map(|field| format!("unknown field \"{field}\"")));
    if validation == Validation::Strict && !found.is_empty() {
        let (name, version) = (&kind.kind, &kind.version);
        let why = format!("strict decoding error: {}", found.join(", "));
        return Err(Status::bad_request(format!(
            "{name} in version \"{version}\" cannot be handled as a {name}: {why}"
        )));
    }
    Ok(found)
}

/// What is to be warned of in a patched object.
///
/// # Errors
/// When there is something, and the request is strict.
pub(crate) fn check_patched(kind: &Kind, request: &Request, patched: &Value) -> Result<Vec<String>> {
    let validation = Validation::of(request);
    if validation == Validation::Ignore || !judges(kind) {
        return Ok(Vec::new());
    }
    let found: Vec<String> =
        unknown(kind, patched).into_iter().map(|field| format!("unknown field \"{field}\"")).collect();
    if validation == Validation::Strict && !found.is_empty() {
        let why = format!("strict decoding error: {}", found.join(", "));
        let cause = Cause::invalid("patch", patched.to_string(), &why);
        return Err(Status::invalid("", "", "", &[cause]));
    }
    Ok(found)
}

/// The fields that a text of JSON has twice, in the order of the text.
fn duplicates(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    // The text was read once already.
    let _ = Walk { path: String::new(), found: &mut found }.deserialize(&mut reader);
    found
}

/// Where the reader stands.
struct Walk<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = format!("{}[{index}]", self.path);
            if items.next_element_seed(Walk { path, found: &mut *self.found })?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = super::prune::child(&self.path, &name);
            if !seen.insert(name) {
                self.found.push(format!("duplicate field \"{path}\""));
            }
            fields.next_value_seed(Walk { path, found: &mut *self.found })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_there_twice_are_named() {
        let body = br#"{"a": 1, "b": {"c": [{"d": 1, "d": 2}], "c": null}, "a": 2}"#;
        assert_eq!(
            duplicates(body),
            ["duplicate field \"b.c[0].d\"", "duplicate field \"b.c\"", "duplicate field \"a\"",]
        );
    }
}
