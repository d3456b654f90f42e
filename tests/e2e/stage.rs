//! What a scenario works with: a namespace and names of its own, on a cluster that others may use at the same time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures::{StreamExt, stream};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::matrix::Scenario;
use crate::objects::{self, LABEL, name, path, text};
use crate::target::{Fault, How, Nodes, Program, Target};

/// How long anything may take before a scenario gives up; it only matters when something is broken.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long the API server may be away: one that is asked to end may take a minute for that alone.
const OUTAGE: Duration = Duration::from_secs(180);
/// How often is looked whether something has come true.
const PAUSE: Duration = Duration::from_millis(100);
/// How many requests a scenario makes at once.
const AT_ONCE: usize = 16;

/// See the module's documentation.
pub struct Stage {
    target: Arc<dyn Target>,
    client: Client,
    /// Begins the name of whatever is outside the namespace, and is the namespace.
    prefix: String,
    /// The claims that have to be there in the end.
    claims: Mutex<BTreeSet<String>>,
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

impl Stage {
    /// Sets up what every scenario needs: its namespace, and the programs that it names.
    pub async fn open(target: Arc<dyn Target>, scenario: &Scenario) -> Self {
        let config = target.config();
        let client = Client::try_from(config).expect("a client of the target");
        let nanoseconds = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").subsec_nanos();
        let prefix = format!("e2e-{}-{:04x}", scenario.name.replace("::", "-"), nanoseconds >> 8 & 0xffff);
        let stage = Stage { target, client, prefix, claims: Mutex::default() };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": stage.prefix}});
        stage.create(&namespace).await;
        stage.ensure(Program::Controller).await;
        for program in scenario.needs {
            stage.ensure(*program).await;
        }
        stage
    }

    /// The scenario's namespace, and the class of whatever only needs one that nobody else has.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A name for something outside the namespace.
    pub fn named(&self, short: &str) -> String {
        format!("{}-{short}", self.prefix)
    }

    async fn on_target<T: Send + 'static>(&self, deed: impl FnOnce(&dyn Target) -> T + Send + 'static) -> T {
        let target = self.target.clone();
        tokio::task::spawn_blocking(move || deed(&*target)).await.expect("the target does it")
    }

    /// See [`Target::ensure`].
    pub async fn ensure(&self, program: Program) {
        self.on_target(move |target| target.ensure(program)).await;
    }

    /// See [`Target::end`].
    pub async fn end(&self, program: Program, how: How) {
        self.on_target(move |target| target.end(program, how)).await;
    }

    /// See [`Target::fault`].
    pub async fn fault(&self, fault: Fault) {
        self.on_target(move |target| target.fault(fault)).await;
    }

    /// See [`Target::metrics`].
    pub async fn metrics(&self, program: Program) -> Option<String> {
        self.on_target(move |target| target.metrics(program)).await
    }

    /// The lease by which controllers take turns.
    pub async fn lease(&self) -> Result<Value, String> {
        let [namespace, name] = self.target.lease();
        let url = format!("{}/{name}", path("Lease", namespace));
        self.send("GET", &url, None).await.map_err(|error| error.to_string())
    }

    /// See [`Target::shares_files`].
    pub fn shares_files(&self) -> bool {
        self.target.shares_files()
    }

    /// See [`Target::nodes`].
    pub fn kind_of_nodes(&self) -> Nodes {
        self.target.nodes()
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.client.request(request.body(body).expect("a request")).await
    }

