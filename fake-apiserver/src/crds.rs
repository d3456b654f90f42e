//! Decides what custom resources are, from their definitions: which kinds are served, what their objects look like
//! and which are refused. Definitions are accepted and served at once with the write, where the real server's
//! controllers take a moment; conversion by webhook is not done, and rules are evaluated as far as `rules` says.
//! Never holds an object: the store does. Answers to `k8s.io/apiextensions-apiserver`.

mod definition;
mod embedded;
mod extensions;
mod formats;
mod lists;
mod names;
mod objects;
mod openapi;
mod program;
mod prune;
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
pub(crate) use scale::scale;
pub(crate) use serve::{forbids_create, on_delete, removed, serve, written};
pub(crate) use strict::{check_patched, field_warnings, judges};

use serde_json::Value;

use crate::answer::Answer;
use crate::kinds::{Kind, Kinds};
use crate::routes::Target;
use crate::status::{Cause, Status};
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
pub(crate) fn prepare(kind: &Kind, value: &mut Value) -> Result<bool, String> {
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

/// What is wrong with a new object, besides its metadata.
pub(crate) fn check_create(kind: &Kind, value: &Value) -> Vec<Cause> {
    if is_definition(kind) {
        return definition::check_create(value);
    }
    kind.definition.as_ref().map_or_else(Vec::new, |version| objects::check_create(version, value))
}

/// What is wrong with the next version of an object, besides its metadata.
pub(crate) fn check_update(target: &Target, old: &Value, value: &Value) -> Vec<Cause> {
    let status_only = target.subresource == "status";
    if is_definition(&target.kind) {
        return definition::check_update(old, value, status_only);
    }
    let version = target.kind.definition.as_ref();
    version.map_or_else(Vec::new, |version| objects::check_update(version, old, value, status_only))
}

/// What there is to warn of in an object that was stored.
pub(crate) fn warnings(kind: &Kind, old: Option<&Value>, value: &Value) -> Vec<String> {
    if is_definition(kind) {
        return definition::format_warnings(old, value);
    }
    kind.definition.as_ref().map_or_else(Vec::new, |_| objects::finalizer_warnings(old, value))
}

/// The answer where nothing is served: in a group that is not the server's own, that of a plain web server.
pub(crate) fn nothing_here(kinds: &Kinds, path: &str, refusal: Box<Status>) -> Answer {
    let mut steps = path.split('/').filter(|step| !step.is_empty());
    let group = (steps.next() == Some("apis")).then(|| steps.next()).flatten();
    let foreign = group.is_some_and(|group| !kinds.is_built_in(group));
    if !foreign || refusal.code != 404 {
        return refusal.into();
    }
    let rest: Vec<&str> = steps.collect();
    let named = match rest[..] {
        [version, "namespaces", _, plural, name, _] | [version, plural, name, _] => {
            Some((version, plural, name))
        }
        _ => None,
    };
    if let (Some(group), Some((version, plural, name))) = (group, named)
        && kinds
            .by_plural(group, version, plural)
            .is_some_and(|index| kinds.get(index).namespaced == rest.contains(&"namespaces"))
    {
        // The object may be there; what was asked of it is not.
        return Status::not_found(group, plural, name).into();
    }
    Answer::text(404, "404 page not found\n")
}
