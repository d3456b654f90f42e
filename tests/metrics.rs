//! What Prometheus gets: the loop runs against the API server in process, in virtual time, over a world that has some
//! of everything; the pages are then asked for over HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fake_apiserver::{Call, FakeApiServer, Fault, Ids, Options, Plugins, Status};
use kube::Client;
use pvbind::act::metrics::serve::serve;
use pvbind::act::{self, Metrics};
use pvbind::decide::binder::Pods;
use pvbind::decide::{Settings, plugin};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How long anything may take before the test gives up; it only matters when something is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer as it came.
struct Page {
    status: u16,
    head: String,
    body: String,
}

/// Asks for a page as any client would.
async fn get(address: SocketAddr, path: &'static str) -> Page {
    let ask = move || {
        let mut stream = std::net::TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").expect("a request");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    };
    let text = tokio::task::spawn_blocking(ask).await.expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Page { status, head: head.to_lowercase(), body: body.to_owned() }
}

fn put(fake: &FakeApiServer, object: Value) {
    let name = object["metadata"]["name"].clone();
    fake.import(object).unwrap_or_else(|status| panic!("{name}: {status:?}"));
}

fn class(name: &str, provisioner: &str, more: &Value) -> Value {
    merged(
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": name}, "provisioner": provisioner,
        }),
        more,
    )
}

fn claim(namespace: &str, name: &str, spec: &Value) -> Value {
    let more = json!({"spec": spec});
    merged(
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
        &more,
    )
}

fn volume(name: &str, spec: &Value) -> Value {
    let more = json!({"spec": spec});
    merged(
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        }),
        &more,
    )
}

fn merged(mut object: Value, more: &Value) -> Value {
    for (field, value) in more.as_object().expect("an object") {
        match (object.get_mut(field).and_then(Value::as_object_mut), value) {
            (Some(inside), Value::Object(value)) => inside.extend(value.clone()),
            _ => object[field] = value.clone(),
        }
    }
    object
}

/// A pod that is placed and one that is not. Two bound pairs, one of which comes to it through a conflict and the other through an error of the server; a claim
/// that nothing fits, one that is provisioned from outside, one whose provisioning fails, one that will have the
/// default class; a volume that is to be deleted, one that cannot be, and two that nobody wants.
fn world(fake: &FakeApiServer) {
    let delete = |name: &str, source: &Value| {
        let reference = json!({"namespace": "default", "name": "gone", "uid": "0000"});
        let rest = json!({"claimRef": reference, "persistentVolumeReclaimPolicy": "Delete"});
        let volume = volume(name, &merged(source.clone(), &rest));
        merged(
            volume,
            &json!({
                "metadata": {"name": name, "finalizers": ["example.com/keep"]},
                "status": {"phase": "Bound"},
            }),
        )
    };
    let fast = json!({"storageClassName": "fast"});
    for object in [
        class("fast", "example.com/fast", &json!({})),
        class("broken", "kubernetes.io/host-path", &json!({"mountOptions": ["ro"]})),
        volume("conflict", &json!({"nfs": {"server": "s", "path": "/a"}})),
        claim("default", "conflict", &json!({"storageClassName": ""})),
        volume(
            "block",
            &json!({
                "csi": {"driver": "example.com", "volumeHandle": "h"}, "volumeMode": "Block",
                "storageClassName": "manual", "volumeAttributesClassName": "gold",
            }),
        ),
        claim(
            "app",
            "block",
            &json!({
                "volumeMode": "Block", "storageClassName": "manual", "volumeAttributesClassName": "gold",
            }),
        ),
        claim(
            "app",
            "large",
            &json!({"storageClassName": "", "resources": {"requests": {"storage": "9Ti"}}}),
        ),
        claim("app", "provisioned", &fast),
        claim("app", "abandoned", &fast),
        claim("default", "broken", &json!({"storageClassName": "broken"})),
        claim("default", "later", &json!({})),
        delete("deleted", &json!({"hostPath": {"path": "/tmp/deleted"}})),
        delete("undeletable", &json!({"hostPath": {"path": "/etc"}})),
        volume("free", &json!({"hostPath": {"path": "/tmp/free"}, "storageClassName": "spare"})),
        volume("taken-away", &json!({"hostPath": {"path": "/tmp/away"}, "storageClassName": "spare"})),
    ]
    .into_iter()
    .chain(scheduled())
    {
        put(fake, object);
    }
}

/// A pod that is placed with the volume that its claim waits for, though a request fails on the way, and one that is not.
fn scheduled() -> Vec<Value> {
    let pod = |name: &str, claim: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "app", "name": name},
            "spec": {
                "schedulerName": "mine", "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
            },
        })
    };
    vec![
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"pods": "9"}},
        }),
        class("late", "kubernetes.io/no-provisioner", &json!({"volumeBindingMode": "WaitForFirstConsumer"})),
        volume("awaited", &json!({"hostPath": {"path": "/tmp/awaited"}, "storageClassName": "late"})),
        claim("app", "late", &json!({"storageClassName": "late"})),
        pod("placed", "late"),
        pod("stuck", "large"),
    ]
}

