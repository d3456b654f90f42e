//! The objects of the cases, each with what most cases leave as it is.

use serde_json::{Value, json};

/// A claim of 1Gi; `spec` says what is special about it.
pub fn claim(name: &str, spec: &Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": "", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    json_patch::merge(&mut claim["spec"], spec);
    claim
}

/// A volume of 5Gi that is kept; `extra` says what is special about it.
pub fn volume(name: &str, extra: &Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/t/{name}")},
        },
    });
    json_patch::merge(&mut volume, extra);
    volume
}

/// A class whose volumes an external program makes.
pub fn class(name: &str, default: bool) -> Value {
    let is_default = default.to_string();
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": is_default},
        },
        "provisioner": "drv.example.com", "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
    })
}

/// The driver that makes the volumes of [`class`] and [`delayed_class`].
pub const DRIVER: &str = "drv.example.com";

/// The same, once a pod wants them.
pub fn delayed_class(name: &str) -> Value {
    let mut class = class(name, false);
    class["volumeBindingMode"] = json!("WaitForFirstConsumer");
    class
}

/// A class whose volumes are there already, and are bound once a pod wants them.
pub fn local_class(name: &str) -> Value {
    let mut class = delayed_class(name);
    class["provisioner"] = json!("kubernetes.io/no-provisioner");
    class["reclaimPolicy"] = json!("Retain");
    class
}

/// A volume of this class and size that only one node reaches.
pub fn local_volume(name: &str, class: &str, size: &str, node: &str) -> Value {
    let pin = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    let spec = json!({
        "storageClassName": class, "capacity": {"storage": size},
        "hostPath": null, "local": {"path": format!("/t/{name}")},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [pin]}]}},
    });
    volume(name, &json!({ "spec": spec }))
}

/// A node with room for so many pods.
pub fn node(name: &str, pods: usize) -> Value {
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": pods.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A pod that uses these claims.
pub fn pod(name: &str, claims: &[&str]) -> Value {
    let volumes: Vec<_> = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "x", "image": "x"}], "volumes": volumes},
    })
}

/// The driver, and whether it reports what it has left.
pub fn driver(tracked: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"storageCapacity": tracked, "attachRequired": false},
    })
}

/// What the driver has left for a class on a node.
pub fn capacity(name: &str, class: &str, size: &str, node: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": class, "capacity": size,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node}},
    })
}