    /// Sends until the answer is one of the API server's own; what it does not like is an error, with its code.
    async fn insist(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let start = Instant::now();
        loop {
            let error = match self.send(method, path, body).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // The last: a namespace's account comes a moment after the namespace.
            let later =
                matches!(code(&error), 0 | 429 | 500..) || error.to_string().contains("serviceaccount");
            if !later || start.elapsed() > OUTAGE {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Creates an object, in the scenario's namespace or marked as the scenario's.
    pub async fn create(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["metadata"]["labels"][LABEL] = json!(self.prefix);
        let kind = text(&object, "/kind").to_owned();
        if kind == "PersistentVolumeClaim" {
            let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
            claims.insert(name(&object).to_owned());
        }
        let path = path(&kind, &self.prefix);
        let created = match self.insist("POST", &path, Some(&object)).await {
            // The answer to an earlier try was lost.
            Err(error) if code(&error) == 409 => self.get(&kind, name(&object)).await,
            created => created.unwrap_or_else(|error| panic!("{object}: {error}")),
        };
        // New nodes are tainted until somebody finds them ready, and nobody will.
        if kind == "Node" && !created["spec"]["taints"].is_null() {
            return self.patch(&kind, name(&object), &json!({"spec": {"taints": null}})).await;
        }
        created
    }

    /// Creates many objects, several at once.
    pub async fn create_all(&self, objects: Vec<Value>) {
        stream::iter(objects)
            .for_each_concurrent(AT_ONCE, async |object| {
                self.create(&object).await;
            })
            .await;
    }

    /// An object, which has to be there.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        self.find(kind, name).await.unwrap_or_else(|| panic!("{kind} {name} is not there"))
    }

    /// An object, if it is there.
    pub async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        match self.insist("GET", &format!("{}/{name}", path(kind, &self.prefix)), None).await {
            Ok(object) => Some(object),
            Err(error) if code(&error) == 404 => None,
            Err(error) => panic!("{kind} {name}: {error}"),
        }
    }

    /// The objects of a kind in the scenario's namespace, or of the whole cluster.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.insist("GET", &path(kind, &self.prefix), None).await;
        let mut list = list.unwrap_or_else(|error| panic!("{kind}: {error}"));
        serde_json::from_value(list["items"].take()).expect("a list has items")
    }

    /// The volumes that are the scenario's: made by it, or for a claim of its.
    pub async fn volumes(&self) -> Vec<Value> {
        let mut all = self.list("PersistentVolume").await;
        all.retain(|volume| {
            volume["metadata"]["labels"][LABEL] == self.prefix.as_str()
                || text(volume, "/spec/claimRef/namespace") == self.prefix
        });
        all
    }

