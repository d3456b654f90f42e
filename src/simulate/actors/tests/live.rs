//! The shell against the in-process API server, under a paused clock: what is not played here (placement, binding) the
//! tests do by hand, through the same server.

use super::scene::workload;
use crate::act;
use crate::decide::binder::Pods;
use crate::simulate::actors::{Kind, Roles, run};
use fake_apiserver::{FakeApiServer, Ids, Options};
use futures::StreamExt;
use http::{Method, Request};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub struct Live {
    client: kube::Client,
    stop: watch::Sender<bool>,
    actors: JoinHandle<Result<(), crate::simulate::actors::Error>>,
}

impl Live {
    pub async fn start(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::start_on(&server(), objects).await
    }

    pub async fn start_on(server: &FakeApiServer, objects: impl IntoIterator<Item = Value>) -> Self {
        let client = kube::Client::new(server.router(), "default");
        let (stop, stopped) = watch::channel(false);
        let now = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let roles = act::Roles { controller: true, scheduler: Some(Pods::All) };
        let shared = act::watch::watch(&client, &act::run::kinds(&roles)).boxed();
        let actors = tokio::spawn(run(client.clone(), shared, Roles::default(), now, stopped));
        let live = Self { client, stop, actors };
        for object in objects {
            live.create(object).await;
        }
        live.settle().await;
        live
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.request(request.body(body).expect("a request")).await
    }

    pub async fn create(&self, object: Value) -> Value {
        let kind = Kind::of(&object).expect("a kind of ours");
        let answer = self.send(Method::POST, &kind.path("default", None), "application/json", &object).await;
        answer.unwrap_or_else(|error| panic!("{object}: {error}"))
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        self.send(Method::GET, &kind.path("default", Some(name)), "application/json", &Value::Null).await.ok()
    }

    pub async fn names(&self, kind: Kind) -> Vec<String> {
        self.items(kind)
            .await
            .iter()
            .filter_map(|o| Some(o["metadata"]["name"].as_str()?.to_owned()))
            .collect()
    }

    pub async fn items(&self, kind: Kind) -> Vec<Value> {
        let list =
            self.send(Method::GET, &kind.path("default", None), "application/json", &Value::Null).await;
        list.expect("a list")["items"].as_array().cloned().unwrap_or_default()
    }

    pub async fn merge(&self, kind: Kind, name: &str, subresource: &str, change: Value) {
        let path = format!("{}{subresource}", kind.path("default", Some(name)));
        let answer = self.send(Method::PATCH, &path, "application/merge-patch+json", &change).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        let path = kind.path("default", Some(name));
        self.send(Method::DELETE, &path, "application/json", &Value::Null).await.expect("deleted");
        self.settle().await;
    }

    /// The clock moves on only when nobody has anything to do.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    pub async fn place(&self, pod: &str) {
        let path = format!("{}/binding", Kind::Pod.path("default", Some(pod)));
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": "n1"});
        let binding =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target});
        self.send(Method::POST, &path, "application/json", &binding).await.expect("placed");
        self.settle().await;
    }

    pub async fn bind(&self, claim: &str, volume: &str) {
        self.merge(Kind::Claim, claim, "", json!({"spec": {"volumeName": volume}})).await;
        self.merge(Kind::Claim, claim, "/status", json!({"status": {"phase": "Bound"}})).await;
        self.merge(Kind::Volume, volume, "/status", json!({"status": {"phase": "Bound"}})).await;
        self.settle().await;
    }

    pub async fn stop(self) {
        self.stop.send(true).expect("the actors listen");
        self.actors.await.expect("no panic").expect("no error");
    }
}

/// A server without chance: its uids are a sequence and its clock stands still.
pub fn server() -> FakeApiServer {
    let now = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    FakeApiServer::new(Options { now, ids: Ids::Seeded(1), managed_fields: false, ..Options::default() })
}

pub fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
}

pub fn volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/x"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    })
}

pub fn claim(name: &str, class: &str, annotations: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    claim["metadata"]["annotations"] = annotations;
    claim
}

