//! Decides what becomes of an object that is replaced or patched: which version the writer saw, which fields
//! the endpoint may change, whether anything changes at all. Never writes a version that says the same as the
//! last. Answers to `Store.Update` and `rest.BeforeUpdate`.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::admission;
use crate::answer::Answer;
use crate::crds;
use crate::defaults;
use crate::kinds::Trait;
use crate::object::{Object, metadata_mut, strings, text};
use crate::patch;
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::store::{Store, set_revision};
use crate::verbs::fields::{self, Fields};
use crate::verbs::options::{FieldValidation, WriteOptions};
use crate::verbs::{addresses, apply, body, create, settle_namespace, strategy};
use crate::warnings;

pub(crate) fn replace(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let options = WriteOptions::read(request, "UpdateOptions")?;
    let (mut value, warned) = body::object(server, request, &target.kind, &options)?;
    check_name(target, &value)?;
    settle_namespace(target, &mut value)?;
    let mut store = server.lock();
    let current = store.get(target.index, &target.key()).map(Object::apart);
    let mut said: Vec<String> = warned.into_iter().chain(warnings::repeated_owners(&value, false)).collect();
    let fields = Fields::By { manager: &options.manager, subresource: &target.subresource };
    let (code, written) = match current {
        None if target.subresource.is_empty() && target.kind.has(Trait::Upserts) => {
            let inserted = upserts(target, &value).and_then(|()| {
                metadata_mut(&mut value).remove("resourceVersion");
                create::insert(server, &mut store, target, value, fields, options.dry, &mut said)
            });
            (201, inserted)
        }
        None => (404, Err(Status::not_found(&target.kind.group, &target.kind.plural, &target.name))),
        Some(current) => {
            let before = current.value.share();
            let written = write(server, &mut store, target, &current, value, fields, options.dry);
            said.extend(written.iter().flat_map(|object| said_of(target, &before, &object.value)));
            (200, written)
        }
    };
    server.announce(&store);
    match written {
        Ok(object) => Ok(Answer::object(code, &target.kind, &object).with_warnings(said)),
        Err(refusal) => Err(refusal.warned(said)),
    }
}

/// What there is to warn of in an update.
fn said_of(target: &Target, old: &Value, value: &Value) -> Vec<String> {
    let mut warnings = crds::warnings(&target.kind, Some(old), value);
    if target.subresource.is_empty() {
        warnings.extend(warnings::of(&target.kind, Some(old), value));
    } else if target.subresource == "status" {
        warnings.extend(warnings::of_status(&target.kind, value));
    }
    warnings
}

/// A PUT that would create can't insist on a uid.
fn upserts(target: &Target, value: &Value) -> Result<()> {
    let uid = text(value, &["metadata", "uid"]);
    if uid.is_empty() {
        return Ok(());
    }
    let why = precondition(target, uid, "");
    Err(Status::conflict(&target.kind.group, &target.kind.plural, &target.name, &why))
}

/// The words of the real server's store for a uid that is another one's.
fn precondition(target: &Target, wanted: &str, found: &str) -> String {
    let kind = &target.kind;
    let group = if kind.definition.is_some() { format!("{}/", kind.group) } else { String::new() };
    // Two of the oldest kinds lie where they always lay.
    let place = match &*kind.plural {
        "services" if group.is_empty() => "services/specs",
        "endpoints" if group.is_empty() => "services/endpoints",
        plural => plural,
    };
    let key = format!("/registry/{group}{place}/{}", target.key());
    format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
}

