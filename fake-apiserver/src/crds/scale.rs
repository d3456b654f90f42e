//! Decides how the number of replicas of a custom resource is read and written through `/scale`, by the paths
//! that its definition names. Never changes anything else. Answers to the `ScaleREST` of
//! `k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`.

use serde_json::{Value, json};

use super::version::{Scale, Version};
use crate::answer::Answer;
use crate::object::{Object, as_map_mut, metadata_mut, text};
use crate::patch::Patch;
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::verbs::fields::Fields;
use crate::verbs::options::WriteOptions;
use crate::verbs::update;

/// What stands for a number that was never set.
const UNSET: i64 = i32::MIN as i64;

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

/// The scale of an object, and whether its number was ever set.
fn shown(scale: &Scale, value: &Value) -> std::result::Result<(Value, bool), String> {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(one) = value["metadata"].get(field) {
            metadata[field] = one.clone();
        }
    }
    let replicas = number(value, &scale.spec)?;
    let mut status = json!({"replicas": number(value, &scale.status)?.unwrap_or(0)});
    if !scale.selector.is_empty()
        && let Some(selector) =
            at(value, &scale.selector)?.and_then(Value::as_str).filter(|one| !one.is_empty())
    {
        status["selector"] = selector.into();
    }
    let mut spec = json!({});
    if let Some(replicas) = replicas.filter(|replicas| *replicas != 0) {
        spec["replicas"] = replicas.into();
    }
    let shown = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((shown, replicas.is_some()))
}

pub(crate) fn scale(
    server: &Server,
    request: &Request,
    target: &Target,
    version: &Version,
) -> Result<Answer> {
    let kind = &target.kind;
    let Some(scale) = &version.scale else { return Err(Status::no_such_resource()) };
    let mut store = server.lock();
    let current = store.get(target.index, &target.key()).map(Object::apart);
    let current = current.ok_or_else(|| Status::not_found(&kind.group, &kind.plural, &target.name))?;
    let value = kind.view(&current.value).unwrap_or_else(|| Value::clone(&current.value));
    let unreadable = |why: String| Status::untranslated(why);
    let (mut before, set) = shown(scale, &value).map_err(unreadable)?;
    if matches!(request.method.as_str(), "GET" | "HEAD") {
        if set {
            return Ok(Answer::json(200, &before));
        }
        let why =
            format!("Internal error occurred: the spec replicas field \"{}\" does not exist", scale.spec);
        let mut refusal = Status::new(500, "InternalError", why);
        refusal.details = Some(
            json!({"causes": [{"message": format!("the spec replicas field \"{}\" does not exist", scale.spec)}]}),
        );
        return Err(Box::new(refusal));
    }
    if !set {
        before["spec"]["replicas"] = UNSET.into();
    }
    let wanted = if request.method == "PUT" {
        request.json("Scale")?
    } else {
        Patch::parse(&request.content_type, &request.body)?.apply(kind, &before)?
    };
    let options = if request.method == "PUT" { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::read(request, options)?;
    let replicas = match &wanted["spec"]["replicas"] {
        Value::Null => 0,
        given => given.as_i64().ok_or_else(|| misread(request, &wanted))?,
    };
    if replicas == UNSET {
        let why = format!("the spec replicas field \"{}\" cannot be empty", scale.spec);
        return Err(Status::bad_request(why));
    }
    let mut next = value;
    set_number(&mut next, &scale.spec, replicas);
    // One that says nothing of versions goes on from the last.
    let given = Some(text(&wanted, &["metadata", "resourceVersion"])).filter(|given| !given.is_empty());
    if let Some(given) = given {
        metadata_mut(&mut next).insert("resourceVersion".into(), given.into());
    }
    // Nobody gets the number: a real server writes it past those who count owners.
    let fields = Fields::Settled(current.value["metadata"].get("managedFields").cloned());
    let main = Target { subresource: String::new(), ..target.clone() };
    let object = update::write(server, &mut store, &main, &current, next, fields, options.dry)?;
    server.announce(&store);
    let stored = kind.view(&object.value).unwrap_or_else(|| Value::clone(&object.value));
    let (after, _) = shown(scale, &stored).map_err(unreadable)?;
    Ok(Answer::json(200, &after))
}

/// The refusal of a scale whose number is none.
fn misread(request: &Request, wanted: &Value) -> Box<Status> {
    let why = "json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32";
    if request.method == "PUT" {
        let message = format!("Scale in version \"v1\" cannot be handled as a Scale: {why}");
        return Status::bad_request(message);
    }
    Status::invalid("", "", "", &[Cause::invalid("patch", wanted.to_string(), why)])
}

fn set_number(value: &mut Value, path: &str, replicas: i64) {
    let mut steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let Some(last) = steps.pop() else { return };
    let mut holder = value;
    for step in steps {
        holder = as_map_mut(holder).entry(step).or_insert_with(|| json!({}));
    }
    as_map_mut(holder).insert(last.to_owned(), replicas.into());
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
        set_number(&mut value, ".spec.a.b", 4);
        assert_eq!(value, json!({"spec": {"a": {"b": 4}}}));
    }
}
