//! The production loop on the fake API server: what a case does to the two, and what it asks them afterwards.
//!
//! Time is tokio's paused clock. Without other programs nothing removes protection finalizers, so the server puts
//! none on. The loop has the controller's role, the scheduler's or both, and may be killed and started again.

mod asked;
mod faults;
mod objects;
mod provisioner;
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Ids, Plugins};
use kube::Client;
use pvbind::act::{self, Options, Roles, Stats};
use pvbind::decide::{Settings, binder, plugin};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use faults::Trouble;

pub use objects::{
    DRIVER, capacity, claim, class, delayed_class, driver, local_class, local_volume, node, pod, volume,
};
pub use provisioner::Deed;

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
    by_hand: ByHand,
    roles: Roles,
    settings: Settings,
    running: Option<(oneshot::Sender<()>, JoinHandle<Stats>)>,
}

/// What the case itself asks of the server, which no fault is meant for.
#[derive(Clone)]
pub struct ByHand {
    server: FakeApiServer,
    asks: Arc<AtomicBool>,
}

/// The path of a collection, or of an object in it.
fn path(kind: &str, name: &str) -> String {
    let collection = match kind {
        "PersistentVolume" => "/api/v1/persistentvolumes",
        "PersistentVolumeClaim" => "/api/v1/namespaces/default/persistentvolumeclaims",
        "Pod" => "/api/v1/namespaces/default/pods",
        "Node" => "/api/v1/nodes",
        "StorageClass" => "/apis/storage.k8s.io/v1/storageclasses",
        "CSINode" => "/apis/storage.k8s.io/v1/csinodes",
        "CSIDriver" => "/apis/storage.k8s.io/v1/csidrivers",
        "CSIStorageCapacity" => "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
        other => panic!("no case needs a {other}"),
    };
    if name.is_empty() { collection.to_owned() } else { format!("{collection}/{name}") }
}

impl ByHand {
    /// Whether a request that arrives now is the case's own.
    fn is_asking(&self) -> bool {
        self.asks.load(Ordering::SeqCst)
    }

    fn request(&self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        self.asks.store(true, Ordering::SeqCst);
        let (code, body) = self.server.request(method, path, content_type, body.to_string().as_bytes());
        self.asks.store(false, Ordering::SeqCst);
        (code, serde_json::from_slice(&body).expect("the server answers with JSON"))
    }

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

    #[track_caller]
    pub fn delete(&self, kind: &str, name: &str) {
        // Nobody here plays the kubelet, which lets a pod go after its grace period.
        let now = json!({"gracePeriodSeconds": 0});
        let (code, answer) = self.request("DELETE", &path(kind, name), "application/json", &now);
        assert_eq!(code, 200, "{answer}");
    }
}

impl Stage {
    /// A server, and no loop yet; it will be the controller's.
    pub fn new() -> Self {
        Stage::of(Roles::controller())
    }

    /// The same for the controller and the scheduler in one.
    pub fn scheduling() -> Self {
        Stage::of(Roles { controller: true, scheduler: Some(binder::Pods::All) })
    }

    /// The same for the scheduler, with nobody to bind the claims.
    pub fn scheduling_alone() -> Self {
        Stage::of(Roles { controller: false, scheduler: Some(binder::Pods::All) })
    }

    fn of(roles: Roles) -> Self {
        let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
        let options = fake_apiserver::Options {
            ids: Ids::Seeded(1),
            plugins,
            managed_fields: false,
            history: HISTORY,
            ..Default::default()
        };
        let settings = Settings { plugins: plugin::PROVISIONING, ..Settings::default() };
        let server = FakeApiServer::new(options);
        let by_hand = ByHand { server: server.clone(), asks: Arc::default() };
        Stage { server, by_hand, roles, settings, running: None }
    }

    /// From the next start on each claim is compared alone with what a driver reports.
    pub fn count_each_alone(&mut self) {
        self.settings.strict_capacity = false;
    }