pub(crate) fn patch(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let patch = patch::Patch::parse(&request.content_type, &request.body)?;
    let options = WriteOptions::read(request, "PatchOptions")?;
    let mut store = server.lock();
    let current = store.get(target.index, &target.key()).map(Object::apart);
    let current =
        current.ok_or_else(|| Status::not_found(&target.kind.group, &target.kind.plural, &target.name))?;
    let view = target.kind.view(&current.value);
    let mut value = patch.apply(&target.kind, view.as_ref().unwrap_or(&current.value))?;
    if patch.is_strategic() {
        // What is merged field by field is of its kind, whatever is left of it.
        let fields = crate::object::as_map_mut(&mut value);
        fields.insert("kind".into(), (*target.kind.kind).into());
        fields.insert("apiVersion".into(), target.kind.api_version().into());
    }
    if target.kind.definition.is_none() && text(&value, &["apiVersion"]) == target.kind.api_version() {
        // What says which version it is of, and not of which kind, is of the one that was asked for.
        let kind = crate::object::as_map_mut(&mut value).entry("kind").or_insert(Value::Null);
        if kind.is_null() || *kind == "" {
            *kind = (*target.kind.kind).into();
        }
    }
    check_type(target, &value)
        .map_err(|refusal| refusal.warned(unversioned(target, &value, options.validation)))?;
    let (mut value, mut said) = body::patched(server, request, &target.kind, value, &options)?;
    let repeated = warnings::repeated_owners(&value, true);
    let fields = Fields::By { manager: &options.manager, subresource: &target.subresource };
    let written = apply::keep_uid(target, current.uid(), &value)
        .and_then(|()| check_name(target, &value))
        .and_then(|()| settle_namespace(target, &mut value))
        .and_then(|()| write(server, &mut store, target, &current, value, fields, options.dry));
    server.announce(&store);
    said.extend(repeated);
    match written {
        Ok(object) => {
            said.extend(said_of(target, &current.value, &object.value));
            Ok(Answer::object(200, &target.kind, &object).with_warnings(said))
        }
        Err(refusal) => Err(refusal.warned(said)),
    }
}

/// What is warned of in an object that a patch left without a version: nobody knows its fields.
fn unversioned(target: &Target, value: &Value, validation: FieldValidation) -> Vec<String> {
    let known = target.kind.definition.is_some() || !text(value, &["apiVersion"]).is_empty();
    let fields = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let unknown = fields.filter(|name| !known && !matches!(*name, "kind" | "apiVersion"));
    if validation == FieldValidation::Warn {
        unknown.map(|name| format!("unknown field \"{name}\"")).collect()
    } else {
        Vec::new()
    }
}

/// A patch may not change the type; without one, nothing of the object can be read.
pub(super) fn check_type(target: &Target, new: &Value) -> Result<()> {
    let kind = &target.kind;
    let (new_kind, new_version) = (text(new, &["kind"]), text(new, &["apiVersion"]));
    if (new_kind, new_version) == (&*kind.kind, &*kind.api_version()) {
        return Ok(());
    }
    if kind.definition.is_none() && (new_kind.is_empty() || new_version.is_empty()) {
        return check_name(target, &Value::Null);
    }
    let why = format!(
        "no kind \"{new_kind}\" is registered for version \"{new_version}\" in scheme \"pkg/runtime/scheme.go:111\""
    );
    let cause = crate::status::Cause::invalid("patch", new.to_string(), &why);
    let mut refusal = Status::invalid("", "", "", &[cause]);
    // The real server doesn't know what it is about here.
    tracing::debug!(kind = %kind.kind, "a patch changed the type of an object");
    refusal.details = refusal.details.take();
    Err(refusal)
}

pub(crate) fn check_name(target: &Target, value: &Value) -> Result<()> {
    let name = text(value, &["metadata", "name"]);
    if name == target.name {
        return Ok(());
    }
    Err(Status::bad_request(if name.is_empty() {
        format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )
    } else {
        format!("the name of the object ({name}) does not match the name on the URL ({})", target.name)
    }))
}

/// Stores `value` as the next version of `current`, or says why not. What comes back is what is stored now,
/// or, when the last finalizer went, what was stored last.
pub(crate) fn write(
    server: &Server,
    store: &mut Store,
    target: &Target,
    current: &Arc<Object>,
    mut value: Value,
    fields: Fields,
    dry: bool,
) -> Result<Arc<Object>> {
    check_version(target, current, &value)?;
    let brought = metadata_mut(&mut value).remove("managedFields");
    keep_metadata(&current.value, &mut value);
    // What the writer saw: for a custom resource, the object in the version of the request.
    let shown = target.kind.definition.as_ref().and_then(|version| version.shown(&current.value));
    let old = shown.as_ref().unwrap_or(&current.value);
    if server.is_raw() {
        keep_end(&current.value, &mut value);
        strategy::keep_other_parts(target, old, &mut value)?;
    } else {
        admit(server, store, target, old, &mut value, fields, brought)?;
        defaults::apply_last(&target.kind, &mut value);
        if target.subresource.is_empty() {
            addresses::assign(server, store, target, Some(old), &mut value)?;
            if value != *old {
                admission::charge(server, store, target, &value, Some(old), dry)?;
            }
        }
    }
    strategy::count_generation(target, old, &mut value);
    if let Some(version) = &target.kind.definition {
        version.to_stored(&mut value);
    }
    set_revision(&mut value, current.revision);
    if finished(target, &value) {
        let object = Arc::new(Object::new(value, current.revision));
        if !dry {
            // The watch shows what was stored last, the writer what it wrote.
            store.remove(target.index, &target.key());
            crds::removed(server, store, target, &object);
        }
        return Ok(object);
    }
    fields::keep_times(&current.value, &mut value);
    let settles =
        current.untouched && !server.is_raw() && strategy::settles_when_written(&target.kind, &value);
    if value == *current.value && !settles {
        return Ok(current.clone());
    }
    if dry {
        return Ok(Arc::new(Object::new(value, current.revision)));
    }
    let object = store.put(target.index, target.key(), value);
    crds::written(server, store, target, &target.name);
    Ok(object)
}

