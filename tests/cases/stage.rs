//! The production loop on the fake API server: what a case does to the two, and what it asks them afterwards.
//!
//! Time is tokio's paused clock. Without other programs nothing removes protection finalizers, so the server puts
//! none on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_apiserver::{Call, FakeApiServer, Fault, Ids, Plugins, Status};
use kube::Client;
use pvbind::act::{self, Options, Roles, Stats};
use pvbind::decide::binder::Pods;
use pvbind::decide::{Settings, plugin};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Virtual time without any change after which the loop counts as settled: longer than any pause after a failure.
const QUIET: Duration = Duration::from_secs(150);

/// Virtual time after which a loop that still changes things goes round in circles.
const LONGEST: Duration = Duration::from_secs(3600);
/// Changes after which it does so, where it takes no virtual time at all.
const MOST: u64 = 50_000;

/// How many events of a kind the server remembers: few, so that a watch that breaks off has to list again.
const HISTORY: usize = 4;

/// The server, and the loop while it runs.
pub struct Stage {
    pub server: FakeApiServer,
    settings: Settings,
    running: Option<(oneshot::Sender<()>, JoinHandle<Stats>)>,
}

/// The path of a collection, or of an object in it.
fn path(kind: &str, name: &str) -> String {
    let collection = match kind {
        "PersistentVolume" => "/api/v1/persistentvolumes",
        "PersistentVolumeClaim" => "/api/v1/namespaces/default/persistentvolumeclaims",
        "Pod" => "/api/v1/namespaces/default/pods",
        "Node" => "/api/v1/nodes",
        "StorageClass" => "/apis/storage.k8s.io/v1/storageclasses",
        "CSIDriver" => "/apis/storage.k8s.io/v1/csidrivers",
        "CSIStorageCapacity" => "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
        other => panic!("no case needs a {other}"),
    };
    if name.is_empty() { collection.to_owned() } else { format!("{collection}/{name}") }
}

impl Stage {
    /// A server and no loop yet.
    pub fn new() -> Self {
        let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
        let options =
            fake_apiserver::Options { ids: Ids::Seeded(1), plugins, history: HISTORY, ..Default::default() };
        let settings = Settings { plugins: plugin::PROVISIONING, ..Settings::default() };
        Stage { server: FakeApiServer::new(options), settings, running: None }
    }

    /// Starts the controller.
    pub fn start(&mut self) {
        self.start_as(Roles::controller());
    }

    /// Starts the controller and the scheduler in one.
    pub fn start_both(&mut self) {
        self.start_as(Roles { controller: true, scheduler: Some(Pods::All) });
    }

    /// From the next start on each claim is compared alone with what a driver reports.
    pub fn count_each_alone(&mut self) {
        self.settings.strict_capacity = false;
    }

    fn start_as(&mut self, roles: Roles) {
        let (stop, stopped) = oneshot::channel();
        let client = Client::new(self.server.router(), "default");
        let options = Options { settings: self.settings, roles, ..Options::controller() };
        let program = tokio::spawn(async move {
            let stop = async {
                // A sender that is gone means stop as well.
                let _ = stopped.await;
            };
            act::run(client, options, stop).await.expect("the loop ends well").0
        });
        self.running = Some((stop, program));
    }

    /// Stops the controller; says what it did.
    pub async fn stop(&mut self) -> Stats {
        let (stop, program) = self.running.take().expect("it runs");
        stop.send(()).expect("it listens");
        program.await.expect("it does not panic")
    }

    /// Waits until the server has not changed for long; says how long it took until its last change, events aside.
    pub async fn settle(&self) -> Duration {
        let mut changes = self.server.changes();
        let begin = Instant::now();
        let (mut seen, mut last) = (changes.borrow_and_update().non_event_revision, begin);
        while tokio::time::timeout(QUIET, changes.changed()).await.is_ok() {
            let change = *changes.borrow_and_update();
            let rests = begin.elapsed() < LONGEST && change.revision < MOST;
            assert!(rests, "the controller never comes to rest");
            if change.non_event_revision != seen {
                (seen, last) = (change.non_event_revision, Instant::now());
            }
        }
        last.duration_since(begin)
    }

    fn request(&self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let (code, body) = self.server.request(method, path, content_type, body.to_string().as_bytes());
        (code, serde_json::from_slice(&body).expect("the server answers with JSON"))
    }

    /// Creates an object as `kubectl create` would; returns it as it was stored.
    #[track_caller]
    pub fn create(&self, object: &Value) -> Value {
        let kind = object["kind"].as_str().expect("a kind");
        let (code, answer) = self.request("POST", &path(kind, ""), "application/json", object);
        assert_eq!(code, 201, "{answer}");
        answer
    }

    /// Sends a merge patch; returns code and answer.
    pub fn try_patch(&self, kind: &str, name: &str, patch: &Value) -> (u16, Value) {
        self.request("PATCH", &path(kind, name), "application/merge-patch+json", patch)
    }

