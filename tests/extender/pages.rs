//! What the pages answer over HTTP, in the forms that kube-scheduler sends and reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fake_apiserver::{Call, FakeApiServer, Fault, Status};
use serde_json::{Value, json};

use crate::caller::{Caller, served};
use crate::stage::{Running, Stage, answers, claim, node, pod, volume};

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";

/// A stage with its extender, which answers.
async fn extended(stage: &Stage) -> (Running, Caller) {
    let (extender, asker) = stage.extend(Duration::from_secs(60));
    answers(&asker).await;
    (extender, Caller { address: served(asker, None).await, tls: None })
}

fn named(pod: &Value, nodes: &[&str]) -> Value {
    json!({"Pod": pod, "Nodes": null, "NodeNames": nodes})
}

/// A pod whose claim fits on the volume of one node.
fn picky() -> (Stage, Value) {
    let stage = Stage::new();
    stage.put(volume("v1", "10Gi", "n1"));
    stage.put(claim("c", "local", "10Gi"));
    let pod = stage.put(pod("p", &["c"]));
    (stage, pod)
}

#[tokio::test]
async fn names_of_nodes_come_back_with_the_reasons_against_the_others() {
    let (stage, pod) = picky();
    let (_extender, caller) = extended(&stage).await;
    let answer = caller.post("/filter", &named(&pod, &["n3", "n1", "n2"])).await;
    assert_eq!(answer.status, 200);
    let expected = json!({
        "Nodes": null, "NodeNames": ["n1"], "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"n2": NO_VOLUME, "n3": NO_VOLUME}, "Error": "",
    });
    assert_eq!(answer.json(), expected);
    // Nothing was taken: the next pod is told the same.
    stage.put(claim("d", "local", "10Gi"));
    let other = stage.put(crate::stage::pod("q", &["d"]));
    assert_eq!(caller.post("/filter", &named(&other, &["n1"])).await.json()["NodeNames"], json!(["n1"]));
}

#[tokio::test]
async fn whole_nodes_come_back_as_they_were_sent() {
    let (stage, pod) = picky();
    let (_extender, caller) = extended(&stage).await;
    // A node that only kube-scheduler knows, with the label of a known one and a field that nobody knows.
    let unknown =
        r#"{ "metadata": {"name": "n9", "labels": {"kubernetes.io/hostname": "n1"}}, "new": [0.10] }"#;
    let items = format!("[{}, {unknown}]", node("n2"));
    let question =
        format!(r#"{{"Pod": {pod}, "Nodes": {{"metadata": {{}}, "items": {items}}}, "NodeNames": null}}"#);
    let answer = caller.send("POST", "/filter", &question).await.expect("an answer");
    let expected = format!(
        r#"{{"Nodes":{{"items":[{unknown}]}},"NodeNames":null,"FailedNodes":{{}},"FailedAndUnresolvableNodes":{{"n2":"{NO_VOLUME}"}},"Error":""}}"#
    );
    assert_eq!((answer.status, answer.body), (200, expected));
    let none = json!({"Pod": pod, "Nodes": {"metadata": {}, "items": null}, "NodeNames": null});
    assert_eq!(caller.post("/filter", &none).await.json()["Nodes"], json!({"items": []}));
}

#[tokio::test]
async fn what_is_wrong_with_a_claim_stands_against_every_node() {
    let stage = Stage::new();
    stage.put(claim("immediate", "", "1Gi"));
    let mut lost = claim("lost", "local", "1Gi");
    lost["spec"]["volumeName"] = json!("gone");
    lost["status"] = json!({"phase": "Lost"});
    stage.put(lost);
    let (_extender, caller) = extended(&stage).await;
    for (claim, why) in [
        ("missing", "persistentvolumeclaim \"missing\" not found"),
        ("lost", "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"gone\""),
        ("immediate", "pod has unbound immediate PersistentVolumeClaims"),
    ] {
        let answer = caller.post("/filter", &named(&pod("p", &[claim]), &["n1", "n2"])).await.json();
        assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"n1": why, "n2": why}), "{claim}");
        assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!([]), &json!("")), "{claim}");
    }
}

