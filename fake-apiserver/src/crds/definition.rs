//! Decides whether a definition may be stored, and what is filled in for it: names, versions, exactly one of them stored,
//! schemas, subresources, columns, conversion. Conversion by webhook is taken, though nothing here calls one.
//! Never serves what it defines. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/{v1,validation}` and
//! `.../pkg/registry/customresourcedefinition`.

use serde_json::{Value, json};

use super::names::is_true;
use super::shape::{DEFINITION, Shape, settle};
use super::spec::{names_form, spec};
use super::{formats, schema::Schema};
use crate::kinds::Kind;
use crate::object::{at, map_mut, strings, text};
use crate::status::Cause;

const APPROVED: &str = "api-approved.kubernetes.io";

pub(crate) fn is_definition(kind: &Kind) -> bool {
    kind.kind == "CustomResourceDefinition" && kind.group == "apiextensions.k8s.io"
}

/// Brings a definition into its form and fills in what it leaves out.
///
/// # Errors
/// When a field is of another type.
pub(crate) fn prepare(value: &mut Value) -> Result<(), String> {
    settle(&Shape::Fields(DEFINITION), value, "", &mut Vec::new())?;
    let storage = stored_version(value).map(str::to_owned);
    let spec = map_mut(value, "spec");
    let mut names = spec.get("names").cloned().unwrap_or_default();
    let kind = text(&names, &["kind"]).to_owned();
    if !kind.is_empty() && text(&names, &["singular"]).is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if !kind.is_empty() && text(&names, &["listKind"]).is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    spec.insert("names".into(), names);
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service") {
        service.entry("port").or_insert_with(|| 443.into());
    }
    let status = map_mut(value, "status");
    let none = status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if let Some(storage) = storage.filter(|_| none) {
        status.insert("storedVersions".into(), json!([storage]));
    }
    Ok(())
}

/// The version in which objects are stored.
fn stored_version(definition: &Value) -> Option<&str> {
    let mut versions = definition["spec"]["versions"].as_array()?.iter();
    versions.find(|version| version["storage"] == true).map(|version| text(version, &["name"]))
}

/// The status of a new definition.
pub(crate) fn reset_status(value: &mut Value) {
    let stored = stored_version(value).map_or(Value::Null, |name| json!([name]));
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    value["status"] = status;
}

/// Remembers in the status that objects are stored in one more version now.
pub(crate) fn remember_stored(value: &mut Value) {
    let Some(name) = stored_version(value).map(str::to_owned) else { return };
    let stored = map_mut(value, "status").entry("storedVersions").or_insert(Value::Null);
    match stored {
        Value::Array(stored) if stored.contains(&json!(name)) => {}
        Value::Array(stored) => stored.push(name.into()),
        other => *other = json!([name]),
    }
}

/// What is wrong with a new definition.
pub(crate) fn check_create(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(value, &["metadata", "name"]);
    let wanted = format!("{}.{}", text(value, &["spec", "names", "plural"]), text(value, &["spec", "group"]));
    if !name.is_empty() && name != wanted {
        causes.push(Cause::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    spec(&value["spec"], &Value::Null, &mut causes);
    stored_versions(value, &mut causes);
    approval(value, &mut causes);
    if value["spec"]["preserveUnknownFields"] == true {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", true, why));
    }
    causes
}

/// What is wrong with the next version of a definition.
pub(crate) fn check_update(old: &Value, value: &Value, status_only: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    names_form(&value["status"]["acceptedNames"], "status.acceptedNames", &mut causes);
    if status_only {
        return causes;
    }
    spec(&value["spec"], &old["spec"], &mut causes);
    let mut fixed = vec!["group", "names.plural"];
    if is_true(old, "Established") {
        fixed.extend(["scope", "names.kind"]);
    }
    for field in fixed {
        let path: Vec<&str> = std::iter::once("spec").chain(field.split('.')).collect();
        if at(old, &path) != at(value, &path) {
            let given = at(value, &path).cloned().unwrap_or_default();
            causes.push(Cause::invalid(format!("spec.{field}"), given, "field is immutable"));
        }
    }
    stored_versions(value, &mut causes);
    if at(old, &["metadata", "annotations", APPROVED]) != at(value, &["metadata", "annotations", APPROVED]) {
        approval(value, &mut causes);
    }
    if value["spec"]["preserveUnknownFields"] == true && old["spec"]["preserveUnknownFields"] != true {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", true, why));
    }
    causes
}

/// The formats that the schemas ask for and nobody looks at: the server warns of them.
pub(crate) fn format_warnings(old: Option<&Value>, value: &Value) -> Vec<String> {
    let of = |value: &Value| {
        let mut found = Vec::new();
        for version in value["spec"]["versions"].as_array().into_iter().flatten() {
            formats::unknown(&Schema::read(&version["schema"]["openAPIV3Schema"]), &mut found);
        }
        found
    };
    let before = old.map(of).unwrap_or_default();
    let mut warnings: Vec<String> = Vec::new();
    for format in of(value).into_iter().filter(|format| !before.contains(format)) {
        let warning = format!("unrecognized format \"{format}\"");
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

fn stored_versions(value: &Value, causes: &mut Vec<Cause>) {
    let path = "status.storedVersions";
    let stored = strings(value, &["status", "storedVersions"]);
    if stored.is_empty() {
        causes.push(Cause::invalid(path, Value::Null, "must have at least one stored version"));
        return;
    }
    if let Some(storage) = stored_version(value).filter(|storage| !stored.contains(storage)) {
        let why = format!("must have the storage version {storage}");
        causes.push(Cause::invalid(path, stored.clone(), &why));
    }
    let versions = value["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, name) in stored.into_iter().enumerate() {
        if versions.iter().all(|version| text(version, &["name"]) != name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            causes.push(Cause::invalid(format!("{path}[{index}]"), name, &why));
        }
    }
}

/// The groups of Kubernetes itself are for those who were allowed in.
fn approval(value: &Value, causes: &mut Vec<Cause>) {
    let group = text(value, &["spec", "group"]);
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group == *own || group.strip_suffix(own).is_some_and(|rest| rest.ends_with('.')));
    if !protected {
        return;
    }
    let given = text(value, &["metadata", "annotations", APPROVED]);
    let field = format!("metadata.annotations[{APPROVED}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let link = given
        .split_once("://")
        .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/'));
    if given.is_empty() {
        let why = format!("protected groups must have approval annotation \"{APPROVED}\", {see}");
        causes.push(Cause::required(field, &why));
    } else if !given.starts_with("unapproved") && !link {
        let why = format!(
            "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \"unapproved\", {see}"
        );
        causes.push(Cause::invalid(field, given, &why));
    }
}