    /// Starts the loop.
    pub fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let client = Client::new(self.server.router(), "default");
        let options = Options { settings: self.settings, roles: self.roles.clone(), ..Options::controller() };
        let program = tokio::spawn(async move {
            let stop = async {
                // A sender that is gone means stop as well.
                let _ = stopped.await;
            };
            act::run(client, options, stop).await.expect("the loop ends well").0
        });
        self.running = Some((stop, program));
    }

    /// Stops the loop; says what it did.
    pub async fn stop(&mut self) -> Stats {
        let (stop, program) = self.running.take().expect("it runs");
        stop.send(()).expect("it listens");
        program.await.expect("it does not panic")
    }

    /// Kills the loop, as a process that dies: whatever it is doing, it does no more.
    pub async fn kill(&mut self) {
        let (_stop, program) = self.running.take().expect("it runs");
        program.abort();
        let ended = program.await;
        assert!(ended.is_err_and(|why| why.is_cancelled()), "it ran until it was killed");
    }

    /// Waits until the server has not changed for long; says how long it took until its last change, events aside.
    pub async fn settle(&self) -> Duration {
        let mut changes = self.server.changes();
        let begin = Instant::now();
        let (mut seen, mut last) = (changes.borrow_and_update().non_event_revision, begin);
        while tokio::time::timeout(QUIET, changes.changed()).await.is_ok() {
            let change = *changes.borrow_and_update();
            let rests = begin.elapsed() < LONGEST && change.revision < MOST;
            assert!(rests, "the loop never comes to rest");
            if change.non_event_revision != seen {
                (seen, last) = (change.non_event_revision, Instant::now());
            }
        }
        last.duration_since(begin)
    }

    /// What else than the loop asks the server, as from another program.
    pub fn by_hand(&self) -> ByHand {
        self.by_hand.clone()
    }

    fn request(&self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        self.by_hand.request(method, path, content_type, body)
    }

    /// Creates an object as `kubectl create` would; returns it as it was stored.
    #[track_caller]
    pub fn create(&self, object: &Value) -> Value {
        self.by_hand.create(object)
    }

    /// Creates several objects, one after the other.
    #[track_caller]
    pub fn create_all(&self, objects: impl IntoIterator<Item = Value>) {
        for object in objects {
            if object["kind"] == "Node" {
                // One that is created is tainted until somebody who is not here finds it ready.
                self.server.import(object).expect("a node");
            } else {
                self.create(&object);
            }
        }
    }

    /// Sends a merge patch; returns code and answer.
    pub fn try_patch(&self, kind: &str, name: &str, patch: &Value) -> (u16, Value) {
        self.by_hand.try_patch(kind, name, patch)
    }

    #[track_caller]
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) {
        self.by_hand.patch(kind, name, patch);
    }

    /// As somebody who reports a state: a kubelet, or an older controller.
    #[track_caller]
    pub fn patch_status(&self, kind: &str, name: &str, status: &Value) {
        let target = format!("{}/status", path(kind, name));
        let patch = json!({ "status": status });
        let (code, answer) = self.request("PATCH", &target, "application/merge-patch+json", &patch);
        assert_eq!(code, 200, "{answer}");
    }

    /// As a controller that is another process: binds the claim to the volume that is reserved for it.
    #[track_caller]
    pub fn bind_by_hand(&self, claim: &str, volume: &str) {
        self.patch_status("PersistentVolume", volume, &json!({"phase": "Bound"}));
        let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let patch = json!({"metadata": {"annotations": bound}, "spec": {"volumeName": volume}});
        self.patch("PersistentVolumeClaim", claim, &patch);
        self.patch_status("PersistentVolumeClaim", claim, &json!({"phase": "Bound"}));
    }

    #[track_caller]
    pub fn delete(&self, kind: &str, name: &str) {
        self.by_hand.delete(kind, name);
    }
}
