//! What happens in a cluster while permissions are watched: objects come, change and go, by somebody who may do everything.

use std::time::{Duration, Instant};

use control_plane::ControlPlane;
use kube::Client;
use serde_json::{Value, json};

use crate::shipped::{at, name};

/// How long anything may take before the test gives up; it only matters when something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the objects of a kind are.
fn collection(kind: &str, namespace: &str) -> String {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let storage = "/apis/storage.k8s.io/v1";
    match kind {
        "Namespace" => "/api/v1/namespaces".to_owned(),
        "Node" => "/api/v1/nodes".to_owned(),
        "PersistentVolume" => "/api/v1/persistentvolumes".to_owned(),
        "PersistentVolumeClaim" => format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"),
        "Pod" => format!("/api/v1/namespaces/{namespace}/pods"),
        "Event" => format!("/api/v1/namespaces/{namespace}/events"),
        "Service" => format!("/api/v1/namespaces/{namespace}/services"),
        "ConfigMap" => format!("/api/v1/namespaces/{namespace}/configmaps"),
        "Deployment" => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        "PodDisruptionBudget" => format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
        "NetworkPolicy" => format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"),
        "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        "StorageClass" => format!("{storage}/storageclasses"),
        "ClusterRole" => format!("{rbac}/clusterroles"),
        "ClusterRoleBinding" => format!("{rbac}/clusterrolebindings"),
        "Role" => format!("{rbac}/namespaces/{namespace}/roles"),
        "RoleBinding" => format!("{rbac}/namespaces/{namespace}/rolebindings"),
        other => panic!("nothing is known of kind {other}"),
    }
}

/// Somebody who may do everything.
pub struct Admin(Client);

impl Admin {
    pub async fn of(plane: &ControlPlane) -> Self {
        Admin(plane.client().await)
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.0.request(request.body(body).expect("a request")).await
    }

    async fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Creates an object, in its namespace or in `default`.
    pub async fn create(&self, object: &Value) {
        let kind = object["kind"].as_str().expect("a kind");
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        self.must("POST", &collection(kind, namespace), object).await;
    }

    /// Has the API server look at an object as if it were to be created: a field that it does not know is an error.
    pub async fn try_out(&self, object: &Value) -> Result<Value, kube::Error> {
        let kind = object["kind"].as_str().expect("a kind");
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(kind, namespace));
        self.ask("POST", &path, object).await
    }

    /// Changes an object of namespace `default`, or of none; a name may end in a subresource.
    pub async fn patch(&self, kind: &str, name: &str, patch: &Value) {
        self.must("PATCH", &format!("{}/{name}", collection(kind, "default")), patch).await;
    }

    /// Deletes an object of namespace `default`, or of none.
    pub async fn delete(&self, kind: &str, name: &str) {
        self.must("DELETE", &format!("{}/{name}", collection(kind, "default")), &Value::Null).await;
    }

    /// A token of an account of kube-system, as a pod gets one.
    pub async fn token(&self, account: &str) -> String {
        let path = format!("{}/{account}/token", collection("ServiceAccount", "kube-system"));
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600},
        });
        let answer = self.must("POST", &path, &body).await;
        at(&answer, "/status/token").as_str().expect("a token").to_owned()
    }

    /// Waits until what is at a path is as it should be; `null` stands for what is not there.
    pub async fn until(&self, path: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let found = match self.ask("GET", path, &Value::Null).await {
                Ok(found) => found,
                Err(kube::Error::Api(status)) if status.code == 404 => Value::Null,
                Err(error) => panic!("{path}: {error}"),
            };
            if is(&found) {
                return found;
            }
            let now: String = found.to_string().chars().take(2000).collect();
            assert!(start.elapsed() < PATIENCE, "{path}: {what} takes too long; now {now}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The same for an object of namespace `default`, or of none.
    pub async fn see(&self, kind: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{}/{name}", collection(kind, "default")), what, is).await
    }

    /// Waits until a claim or volume is in a phase.
    pub async fn phase(&self, kind: &str, name: &str, phase: &str) -> Value {
        self.see(kind, name, phase, |object| object["status"]["phase"] == phase).await
    }

    /// Waits until something is told of an object, so often at least.
    pub async fn told(&self, of: &str, reason: &str, times: u64) {
        let path = "/apis/events.k8s.io/v1/namespaces/default/events";
        let is = |event: &Value| {
            let count = event["series"]["count"].as_u64().unwrap_or(1);
            event["regarding"]["name"] == of && event["reason"] == reason && count >= times
        };
        let among = |list: &Value| list["items"].as_array().is_some_and(|items| items.iter().any(is));
        self.until(path, &format!("{reason} of {of}"), among).await;
    }

    /// Creates the accounts and permissions among the objects.
    pub async fn permit(&self, objects: &[Value]) {
        let kinds = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        for kind in kinds {
            for object in objects.iter().filter(|object| object["kind"] == kind) {
                self.create(object).await;
            }
        }
    }
}

/// A volume of 1 GiB.
pub fn volume(name: &str, class: &str, policy: &str, source: &Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": policy,
        },
    });
    let spec = volume["spec"].as_object_mut().expect("a specification");
    spec.extend(source.as_object().cloned().expect("a source"));
    volume
}

/// A volume of 1 GiB on a node.
pub fn local_volume(name: &str, class: &str, node: &str) -> Value {
    let source = json!({
        "local": {"path": "/srv/volume"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
        ]}]}},
    });
    volume(name, class, "Retain", &source)
}

/// A claim for so much.
pub fn claim(name: &str, class: Option<&str>, size: &str) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim
}

/// A class.
pub fn class(name: &str, provisioner: &str, mode: &str, is_default: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": provisioner,
        "metadata": {"name": name, "annotations": {
            "storageclass.kubernetes.io/is-default-class": is_default.to_string(),
        }},
        "volumeBindingMode": mode,
    })
}

/// A node with room.
pub fn node(name: &str) -> Value {
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// A pod that uses the claim of its name.
pub fn pod(name: &str, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler, "automountServiceAccountToken": false,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
            "containers": [{"name": "c", "image": "none"}],
        },
    })
}

/// What is told of a pod by others.
pub fn told_of_pod(pod: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{}.1", name(pod))},
        "involvedObject": {
            "kind": "Pod", "namespace": "default", "name": name(pod), "uid": at(pod, "/metadata/uid"),
        },
        "reason": "Pulled", "message": "the image is there", "type": "Normal", "source": {"component": "kubelet"},
    })
}
