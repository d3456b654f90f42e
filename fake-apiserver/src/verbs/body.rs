//! Decides whether what a client sends is an object of the kind, and what is said of fields that the kind does
//! not have: nothing, a warning, or a refusal. Never judges values of the right type. Answers to the decoding
//! half of `k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch}.go`.

use serde_json::{Map, Value};

use crate::crds;
use crate::decode::{self, Decoded, yaml};
use crate::kinds::Kind;
use crate::request::Request;
use crate::schema::{self, Link};
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::verbs::options::{FieldValidation, WriteOptions};
use crate::verbs::typed;

/// The members of an operation of a JSON patch.
const OPERATION: [&str; 4] = ["op", "path", "from", "value"];

/// The object in a request's body, in the form in which it is stored, and what there is to warn of.
pub(crate) fn object(
    server: &Server,
    request: &Request,
    kind: &Kind,
    options: &WriteOptions,
) -> Result<(Value, Vec<String>)> {
    let Some(decoded) = decoded(server, request, kind, options)? else {
        let value = typed(server, kind, request.json(&kind.kind)?)?;
        return Ok((kind.kept(value), crds::field_warnings(kind, request)?));
    };
    let value = typed(server, kind, decoded.value)?;
    if let Some(mistake) = decoded.mistake {
        return Err(misfit(kind, &mistake));
    }
    let warnings = judge(decoded.strict, options.validation).map_err(|why| misfit(kind, &why))?;
    Ok((kind.kept(value), warnings))
}

fn misfit(kind: &Kind, why: &str) -> Box<Status> {
    Status::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        kind.kind, kind.version, kind.kind
    ))
}

/// Refuses an object that comes by no request and has a value of the wrong type: no client could read it, nor any list that
/// it is in.
pub(crate) fn check_types(server: &Server, kind: &Kind, value: &Value) -> Result<()> {
    if !reads(server, kind) || kind.is_view() {
        return Ok(());
    }
    let decoded = decode::value(schema::of_kind(kind), value);
    let mistake = decoded.map_or_else(|error| Some(error.to_string()), |decoded| decoded.mistake);
    mistake.map_or(Ok(()), |mistake| Err(misfit(kind, &mistake)))
}

/// The body by the schema of its kind; nothing when it is no object, or one that has no schema here.
fn decoded(
    server: &Server,
    request: &Request,
    kind: &Kind,
    options: &WriteOptions,
) -> Result<Option<Decoded>> {
    if !reads(server, kind) {
        return Ok(None);
    }
    let schema = schema::of_kind(kind);
    let decoded = if matches!(request.content_type.as_str(), "" | "application/json") {
        decode::json(schema, &request.body).ok()
    } else {
        decoded_otherwise(request, schema, options)?
    };
    Ok(decoded.map(nothing_is_empty).filter(|decoded| decoded.value.is_object()))
}

/// The same in another format: YAML may say things twice, and the rest is decoded already.
fn decoded_otherwise(request: &Request, schema: &Link, options: &WriteOptions) -> Result<Option<Decoded>> {
    if request.content_type != "application/yaml" {
        return Ok(request.decode()?.ok().and_then(|value| decode::value(schema, &value).ok()));
    }
    let Ok((value, repeated)) = yaml::read(&request.body) else { return Ok(None) };
    let Ok(mut decoded) = decode::value(schema, &value) else { return Ok(None) };
    if options.validation == FieldValidation::Strict && !repeated.is_empty() {
        decoded.strict.insert(0, format!("yaml: unmarshal errors:\n  {}", repeated.join("\n  ")));
    } else {
        decoded.strict.splice(0..0, repeated);
    }
    Ok(Some(decoded))
}

/// An object of which nothing is set may be written as null.
fn nothing_is_empty(mut decoded: Decoded) -> Decoded {
    if decoded.value.is_null() && decoded.mistake.is_none() {
        decoded.value = Value::Object(Map::new());
    }
    decoded
}

/// Whether this module reads objects of a kind: definitions, and what they define, are read elsewhere.
fn reads(server: &Server, kind: &Kind) -> bool {
    !server.is_raw() && !kind.custom && !crds::judges(kind)
}

/// What is said of unknown and repeated fields: warnings, or why the request is refused.
fn judge(strict: Vec<String>, validation: FieldValidation) -> std::result::Result<Vec<String>, String> {
    match validation {
        FieldValidation::Strict if !strict.is_empty() => {
            Err(format!("strict decoding error: {}", strict.join(", ")))
        }
        FieldValidation::Warn => Ok(strict),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// What a patch made, in the form in which it is stored, and what there is to warn of.
pub(crate) fn patched(
    server: &Server,
    request: &Request,
    kind: &Kind,
    value: Value,
    options: &WriteOptions,
) -> Result<(Value, Vec<String>)> {
    let ignores = options.validation == FieldValidation::Ignore;
    let mut strict = if ignores { Vec::new() } else { repeated(&request.body) };
    let refuse =
        |shown: String, why: &str| Status::invalid("", "", "", &[Cause::invalid("patch", shown, why)]);
    let mut value = value;
    if let Some(decoded) = decoded_again(server, kind, &value) {
        let decoded = decoded.map_err(|error| refuse(value.to_string(), &error.to_string()))?;
        if let Some(mistake) = decoded.mistake {
            return Err(refuse(value.to_string(), &mistake));
        }
        strict.extend(decoded.strict);
        value = decoded.value;
    }
    let mut warnings = judge(strict, options.validation).map_err(|why| refuse(value.to_string(), &why))?;
    warnings.extend(crds::check_patched(kind, request, &value)?);
    Ok((kind.kept(value), warnings))
}

/// What applying made, as its kind has it: Go has no null in a map of texts, for one. What is wrong with it is said elsewhere.
pub(crate) fn applied(server: &Server, kind: &Kind, value: Value) -> Value {
    if kind.is_view() {
        return value;
    }
    match decoded_again(server, kind, &value) {
        Some(Ok(decoded)) if decoded.mistake.is_none() => decoded.value,
        _ => value,
    }
}

/// What was made of an object, by the schema of its kind; nothing where that would change nothing, or there is none.
fn decoded_again(
    server: &Server,
    kind: &Kind,
    value: &Value,
) -> Option<std::result::Result<Decoded, serde_json::Error>> {
    let schema = reads(server, kind).then(|| schema::of_kind(kind))?;
    (!decode::is_settled(schema, value)).then(|| decode::value(schema, value))
}

/// What a patch says twice, or what no patch says.
fn repeated(patch: &[u8]) -> Vec<String> {
    let Ok(decoded) = decode::json(&Link::deduced(), patch) else { return Vec::new() };
    let Value::Array(operations) = decoded.value else { return decoded.strict };
    let mut strict = decoded.strict;
    for (place, operation) in operations.iter().enumerate() {
        let nothing = Map::new();
        let members = operation.as_object().unwrap_or(&nothing).keys();
        let unknown = members.filter(|name| !OPERATION.contains(&name.as_str()));
        strict.extend(unknown.map(|name| format!("unknown field \"[{place}].{name}\"")));
    }
    strict.into_iter().map(|one| format!("json patch {one}")).collect()
}
