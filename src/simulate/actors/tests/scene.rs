//! A World to plan in, and a store that takes calls as an API server would: enough of one to play a scene to its end.

use crate::simulate::actors::call::{Call, Kind, Name, Remark, Target};
use crate::simulate::actors::intake;
use crate::simulate::actors::key::Key;
use crate::simulate::actors::shell::plan;
use crate::simulate::actors::world::World;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub const NOW: &str = "2026-01-02T03:04:05Z";

/// Objects, the World that was shown them, and everything that was called.
#[derive(Default)]
pub struct Scene {
    pub world: World,
    pub due: BTreeSet<Key>,
    pub log: Vec<String>,
    /// How many keys were decided.
    pub plans: usize,
    objects: BTreeMap<(Kind, Name), Value>,
    version: u64,
}

impl Scene {
    pub fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut scene = Self::default();
        objects.into_iter().for_each(|object| scene.put(object));
        scene
    }

    /// Stores an object as it is, with a namespace, uid and version if it has none.
    pub fn put(&mut self, mut object: Value) {
        self.version += 1;
        let kind = Kind::of(&object).expect("a kind of ours");
        let meta = object["metadata"].as_object_mut().expect("metadata");
        if kind.path("", None).contains("/namespaces/") {
            meta.entry("namespace").or_insert(json!("default"));
        }
        let name = meta["name"].as_str().expect("a name").to_owned();
        meta.entry("uid").or_insert(json!(format!("{}-{name}-{}", kind.name().to_lowercase(), self.version)));
        meta.insert("resourceVersion".into(), json!(self.version.to_string()));
        let name = Name::new(meta.get("namespace").and_then(Value::as_str).unwrap_or(""), name);
        self.objects.insert((kind, name), object.clone());
        intake::take(&mut self.world, object, false, &mut self.due);
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        let namespace = if kind.path("", None).contains("/namespaces/") { "default" } else { "" };
        self.objects.get(&(kind, Name::new(namespace, name)))
    }

    pub fn names(&self, kind: Kind) -> Vec<&str> {
        self.objects.keys().filter(|(k, _)| *k == kind).map(|(_, name)| name.name.as_str()).collect()
    }

    /// Merges into an object.
    pub fn merge(&mut self, kind: Kind, name: &str, patch: &Value) {
        let mut object = self.get(kind, name).expect("the object").clone();
        json_patch::merge(&mut object, patch);
        self.put_or_drop(kind, object);
    }

    fn put_or_drop(&mut self, kind: Kind, object: Value) {
        let meta = &object["metadata"];
        let held = meta["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let held = held || object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let graceful = meta["deletionGracePeriodSeconds"].as_u64().is_some_and(|s| s > 0);
        if meta["deletionTimestamp"].is_null() || held || graceful {
            self.put(object);
            return;
        }
        let namespace = meta["namespace"].as_str().unwrap_or_default();
        let name = Name::new(namespace, meta["name"].as_str().expect("a name"));
        self.objects.remove(&(kind, name));
        intake::take(&mut self.world, object, true, &mut self.due);
    }

    /// Deletes as a user does.
    pub fn delete(&mut self, kind: Kind, name: &str) {
        let mut object = self.get(kind, name).expect("the object").clone();
        object["metadata"]["deletionTimestamp"] = json!(NOW);
        if kind == Kind::Pod && !object["spec"]["nodeName"].is_null() {
            object["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        }
        self.put_or_drop(kind, object);
    }

    fn perform(&mut self, call: Call) {
        let line = told(&call);
        // As the shell does it: a state is told once.
        if !matches!(&call, Call::Event(remark) if remark.once && self.log.contains(&line)) {
            self.log.push(line);
        }
        match call {
            Call::Create { object, .. } => {
                let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
                let kind = Kind::of(&object).expect("a kind of ours");
                assert!(self.get(kind, &name).is_none(), "{name} is there already");
                self.put(object);
            }
            Call::Merge { target, patch, .. } => {
                let at = (target.kind, target.name.clone());
                let mut object = self.objects.get(&at).expect("the object").clone();
                assert_eq!(
                    object["metadata"]["resourceVersion"],
                    json!(target.resource_version),
                    "{target:?}"
                );
                json_patch::merge(&mut object, &patch);
                self.put_or_drop(target.kind, object);
            }
            Call::Delete { target, grace_seconds } => {
                let at = (target.kind, target.name.clone());
                let Some(mut object) = self.objects.get(&at).cloned() else { return };
                assert_eq!(object["metadata"]["uid"], json!(target.uid));
                let graceful = target.kind == Kind::Pod && !object["spec"]["nodeName"].is_null();
                object["metadata"]["deletionTimestamp"] = json!(NOW);
                object["metadata"]["deletionGracePeriodSeconds"] =
                    json!(grace_seconds.unwrap_or(if graceful { 30 } else { 0 }));
                self.put_or_drop(target.kind, object);
            }
            Call::Event(_) => {}
        }
    }

    /// Decides and performs until nothing is due.
    pub fn play(&mut self) {
        for _ in 0..100_000 {
            let Some(key) = self.due.pop_first() else { return };
            self.plans += 1;
            for call in plan(&self.world, &key, NOW) {
                self.perform(call);
            }
        }
        panic!("never settles: {:#?}", &self.log[self.log.len() - 20..]);
    }

    /// Plays, with placement and binding done the simplest way: each on the node it asks for or `n1`, each claim on a volume of its own.
    pub fn play_bound(&mut self) {
        for _ in 0..1000 {
            self.play();
            let claims = self.objects.iter().filter(|((kind, _), o)| {
                *kind == Kind::Claim
                    && o["status"]["phase"] != "Bound"
                    && o["metadata"]["deletionTimestamp"].is_null()
            });
            let claims: Vec<_> = claims.map(|((_, name), _)| name.name.clone()).collect();
            let pods = self.objects.iter().filter(|((kind, _), o)| {
                *kind == Kind::Pod
                    && o["spec"]["nodeName"].is_null()
                    && o["metadata"]["deletionTimestamp"].is_null()
            });
            let pods: Vec<_> = pods.map(|((_, name), _)| name.name.clone()).collect();
            if claims.is_empty() && pods.is_empty() {
                return;
            }
            for claim in claims {
                let volume = format!("v-{claim}");
                if self.get(Kind::Volume, &volume).is_none() {
                    self.put(bound_volume(&volume, &claim));
                }
                let bound = json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}});
                self.merge(Kind::Claim, &claim, &bound);
            }
            let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
            let wanted = format!("{affinity}/nodeSelectorTerms/0/matchFields/0/values/0");
            for pod in pods {
                let node = self.get(Kind::Pod, &pod).and_then(|p| p.pointer(&wanted).cloned());
                self.merge(Kind::Pod, &pod, &json!({"spec": {"nodeName": node.unwrap_or(json!("n1"))}}));
            }
        }
        panic!("never settles");
    }

    /// What is planned for a key, in words.
    pub fn plan(&self, key: &Key) -> Vec<String> {
        plan(&self.world, key, NOW).iter().map(told).collect()
    }

    /// The calls so far that start with one of `words`.
    pub fn did(&self, words: &[&str]) -> Vec<&str> {
        self.log.iter().map(String::as_str).filter(|line| words.iter().any(|w| line.starts_with(w))).collect()
    }
}

