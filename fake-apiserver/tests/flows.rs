//! Whole flows through the router, as a client goes through them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::sync::Arc;

use fake_apiserver::{Admission, FakeApiServer, Fault, Ids, Options, Status};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

fn server() -> FakeApiServer {
    let epoch = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    FakeApiServer::new(Options { now: Arc::new(move || epoch), ids: Ids::Seeded(1), ..Options::default() })
}

#[track_caller]
fn call(server: &FakeApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    send(server, method, path, "application/json", body)
}

#[track_caller]
fn send(server: &FakeApiServer, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (code, answer) = server.request(method, path, content_type, body.as_bytes());
    (code, serde_json::from_slice(&answer).unwrap())
}

fn merge(server: &FakeApiServer, path: &str, body: &Value) -> (u16, Value) {
    send(server, "PATCH", path, "application/merge-patch+json", body)
}

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
    })
}

fn config(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

/// A watch through the router.
struct Watch(axum::body::Body);

impl Watch {
    async fn open(server: &FakeApiServer, path: &str) -> Self {
        let request = axum::extract::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let response = server.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self(response.into_body())
    }

    /// The events of the next frame; nothing at the end.
    async fn next(&mut self) -> Vec<Value> {
        let Some(frame) = self.0.frame().await else { return Vec::new() };
        let data = frame.unwrap().into_data().unwrap();
        data.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }
}

fn seen(events: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events.iter().map(|event| (text(&event["type"]), text(&event["object"]["metadata"]["name"]))).collect()
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[test]
fn a_claim_is_defaulted_protected_and_pending() {
    let server = server();
    let (code, created) = call(&server, "POST", CLAIMS, &claim("c1"));
    assert_eq!(code, 201);
    assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(created["metadata"]["creationTimestamp"], "2023-11-14T22:13:20Z");
    assert_eq!(created["spec"]["resources"]["requests"]["storage"], "1Gi");
    assert_eq!(created["spec"]["volumeMode"], "Filesystem");
    assert_eq!(created["status"], json!({"phase": "Pending"}));
    let (code, refused) = call(&server, "POST", CLAIMS, &claim("c1"));
    assert_eq!((code, &refused["reason"]), (409, &json!("AlreadyExists")));
}

#[test]
fn a_stale_put_conflicts_and_a_put_of_the_same_changes_nothing() {
    let server = server();
    let (_, first) = call(&server, "POST", MAPS, &config("a"));
    let path = format!("{MAPS}/a");
    let (code, same) = call(&server, "PUT", &path, &first);
    assert_eq!((code, &same), (200, &first));
    let mut second = first.clone();
    second["data"]["k"] = "v2".into();
    assert_eq!(call(&server, "PUT", &path, &second).0, 200);
    let (code, refused) = call(&server, "PUT", &path, &second);
    assert_eq!(code, 409);
    let why = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(refused["message"], why);
    let stale =
        json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"k": "v3"}});
    assert_eq!(merge(&server, &path, &stale).0, 409);
}

#[test]
fn a_terminating_object_goes_with_its_last_finalizer() {
    let server = server();
    call(&server, "POST", CLAIMS, &claim("c1"));
    let path = format!("{CLAIMS}/c1");
    let (code, terminating) = call(&server, "DELETE", &path, &Value::Null);
    assert_eq!(code, 200);
    assert_eq!(terminating["metadata"]["deletionTimestamp"], "2023-11-14T22:13:20Z");
    assert_eq!(call(&server, "DELETE", &path, &Value::Null).1, terminating);
    let (code, last) = merge(&server, &path, &json!({"metadata": {"finalizers": null}}));
    assert_eq!(code, 200);
    assert_eq!(last["metadata"]["resourceVersion"], terminating["metadata"]["resourceVersion"]);
    assert_eq!(call(&server, "GET", &path, &Value::Null).0, 404);
}