/// Defaults, the split between endpoints, and validation.
fn admit(
    server: &Server,
    store: &Store,
    target: &Target,
    old: &Value,
    value: &mut Value,
    fields: Fields,
    brought: Option<Value>,
) -> Result<()> {
    let end = value["metadata"].get("deletionTimestamp").filter(|time| !time.is_null()).cloned();
    keep_end(old, value);
    strategy::prepare(&target.kind, value)?;
    let managers = match fields {
        _ if !server.options.managed_fields => None,
        Fields::Settled(managers) => managers,
        Fields::By { manager, subresource } => {
            fields::store(value, brought);
            metadata_mut(value).extend(end.map(|time| ("deletionTimestamp".to_owned(), time)));
            fields::after_update(server, target, Some(old), value, manager, subresource)
        }
    };
    keep_end(old, value);
    strategy::keep_other_parts(target, old, value)?;
    strategy::prepare_update(server, target, old, value);
    fields::store(value, managers);
    admission::on_update(server, store, target, old, value)?;
    let causes = crate::validate::update(target, old, value);
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid_object(&target.kind, &target.name, &causes))
}

/// Whether a terminating object has nothing left to wait for.
fn finished(target: &Target, value: &Value) -> bool {
    let metadata = &value["metadata"];
    let waits =
        metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds > 0);
    let held = target.kind.kind == "Namespace" && !strings(value, &["spec", "finalizers"]).is_empty();
    metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null())
        && strings(value, &["metadata", "finalizers"]).is_empty()
        && !waits
        && !held
}

/// Refuses a write from another version, or meant for another object of the same name.
fn check_version(target: &Target, current: &Object, value: &Value) -> Result<()> {
    let kind = &target.kind;
    let version = text(value, &["metadata", "resourceVersion"]);
    if matches!(version, "" | "0") && kind.needs_version() {
        let cause = Cause::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        return Err(Status::invalid(&kind.group, &kind.plural, &target.name, &[cause]));
    }
    if !version.is_empty() && version != "0" {
        let seen: u64 = version.parse().map_err(|_| {
            let shown = Value::from(version);
            Status::untranslated(format!("strconv.ParseUint: parsing {shown}: invalid syntax"))
        })?;
        if seen != current.revision {
            return Err(Status::modified(&kind.group, &kind.plural, &target.name));
        }
    } else if kind.has(Trait::Conditional) {
        let cause = Cause::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        return Err(Status::invalid(&kind.group, &kind.plural, &target.name, &[cause]));
    }
    let uid = text(value, &["metadata", "uid"]);
    if !uid.is_empty() && uid != current.uid() {
        let why = precondition(target, uid, current.uid());
        return Err(Status::conflict(&kind.group, &kind.plural, &target.name, &why));
    }
    Ok(())
}

/// Restores what no writer may change.
fn keep_metadata(old: &Value, value: &mut Value) {
    let old = &old["metadata"];
    let metadata = metadata_mut(value);
    metadata.remove("selfLink");
    keep(&["uid", "creationTimestamp", "generation"], old, metadata);
}

/// Lets nobody undo or move an end that is under way. Whoever tries to move it owns the field all the same, as on a real server.
fn keep_end(old: &Value, value: &mut Value) {
    let old = &old["metadata"];
    if old.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        keep(&["deletionTimestamp"], old, metadata_mut(value));
        if value["metadata"]["deletionGracePeriodSeconds"].is_null() {
            keep(&["deletionGracePeriodSeconds"], old, metadata_mut(value));
        }
    }
}

fn keep(fields: &[&str], old: &Value, metadata: &mut Map<String, Value>) {
    for field in fields {
        match old.get(field) {
            Some(value) if metadata.get(*field) == Some(value) => None,
            Some(value) => metadata.insert((*field).into(), value.clone()),
            None => metadata.remove(*field),
        };
    }
}
