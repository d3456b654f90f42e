//! Decides what becomes of a configuration that is applied: it makes the object, or is merged into it. Never
//! creates through a subresource. Answers to the `applyPatcher` of
//! `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::apply::{self, Conflict};
use crate::decode::yaml;
use crate::kinds::{Kind, split_api_version};
use crate::object::{Object, metadata_mut, text};
use crate::request::Request;
use crate::routes::Target;
use crate::schema;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::verbs::fields::{self, Fields};
use crate::verbs::options::{FieldValidation, WriteOptions};
use crate::verbs::{body, create, settle_namespace, update};
use crate::warnings;

/// The content type of configurations.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn apply(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let options = WriteOptions::read(request, "PatchOptions")?;
    let (configuration, repeated) = read(&request.body)?;
    let mut store = server.lock();
    let current = store.get(target.index, &target.key()).map(Object::apart);
    if current.is_none() && !target.subresource.is_empty() {
        return Err(Status::not_found(&target.kind.group, &target.kind.plural, &target.name));
    }
    check(&target.kind, &configuration)?;
    let old = current.as_ref().map(|current| &*current.value);
    // Where nobody owns anything, nobody is in the way.
    let force = options.force || !server.options.managed_fields;
    let applied = fields::apply(server, target, old, &configuration, &options.manager, force)
        .map_err(|conflicts| conflict(&conflicts))?;
    let mut warned: Vec<String> = judge_repeated(repeated, options.validation)?;
    let mut value = match (applied.object, old) {
        (Some(object), _) => body::applied(server, &target.kind, object),
        (None, Some(old)) => old.clone(),
        (None, None) => empty_object(&target.kind),
    };
    update::check_name(target, &value).map_err(|refusal| refusal.warned(warned.clone()))?;
    settle_namespace(target, &mut value)?;
    let managers = Fields::Settled(applied.managers);
    let (code, object) = match &current {
        None => {
            check_uid(target, &value)?;
            metadata_mut(&mut value).remove("resourceVersion");
            let made = create::insert(server, &mut store, target, value, managers, options.dry, &mut warned);
            (201, made.map_err(|refusal| refusal.warned(warned.clone()))?)
        }
        Some(current) => {
            keep_uid(target, current.uid(), &value)?;
            let object = update::write(server, &mut store, target, current, value, managers, options.dry)
                .map_err(|refusal| refusal.warned(warned.clone()))?;
            if target.subresource.is_empty() {
                warned.extend(warnings::of(&target.kind, old, &object.value));
            }
            (200, object)
        }
    };
    server.announce(&store);
    Ok(Answer::object(code, &target.kind, &object).with_warnings(warned))
}

/// The configuration, and what is said twice in it.
pub(super) fn read(body: &[u8]) -> Result<(Value, Vec<String>)> {
    let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let (value, repeated) =
        yaml::read(body).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?;
    match value {
        Value::Null => Ok((json!({}), repeated)),
        Value::Object(_) => Ok((value, repeated)),
        _ => Err(refuse("error unmarshaling JSON: cannot unmarshal into an object".into())),
    }
}

/// What is said of a configuration that says things twice: nothing, warnings, or a refusal.
pub(super) fn judge_repeated(repeated: Vec<String>, validation: FieldValidation) -> Result<Vec<String>> {
    match validation {
        FieldValidation::Strict if !repeated.is_empty() => {
            let why = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors";
            Err(Status::bad_request(format!("{why}:\n  {}", repeated.join("\n  "))))
        }
        FieldValidation::Warn => Ok(repeated),
        _ => Ok(Vec::new()),
    }
}

/// What the object would be that a configuration of nothing makes.
fn empty_object(kind: &Kind) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": &*kind.kind})
}

pub(super) fn check(kind: &Kind, configuration: &Value) -> Result<()> {
    let (api_version, name) = (text(configuration, &["apiVersion"]), text(configuration, &["kind"]));
    let (group, version) = split_api_version(api_version);
    let shown = format!("{group}/{version}, Kind={name}");
    if api_version != kind.api_version() || name != kind.kind {
        return Err(Status::bad_request(format!("invalid object type: {shown}")));
    }
    if configuration["metadata"].get("managedFields").is_some_and(|list| !list.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let mistakes = apply::mistakes(schema::of_kind(kind), configuration);
    let why = match &mistakes[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        all => format!("errors:\n  {}", all.join("\n  ")),
    };
    let metadata = |field| text(configuration, &["metadata", field]);
    Err(Status::untranslated(format!(
        "failed to create typed patch object ({}/{}; {shown}): {why}",
        metadata("namespace"),
        metadata("name")
    )))
}

/// Nothing that does not exist has a uid.
fn check_uid(target: &Target, value: &Value) -> Result<()> {
    let uid = text(value, &["metadata", "uid"]);
    if uid.is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Status::conflict(&target.kind.group, &target.kind.plural, &target.name, &why))
}

/// A patch may insist on a uid, but not change it.
pub(crate) fn keep_uid(target: &Target, stored: &str, value: &Value) -> Result<()> {
    let uid = text(value, &["metadata", "uid"]);
    if uid == stored || uid.is_empty() {
        return Ok(());
    }
    // The real server looks twice, and says so twice.
    let cause = crate::status::Cause::invalid("metadata.uid", uid, "field is immutable");
    Err(Status::invalid_object(&target.kind, &target.name, &[cause.clone(), cause]))
}

/// 409 with each field that belongs to somebody else.
pub(super) fn conflict(conflicts: &[Conflict]) -> Box<Status> {
    let message = match conflicts {
        [one] => format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.path),
        all => {
            let mut lines: Vec<String> = Vec::new();
            let mut last = None;
            for one in all {
                if last != Some(&one.manager) {
                    lines.push(format!("conflicts with {}:", one.manager));
                    last = Some(&one.manager);
                }
                lines.push(format!("- {}", one.path));
            }
            format!("Apply failed with {} conflicts: {}", all.len(), lines.join("\n"))
        }
    };
    let causes = conflicts.iter().map(|one| {
        json!({
            "reason": "FieldManagerConflict", "message": format!("conflict with {}", one.manager), "field": one.path,
        })
    });
    let mut status = Status::new(409, "Conflict", message);
    status.details = Some(json!({"causes": causes.collect::<Vec<Value>>()}));
    Box::new(status)
}