    #[track_caller]
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let (code, answer) = self.try_patch(kind, name, patch);
        assert_eq!(code, 200, "{answer}");
    }

    /// As somebody who reports a state: a kubelet, or an older controller.
    #[track_caller]
    pub fn patch_status(&self, kind: &str, name: &str, status: &Value) {
        let target = format!("{}/status", path(kind, name));
        let patch = json!({ "status": status });
        let (code, answer) = self.request("PATCH", &target, "application/merge-patch+json", &patch);
        assert_eq!(code, 200, "{answer}");
    }

    #[track_caller]
    pub fn delete(&self, kind: &str, name: &str) {
        let (code, answer) = self.request("DELETE", &path(kind, name), "application/json", &json!({}));
        assert_eq!(code, 200, "{answer}");
    }

    /// An object, or null.
    pub fn get(&self, kind: &str, name: &str) -> Value {
        let is_everywhere = matches!(kind, "PersistentVolume" | "StorageClass" | "Node" | "CSIDriver");
        let namespace = if is_everywhere { "" } else { "default" };
        self.server.get(kind, namespace, name).map_or(Value::Null, |object| Value::clone(&object))
    }

    pub fn claim(&self, name: &str) -> Value {
        self.get("PersistentVolumeClaim", name)
    }

    pub fn volume(&self, name: &str) -> Value {
        self.get("PersistentVolume", name)
    }

    /// The phase of a volume, and the claim that it is for.
    pub fn volume_state(&self, name: &str) -> (String, String) {
        let volume = self.volume(name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&volume["status"]["phase"]), text(&volume["spec"]["claimRef"]["name"]))
    }

    /// The phase of a claim, and the volume that it names.
    pub fn claim_state(&self, name: &str) -> (String, String) {
        let claim = self.claim(name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&claim["status"]["phase"]), text(&claim["spec"]["volumeName"]))
    }

    pub fn finalizers(&self, kind: &str, name: &str) -> Vec<String> {
        let object = self.get(kind, name);
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.iter().map(|f| f.as_str().expect("a text").to_owned()).collect()
    }

    /// Reason and message of each event about an object of this name, in the order of their texts.
    pub fn events(&self, name: &str) -> Vec<(String, String)> {
        let events = self.server.objects().into_iter().filter(|object| object["kind"] == "Event");
        let mut found: Vec<_> = events
            .filter(|event| {
                let about = if event["involvedObject"].is_null() { "regarding" } else { "involvedObject" };
                event[about]["name"] == name
            })
            .map(|event| {
                let message = if event["message"].is_null() { "note" } else { "message" };
                let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
                (text("reason"), text(message))
            })
            .collect();
        found.sort();
        found
    }

    /// From now on every phase that a volume goes through is noted.
    pub fn phases_of(&self, volume: &'static str) -> Arc<Mutex<Vec<String>>> {
        let phases = Arc::new(Mutex::new(Vec::new()));
        let (server, noted) = (self.server.clone(), phases.clone());
        // Whoever changes a phase asks the server to: each request is a moment to look at what the one before did.
        self.server.set_faults(Some(Arc::new(move |_: &Call| {
            let volume = server.get("PersistentVolume", "", volume)?;
            let phase = volume["status"]["phase"].as_str().unwrap_or_default().to_owned();
            let mut noted = noted.lock().expect("nobody panics while noting");
            if noted.last() != Some(&phase) {
                noted.push(phase);
            }
            None
        })));
        phases
    }

    /// Refuses so many of the requests that `is_meant` picks.
    pub fn refuse(&self, times: usize, code: u16, is_meant: impl Fn(&Call) -> bool + Send + Sync + 'static) {
        let left = Mutex::new(times);
        self.server.set_faults(Some(Arc::new(move |call: &Call| {
            let mut left = left.lock().expect("nobody panics while counting");
            if *left == 0 || !is_meant(call) {
                return None;
            }
            *left -= 1;
            let message = "the request is refused for the sake of the case";
            Some(Fault::Status(Box::new(Status::new(code, "Forbidden", message))))
        })));
    }

    /// Ends every watch when the server has forgotten where they were, so that all claims and volumes are listed anew;
    /// then waits until all is quiet, and says what the controller asked besides.
    pub async fn relist(&self) -> Vec<Call> {
        let bystanders = [
            claim("bystander", &json!({"storageClassName": "nobody-has-this"})),
            volume("bystander", &json!({"spec": {"storageClassName": "somebody-has-this"}})),
        ];
        for bystander in &bystanders {
            self.create(bystander);
        }
        self.settle().await;
        self.server.cut_watches();
        for seen in 0..=HISTORY {
            for bystander in &bystanders {
                let kind = bystander["kind"].as_str().expect("a kind");
                let label = json!({"metadata": {"labels": {"seen": seen.to_string()}}});
                self.patch(kind, "bystander", &label);
            }
        }
        let lists = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = lists.clone();
        self.server.set_faults(Some(Arc::new(move |call: &Call| {
            if call.verb == "list" {
                noted.lock().expect("nobody panics while noting").insert(call.resource.clone());
            }
            None
        })));
        self.server.record_calls(true);
        self.settle().await;
        let lists = lists.lock().expect("nobody notes any more").clone();
        assert!(["persistentvolumeclaims", "persistentvolumes"].iter().all(|kind| lists.contains(*kind)));
        self.calls()
    }

    /// The calls about something else than events, since they were last recorded.
    pub fn calls(&self) -> Vec<Call> {
        self.server.calls().into_iter().filter(|call| call.resource != "events").collect()
    }
}

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
    merge(&mut claim["spec"], spec);
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
    merge(&mut volume, extra);
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

/// Lays one tree over another; what is null goes away.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    base.remove(key);
                } else {
                    merge(base.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}