#[test]
fn spec_and_status_are_written_apart() {
    let server = server();
    let (_, mut object) = call(&server, "POST", CLAIMS, &claim("c1"));
    let path = format!("{CLAIMS}/c1");
    object["status"]["phase"] = "Bound".into();
    let (_, unchanged) = call(&server, "PUT", &path, &object);
    assert_eq!(unchanged["status"]["phase"], "Pending");
    // It says nothing new, but is the first that is stored with its phase.
    object["metadata"] = unchanged["metadata"].clone();
    object["spec"]["volumeName"] = "p1".into();
    let (code, written) = call(&server, "PUT", &format!("{path}/status"), &object);
    assert_eq!(code, 200);
    assert_eq!(written["status"]["phase"], "Bound");
    assert_eq!(written["spec"].get("volumeName"), None);
    // What the status endpoint returns can be written to the main one.
    assert_eq!(call(&server, "PUT", &path, &written).0, 200);
}

#[test]
fn json_patches_test_before_they_write() {
    let server = server();
    call(&server, "POST", MAPS, &config("a"));
    let path = format!("{MAPS}/a");
    let guarded = |value: &str| json!([{"op": "test", "path": "/data/k", "value": value}, {"op": "add", "path": "/data/l", "value": "w"}]);
    let json_patch = "application/json-patch+json";
    assert_eq!(send(&server, "PATCH", &path, json_patch, &guarded("other")).0, 422);
    assert_eq!(
        send(&server, "PATCH", &path, json_patch, &guarded("v")).1["data"],
        json!({"k": "v", "l": "w"})
    );
    assert_eq!(send(&server, "PATCH", &path, "application/json", &json!({})).0, 415);
}

#[test]
fn generated_names_differ_and_keep_their_base() {
    let server = server();
    let body = json!({"metadata": {"generateName": "c-"}});
    let (code, first) = call(&server, "POST", MAPS, &body);
    let (_, second) = call(&server, "POST", MAPS, &body);
    assert_eq!(code, 201);
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(first["metadata"]["name"].as_str().map(str::len), Some(7));
    assert_eq!(first["metadata"]["generateName"], "c-");
}

#[test]
fn lists_come_in_pages_of_one_moment() {
    let server = server();
    for name in ["a", "b", "c"] {
        call(&server, "POST", MAPS, &config(name));
    }
    let (_, page) = call(&server, "GET", &format!("{MAPS}?limit=2"), &Value::Null);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    assert_eq!(page["items"][1]["metadata"]["name"], "b");
    call(&server, "DELETE", &format!("{MAPS}/c"), &Value::Null);
    call(&server, "POST", MAPS, &config("d"));
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = call(&server, "GET", &format!("{MAPS}?limit=2&continue={token}"), &Value::Null);
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(rest["items"][0]["metadata"]["name"], "c");
    assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
}

#[test]
fn a_pod_is_bound_once() {
    let server = server();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "d1"}, "spec": {"containers": [{"name": "x", "image": "x"}]}});
    let (_, pod) = call(&server, "POST", pods, &pod);
    assert_eq!(pod["spec"]["schedulerName"], "default-scheduler");
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    let binding = json!({"metadata": {"name": "d1"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(call(&server, "POST", &format!("{pods}/d1/binding"), &binding).0, 201);
    let (code, refused) = call(&server, "POST", "/api/v1/namespaces/default/bindings", &binding);
    assert_eq!(code, 409);
    let why =
        "Operation cannot be fulfilled on pods/binding \"d1\": pod d1 is already assigned to node \"n1\"";
    assert_eq!(refused["message"], why);
    // A pod that a node runs waits for its grace period; without a kubelet, until somebody insists.
    let (_, terminating) = call(&server, "DELETE", &format!("{pods}/d1"), &Value::Null);
    assert_eq!(terminating["metadata"]["deletionGracePeriodSeconds"], 30);
    call(&server, "DELETE", &format!("{pods}/d1"), &json!({"gracePeriodSeconds": 0}));
    assert!(server.get("Pod", "default", "d1").is_none());
}

#[test]
fn the_newest_default_class_is_given_to_claims_without_one() {
    let server = server();
    let class = |name: &str, time: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x.example.com",
            "metadata": {
                "name": name, "creationTimestamp": time, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
        })
    };
    server.import(class("old", "2023-01-01T00:00:00Z")).unwrap();
    server.import(class("new-b", "2024-01-01T00:00:00Z")).unwrap();
    server.import(class("new-a", "2024-01-01T00:00:00Z")).unwrap();
    assert_eq!(call(&server, "POST", CLAIMS, &claim("c1")).1["spec"]["storageClassName"], "new-a");
    let mut none = claim("c2");
    none["spec"]["storageClassName"] = "".into();
    assert_eq!(call(&server, "POST", CLAIMS, &none).1["spec"]["storageClassName"], "");
}

