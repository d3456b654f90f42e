//! Decides which kinds are served after a definition was written: each served version of one whose names are
//! accepted, until it is gone with the last of its objects. Never decides whether a definition may be stored.
//! Answers to `k8s.io/apiextensions-apiserver/pkg/controller/{status,establish,finalizer}`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::names::{Taken, accept, establish, is_true, set_condition};
use super::version::Version;
use super::{Custom, is_definition};
use crate::kinds::Kind;
use crate::object::{Object, at, key_of, map_mut, metadata_mut, strings, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;
use crate::verbs::fields;

/// Who the controllers of definitions are.
const CONTROLLER: &str = "kube-apiserver";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Follows a write: of a definition, what is served; nothing for all others.
pub(crate) fn written(server: &Server, store: &mut Store, target: &Target, name: &str) {
    if is_definition(&target.kind) {
        follow(server, store, target.index, name);
    }
}

/// Follows a removal: of a definition, its kinds go; of the last object of one that is terminating, the definition.
pub(crate) fn removed(server: &Server, store: &mut Store, target: &Target, object: &Object) {
    if is_definition(&target.kind) {
        let name = object.name().to_owned();
        store.serve(&name, Vec::new());
        // Its names are free now.
        let group = text(&object.value, &["spec", "group"]).to_owned();
        for other in of_group(store, target.index, &group) {
            follow(server, store, target.index, &other);
        }
    } else if let Some(custom) = &target.kind.definition {
        let Some(index) = store.kinds.by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
        else {
            return;
        };
        finish(server, store, index, &custom.definition.clone());
    }
}

/// The names of the definitions of a group.
fn of_group(store: &Store, index: usize, group: &str) -> Vec<String> {
    let definitions = store.list(index);
    let of = definitions.values().filter(|one| text(&one.value, &["spec", "group"]) == group);
    of.map(|one| one.name().to_owned()).collect()
}

/// What the controllers of the real server do: names, condition, kinds.
fn follow(server: &Server, store: &mut Store, index: usize, name: &str) {
    let now = server.timestamp();
    let Some(mut value) = store.get(index, name).map(|object| Value::clone(&object.value)) else { return };
    let group = text(&value, &["spec", "group"]).to_owned();
    let definitions = store.list(index);
    let others = definitions.values().filter(|one| one.name() != name);
    let others = others.map(|one| &*one.value).filter(|one| text(one, &["spec", "group"]) == group);
    let taken = Taken::by(others);
    let target = Target { subresource: "status".to_owned(), ..Target::of(&store.kinds, index, "", name) };
    let steps: [&dyn Fn(&mut Value) -> bool; 2] =
        [&|value| accept(value, &taken, &now), &|value| establish(value, &now)];
    for step in steps {
        let before = value.clone();
        if step(&mut value) {
            own_status(server, &target, &before, &mut value);
            value = Value::clone(&store.put(index, key_of("", name), value).value);
        }
    }
    serve(store, &value);
}

/// The server itself owns what it says of a definition.
fn own_status(server: &Server, target: &Target, before: &Value, value: &mut Value) {
    if server.options.managed_fields {
        let managers = fields::after_update(server, target, Some(before), value, CONTROLLER, "status");
        fields::store(value, managers);
    }
}

/// Serves the kinds of a definition that was accepted.
pub(crate) fn serve(store: &mut Store, definition: &Value) {
    let accepted = is_true(definition, "NamesAccepted") || is_true(definition, "Established");
    let versions = if accepted { Version::all(definition) } else { Vec::new() };
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let kinds = versions.into_iter().map(|(version, read)| {
        let group = text(spec, &["group"]).to_owned();
        let namespaced = spec["scope"] == "Namespaced";
        let (kind, plural) = (text(names, &["kind"]).to_owned(), text(names, &["plural"]).to_owned());
        Kind::custom(group, version, kind, plural, namespaced, Custom(Arc::new(read)))
    });
    store.serve(text(definition, &["metadata", "name"]), kinds.collect());
}

/// New objects are refused while their definition goes.
pub(crate) fn forbids_create(store: &Store, target: &Target, name: &str) -> Result<()> {
    let Some(custom) = &target.kind.definition else { return Ok(()) };
    let index = store.kinds.by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definition = index.and_then(|index| store.get(index, &custom.definition));
    if definition.is_some_and(|definition| is_true(&definition.value, "Terminating")) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&target.kind.group, &target.kind.plural, name, why));
    }
    Ok(())
}

/// Deletes a definition: it is marked, its objects are deleted, and it goes with the last of them. What comes back is the marked
/// one; nothing when it was marked before.
pub(crate) fn on_delete(
    server: &Server,
    store: &mut Store,
    target: &Target,
    current: &Object,
    dry: bool,
) -> Option<Arc<Object>> {
    if !is_definition(&target.kind) || at(&current.value, &["metadata", "deletionTimestamp"]).is_some() {
        return None;
    }
    let now = server.timestamp();
    let mut value = Value::clone(&current.value);
    let metadata = metadata_mut(&mut value);
    metadata.insert("deletionTimestamp".into(), now.as_str().into());
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.contains(&json!(CLEANUP))
    {
        finalizers.push(CLEANUP.into());
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut value, "Terminating", true, "InstanceDeletionPending", message, &now);
    if dry {
        return Some(Arc::new(Object::new(value, current.revision)));
    }
    let marked = store.put(target.index, target.key(), value);
    delete_objects(server, store, &target.name);
    finish(server, store, target.index, &target.name);
    Some(marked)
}

/// Deletes every object of a definition; those with finalizers stay, terminating.
fn delete_objects(server: &Server, store: &mut Store, definition: &str) {
    let Some(index) = store.kinds.of_definition(definition) else { return };
    for object in store.list(index).values() {
        let one = Target::of(&store.kinds, index, object.namespace(), object.name());
        if let Err(refusal) = crate::verbs::delete::evicted(server, store, &one, &Value::Null, false) {
            tracing::debug!(%refusal, "an object of a definition that goes could not be deleted");
        }
    }
}

/// Lets a terminating definition go, if none of its objects is left.
fn finish(server: &Server, store: &mut Store, index: usize, name: &str) {
    let Some(current) = store.get(index, name).cloned() else { return };
    let waits = strings(&current.value, &["metadata", "finalizers"]).contains(&CLEANUP);
    if !waits || at(&current.value, &["metadata", "deletionTimestamp"]).is_none() {
        return;
    }
    let now = server.timestamp();
    let mut value = Value::clone(&current.value);
    let left = store.kinds.of_definition(name).is_some_and(|kind| !store.list(kind).is_empty());
    if left {
        let message = "CustomResource deletion is in progress";
        set_condition(&mut value, "Terminating", true, "InstanceDeletionInProgress", message, &now);
        if value != *current.value {
            store.put(index, key_of("", name), value);
        }
        return;
    }
    let message = "removed all instances";
    set_condition(&mut value, "Terminating", false, "InstanceDeletionCompleted", message, &now);
    let rest: Vec<&str> = strings(&current.value, &["metadata", "finalizers"]);
    let rest: Vec<&str> = rest.into_iter().filter(|one| *one != CLEANUP).collect();
    if rest.is_empty() {
        let metadata = map_mut(&mut value, "metadata");
        metadata.remove("finalizers");
        store.put(index, key_of("", name), value);
        let target = Target::of(&store.kinds, index, "", name);
        if let Some(object) = store.remove(index, name) {
            removed(server, store, &target, &object);
        }
    } else {
        metadata_mut(&mut value).insert("finalizers".into(), json!(rest));
        store.put(index, key_of("", name), value);
    }
}
