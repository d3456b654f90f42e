//! The node as such: it gets ready, its pods run and reach the API server, its programs can be ended.
//!
//! Runs where the environment variable `PVBIND_NODE_IMAGE` names an image that `build.sh` made, and says so where it does not.

use std::time::{Duration, Instant};

use kube::Client;
use node::Node;
use serde_json::{Value, json};

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    client.request(request.body(body).expect("a request")).await
}

/// Runs a script in a pod; says what it writes to its end.
async fn run(client: &Client, name: &str, script: &str) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "e2e.pvbind.dev/busybox:1", "command": ["sh", "-c", script]}],
        },
    });
    let pods = "/api/v1/namespaces/default/pods";
    send(client, "POST", pods, &pod).await.expect("the pod is created");
    let start = Instant::now();
    loop {
        let pod =
            send(client, "GET", &format!("{pods}/{name}"), &Value::Null).await.expect("the pod is there");
        let state = &pod["status"]["containerStatuses"][0]["state"];
        if let Some(ended) = state.get("terminated") {
            assert_eq!(ended["exitCode"], 0, "{pod}");
            return ended["message"].as_str().unwrap_or_default().to_owned();
        }
        assert!(start.elapsed() < Duration::from_secs(60), "pod {name} does not end: {pod}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Asks the API server who this pod is, as its client would: by the environment, with the token and the certificate that it
/// is given.
const WHO: &str = r#"
    cd /var/run/secrets/kubernetes.io/serviceaccount
    test -s ca.crt && test -s namespace && test -s token || exit 1
    nc "$KUBERNETES_SERVICE_HOST" "$KUBERNETES_SERVICE_PORT" </dev/null || exit 2
    cat namespace >/dev/termination-log
"#;

#[test]
fn pods_run_and_reach_the_api_server_and_programs_are_started_again() {
    let Ok(image) = std::env::var("PVBIND_NODE_IMAGE") else {
        control_plane::not_run(
            "a node in a container: PVBIND_NODE_IMAGE names no image; `just e2e-docker` builds one",
        );
        return;
    };
    let node = Node::start(&image, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = {
        let _inside = runtime.enter();
        Client::try_from(node.config()).expect("a client")
    };
    let namespace = runtime.block_on(run(&client, "who", WHO));
    assert_eq!(namespace, "default");
    for program in ["etcd", "kube-apiserver", "kubelet"] {
        node.signal(program, "KILL");
        node.wait_until_ready();
    }
    let said = runtime.block_on(run(&client, "again", "echo again >/dev/termination-log"));
    assert_eq!(said, "again\n");
}