#[test]
fn dry_runs_change_nothing() {
    let server = server();
    let before = server.revision();
    assert_eq!(call(&server, "POST", &format!("{MAPS}?dryRun=All"), &config("a")).0, 201);
    assert_eq!(call(&server, "POST", &format!("{MAPS}?dryRun=foo"), &config("a")).0, 422);
    assert_eq!(server.revision(), before);
    assert!(server.get("ConfigMap", "default", "a").is_none());
}

#[test]
fn imported_objects_keep_what_a_dump_says() {
    let server = server();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "p1", "uid": "u1", "resourceVersion": "7", "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/t"}},
        "status": {"phase": "Bound"},
    });
    let stored = server.import(volume.clone()).unwrap();
    assert_eq!(stored["metadata"]["uid"], "u1");
    assert_eq!(stored["status"]["phase"], "Bound");
    assert_ne!(stored["metadata"]["resourceVersion"], "7");
    assert_eq!(server.import(volume).unwrap_err().code, 409);
    let claim =
        json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "fresh"}});
    server.import(claim).unwrap();
    assert!(server.get("Namespace", "", "fresh").is_some());
    assert_eq!(call(&server, "GET", "/api/v1/namespaces/fresh/widgets/w", &Value::Null).0, 200);
}

#[test]
fn a_raw_server_stores_what_it_is_given() {
    let server = FakeApiServer::new(Options { admission: Admission::Raw, ..Options::default() });
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "p1", "uid": ""}, "spec": {}});
    let stored = server.apply_as_is(volume).unwrap();
    assert_eq!(stored["spec"], json!({}));
    assert_eq!(stored.get("status"), None);
    let mut newer = Value::clone(&stored);
    newer["metadata"]["resourceVersion"] = "5000".into();
    newer["metadata"]["name"] = "p2".into();
    assert_eq!(server.import(newer).unwrap()["metadata"]["resourceVersion"], "5000");
    assert_eq!(server.revision(), 5000);
}

#[test]
fn faults_hit_before_or_after_the_write() {
    let server = server();
    server.record_calls(true);
    server.set_faults(Some(Arc::new(|call| match call.number {
        1 => Some(Fault::Status(Status::conflict("", "configmaps", "a", "injected"))),
        2 => Some(Fault::Lost),
        _ => None,
    })));
    assert_eq!(call(&server, "POST", MAPS, &config("a")).0, 409);
    assert!(server.get("ConfigMap", "default", "a").is_none());
    assert_eq!(call(&server, "POST", MAPS, &config("a")).0, 500);
    assert!(server.get("ConfigMap", "default", "a").is_some());
    assert_eq!(call(&server, "POST", MAPS, &config("a")).0, 409);
    let codes: Vec<u16> = server.calls().iter().map(|call| call.code).collect();
    assert_eq!(codes, [409, 500, 409]);
}

#[test]
fn a_cache_that_lags_or_lingers_can_be_made() {
    let server = server();
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    server.hide(object).unwrap();
    assert_eq!(call(&server, "GET", MAPS, &Value::Null).1["items"], json!([]));
    assert_eq!(call(&server, "GET", &format!("{MAPS}/a"), &Value::Null).0, 200);
    assert!(server.forget("ConfigMap", "default", "a"));
    assert!(!server.forget("ConfigMap", "default", "a"));
}

