//! What can be asked of a resource, one file a verb. Each takes the store's lock once, for as long as it
//! decides and writes, so that every request is one step in the order of revisions. Answers to
//! `k8s.io/apiserver/pkg/endpoints/handlers` and `.../pkg/registry/generic/registry`.

pub(crate) mod addresses;
pub(crate) mod apply;
pub(crate) mod binding;
pub(crate) mod body;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod eviction;
pub(crate) mod fields;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod options;
pub(crate) mod read;
pub(crate) mod scale;
pub(crate) mod strategy;
pub(crate) mod token;
pub(crate) mod update;

use serde_json::Value;

use crate::kinds::Kind;
use crate::object::{metadata_mut, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};

/// What of a body is read first, as the real server calls it.
const TYPE_META: &str = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// How Go calls the form of a value.
pub(crate) fn form_of(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Object(_) => "object",
        Value::Number(_) | Value::Null => "number",
    }
}

/// Whether the request wants to know what would happen, and nothing to happen.
pub(crate) fn dry_run<'a>(values: impl Iterator<Item = &'a str>, options: &str) -> Result<bool> {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        let value = Value::from(values.clone());
        let cause = Cause::unsupported("dryRun", value, &["All"]);
        return Err(Status::invalid("meta.k8s.io", options, "", &[cause]));
    }
    Ok(!values.is_empty())
}

/// Fills in `kind` and `apiVersion` where they are missing, and refuses other ones.
fn typed(server: &Server, kind: &Kind, mut value: Value) -> Result<Value> {
    if kind.definition.is_some() {
        crate::crds::check_type(kind, &value)?;
    }
    let expected = kind.api_version();
    let form = form_of(&value);
    let Some(fields) = value.as_object_mut() else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: json: cannot unmarshal {form} into {TYPE_META}",
            kind.kind
        )));
    };
    let given = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let given_version = given("apiVersion").unwrap_or(&expected);
    let given_kind = given("kind").unwrap_or(&kind.kind);
    if given_version != expected || given_kind != kind.kind {
        let (group, version) = crate::kinds::split_api_version(given_version);
        let known = server.lock().kinds.by_kind(group, version, given_kind).is_some() || given_kind == "List";
        let why = if known {
            let internal = if kind.group.is_empty() { "core" } else { &kind.group };
            format!("converting ({version}.{given_kind}) to ({internal}.{}): unknown conversion", kind.kind)
        } else {
            format!(
                "no kind \"{given_kind}\" is registered for version \"{given_version}\" in scheme \"pkg/runtime/scheme.go:111\""
            )
        };
        return Err(Status::bad_request(format!(
            "{given_kind} in version \"{}\" cannot be handled as a {}: {why}",
            kind.version, kind.kind
        )));
    }
    let (kind, expected) = (Value::from(&*kind.kind), Value::from(expected));
    fields.insert("kind".into(), kind);
    fields.insert("apiVersion".into(), expected);
    Ok(value)
}

/// Puts the object into the namespace of the URL, unless it names another one.
pub(crate) fn settle_namespace(target: &Target, value: &mut Value) -> Result<()> {
    let given = text(value, &["metadata", "namespace"]);
    if !target.kind.namespaced {
        // One that is named anyway is forgotten.
        if !given.is_empty() {
            metadata_mut(value).remove("namespace");
        }
        return Ok(());
    } else if given == target.namespace {
        return Ok(());
    } else if given.is_empty() {
        metadata_mut(value).insert("namespace".into(), target.namespace.as_str().into());
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}