#[tokio::test]
async fn what_upstream_calls_an_error_is_one() {
    // A class without a mode is nothing that the API server would store.
    let admission = fake_apiserver::Admission::Raw;
    let server = FakeApiServer::new(fake_apiserver::Options { admission, ..Default::default() });
    let stage = Stage { server };
    stage.put(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "modeless"},
        "provisioner": "made.example.test",
    }));
    stage.put(claim("c", "modeless", "1Gi"));
    let (_extender, caller) = extended(&stage).await;
    let answer = caller.post("/filter", &named(&pod("p", &["c"]), &["n1"])).await.json();
    assert_eq!(answer["Error"], "VolumeBindingMode not set for StorageClass \"modeless\"");
    assert_eq!(answer["NodeNames"], Value::Null);
}

#[tokio::test]
async fn what_kube_scheduler_has_been_shown_already_is_waited_for() {
    for kind in ["PersistentVolume", "PersistentVolumeClaim"] {
        let stage = Stage::new();
        let (_extender, caller) = extended(&stage).await;
        stage.server.hold_watches(kind, true);
        stage.put(volume("v1", "10Gi", "n1"));
        stage.put(claim("c", "local", "10Gi"));
        let server = stage.server.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.hold_watches(kind, false);
        });
        let answer = caller.post("/filter", &named(&pod("p", &["c"]), &["n1", "n2"])).await.json();
        assert_eq!(answer["NodeNames"], json!(["n1"]), "{kind}");
    }
}

#[tokio::test]
async fn a_node_that_is_not_known_is_refused() {
    let (stage, pod) = picky();
    let (_extender, caller) = extended(&stage).await;
    let answer = caller.post("/filter", &named(&pod, &["n1", "n8"])).await.json();
    let why = "node(s) not known to the volume binder yet";
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"n8": why}));
}

#[tokio::test]
async fn the_volume_that_wastes_least_is_best_and_one_to_be_made_comes_last() {
    let stage = Stage::new();
    for (name, size, node) in [("v1", "10Gi", "n1"), ("v2", "30Gi", "n2"), ("v3", "20Gi", "n3")] {
        stage.put(volume(name, size, node));
    }
    stage.put(claim("c", "local", "10Gi"));
    stage.put(claim("d", "made", "10Gi"));
    let mut makeable = volume("v4", "99Gi", "n3");
    makeable["spec"]["storageClassName"] = json!("made");
    stage.put(makeable);
    let (_extender, caller) = extended(&stage).await;
    for (claim, scores) in [("c", [10, 0, 5]), ("d", [0, 0, 10])] {
        let answer = caller.post("/prioritize", &named(&pod("p", &[claim]), &["n1", "n2", "n3"])).await;
        let [first, second, third] = scores;
        let expected = json!([
            {"Host": "n1", "Score": first}, {"Host": "n2", "Score": second}, {"Host": "n3", "Score": third},
        ]);
        assert_eq!(answer.json(), expected, "{claim}");
    }
    let answer = caller.post("/prioritize", &named(&pod("p", &[]), &["n1"])).await;
    assert_eq!(answer.json(), json!([{"Host": "n1", "Score": 0}]));
}

#[tokio::test]
async fn nobody_is_evicted_where_the_volumes_are_not() {
    let (stage, pod) = picky();
    let (_extender, caller) = extended(&stage).await;
    let victims = |uid: &str| json!({"Pods": [{"UID": uid}], "NumPDBViolations": 0});
    let all = json!({"n1": victims("x"), "n2": victims("y"), "n9": victims("z")});
    let question = json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": all});
    let answer = caller.post("/preempt", &question).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"NodeNameToMetaVictims": {"n1": victims("x")}})));
    let whole = json!({"n1": {"Pods": [{"metadata": {"uid": "x"}}], "NumPDBViolations": 0}});
    let question = json!({"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": null});
    let answer = caller.post("/preempt", &question).await;
    assert_eq!(answer.json(), json!({"NodeNameToMetaVictims": {"n1": victims("x")}}));
}

