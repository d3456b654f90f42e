//! The objects of the scenarios, each with what most of them leave as it is, and where the API server has them.

use serde_json::{Value, json};

/// The label that everything of a scenario outside its namespace carries: the scenario's prefix.
pub const LABEL: &str = "e2e.pvbind.dev/scenario";
/// The provisioner of `tests/control-plane/provisioner`.
pub const DIRECTORY: &str = "e2e.pvbind.dev/directory";

/// A claim of 1Gi for volumes of a class; `spec` says what is special about it.
pub fn claim(name: &str, class: &str, spec: &Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    json_patch::merge(&mut claim["spec"], spec);
    claim
}

/// A volume of a class with 1Gi that is kept; `extra` says what is special about it.
pub fn volume(name: &str, class: &str, extra: &Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/tmp/pvbind-e2e/{name}")},
        },
    });
    json_patch::merge(&mut volume, extra);
    volume
}

/// What of a volume says that only one node reaches it.
pub fn only_on(node: &str) -> Value {
    let pin = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    json!({
        "hostPath": null, "local": {"path": "/tmp/pvbind-e2e"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [pin]}]}},
    })
}

/// A class whose volumes somebody makes at once and deletes in the end.
pub fn class(name: &str, provisioner: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
    })
}

/// The same, once a pod wants them.
pub fn delayed_class(name: &str, provisioner: &str) -> Value {
    let mut class = class(name, provisioner);
    class["volumeBindingMode"] = json!("WaitForFirstConsumer");
    class
}

/// What looks like a node with room for so many pods.
pub fn node(name: &str, pods: usize) -> Value {
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": pods.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A pod that uses these claims, for a scheduler.
pub fn pod(name: &str, scheduler: &str, claims: &[&str]) -> Value {
    let volumes: Vec<_> = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler, "automountServiceAccountToken": false, "volumes": volumes,
            "containers": [{"name": "c", "image": "none", "imagePullPolicy": "Never"}],
        },
    })
}

/// Where the API server has the objects of a kind: with the namespace, if they are in one.
pub fn path(kind: &str, namespace: &str) -> String {
    let (group, plural, namespaced) = match kind {
        "Namespace" => ("api/v1", "namespaces", false),
        "Node" => ("api/v1", "nodes", false),
        "PersistentVolume" => ("api/v1", "persistentvolumes", false),
        "PersistentVolumeClaim" => ("api/v1", "persistentvolumeclaims", true),
        "Pod" => ("api/v1", "pods", true),
        "Event" => ("api/v1", "events", true),
        "Lease" => ("apis/coordination.k8s.io/v1", "leases", true),
        "StatefulSet" => ("apis/apps/v1", "statefulsets", true),
        "StorageClass" => ("apis/storage.k8s.io/v1", "storageclasses", false),
        "CSINode" => ("apis/storage.k8s.io/v1", "csinodes", false),
        "CSIDriver" => ("apis/storage.k8s.io/v1", "csidrivers", false),
        other => panic!("no scenario uses {other} so far; it belongs here"),
    };
    if namespaced {
        format!("/{group}/namespaces/{namespace}/{plural}")
    } else {
        format!("/{group}/{plural}")
    }
}

/// A text of an object, or nothing.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An object's name.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}
