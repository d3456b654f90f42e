//! Decides what becomes of a custom resource that comes in, and whether it may be stored: unknown fields go, missing ones
//! get their default, and then its schema, its scale, its lists and its rules have to be kept. Never looks at
//! other objects. Answers to `k8s.io/apiextensions-apiserver/pkg/registry/customresource`.

use serde_json::Value;

use super::prune::{drop_nulls, fill, prune};
use super::schema::{Schema, settle_numbers};
use super::version::Version;
use super::{embedded, lists, rules, scale, values};
use crate::status::Cause;

/// Words with which the real server says that it stopped early.
const STOPPED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Brings an object into the form of its schema; says which fields it dropped.
///
/// # Errors
/// When a type, or metadata, is of another type than every object has.
pub(crate) fn prepare(version: &Version, value: &mut Value) -> Result<Vec<String>, String> {
    settle_numbers(value);
    let mut unknown = Vec::new();
    embedded::settle_metadata(value, "", &mut unknown)?;
    unknown.extend(prune(value, &version.schema));
    drop_nulls(value, Some(&version.schema));
    let mut below = Vec::new();
    for (name, schema) in &version.schema.properties {
        if let Some(field) = value.get_mut(name).filter(|_| name != "metadata") {
            embedded::settle_embedded(field, schema, name, &mut below)?;
        }
    }
    below.sort();
    unknown.extend(below);
    fill(value, &version.schema);
    Ok(unknown)
}

/// What is wrong with a new object, besides its metadata.
pub(crate) fn check_create(version: &Version, value: &Value, blocked: bool) -> Vec<Cause> {
    let mut causes = values::check(&version.schema, value, None, "");
    causes.extend(scale::check(version, value, true));
    embedded::check(value, &version.schema, "", &mut causes);
    causes.extend(lists::duplicates(&version.schema, value));
    complete(&version.schema, value, None, causes, blocked)
}

/// What is wrong with the next version of an object, besides its metadata.
pub(crate) fn check_update(
    version: &Version,
    old: &Value,
    value: &Value,
    status_only: bool,
    blocked: bool,
) -> Vec<Cause> {
    let schema = &version.schema;
    let mut causes = if status_only {
        let of = schema.properties.get("status");
        let status = value.get("status").zip(of);
        status.map_or_else(Vec::new, |(status, of)| values::check(of, status, old.get("status"), "status"))
    } else {
        values::check(schema, value, Some(old), "")
    };
    causes.extend(scale::check(version, value, !status_only));
    if !status_only {
        embedded::check(value, schema, "", &mut causes);
    }
    if lists::duplicates(schema, old).is_empty() {
        causes.extend(lists::duplicates(schema, value));
    }
    complete(schema, value, Some(old), causes, blocked)
}

/// Adds what the rules say, unless something is wrong that rules can't stand.
fn complete(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    mut causes: Vec<Cause>,
    blocked: bool,
) -> Vec<Cause> {
    if !has_rules(schema) {
        return causes;
    }
    if blocked || causes.iter().any(Cause::blocks_rules) {
        causes.push(Cause::invalid("<nil>", Value::Null, STOPPED));
        return causes;
    }
    let (broken, _) = rules::check(schema, value, old);
    causes.extend(broken);
    causes
}

fn has_rules(schema: &Schema) -> bool {
    !schema.rules.is_empty()
        || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || schema.additional_schema().is_some_and(has_rules)
}

/// What is warned of besides: finalizers without a domain, which custom resources may have.
pub(crate) fn finalizer_warnings(old: Option<&Value>, value: &Value) -> Vec<String> {
    let of = |value: &Value| -> Vec<String> {
        let finalizers = value["metadata"]["finalizers"].as_array().into_iter().flatten();
        finalizers.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let before = old.map(of).unwrap_or_default();
    let mut added: Vec<String> = of(value).into_iter().filter(|one| !before.contains(one)).collect();
    added.sort();
    added.dedup();
    let standard = ["orphan", "foregroundDeletion", "kubernetes"];
    let odd = added.into_iter().filter(|one| !one.contains('/') && !standard.contains(&one.as_str()));
    odd.map(|one| {
        let path = if one.contains('.') { " including a path (/)" } else { "" };
        format!("metadata.finalizers: \"{one}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers")
    })
    .collect()
}
