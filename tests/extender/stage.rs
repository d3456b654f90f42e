//! The fake API server with an extender on it, and perhaps a controller: what a test puts there, and what it asks.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Ids, Plugins};
use kube::Client;
use pvbind::act::extender::{Asker, Extender};
use pvbind::act::{self, Options, Roles, Stats};
use pvbind::decide::{Settings, binder};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything may take before a test gives up; it only matters when something is broken.
pub const PATIENCE: Duration = Duration::from_secs(1000);

/// A loop that runs.
pub struct Running(oneshot::Sender<()>, JoinHandle<Stats>);

impl Running {
    /// Tells it to stop, and waits until it has.
    pub async fn stop(self) -> Stats {
        self.0.send(()).expect("it listens");
        tokio::time::timeout(PATIENCE, self.1).await.expect("it ends in time").expect("it does not panic")
    }

    /// Ends it at once, as a crash does.
    pub fn kill(self) {
        self.1.abort();
    }
}

/// The server.
pub struct Stage {
    pub server: FakeApiServer,
}

impl Stage {
    /// A server with three nodes and two classes: `local` has no provisioner, `made` has one; both wait for a pod.
    pub fn new() -> Self {
        // Nobody here takes the protection finalizers off again.
        let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
        let options = fake_apiserver::Options { ids: Ids::Seeded(1), plugins, ..Default::default() };
        let stage = Stage { server: FakeApiServer::new(options) };
        for name in ["n1", "n2", "n3"] {
            stage.put(node(name));
        }
        for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("made", "made.example.test")]
        {
            stage.put(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
            }));
        }
        stage
    }

    /// Creates an object; returns it as it is stored.
    pub fn put(&self, object: Value) -> Value {
        let text = object.to_string();
        let stored = self.server.import(object).unwrap_or_else(|status| panic!("{text}: {status:?}"));
        Value::clone(&stored)
    }

    /// A namespaced object, or one outside namespaces.
    pub fn get(&self, kind: &str, name: &str) -> Value {
        let found = ["default", ""].iter().find_map(|namespace| self.server.get(kind, namespace, name));
        Value::clone(&found.unwrap_or_else(|| panic!("there is no {kind} {name}")))
    }

    fn client(&self) -> Client {
        Client::new(self.server.router(), "default")
    }

    fn run<F>(program: impl FnOnce(oneshot::Receiver<()>) -> F) -> Running
    where
        F: Future<Output = Stats> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        Running(stop, tokio::spawn(program(stopped)))
    }

    /// Starts the controller.
    pub fn control(&self) -> Running {
        let client = self.client();
        Self::run(|stopped| async move {
            // A sender that is gone means stop as well.
            let stop = async { drop(stopped.await) };
            act::run(client, Options::controller(), stop).await.expect("it ends well").0
        })
    }

    /// Starts an extender; binding a pod may take so long there.
    pub fn extend(&self, bind_timeout: Duration) -> (Running, Asker) {
        let client = self.client();
        let (extender, asker) = Extender::new(bind_timeout);
        let options = Options {
            settings: Settings { bind_timeout, ..Settings::default() },
            roles: Roles { controller: false, scheduler: Some(binder::Pods::Requested(BTreeMap::new())) },
            ..Options::controller()
        };
        let running = Self::run(|stopped| async move {
            // A sender that is gone means stop as well.
            let stop = async { drop(stopped.await) };
            act::run_extender(client, options, extender, stop).await.expect("it ends well").0
        });
        (running, asker)
    }

    /// Waits until something is so at the server.
    pub async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let mut changes = self.server.changes();
        let waiting = async {
            while !is(self) {
                changes.changed().await.expect("the server is there");
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what} takes too long"));
    }

    /// The claim that a volume is reserved for or bound to, `""` for one that is nobody's.
    pub fn claim_of(&self, volume: &str) -> String {
        self.get("PersistentVolume", volume)["spec"]["claimRef"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The node that a pod is on, `""` for one that is on none.
    pub fn node_of(&self, pod: &str) -> String {
        self.get("Pod", pod)["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
    }
}

/// Waits until an extender answers.
pub async fn answers(asker: &Asker) {
    let ready = async {
        while asker.ready().await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("it is ready in time");
}

pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
    })
}

/// A volume that only one node reaches.
pub fn volume(name: &str, size: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "storageClassName": "local", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/srv/volume"}, "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
        "status": {"phase": "Available"},
    })
}

pub fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    })
}

/// A pod that uses the claims.
pub fn pod(name: &str, claims: &[&str]) -> Value {
    let volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"name": format!("v-{claim}"), "persistentVolumeClaim": {"claimName": claim}}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "c", "image": "none"}], "volumes": volumes},
    })
}