fn at(target: &Target) -> String {
    if target.name.namespace.is_empty() {
        format!("{} {}", target.kind.name(), target.name.name)
    } else {
        format!("{} {}/{}", target.kind.name(), target.name.namespace, target.name.name)
    }
}

/// A call in words, so that a test can list what it expects.
pub fn told(call: &Call) -> String {
    match call {
        Call::Create { object, .. } => {
            let (kind, meta) = (object["kind"].as_str().expect("a kind"), &object["metadata"]);
            format!("create {kind} {}", meta["name"].as_str().expect("a name"))
        }
        Call::Merge { target, subresource, patch } => {
            let sub = subresource.map(|s| format!("/{s}")).unwrap_or_default();
            format!("merge {}{sub} {patch}", at(target))
        }
        Call::Delete { target, grace_seconds } => {
            let grace = grace_seconds.map(|s| format!(" grace={s}")).unwrap_or_default();
            format!("delete {}{grace}", at(target))
        }
        Call::Event(Remark { regarding, warning, reason, message, .. }) => {
            let kind = if *warning { "Warning" } else { "Normal" };
            format!("event {kind} {reason} {}: {message}", at(regarding))
        }
    }
}

pub fn key(name: &str) -> Name {
    Name::new("default", name)
}

pub fn node(name: &str, labels: Value) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}});
    node["metadata"]["labels"] = labels;
    node
}

pub fn bound_volume(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"claimRef": {"namespace": "default", "name": claim}}, "status": {"phase": "Bound"},
    })
}

#[expect(clippy::needless_pass_by_value, reason = "a test reads better with json!() in place")]
pub fn claim(name: &str, spec: Value, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": spec, "status": {"phase": phase},
    })
}

pub fn pod(name: &str, node: Option<&str>, claims: &[&str]) -> Value {
    let volumes = claims.iter().map(|c| json!({"name": c, "persistentVolumeClaim": {"claimName": c}}));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "volumes": volumes.collect::<Vec<_>>(), "containers": [{"name": "x", "image": "x"}],
        },
        "status": {"phase": "Pending"},
    })
}

/// A workload with one container and the labels `app: NAME`, `spec` merged over it.
pub fn workload(kind: Kind, name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {"name": name, "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "x", "image": "x"}]},
            },
        },
    });
    if kind == Kind::Job {
        // Its pods end, and it is not the server that ties them to it.
        object["spec"]["manualSelector"] = true.into();
        object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    }
    json_patch::merge(&mut object["spec"], spec);
    object
}
