//! What there is to bind.

use serde_json::{Value, json};

/// How many claims come one after the other, once the others are bound.
pub const LATER: usize = 100;
/// How many volumes are in the way where some are.
const RELEASED: usize = 5_000;
/// How many nodes there are where pods are placed.
const NODES: usize = 100;

/// See the [bench's documentation](crate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    Any,
    Claims,
    Volumes,
    Released,
    Delayed,
}

impl Contest {
    pub const ALL: [Contest; 5] =
        [Contest::Any, Contest::Claims, Contest::Volumes, Contest::Released, Contest::Delayed];

    pub fn name(self) -> &'static str {
        match self {
            Contest::Any => "any",
            Contest::Claims => "claims",
            Contest::Volumes => "volumes",
            Contest::Released => "released",
            Contest::Delayed => "delayed",
        }
    }

    /// How many claims or pods there are.
    pub fn size(self) -> usize {
        if self == Contest::Delayed { 500 } else { 1_000 }
    }

    pub fn has_pods(self) -> bool {
        self == Contest::Delayed
    }

    pub fn class(self) -> Value {
        let mode = if self.has_pods() { "WaitForFirstConsumer" } else { "Immediate" };
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode,
        })
    }

    pub fn nodes(self) -> impl Iterator<Item = Value> {
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
        (0..if self.has_pods() { NODES } else { 0 }).map(move |index| {
            let name = node(index);
            json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {
                    "capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}],
                },
            })
        })
    }

    /// The volumes of so many claims, and of those that come later.
    pub fn volumes(self, claims: usize) -> impl Iterator<Item = Value> {
        (0..claims + LATER).map(move |index| {
            let mut volume = volume(&format!("volume-{index:05}"));
            if self == Contest::Volumes {
                volume["spec"]["claimRef"] = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim_name(index),
                });
            }
            if self.has_pods() {
                let on = json!({
                    "key": "kubernetes.io/hostname", "operator": "In", "values": [node(index % NODES)],
                });
                volume["spec"]["nodeAffinity"] =
                    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}});
            }
            volume
        })
    }

    /// The volumes that nobody may have: what they were bound to is gone.
    pub fn released(self) -> impl Iterator<Item = Value> {
        (0..if self == Contest::Released { RELEASED } else { 0 }).map(|index| {
            let mut volume = volume(&format!("released-{index:05}"));
            volume["spec"]["claimRef"] = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
                "name": format!("gone-{index:05}"), "uid": format!("00000000-0000-4000-8000-{index:012}"),
            });
            volume
        })
    }

    pub fn claim(self, index: usize) -> Value {
        let mut claim = json!({
            "metadata": {"name": claim_name(index)},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "resources": {"requests": {"storage": "5Gi"}},
            },
        });
        if self == Contest::Claims {
            claim["spec"]["volumeName"] = json!(format!("volume-{index:05}"));
        }
        claim
    }
}

/// A pod for a claim.
pub fn pod(index: usize, scheduler: &str) -> Value {
    json!({
        "metadata": {"name": claim_name(index)},
        "spec": {
            "schedulerName": scheduler, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "none"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name(index)}}],
        },
    })
}

fn claim_name(index: usize) -> String {
    format!("claim-{index:05}")
}

fn node(index: usize) -> String {
    format!("node-{index:03}")
}

fn volume(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/mnt/{name}")},
        },
    })
}