/// The first write to one volume meets a newer version, the first status of one claim an error, and so does the first
/// time a claim is given the default class.
fn faults() -> fake_apiserver::FaultHook {
    let counts: [AtomicU32; 4] = Default::default();
    let first = move |number: usize| counts[number].fetch_add(1, Ordering::Relaxed) == 0;
    let failed = || Some(Fault::Status(Box::new(Status::new(500, "InternalError", "out of luck"))));
    Arc::new(move |call: &Call| match (call.verb, call.name.as_str(), call.subresource.as_str()) {
        ("patch", "conflict", "") if call.resource == "persistentvolumes" && first(0) => {
            Some(Fault::Status(Status::modified("", "persistentvolumes", "conflict")))
        }
        ("patch", "block", "status") if call.resource == "persistentvolumeclaims" && first(1) => failed(),
        ("patch", "later", "") if first(2) => failed(),
        ("patch", "awaited", "") if first(3) => failed(),
        _ => None,
    })
}

fn request(fake: &FakeApiServer, method: &str, path: &str, body: &Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (code, answer) = fake.request(method, path, kind, body.as_bytes());
    assert_eq!(code, 200, "{method} {path}: {}", String::from_utf8_lossy(&answer));
}

/// What happens while the loop runs: each step, and the virtual time that passes after it.
async fn script(fake: &FakeApiServer) {
    let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    wait(3).await;
    let uid = |name: &str| {
        let claim = fake.get("PersistentVolumeClaim", "app", name).expect("a claim");
        claim["metadata"]["uid"].as_str().expect("a uid").to_owned()
    };
    let reference = json!({"namespace": "app", "name": "provisioned", "uid": uid("provisioned")});
    let source = json!({"driver": "fast.example.com", "volumeHandle": "h"});
    put(fake, volume("made", &json!({"csi": source, "storageClassName": "fast", "claimRef": reference})));
    put(
        fake,
        class(
            "standard",
            "example.com/standard",
            &json!({"metadata": {
                "name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            }}),
        ),
    );
    request(fake, "DELETE", "/api/v1/namespaces/app/persistentvolumeclaims/abandoned", &json!({}));
    request(fake, "DELETE", "/api/v1/persistentvolumes/taken-away", &json!({}));
    wait(4).await;
    // Whoever kept the volume has let go of it.
    request(fake, "PATCH", "/api/v1/persistentvolumes/deleted", &json!({"metadata": {"finalizers": null}}));
    wait(1).await;
}

fn snapshot(text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots/metrics");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("scrape", text));
}

#[tokio::test(start_paused = true)]
async fn prometheus_gets_what_happened() {
    let plugins = Plugins {
        volume_protection: false,
        claim_protection: false,
        default_class: false,
        ..Plugins::default()
    };
    let fake = FakeApiServer::new(Options { ids: Ids::Seeded(1), plugins, ..Options::default() });
    world(&fake);
    fake.set_faults(Some(faults()));

    let metrics = Metrics::new().expect("metrics");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let (stop_server, server_stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(metrics.clone(), listener, async {
        let _ = server_stopped.await;
    }));
    assert_eq!(get(address, "/healthz").await.status, 200);
    let early = get(address, "/readyz").await;
    assert_eq!((early.status, early.body.as_str()), (503, "not every kind of object has been listed yet"));

    // One that leads, and once had to look at the lease first.
    metrics.leads("pvbind-controller", true);
    metrics.leads_slowly("pvbind-controller");
    metrics.paced(64, 3);
    let options = act::Options {
        settings: Settings { plugins: plugin::PROVISIONING, ..Settings::default() },
        plugins: act::Plugins::pretended(),
        metrics,
        roles: act::Roles { controller: true, scheduler: Some(Pods::Naming("mine".to_owned())) },
        ..act::Options::controller()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let client = Client::new(fake.router(), "default");
    let program = tokio::spawn(act::run(client, options, async {
        let _ = stopped.await;
    }));
    script(&fake).await;
    assert_eq!(get(address, "/readyz").await.status, 200);
    let page = get(address, "/metrics").await;
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{}", page.head);
    assert_eq!(get(address, "/other").await.status, 404);

    drop(stop);
    program.await.expect("the program ends").expect("it ends well");
    drop(stop_server);
    server.await.expect("the server ends");
    every_metric_is_documented(&page.body);
    snapshot(&page.body);
}

/// Each metric of the text has a row with its type and labels in the page about them, and each row is in the text.
fn every_metric_is_documented(text: &str) {
    let of_type = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        let sample = text.lines().find(|line| !line.starts_with('#') && line.starts_with(name))?;
        let labels =
            sample.split_once('{').map_or("", |(_, rest)| rest.split('}').next().unwrap_or_default());
        let names = labels.split(',').filter_map(|label| label.split_once('='));
        let mut names: Vec<_> = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le").collect();
        names.sort();
        Some((name.to_owned(), (kind.to_owned(), names)))
    };
    let shown: BTreeMap<_, _> = text.lines().filter_map(of_type).collect();
    let page = include_str!("../docs/metrics.md");
    let of_row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(|cell| cell.trim().trim_matches('`'));
        let (name, kind, labels) = (cells.next()?, cells.next()?, cells.next()?);
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned);
        let mut labels: Vec<_> = labels.collect();
        labels.sort();
        Some((name.to_owned(), (kind.to_owned(), labels)))
    };
    let documented: BTreeMap<_, _> = page.lines().filter_map(of_row).collect();
    assert_eq!(shown, documented);
}
