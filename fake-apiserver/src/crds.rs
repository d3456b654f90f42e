//! Decides what custom resources are, from their definitions: which kinds are served, what their objects look like
//! and which are refused. Definitions are accepted and served at once with the write, where the real server's
//! controllers take a moment; conversion by webhook is not done, and rules are evaluated as far as `rules` says.
//! Never holds an object: the store does. Answers to `k8s.io/apiextensions-apiserver`.

pub(crate) mod budget;
mod checker;
mod cost;
mod definition;
mod embedded;
mod extensions;
mod formats;
mod libraries;
mod lists;
mod names;
mod numbers;
mod objects;
mod openapi;
mod parts;
mod program;
mod prune;
mod room;
mod rules;
mod scale;
mod schema;
mod serve;
mod shape;
mod spec;
mod strict;
mod structural;
mod values;
mod version;

use std::sync::Arc;

pub(crate) use definition::is_definition;
pub(crate) use scale::{UNSET, empty_scale, scale_of, set_replicas, unset_scale};
pub(crate) use serve::{forbids_create, on_delete, removed, serve, written};
pub(crate) use strict::{check_patched, check_type, field_warnings, judges};

use serde_json::Value;

use crate::kinds::{Kind, Kinds};
use crate::request::Request;
use crate::routes::Target;
use crate::status::{Cause, Result, Status};
use version::Version;

/// The version of a definition from which a kind comes.
#[derive(Clone, Debug)]
pub(crate) struct Custom(Arc<Version>);

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Custom {}

impl std::ops::Deref for Custom {
    type Target = Version;

    fn deref(&self) -> &Version {
        &self.0
    }
}

/// Brings a custom resource, or a definition, into its form. Says whether it was one.
///
/// # Errors
/// When a field is of another type.
pub(crate) fn prepare(kind: &Kind, value: &mut Value) -> std::result::Result<bool, String> {
    if is_definition(kind) {
        return definition::prepare(value).map(|()| true);
    }
    let Some(version) = &kind.definition else { return Ok(false) };
    objects::prepare(version, value).map(|_| true)
}

/// The status of a new object: a definition has its own, a custom resource none if that is written alone.
pub(crate) fn reset_status(kind: &Kind, value: &mut Value) {
    if is_definition(kind) {
        definition::reset_status(value);
    } else if kind.definition.as_ref().is_some_and(|version| version.status)
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("status");
    }
}

/// What the next version of an object remembers.
pub(crate) fn prepare_update(target: &Target, value: &mut Value) {
    if is_definition(&target.kind) && target.subresource.is_empty() {
        definition::remember_stored(value);
    }
}

/// What is wrong with a new object, besides its metadata, which may be so wrong that rules can't stand it.
pub(crate) fn check_create(kind: &Kind, value: &Value, blocked: bool) -> Vec<Cause> {
    if is_definition(kind) {
        return definition::check_create(value);
    }
    kind.definition.as_ref().map_or_else(Vec::new, |version| objects::check_create(version, value, blocked))
}

/// What is wrong with the next version of an object, besides its metadata, which may be so wrong that rules can't stand it.
pub(crate) fn check_update(target: &Target, old: &Value, value: &Value, blocked: bool) -> Vec<Cause> {
    let status_only = target.subresource == "status";
    if is_definition(&target.kind) {
        return definition::check_update(old, value, status_only);
    }
    let version = target.kind.definition.as_ref();
    version.map_or_else(Vec::new, |version| objects::check_update(version, old, value, status_only, blocked))
}

/// What there is to warn of in an object that was stored.
pub(crate) fn warnings(kind: &Kind, old: Option<&Value>, value: &Value) -> Vec<String> {
    if is_definition(kind) {
        return definition::format_warnings(old, value);
    }
    kind.definition.as_ref().map_or_else(Vec::new, |_| objects::finalizer_warnings(old, value))
}

/// The refusal where nothing is served; in a group that is not the server's own there is none, but the page of a plain web server.
pub(crate) fn refusal_of(kinds: &Kinds, path: &str) -> Option<Box<Status>> {
    let mut steps = path.split('/').filter(|step| !step.is_empty());
    let group = (steps.next() == Some("apis")).then(|| steps.next()).flatten();
    let Some(group) = group.filter(|group| !kinds.is_built_in(group)) else {
        return Some(Status::no_such_resource());
    };
    let rest: Vec<&str> = steps.collect();
    let ([version, "namespaces", _, plural, name, _] | [version, plural, name, _]) = rest[..] else {
        return None;
    };
    // The object may be there; what was asked of it is not.
    let index = kinds.by_plural(group, version, plural)?;
    let fits = kinds.get(index).namespaced == rest.contains(&"namespaces");
    fits.then(|| Status::not_found(group, plural, name))
}

/// What is wrong with the fields of a refused object, which is said of it too.
pub(crate) fn warnings_of_refused(request: &Request, target: &Target, refused: bool) -> Vec<String> {
    let writes = target.subresource != "scale" && matches!(request.method.as_str(), "POST" | "PUT");
    if target.kind.definition.is_none() || !refused || !writes {
        return Vec::new();
    }
    // A strict request was refused for them, and says so.
    field_warnings(&target.kind, request).unwrap_or_default()
}

/// What nobody may ask of a custom resource, in the words that it has for that; those of typed kinds are other ones.
///
/// # Errors
/// When the request is one of those.
pub(crate) fn check_request(request: &Request, target: &Target) -> Result<()> {
    const PATCHES: &[&str] =
        &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
    let kind = &target.kind;
    let Some(version) = &kind.definition else { return Ok(()) };
    if let Some(why) = version.unconverted() {
        let what = format!("{}, Kind={}", kind.api_version(), kind.kind);
        return Err(Status::untranslated(format!("conversion webhook for {what} failed: {why}")));
    }
    match (request.method.as_str(), target.name.is_empty(), target.subresource.as_str()) {
        ("PATCH" | "PUT", true, _) => Err(Status::bad_request("name must be provided")),
        ("PATCH", ..) if !PATCHES.contains(&request.content_type.as_str()) => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                PATCHES.join(", ")
            );
            Err(Box::new(Status::new(415, "UnsupportedMediaType", message)))
        }
        ("POST" | "DELETE", _, subresource) if !subresource.is_empty() => {
            let verb = if request.method == "POST" { "create" } else { "delete" };
            Err(Status::not_supported(&kind.group, &kind.plural, verb))
        }
        _ => Ok(()),
    }
}

/// Whether a custom resource is written where it is not: of all namespaces it can only be read.
pub(crate) fn is_nowhere(request: &Request, target: &Target) -> bool {
    let kind = &target.kind;
    let writes = !matches!(request.method.as_str(), "GET" | "HEAD");
    writes && kind.definition.is_some() && kind.namespaced && target.namespace.is_empty()
}