pub fn pod(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "x", "image": "x"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

pub fn stateful_set(replicas: u32) -> Value {
    let template = claim("data", "", json!({}));
    workload(
        Kind::StatefulSet,
        "web",
        &json!({"replicas": replicas, "serviceName": "web", "volumeClaimTemplates": [template]}),
    )
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_expands_in_order() {
    let live = Live::start([node(), stateful_set(3)]).await;
    for number in 0..3 {
        let (name, claim, at) = (format!("web-{number}"), format!("data-web-{number}"), format!("v{number}"));
        assert_eq!(live.names(Kind::Pod).await.len(), number + 1);
        live.create(volume(&at)).await;
        live.bind(&claim, &at).await;
        live.place(&name).await;
        assert_eq!(live.get(Kind::Pod, &name).await.expect("the pod")["status"]["phase"], "Running");
    }
    assert_eq!(live.names(Kind::Pod).await, ["web-0", "web-1", "web-2"]);
    let set = live.get(Kind::StatefulSet, "web").await.expect("the set");
    assert_eq!(set["status"]["readyReplicas"], 3);
    let reasons: Vec<_> = live.items(Kind::Event).await.into_iter().map(|e| e["reason"].clone()).collect();
    assert_eq!(json!(reasons), json!(vec!["SuccessfulCreate"; 6]));

    // A pod that is deleted comes back, and the clock is all it takes.
    let uid = live.get(Kind::Pod, "web-1").await.expect("the pod")["metadata"]["uid"].clone();
    live.delete(Kind::Pod, "web-1").await;
    assert_ne!(live.get(Kind::Pod, "web-1").await.expect("the pod")["metadata"]["uid"], uid);
    live.delete(Kind::StatefulSet, "web").await;
    assert_eq!((live.names(Kind::Pod).await.len(), live.names(Kind::Claim).await.len()), (0, 3));
    live.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_provisioned_and_its_volume_goes_when_it_is_released() {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "drv.example.com",
    });
    let asks = json!({"volume.kubernetes.io/storage-provisioner": "drv.example.com"});
    let live = Live::start([class, claim("c1", "fast", asks)]).await;
    let [name] = &live.names(Kind::Volume).await[..] else { panic!("one volume") };
    live.bind("c1", name).await;
    live.delete(Kind::Claim, "c1").await;
    assert!(live.get(Kind::Claim, "c1").await.is_none());
    assert_eq!(live.names(Kind::Volume).await.len(), 1);
    live.merge(Kind::Volume, name, "/status", json!({"status": {"phase": "Released"}})).await;
    live.settle().await;
    assert!(live.names(Kind::Volume).await.is_empty());
    live.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_stays_until_its_pod_is_gone() {
    let live = Live::start([node(), volume("v1"), claim("c1", "", json!({})), pod("d1", "c1")]).await;
    live.bind("c1", "v1").await;
    live.place("d1").await;
    assert_eq!(live.get(Kind::Pod, "d1").await.expect("the pod")["status"]["phase"], "Running");
    live.delete(Kind::Claim, "c1").await;
    assert!(
        live.get(Kind::Claim, "c1").await.expect("the claim")["metadata"]["deletionTimestamp"].is_string()
    );
    live.delete(Kind::Pod, "d1").await;
    assert!(live.get(Kind::Pod, "d1").await.is_none());
    assert!(live.get(Kind::Claim, "c1").await.is_none());
    live.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_goes_with_everything_it_made() {
    let scratch = json!({"volumeClaimTemplate": {"spec": claim("", "", json!({}))["spec"]}});
    let volumes = json!([{"name": "tmp", "ephemeral": scratch}]);
    let spec = json!({"replicas": 3, "template": {"spec": {"volumes": volumes}}});
    let live = Live::start([node(), workload(Kind::Deployment, "web", &spec)]).await;
    let count = async |kind| live.names(kind).await.len();
    assert_eq!((count(Kind::ReplicaSet).await, count(Kind::Pod).await, count(Kind::Claim).await), (1, 3, 3));
    live.delete(Kind::Deployment, "web").await;
    assert_eq!((count(Kind::ReplicaSet).await, count(Kind::Pod).await, count(Kind::Claim).await), (0, 0, 0));
    live.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_claim_is_told_of_once_and_replaced_when_it_is_gone() {
    let mut with_scratch = pod("d1", "none");
    let scratch = json!({"volumeClaimTemplate": {"spec": claim("", "", json!({}))["spec"]}});
    with_scratch["spec"]["volumes"] = json!([{"name": "tmp", "ephemeral": scratch}]);
    let live = Live::start([claim("d1-tmp", "", json!({})), with_scratch]).await;
    let warnings: Vec<_> =
        live.items(Kind::Event).await.into_iter().filter(|e| e["type"] == "Warning").collect();
    assert_eq!((warnings.len(), &warnings[0]["reason"]), (1, &json!("FailedBinding")));
    live.delete(Kind::Claim, "d1-tmp").await;
    let own = live.get(Kind::Claim, "d1-tmp").await.expect("the pod's own claim");
    assert_eq!(own["metadata"]["ownerReferences"][0]["name"], "d1");
    live.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_actors_stop_when_nobody_can_tell_them_to() {
    let live = Live::start([]).await;
    drop(live.stop);
    live.actors.await.expect("no panic").expect("no error");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_its_content_is_gone() {
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let mut held = claim("c1", "", json!({}));
    held["metadata"]["namespace"] = json!("team");
    let live = Live::start([space]).await;
    let claims = Kind::Claim.path("team", None);
    live.send(Method::POST, &claims, "application/json", &held).await.expect("created");
    live.delete(Kind::Namespace, "team").await;
    assert!(live.get(Kind::Namespace, "team").await.is_none());
    let left = live.send(Method::GET, &claims, "application/json", &Value::Null).await.expect("a list");
    assert_eq!(left["items"], json!([]));
    live.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_happens_again_is_counted_up() {
    let live = Live::start([node(), workload(Kind::StatefulSet, "web", &json!({"replicas": 1}))]).await;
    live.delete(Kind::Pod, "web-0").await;
    live.delete(Kind::Pod, "web-0").await;
    let [event] = &live.items(Kind::Event).await[..] else { panic!("one event") };
    assert_eq!((&event["reason"], &event["count"]), (&json!("SuccessfulCreate"), &json!(3)));
    assert_eq!(event["involvedObject"]["kind"], "StatefulSet");
    live.stop().await;
}
