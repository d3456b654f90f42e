//! Putting a world into a real API server, as a user with kubectl would.
//!
//! A server gives uids of its own and takes a status through the subresource alone: what a manifest says of them is carried
//! over, so that a claimRef names the claim that it named.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pvbind::manifest::{self, Stage, Step};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Kind, is_late, named, text};

/// A world as it is read.
#[derive(Clone)]
pub struct World {
    pub objects: Vec<Value>,
    pub then: Option<Stage>,
    /// How long nothing may move before all counts as quiet, where that is longer than usual.
    pub quiet: Option<Duration>,
}

impl World {
    pub fn read(folder: &Path) -> Self {
        let loaded = manifest::load(&[folder.join("world.yaml")], "default", std::io::empty);
        let loaded = loaded.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut objects: Vec<Value> = loaded.documents.into_iter().map(|document| document.object).collect();
        let linked = is_linked(&objects);
        objects.sort_by_key(|object| rank(object, linked));
        let path = folder.join("then.yaml");
        let then = path.exists().then(|| manifest::load_stage(&path, "default").expect("a stage"));
        let record = std::fs::read_to_string(folder.join("record.json")).unwrap_or_default();
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        World { objects, then, quiet: record["quiet"].as_u64().map(Duration::from_secs) }
    }

    /// Whether objects name each other by uid.
    pub fn is_linked(&self) -> bool {
        is_linked(&self.objects)
    }

    /// Whether the state of things is part of the world: those who bind and place are down while it is loaded.
    pub fn is_dump(&self) -> bool {
        self.objects.iter().any(|object| {
            let bindable = matches!(text(object, "/kind"), "PersistentVolume" | "PersistentVolumeClaim");
            object["metadata"].get("uid").is_some() || (bindable && object.get("status").is_some())
        })
    }

    /// Whether anything of it waits for a scheduler.
    pub fn has_pods(&self) -> bool {
        let kinds = ["Pod", "StatefulSet", "Deployment", "DaemonSet", "ReplicaSet", "Job"];
        self.objects.iter().any(|object| kinds.contains(&text(object, "/kind")))
    }
}

fn is_linked(objects: &[Value]) -> bool {
    objects.iter().any(|object| object["metadata"].get("uid").is_some())
}

/// What comes first, second and so on; each group may have to be quiet before the next one comes.
pub fn rank(object: &Value, linked: bool) -> u8 {
    match text(object, "/kind") {
        "StorageClass" | "VolumeAttributesClass" => 0,
        // A claimRef can name a claim by uid only once the claim is there.
        "PersistentVolume" if linked => 4,
        "PersistentVolume" => 2,
        "PersistentVolumeClaim" => 3,
        "Pod" | "StatefulSet" | "Deployment" | "DaemonSet" | "ReplicaSet" | "Job" => 5,
        _ => 1,
    }
}

/// Puts objects into a cluster.
pub struct Loader {
    cluster: Cluster,
    /// The uids that manifests give, and those that the server gave.
    uids: BTreeMap<String, String>,
}

impl Loader {
    pub fn new(cluster: &Cluster) -> Self {
        Loader { cluster: cluster.clone(), uids: BTreeMap::new() }
    }

    /// Creates the object, or merges it into the one that is there.
    pub async fn put(&mut self, object: &Value) -> Result<(), String> {
        let mut object = object.clone();
        let kind = named(text(&object, "/kind"));
        let what = format!("{} {}", kind.name, text(&object, "/metadata/name"));
        let (namespace, name) =
            (text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned());
        // A node may be created with a status.
        let status = if kind.name == "Node" { None } else { take(&mut object, "status") };
        let given = take(&mut object["metadata"], "uid");
        let deleting = take(&mut object["metadata"], "deletionTimestamp").is_some();
        for field in ["resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            take(&mut object["metadata"], field);
        }
        self.relink(&mut object);
        let there = self.cluster.get(kind, &namespace, &name).await.is_some();
        let stored = if there {
            self.cluster.merge(kind, &namespace, &name, false, object).await
        } else {
            self.cluster.create(kind, &object).await
        };
        let stored = stored.map_err(|error| format!("{what}: {error}"))?;
        if let Some(given) = given {
            let given = given.as_str().expect("a uid is a text").to_owned();
            self.uids.insert(given, text(&stored, "/metadata/uid").to_owned());
        }
        if let Some(status) = status {
            let patch = json!({"status": status});
            let done = self.cluster.merge(kind, &namespace, &name, true, patch).await;
            done.map_err(|error| format!("the status of {what}: {error}"))?;
        }
        if deleting { self.delete(kind, &namespace, &name).await } else { Ok(()) }
    }

    /// Lets references by uid name what they named.
    fn relink(&self, object: &mut Value) {
        let reference = object.pointer_mut("/spec/claimRef").into_iter();
        let owners = reference.collect::<Vec<_>>();
        for owner in owners {
            take(owner, "resourceVersion");
            if let Some(uid) = self.uids.get(text(owner, "/uid")) {
                owner["uid"] = json!(uid);
            }
        }
        let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            if let Some(uid) = self.uids.get(text(owner, "/uid")) {
                owner["uid"] = json!(uid);
            }
        }
    }

    async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<(), String> {
        match self.cluster.delete(kind, namespace, name, None).await {
            Err(error) if !is_late(&error) => Err(format!("delete {} {name}: {error}", kind.name)),
            _ => Ok(()),
        }
    }

    /// Does one step of a stage; says whether it asks to wait.
    pub async fn step(&mut self, step: &Step) -> Result<bool, String> {
        match step {
            Step::Settle => return Ok(true),
            Step::Delete { kind, namespace, name, .. } => {
                self.delete(named(kind), namespace, name).await?;
            }
            Step::Apply(document) => self.put(&document.object).await?,
        }
        Ok(false)
    }
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut().and_then(|fields| fields.remove(field))
}
