//! Decides where a custom resource has its number of replicas, by the paths that its definition names, and what is wrong with
//! it there. Never decides who may write it. Answers to `scaleFromCustomResource` of
//! `k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`.

use serde_json::{Value, json};

use super::version::{Scale, Version};
use crate::kinds::Kind;
use crate::object::as_map_mut;
use crate::status::{Cause, Status};

/// What stands for a number that was never set.
pub(crate) const UNSET: i64 = i32::MIN as i64;

/// The number at a path such as `.spec.replicas`; an error when something else is there.
fn number(value: &Value, path: &str) -> std::result::Result<Option<i64>, String> {
    let found = at(value, path)?;
    match found {
        None => Ok(None),
        Some(found) => found.as_i64().map(Some).ok_or_else(|| accessor_error(path, found, "int64")),
    }
}

fn at<'a>(value: &'a Value, path: &str) -> std::result::Result<Option<&'a Value>, String> {
    let mut value = value;
    for step in path.trim_start_matches('.').split('.') {
        if !value.is_object() {
            return Err(accessor_error(path, value, "map[string]interface{}"));
        }
        match value.get(step) {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn accessor_error(path: &str, found: &Value, wanted: &str) -> String {
    let (shown, form) = match found {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(_) => (found.to_string(), "bool"),
        Value::Number(number) if number.is_f64() => (found.to_string(), "float64"),
        Value::Number(_) => (found.to_string(), "int64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (found.to_string(), "[]interface {}"),
        Value::Object(_) => (found.to_string(), "map[string]interface {}"),
    };
    format!(
        ".{} accessor error: {shown} is of the type {form}, expected {wanted}",
        path.trim_start_matches('.')
    )
}

/// What is wrong with the numbers of an object that can be scaled.
pub(crate) fn check(version: &Version, value: &Value, with_spec: bool) -> Vec<Cause> {
    let Some(scale) = &version.scale else { return Vec::new() };
    let mut causes = Vec::new();
    for path in with_spec.then_some(&scale.spec).into_iter().chain([&scale.status]) {
        match number(value, path) {
            Err(why) => causes.push(Cause::invalid(path.as_str(), 0, &why)),
            Ok(Some(count)) if count < 0 => {
                causes.push(Cause::invalid(path.as_str(), count, "should be a non-negative integer"));
            }
            Ok(Some(count)) if count > i64::from(i32::MAX) => {
                let why = format!("should be less than or equal to {}", i32::MAX);
                causes.push(Cause::invalid(path.as_str(), count, &why));
            }
            Ok(_) => {}
        }
    }
    if !scale.selector.is_empty() {
        let wrong = match at(value, &scale.selector) {
            Err(why) => Some(why),
            Ok(Some(found)) if !found.is_string() => Some(accessor_error(&scale.selector, found, "string")),
            Ok(_) => None,
        };
        causes.extend(wrong.map(|why| Cause::invalid(scale.selector.as_str(), "", &why)));
    }
    causes
}

/// The number of replicas that an object of a kind asks for, if it asks, and the status of its scale.
///
/// # Errors
/// When something else is where the numbers should be.
pub(crate) fn scale_of(kind: &Kind, value: &Value) -> std::result::Result<(Option<i64>, Value), String> {
    let Some(scale) = scale(kind) else { return Ok((None, json!({"replicas": 0}))) };
    let replicas = number(value, &scale.spec)?;
    let mut status = json!({"replicas": number(value, &scale.status)?.unwrap_or(0)});
    if !scale.selector.is_empty()
        && let Some(selector) =
            at(value, &scale.selector)?.and_then(Value::as_str).filter(|one| !one.is_empty())
    {
        status["selector"] = selector.into();
    }
    Ok((replicas, status))
}

fn scale(kind: &Kind) -> Option<&Scale> {
    kind.definition.as_ref()?.scale.as_ref()
}

fn path_in_words(kind: &Kind) -> &str {
    scale(kind).map_or("", |scale| scale.spec.as_str())
}

/// The refusal to show the scale of an object that has no number.
pub(crate) fn unset_scale(kind: &Kind) -> Box<Status> {
    let why = format!("the spec replicas field \"{}\" does not exist", path_in_words(kind));
    let mut refusal = Status::new(500, "InternalError", format!("Internal error occurred: {why}"));
    refusal.details = Some(json!({"causes": [{"message": why}]}));
    Box::new(refusal)
}

/// The refusal of a scale that leaves the number as it is, where there is none.
pub(crate) fn empty_scale(kind: &Kind) -> Box<Status> {
    Status::bad_request(format!("the spec replicas field \"{}\" cannot be empty", path_in_words(kind)))
}

/// Writes the number where a kind has it.
pub(crate) fn set_replicas(kind: &Kind, value: &mut Value, replicas: Value) {
    if let Some(scale) = scale(kind) {
        set_number(value, &scale.spec, replicas);
    }
}

fn set_number(value: &mut Value, path: &str, replicas: Value) {
    let mut steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let Some(last) = steps.pop() else { return };
    let mut holder = value;
    for step in steps {
        holder = as_map_mut(holder).entry(step).or_insert_with(|| json!({}));
    }
    as_map_mut(holder).insert(last.to_owned(), replicas);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_path() {
        let value = json!({"spec": {"size": 3, "odd": "x"}});
        assert_eq!(number(&value, ".spec.size"), Ok(Some(3)));
        assert_eq!(number(&value, ".spec.none"), Ok(None));
        let why = ".spec.odd accessor error: x is of the type string, expected int64";
        assert_eq!(number(&value, ".spec.odd"), Err(why.to_owned()));
        let mut value = json!({});
        set_number(&mut value, ".spec.a.b", json!(4));
        assert_eq!(value, json!({"spec": {"a": {"b": 4}}}));
    }
}
