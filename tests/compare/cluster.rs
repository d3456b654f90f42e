//! A real API server as the comparison uses it: objects of few kinds, as plain JSON.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::error::Error;
use serde_json::{Value, json};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A kind and where it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    prefix: &'static str,
    plural: &'static str,
    pub namespaced: bool,
}

const fn kind(name: &'static str, prefix: &'static str, plural: &'static str, namespaced: bool) -> Kind {
    Kind { name, prefix, plural, namespaced }
}

pub const CLAIM: Kind = kind("PersistentVolumeClaim", "/api/v1", "persistentvolumeclaims", true);
pub const VOLUME: Kind = kind("PersistentVolume", "/api/v1", "persistentvolumes", false);
pub const POD: Kind = kind("Pod", "/api/v1", "pods", true);
pub const EVENT: Kind = kind("Event", "/api/v1", "events", true);
pub const CLASS: Kind = kind("StorageClass", "/apis/storage.k8s.io/v1", "storageclasses", false);

/// Every kind that worlds hold or that comes of one, in the order in which it is deleted.
pub const KINDS: [Kind; 15] = [
    kind("StatefulSet", "/apis/apps/v1", "statefulsets", true),
    kind("Deployment", "/apis/apps/v1", "deployments", true),
    kind("DaemonSet", "/apis/apps/v1", "daemonsets", true),
    kind("ReplicaSet", "/apis/apps/v1", "replicasets", true),
    kind("Job", "/apis/batch/v1", "jobs", true),
    kind("ControllerRevision", "/apis/apps/v1", "controllerrevisions", true),
    POD,
    CLAIM,
    VOLUME,
    CLASS,
    kind("VolumeAttributesClass", "/apis/storage.k8s.io/v1", "volumeattributesclasses", false),
    kind("CSIStorageCapacity", "/apis/storage.k8s.io/v1", "csistoragecapacities", true),
    kind("CSINode", "/apis/storage.k8s.io/v1", "csinodes", false),
    kind("CSIDriver", "/apis/storage.k8s.io/v1", "csidrivers", false),
    kind("Node", "/api/v1", "nodes", false),
];

/// The kind of that name.
pub fn named(name: &str) -> Kind {
    let found = KINDS.into_iter().find(|kind| kind.name == name);
    found.unwrap_or_else(|| panic!("the comparison does not know the kind {name}"))
}

/// A text in an object; empty where there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A client that may do everything.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
}

impl Kind {
    fn all(&self) -> String {
        format!("{}/{}", self.prefix, self.plural)
    }

    fn one(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.of(namespace))
    }

    fn of(&self, namespace: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}", self.prefix, self.plural)
        } else {
            self.all()
        }
    }
}

impl Cluster {
    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<Value>,
    ) -> Result<Value, Error> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(body).expect("a request");
        let answer = tokio::time::timeout(TIMEOUT, self.client.request::<Value>(request)).await;
        answer.unwrap_or_else(|_| panic!("{method} {path} takes too long"))
    }

    /// All objects of a kind.
    pub async fn list(&self, kind: Kind) -> Vec<Value> {
        let answer = self.send("GET", &kind.all(), "application/json", None).await;
        let mut answer = answer.unwrap_or_else(|error| panic!("list {}: {error}", kind.plural));
        match answer["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// An object, if it is there.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        match self.send("GET", &kind.one(namespace, name), "application/json", None).await {
            Ok(object) => Some(object),
            Err(Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("get {} {name}: {error}", kind.name),
        }
    }

    /// Creates an object; what was created comes back.
    pub async fn create(&self, kind: Kind, object: &Value) -> Result<Value, Error> {
        let path = kind.of(text(object, "/metadata/namespace"));
        self.send("POST", &path, "application/json", Some(object.clone())).await
    }

    /// Merges into an object, or into its status.
    pub async fn merge(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        status: bool,
        change: Value,
    ) -> Result<Value, Error> {
        let whole = kind.one(namespace, name);
        let path = if status { format!("{whole}/status") } else { whole };
        self.send("PATCH", &path, "application/merge-patch+json", Some(change)).await
    }

    /// Deletes an object, in the background; at once where there is no grace.
    pub async fn delete(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        grace: Option<u32>,
    ) -> Result<Value, Error> {
        let mut options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = json!(grace);
        }
        self.send("DELETE", &kind.one(namespace, name), "application/json", Some(options)).await
    }

    /// Deletes all events.
    pub async fn forget_events(&self, namespace: &str) {
        let answer = self.send("DELETE", &EVENT.of(namespace), "application/json", None).await;
        answer.unwrap_or_else(|error| panic!("delete the events of {namespace}: {error}"));
    }
}

/// Whether an answer says that the object is not there, or is another by now.
pub fn is_late(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404 || status.code == 409)
}
