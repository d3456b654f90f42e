//! Decides how objects get into the store other than by a request: from a dump of a cluster, or exactly as a
//! test wants them. Never answers to a client. Answers to no upstream piece; the nearest is restoring etcd
//! from a backup.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kinds::split_api_version;
use crate::object::{Object, as_map_mut, key_of, metadata_mut, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;
use crate::verbs::{body, strategy};

/// The kind that a test means: `Pod`, or `persistentvolumes`, or `storage.k8s.io/v1/StorageClass`.
pub(crate) fn kind_named(store: &Store, kind: &str) -> Option<usize> {
    if let Some((api_version, kind)) = kind.rsplit_once('/') {
        let (group, version) = split_api_version(api_version);
        return store.kinds.by_kind(group, version, kind);
    }
    store.kinds.named(kind).or_else(|| store.kinds.with_plural(kind))
}

/// Makes a namespace that nobody asked for.
pub(crate) fn namespace(server: &Server, store: &mut Store, name: &str) {
    let Some(index) = store.kinds.named("Namespace") else { return };
    if store.get(index, name).is_some() {
        return;
    }
    let value = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": name, "uid": server.uid(), "creationTimestamp": server.timestamp(),
            "labels": {"kubernetes.io/metadata.name": name},
        },
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
    });
    store.put(index, key_of("", name), value);
}

/// Finds where an object belongs; a kind that is not served yet is served from now on.
fn place(store: &mut Store, value: &mut Value) -> Result<Target> {
    let (api_version, kind) = (text(value, &["apiVersion"]).to_owned(), text(value, &["kind"]).to_owned());
    if kind.is_empty() {
        return Err(Status::bad_request("Object 'Kind' is missing in the object"));
    }
    let (group, version) = split_api_version(&api_version);
    let namespace = text(value, &["metadata", "namespace"]).to_owned();
    let index = match store.kinds.by_kind(group, version, &kind) {
        Some(index) => index,
        None if api_version.is_empty() => store
            .kinds
            .named(&kind)
            .ok_or_else(|| Status::bad_request("Object 'apiVersion' is missing in the object"))?,
        None => store.register(&api_version, &kind, !namespace.is_empty()),
    };
    let row = store.kinds.get(index).clone();
    let fields = as_map_mut(value);
    fields.insert("kind".into(), row.kind.as_ref().into());
    fields.insert("apiVersion".into(), row.api_version().into());
    *value = row.kept(value.take());
    let metadata = metadata_mut(value);
    if !row.namespaced {
        metadata.remove("namespace");
    } else if namespace.is_empty() {
        metadata.insert("namespace".into(), "default".into());
    }
    let namespace = text(value, &["metadata", "namespace"]).to_owned();
    Ok(Target::of(&store.kinds, index, &namespace, text(value, &["metadata", "name"])))
}

pub(crate) fn import(server: &Server, mut value: Value) -> Result<Arc<Value>> {
    let mut store = server.lock();
    let mut target = place(&mut store, &mut value)?;
    body::check_types(server, &target.kind, &value)?;
    if target.kind.namespaced {
        namespace(server, &mut store, &target.namespace);
    }
    name(server, &mut target, &mut value)?;
    if let Some(existing) = store.get(target.index, &target.key()) {
        let adopts =
            target.kind.kind == "Namespace" && text(&existing.value, &["status", "phase"]) == "Active";
        if !adopts {
            return Err(Status::already_exists(&target.kind, &target.name));
        }
    }
    let version = text(&value, &["metadata", "resourceVersion"]).parse::<u64>().ok();
    complete(server, &mut value);
    if !server.is_raw() {
        let status = value.get("status").cloned();
        strategy::prepare(&target.kind, &mut value)?;
        strategy::prepare_create(server, &target, &mut value);
        if let Some(status) = status {
            as_map_mut(&mut value).insert("status".into(), status);
            strategy::apply_status(&target.kind, &mut value)?;
        }
        crate::admission::on_import(server, &store, &target, &mut value);
        // Nothing here depends on what only carries text, however much it is, nor on definitions: the kinds of a dump are
        // served as they are met in it.
        // Ranges of addresses were taken in forms that are refused today, and a cluster keeps what it has.
        let inert = matches!(&*target.kind.kind, "ConfigMap" | "Secret" | "CustomResourceDefinition")
            || matches!(&*target.kind.group, "networking.k8s.io" | "discovery.k8s.io" | "autoscaling");
        let causes = if inert { Vec::new() } else { crate::validate::create(&target.kind, &value) };
        if !causes.is_empty() {
            return Err(Status::invalid_object(&target.kind, &target.name, &causes));
        }
    } else if let Some(version) = version.filter(|version| *version > store.revision()) {
        store.advance_to(version);
    }
    Ok(put(server, &mut store, &target, value))
}

fn name(server: &Server, target: &mut Target, value: &mut Value) -> Result<()> {
    let base = text(value, &["metadata", "generateName"]);
    if target.name.is_empty() && !base.is_empty() {
        target.name = server.generate_name(base);
        metadata_mut(value).insert("name".into(), target.name.as_str().into());
    }
    if target.name.is_empty() {
        let cause = crate::status::Cause::required("metadata.name", "name or generateName is required");
        return Err(Status::invalid_object(&target.kind, "", &[cause]));
    }
    Ok(())
}

/// Gives the object what every stored object has, where it has none.
fn complete(server: &Server, value: &mut Value) {
    let metadata = metadata_mut(value);
    metadata.remove("selfLink");
    if missing(metadata, "uid") {
        metadata.insert("uid".into(), server.uid().into());
    }
    if missing(metadata, "creationTimestamp") {
        metadata.insert("creationTimestamp".into(), server.timestamp().into());
    }
}

fn missing(metadata: &Map<String, Value>, field: &str) -> bool {
    metadata.get(field).and_then(Value::as_str).is_none_or(str::is_empty)
}

pub(crate) fn apply_as_is(server: &Server, mut value: Value) -> Result<Arc<Value>> {
    let mut store = server.lock();
    let mut target = place(&mut store, &mut value)?;
    name(server, &mut target, &mut value)?;
    Ok(put(server, &mut store, &target, value))
}

pub(crate) fn hide(server: &Server, mut value: Value) -> Result<Arc<Value>> {
    let mut store = server.lock();
    let mut target = place(&mut store, &mut value)?;
    name(server, &mut target, &mut value)?;
    let object = store.hide(target.index, target.key(), value);
    server.announce(&store);
    Ok(object.value.share())
}

fn put(server: &Server, store: &mut Store, target: &Target, value: Value) -> Arc<Value> {
    let mut value = value;
    if let Some(version) = &target.kind.definition {
        version.to_stored(&mut value);
    }
    let object: Arc<Object> = store.put(target.index, target.key(), value);
    crate::crds::written(server, store, target, &target.name);
    server.announce(store);
    object.value.share()
}
