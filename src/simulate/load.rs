//! Puts manifests into the API server: in which order, with which kinds, and what is made where something is missing.
//!
//! Never changes what stands in a manifest. Answers to `kubectl create -f`, but status, uid and the like stay as given.

use std::collections::BTreeSet;

use fake_apiserver::FakeApiServer;
use serde_json::{Value, json};

use super::progress::Progress;
use super::run::Error;
use super::stage;
use crate::manifest::{Document, field};

/// The order in which kinds are loaded: what others depend on first. Claims come after the classes whose default
/// they may be given, pods last.
fn rank(object: &Value) -> usize {
    const ORDER: [&str; 9] = [
        "Namespace",
        "StorageClass",
        "VolumeAttributesClass",
        "CSIDriver",
        "Node",
        "CSINode",
        "CSIStorageCapacity",
        "PersistentVolume",
        "PersistentVolumeClaim",
    ];
    let kind = object["kind"].as_str().unwrap_or_default();
    let last = ORDER.len() + usize::from(kind == "Pod");
    ORDER.iter().position(|known| *known == kind).unwrap_or(last)
}

fn describe(object: &Value) -> String {
    let text = |path: &str| field::text(object, path);
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Puts the manifests into the server.
pub(super) fn load(
    server: &FakeApiServer,
    documents: Vec<Document>,
    warnings: &mut Vec<String>,
    progress: &Progress,
) -> Result<(), Error> {
    let mut documents = documents;
    documents.sort_by_key(|document| rank(&document.object));
    let has_node = documents.iter().any(|document| document.object["kind"] == "Node");
    if !has_node && !knows_node(server) {
        warnings.push(
            "no Node among the manifests: one named node-1 is made, with 64 cpus, 256Gi of memory and room for 10000 pods".to_owned(),
        );
        let made = import(server, lone_node());
        made.map_err(|message| Error::Failed(format!("the node that is made: {message}")))?;
    }
    let mut types = BTreeSet::new();
    for document in documents {
        // Asking the server what it serves takes longer than storing an object does.
        if types.insert(type_of(&document.object)) {
            serve(server, &document.object);
        }
        let (origin, object) = (document.origin.to_string(), describe(&document.object));
        let stored = server.import(document.object);
        stored.map_err(|status| Error::Refused { origin, object, message: status.message.clone() })?;
        progress.load();
    }
    Ok(())
}

/// Whether there is a node from an earlier run.
fn knows_node(server: &FakeApiServer) -> bool {
    let (code, nodes) = server.request("GET", "/api/v1/nodes?limit=1", "", b"");
    let nodes: Value = serde_json::from_slice(&nodes).ok().filter(|_| code == 200).unwrap_or_default();
    nodes["items"].as_array().is_some_and(|items| !items.is_empty())
}

/// Takes out what is stored already, from an earlier run: it stays as it has become. Says what that was.
pub(super) fn leave_out_known(server: &FakeApiServer, documents: &mut Vec<Document>) -> Vec<String> {
    let mut left_out = Vec::new();
    documents.retain(|document| {
        let text = |path: &str| field::text(&document.object, path);
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        // A namespace of every cluster is taken over.
        let known = kind != "Namespace" && server.get(kind, namespace, name).is_some();
        if known {
            left_out.push(format!(
                "{}: {} is there already and stays as it is",
                document.origin,
                describe(&document.object)
            ));
        }
        !known
    });
    left_out
}

fn type_of(object: &Value) -> (String, String) {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

/// Lets the server serve a kind that it does not know; such a kind is inert.
fn serve(server: &FakeApiServer, object: &Value) {
    let (api_version, kind) = type_of(object);
    if stage::route(server, &api_version, &kind).is_none() {
        let namespaced = field::at(object, "/metadata/namespace").is_some();
        server.register_kind(&api_version, &kind, namespaced);
    }
}

/// Stores one object, of whatever kind.
pub(super) fn import(server: &FakeApiServer, object: Value) -> Result<(), String> {
    serve(server, &object);
    server.import(object).map(|_| ()).map_err(|status| status.message.clone())
}

fn lone_node() -> Value {
    let room = json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "10000"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "labels": {
            "kubernetes.io/hostname": "node-1",
            "topology.kubernetes.io/zone": "zone-1",
            "topology.kubernetes.io/region": "region-1",
        }},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}
