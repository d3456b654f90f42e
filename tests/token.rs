//! A token that is replaced in its file, as kubelet does with a service account's long before it ends: the program goes on with
//! the new one, though the old one is refused.
//!
//! Runs where the environment variable `KUBEBUILDER_ASSETS` names a folder with etcd and kube-apiserver, and says so where it
//! does not.

use std::path::Path;
use std::time::{Duration, Instant};

use control_plane::ControlPlane;
use kube::Client;
use serde_json::{Value, json};

/// How long anything may take. The file is read once a minute.
const PATIENCE: Duration = Duration::from_secs(150);
const CORE: &str = "/api/v1/namespaces/default";

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    client.request(request.body(body).expect("a request")).await
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    send(client, "POST", path, object).await.unwrap_or_else(|error| panic!("{object}: {error}"))
}

/// A token of the controller's account, which ends when the Secret of a name does.
async fn token(client: &Client, secret: &str) -> String {
    let object = json!({"metadata": {"name": secret}});
    let uid = create(client, &format!("{CORE}/secrets"), &object).await["metadata"]["uid"].clone();
    let bound = json!({"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid});
    let asked = json!({"spec": {"boundObjectRef": bound, "expirationSeconds": 600}});
    let made = create(client, &format!("{CORE}/serviceaccounts/pvbind/token"), &asked).await;
    made["status"]["token"].as_str().expect("a token").to_owned()
}

/// Replaces the token at once, as kubelet does.
fn replace(file: &Path, token: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, token).expect("it is written");
    std::fs::rename(new, file).expect("it takes the other's place");
}

async fn until(what: &str, check: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !check().await {
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Creates a claim and a volume for it, and waits until they have each other.
async fn bind(client: &Client, name: &str) {
    let volume = json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/srv/volume"}, "claimRef": {"namespace": "default", "name": name},
        },
    });
    let claim = json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    create(client, "/api/v1/persistentvolumes", &volume).await;
    create(client, &format!("{CORE}/persistentvolumeclaims"), &claim).await;
    until(&format!("binding {name}"), async || {
        let claim = send(client, "GET", &format!("{CORE}/persistentvolumeclaims/{name}"), &Value::Null).await;
        claim.expect("it is there")["status"]["phase"] == "Bound"
    })
    .await;
}

/// Lets the account do everything: what is needed is another test's subject.
async fn permit(client: &Client) {
    create(client, &format!("{CORE}/serviceaccounts"), &json!({"metadata": {"name": "pvbind"}})).await;
    let binding = json!({
        "metadata": {"name": "pvbind"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "pvbind"}],
    });
    create(client, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
}

#[tokio::test]
async fn a_token_that_is_replaced_is_read_again() {
    let Some(assets) = control_plane::assets(&["etcd", "kube-apiserver"]) else {
        control_plane::not_run(
            "replacing a token: KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver",
        );
        return;
    };
    let mut plane = ControlPlane::start(assets).await;
    let admin = plane.client().await;
    permit(&admin).await;
    let (first, second) = (token(&admin, "first").await, token(&admin, "second").await);
    let file = plane.path("token");
    replace(&file, &first);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster":
            {"server": plane.server(), "certificate-authority": plane.argument("ca.crt")}}],
        "users": [{"name": "me", "user": {"tokenFile": plane.argument("token")}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    });
    plane.write("pvbind.conf", &config.to_string());
    let arguments = [
        "controller",
        "--kubeconfig",
        &plane.argument("pvbind.conf"),
        "--metrics-addr=off",
        "--leader-elect=false",
    ];
    let arguments = arguments.map(str::to_owned);
    plane.run("pvbind", Path::new(env!("CARGO_BIN_EXE_pvbind")), &arguments);
    bind(&admin, "before").await;

    replace(&file, &second);
    send(&admin, "DELETE", &format!("{CORE}/secrets/first"), &Value::Null).await.expect("it is deleted");
    plane.write_kubeconfig("old", &first);
    let old = plane.client_of("old").await;
    // What kube-apiserver found good is good for some seconds more.
    until("refusing the old token", async || {
        send(&old, "GET", "/api/v1/persistentvolumes", &Value::Null).await.is_err()
    })
    .await;
    bind(&admin, "after").await;
    let ended = plane.running("pvbind").ended();
    assert!(ended.is_none(), "it is the same process: {ended:?}");
}