#[tokio::test]
async fn a_pod_is_bound_over_http() {
    let (stage, pod) = picky();
    let (_controller, (_extender, caller)) = (stage.control(), extended(&stage).await);
    let uid = &pod["metadata"]["uid"];
    let request =
        |node: &str| json!({"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": node});
    let answer = caller.post("/bind", &request("n2")).await;
    let error = answer.json()["Error"].as_str().expect("a text").to_owned();
    assert!(
        answer.status == 200 && error.starts_with(&format!("node n2: {NO_VOLUME}: claim default/c")),
        "{error}"
    );
    let answer = caller.post("/bind", &request("n1")).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"Error": ""})));
    assert_eq!((stage.node_of("p"), stage.claim_of("v1")), ("n1".to_owned(), "c".to_owned()));
}

#[tokio::test]
async fn a_caller_that_leaves_leaves_nothing_reserved() {
    use std::io::Write;
    let (stage, pod) = picky();
    let (_extender, caller) = extended(&stage).await;
    let body = json!({
        "PodName": "p", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "n1",
    });
    let body = body.to_string();
    let mut stream = std::net::TcpStream::connect(caller.address).expect("a connection");
    write!(stream, "POST /bind HTTP/1.1\r\nHost: here\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .expect("a request");
    stage.until("reserving the volume", |stage| stage.claim_of("v1") == "c").await;
    drop(stream);
    stage.until("giving the volume back", |stage| stage.claim_of("v1").is_empty()).await;
}

#[tokio::test]
async fn nothing_is_answered_before_every_kind_has_been_listed() {
    let (stage, pod) = picky();
    let closed = Arc::new(AtomicBool::new(true));
    let hook = closed.clone();
    stage.server.set_faults(Some(Arc::new(move |call: &Call| {
        let status = || Box::new(Status::new(503, "ServiceUnavailable", "later"));
        (call.resource == "csinodes" && hook.load(Ordering::SeqCst)).then(|| Fault::Status(status()))
    })));
    let (_extender, asker) = stage.extend(Duration::from_secs(60));
    let caller = Caller { address: served(asker.clone(), None).await, tls: None };
    let bind = json!({"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "n1"});
    let question = named(&pod, &["n1"]);
    for (path, body) in [("/filter", &question), ("/prioritize", &question), ("/bind", &bind)] {
        let answer = caller.post(path, body).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (503, "not every kind of object has been listed yet\n")
        );
    }
    assert_eq!(caller.send("GET", "/readyz", "").await.expect("an answer").status, 503);
    assert_eq!(caller.send("GET", "/healthz", "").await.expect("an answer").status, 200);
    closed.store(false, Ordering::SeqCst);
    answers(&asker).await;
    assert_eq!(caller.send("GET", "/readyz", "").await.expect("an answer").status, 200);
    assert_eq!(caller.post("/filter", &question).await.status, 200);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_message() {
    let stage = Stage::new();
    let (_extender, caller) = extended(&stage).await;
    let pod = json!({"metadata": {"name": "p", "namespace": "default"}});
    let large = "x".repeat(65 << 10);
    for (method, path, body, status, message) in [
        (
            "POST",
            "/filter",
            "{",
            400,
            "the body is no ExtenderArgs: EOF while parsing an object at line 1 column 1\n",
        ),
        ("POST", "/filter", "{\"NodeNames\": []}", 400, "the body is no ExtenderArgs: missing field `Pod`"),
        ("POST", "/filter", &json!({"Pod": pod}).to_string(), 400, "neither Nodes nor NodeNames are there"),
        (
            "POST",
            "/filter",
            &json!({"Pod": pod, "Nodes": {"items": [{"metadata": 1}]}}).to_string(),
            400,
            "the body is no list of nodes: invalid type",
        ),
        ("POST", "/prioritize", "[]", 400, "the body is no ExtenderArgs: "),
        (
            "POST",
            "/bind",
            "{\"PodName\": \"p\"}",
            400,
            "the body is no ExtenderBindingArgs: missing field `PodNamespace`",
        ),
        ("POST", "/bind", &large, 413, "the body is larger than 65536 bytes"),
        ("GET", "/filter", "", 405, ""),
        ("POST", "/preempt", "{}", 400, "the body is no ExtenderPreemptionArgs: missing field `Pod`"),
        ("POST", "/", "{}", 404, ""),
    ] {
        let answer = caller.send(method, path, body).await.expect("an answer");
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert!(answer.body.starts_with(message), "{method} {path}: {}", answer.body);
    }
}