    /// Merges into an object.
    pub async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Value {
        let url = format!("{}/{name}", path(kind, &self.prefix));
        self.insist("PATCH", &url, Some(patch)).await.unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    /// Deletes an object, if it is there. Whoever has to finish that may take his time.
    pub async fn delete(&self, kind: &str, name: &str) {
        if kind == "PersistentVolumeClaim" {
            self.claims.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
        let mut path = format!("{}/{name}", path(kind, &self.prefix));
        if kind == "Pod" && self.target.nodes() == Nodes::MadeUp {
            // No kubelet will say that it is gone.
            path += "?gracePeriodSeconds=0";
        }
        match self.insist("DELETE", &path, None).await {
            Err(error) if code(&error) != 404 => panic!("{path}: {error}"),
            _ => {}
        }
    }

    /// The names of so many nodes that pods of this scenario can go to.
    pub async fn nodes(&self, count: usize) -> Vec<String> {
        if self.target.nodes() == Nodes::Real {
            let nodes = self.list("Node").await;
            let names: Vec<_> = nodes.iter().map(|node| name(node).to_owned()).take(count).collect();
            assert!(!names.is_empty(), "the cluster has no node");
            return names;
        }
        let names: Vec<_> = (1..=count).map(|number| self.named(&format!("n{number}"))).collect();
        self.create_all(names.iter().map(|name| objects::node(name, 500)).collect()).await;
        names
    }

    /// Looks until something has come true, and returns what was found.
    pub async fn until<T>(&self, what: &str, check: impl AsyncFn() -> Result<T, String>) -> T {
        self.within(PATIENCE, what, check).await
    }

    /// The same with another patience.
    pub async fn within<T>(
        &self,
        time: Duration,
        what: &str,
        check: impl AsyncFn() -> Result<T, String>,
    ) -> T {
        let start = Instant::now();
        loop {
            match check().await {
                Ok(found) => return found,
                Err(error) => assert!(start.elapsed() < time, "{what}: not within {time:?}: {error}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until an object is as it should be.
    pub async fn shows(&self, kind: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let check = async || {
            let object = self.find(kind, name).await.ok_or("it is not there")?;
            if is(&object) { Ok(object) } else { Err(object.to_string()) }
        };
        self.until(&format!("{kind} {name}: {what}"), check).await
    }

    /// Waits until a volume is in a phase.
    pub async fn volume_is(&self, volume: &str, phase: &str) -> Value {
        self.shows("PersistentVolume", volume, phase, |volume| text(volume, "/status/phase") == phase).await
    }

    /// Waits until somebody is told something: of the scenario's objects, by an event for this reason.
    pub async fn told(&self, of: &str, reason: &str, part: &str) {
        let check = async || {
            let events = self.list("Event").await;
            let about = events.iter().filter(|event| {
                text(event, "/involvedObject/name") == of && text(event, "/reason") == reason
            });
            let told: Vec<_> = about.map(|event| text(event, "/message")).collect();
            if told.iter().any(|told| told.contains(part)) { Ok(()) } else { Err(format!("{told:?}")) }
        };
        self.until(&format!("{of} is told of {reason} with {part:?}"), check).await;
    }

    /// Waits until a pod has a place, and says where.
    pub async fn placed(&self, pod: &str) -> String {
        let placed = |pod: &Value| !text(pod, "/spec/nodeName").is_empty();
        let pod = self.shows("Pod", pod, "it has a place", placed).await;
        text(&pod, "/spec/nodeName").to_owned()
    }

    /// Stands in for a kubelet: ends a pod of another namespace well, once it is there.
    pub async fn succeed(&self, namespace: &str, pod: &str) {
        let path = format!("{}/{pod}", path("Pod", namespace));
        let status = json!({"status": {"phase": "Succeeded"}});
        let check = async || {
            let patched = self.send("PATCH", &format!("{path}/status"), Some(&status)).await;
            patched.map(|_| ()).map_err(|error| error.to_string())
        };
        self.until(&format!("pod {namespace}/{pod} is there"), check).await;
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: &str, name: &str) {
        let check = async || match self.find(kind, name).await {
            Some(object) => Err(object.to_string()),
            None => Ok(()),
        };
        self.until(&format!("{kind} {name} is gone"), check).await;
    }

    /// Waits until a claim is bound, and returns it and its volume.
    pub async fn bound(&self, claim: &str) -> (Value, Value) {
        let bound = |claim: &Value| text(claim, "/status/phase") == "Bound";
        let claim = self.shows("PersistentVolumeClaim", claim, "it is bound", bound).await;
        let volume = self.get("PersistentVolume", text(&claim, "/spec/volumeName")).await;
        (claim, volume)
    }

    /// Waits until every claim of the scenario is bound.
    pub async fn all_bound(&self, time: Duration) {
        let check = async || {
            // It ends when it loses its lease, and whoever runs it starts it again.
            self.ensure(Program::Controller).await;
            let claims = self.list("PersistentVolumeClaim").await;
            let open = claims.iter().filter(|claim| text(claim, "/status/phase") != "Bound").count();
            let all = self.claims().len();
            if open == 0 && claims.len() == all { Ok(()) } else { Err(format!("{open} of {all} are not")) }
        };
        self.within(time, "every claim is bound", check).await;
    }

    /// The claims that the scenario made and did not delete.
    pub fn claims(&self) -> BTreeSet<String> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says how things stand, for whoever reads why a scenario failed.
    pub async fn tell(&self) {
        for object in
            [self.list("PersistentVolumeClaim").await, self.volumes().await, self.list("Pod").await].concat()
        {
            eprintln!("{object}");
        }
        for event in self.list("Event").await {
            let about = text(&event, "/involvedObject/name");
            eprintln!("{about}: {}: {}", text(&event, "/reason"), text(&event, "/message"));
        }
        eprintln!("{}", self.on_target(|target| target.said()).await);
    }

    /// Removes what the scenario made, and what was made for it.
    pub async fn clean_up(&self) {
        for kind in [
            "Pod",
            "PersistentVolumeClaim",
            "PersistentVolume",
            "StorageClass",
            "Node",
            "CSINode",
            "CSIDriver",
        ] {
            let mut objects =
                if kind == "PersistentVolume" { self.volumes().await } else { self.list(kind).await };
            let named = matches!(kind, "Pod" | "PersistentVolumeClaim" | "PersistentVolume");
            objects.retain(|object| named || object["metadata"]["labels"][LABEL] == self.prefix.as_str());
            let remove = async |object: Value| {
                // Whoever would let go of it may not run, or ask for the claim that goes as well.
                if kind == "PersistentVolume" && object.pointer("/metadata/finalizers").is_some() {
                    let url = format!("{}/{}", path(kind, &self.prefix), name(&object));
                    let patch = json!({"metadata": {"finalizers": null}});
                    // It may have gone by itself in the meantime.
                    let _ = self.insist("PATCH", &url, Some(&patch)).await;
                }
                self.delete(kind, name(&object)).await;
            };
            stream::iter(objects).for_each_concurrent(AT_ONCE, remove).await;
        }
        self.delete("Namespace", &self.prefix).await;
    }
}