#[test]
fn the_same_seed_and_requests_give_the_same_bytes() {
    let run = || {
        let server = server();
        call(&server, "POST", CLAIMS, &claim("c1"));
        call(&server, "POST", MAPS, &json!({"metadata": {"generateName": "x-"}}));
        server.objects()
    };
    assert_eq!(run(), run());
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_bookmark_and_goes_on() {
    let server = server();
    let path = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut empty = Watch::open(&server, &path).await;
    let events = empty.next().await;
    assert_eq!(events[0]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    for name in ["b", "a"] {
        call(&server, "POST", MAPS, &config(name));
    }
    let mut watch = Watch::open(&server, &path).await;
    let events = watch.next().await;
    assert_eq!(seen(&events), [pair("ADDED", "a"), pair("ADDED", "b"), pair("BOOKMARK", "")]);
    assert_eq!(events[2]["object"]["metadata"]["resourceVersion"], server.revision().to_string());
    call(&server, "DELETE", &format!("{MAPS}/a"), &Value::Null);
    assert_eq!(seen(&watch.next().await), [pair("DELETED", "a")]);
    // An hour of quiet is a bookmark a minute, then the end.
    assert_eq!(seen(&watch.next().await), [pair("BOOKMARK", "")]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_across_a_delete_sees_both_lives() {
    let server = server();
    let mut watch = Watch::open(
        &server,
        &format!("{MAPS}?watch=true&resourceVersion={}&timeoutSeconds=5", server.revision()),
    )
    .await;
    call(&server, "POST", MAPS, &config("a"));
    call(&server, "DELETE", &format!("{MAPS}/a"), &Value::Null);
    call(&server, "POST", MAPS, &config("a"));
    let events = watch.next().await;
    assert_eq!(seen(&events), [pair("ADDED", "a"), pair("DELETED", "a"), pair("ADDED", "a")]);
    let version = |index: usize| {
        events[index]["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };
    assert!(version(0) < version(1) && version(1) < version(2));
    assert!(watch.next().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_an_error_event() {
    let server = server();
    let mut watch = Watch::open(&server, &format!("{MAPS}?watch=true&resourceVersion=1")).await;
    let events = watch.next().await;
    assert_eq!(events[0]["type"], "ERROR");
    assert_eq!(events[0]["object"]["code"], 410);
    assert_eq!(events[0]["object"]["reason"], "Expired");
    assert!(watch.next().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_read_is_cut_and_holds_nobody_up() {
    let server = FakeApiServer::new(Options { watch_buffer: 2, ..Options::default() });
    let mut watch =
        Watch::open(&server, &format!("{MAPS}?watch=true&resourceVersion={}", server.revision())).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(call(&server, "POST", MAPS, &config(name)).0, 201);
    }
    assert_eq!(seen(&watch.next().await), [pair("ADDED", "a"), pair("ADDED", "b")]);
    assert!(watch.next().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn watches_can_be_held_back_and_cut() {
    let server = server();
    let mut watch = Watch::open(&server, &format!("{MAPS}?watch=true&timeoutSeconds=60")).await;
    assert!(server.hold_watches("ConfigMap", true));
    call(&server, "POST", MAPS, &config("a"));
    let waited = tokio::time::timeout(std::time::Duration::from_secs(9), watch.next()).await;
    assert!(waited.is_err());
    assert!(server.hold_watches("ConfigMap", false));
    assert_eq!(seen(&watch.next().await), [pair("ADDED", "a")]);
    server.cut_watches();
    assert!(watch.next().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn both_event_apis_show_the_same_events() {
    let server = server();
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut watch = Watch::open(&server, &format!("{events}?watch=true")).await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R",
        "message": "m", "type": "Normal",
    });
    let quiet = server.changes().borrow().non_event_revision;
    assert_eq!(call(&server, "POST", "/api/v1/namespaces/default/events", &event).0, 201);
    assert_eq!(server.changes().borrow().non_event_revision, quiet);
    assert_eq!(server.changes().borrow().revision, server.revision());
    assert_eq!(call(&server, "GET", &format!("{events}/e"), &Value::Null).1["note"], "m");
    let seen = watch.next().await;
    assert_eq!(seen[0]["object"]["regarding"]["name"], "p");
    let (_, listed) =
        call(&server, "GET", &format!("{events}?fieldSelector=regarding.kind=Pod"), &Value::Null);
    assert_eq!(listed["items"][0]["note"], "m");
}

#[tokio::test]
async fn the_server_serves_tcp_until_it_is_told_to_stop() {
    let server = server();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move { server.serve(listener, async { drop(stopped.await) }).await });
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(
        &mut stream,
        b"GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )
    .await
    .unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.contains("v1.36.3"), "{answer}");
    // An open watch doesn't keep the server from stopping.
    let mut watching = tokio::net::TcpStream::connect(address).await.unwrap();
    let watch = b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: a\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut watching, watch).await.unwrap();
    let mut head = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut watching, &mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}
