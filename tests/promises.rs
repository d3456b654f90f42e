//! Promises of ARCHITECTURE.md about the loop that no recorded case shows: who is offered a volume that becomes free, and
//! how often the same event is posted, and what is passed on of a scrubbing pod.

use std::time::Duration;

use fake_apiserver::{FakeApiServer, Ids, Options, Plugins};
use kube::Client;
use pvbind::act::events::{self, REPEAT_AFTER};
use pvbind::act::{self};
use pvbind::cluster::{Key, Object};
use pvbind::decide::Event;
use pvbind::objects::Claim;
use serde_json::{Value, json};

/// Virtual time without any change after which all is settled.
const QUIET: Duration = Duration::from_secs(150);

fn server() -> FakeApiServer {
    let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
    FakeApiServer::new(Options { ids: Ids::Seeded(1), plugins, ..Options::default() })
}

fn volume(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    })
}

fn claim(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": name},
        "spec": {
            "storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
        },
    })
}

async fn settle(server: &FakeApiServer) {
    let mut changes = server.changes();
    while tokio::time::timeout(QUIET, changes.changed()).await.is_ok() {}
}

/// Runs the controller while `script` does something to the server.
async fn run(server: &FakeApiServer, script: impl Future<Output = ()>) {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let program = act::run(Client::new(server.router(), "default"), act::Options::controller(), async {
        // A sender that is gone means stop.
        let _ = stopped.await;
    });
    let script = async {
        settle(server).await;
        script.await;
        settle(server).await;
        drop(stop);
    };
    let (done, ()) = futures::future::join(program, script).await;
    assert_eq!(done.expect("the program ends well").0.counts.failures, 0);
}

/// Which volume each claim has.
fn bound(server: &FakeApiServer) -> Vec<(String, String)> {
    let claims = server.objects().into_iter().filter(|object| object["kind"] == "PersistentVolumeClaim");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    claims.map(|claim| (text(&claim["metadata"]["name"]), text(&claim["spec"]["volumeName"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(claim, volume)| ((*claim).to_owned(), (*volume).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_volume_goes_to_the_largest_request_that_it_fits() {
    let server = server();
    for (name, size) in [("a", "1Gi"), ("b", "3Gi"), ("c", "9Gi")] {
        server.import(claim(name, size)).expect("a claim");
    }
    run(&server, async {
        server.import(volume("v", "5Gi")).expect("a volume");
    })
    .await;
    assert_eq!(bound(&server), pairs(&[("a", ""), ("b", "v"), ("c", "")]));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_the_largest_request_did_not_need_goes_to_the_next() {
    let server = server();
    for (name, size) in [("a", "1Gi"), ("b", "3Gi")] {
        server.import(claim(name, size)).expect("a claim");
    }
    run(&server, async {
        // Both fit the larger request, which takes the smaller one.
        server.import(volume("large", "9Gi")).expect("a volume");
        server.import(volume("small", "4Gi")).expect("a volume");
    })
    .await;
    assert_eq!(bound(&server), pairs(&[("a", "large"), ("b", "small")]));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_taken_back_is_offered_again() {
    let server = server();
    for (name, size) in [("a", "1Gi"), ("b", "3Gi")] {
        server.import(claim(name, size)).expect("a claim");
    }
    server.import(volume("v", "5Gi")).expect("a volume");
    run(&server, async {
        assert_eq!(bound(&server), pairs(&[("a", ""), ("b", "v")]));
        let delete = |path: &str| {
            let (code, _) = server.request("DELETE", path, "application/json", b"");
            assert_eq!(code, 200, "{path}");
        };
        delete("/api/v1/namespaces/default/persistentvolumeclaims/b");
        settle(&server).await;
        // Retained: it is nobody's until somebody clears the reference.
        assert_eq!(bound(&server), pairs(&[("a", "")]));
        let free = br#"{"spec": {"claimRef": null}}"#;
        let content = "application/merge-patch+json";
        let (code, _) = server.request("PATCH", "/api/v1/persistentvolumes/v", content, free);
        assert_eq!(code, 200);
    })
    .await;
    assert_eq!(bound(&server), pairs(&[("a", "v")]));
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_posted_again_after_a_while_and_then_counted() {
    let server = server();
    server.record_calls(true);
    let (sink, poster) = events::channel(Client::new(server.router(), "default"));
    let about = Object::from(serde_json::from_value::<Claim>(claim("c", "1Gi")).expect("a claim"));
    let key = Key::claim("default", "c");
    let posts = || server.calls().iter().filter(|call| call.resource == "events").count();
    let script = async {
        let say = |what: &str| sink.send(&Event::normal(&key, "Waiting", what.to_owned()), Some(&about));
        let pause = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        say("for a");
        say("for a");
        say("for b");
        pause(1).await;
        assert_eq!(posts(), 2, "one of each");
        pause(REPEAT_AFTER.as_secs() - 2).await;
        say("for a");
        pause(1).await;
        assert_eq!(posts(), 2, "too early");
        pause(1).await;
        say("for a");
        pause(1).await;
        assert_eq!(posts(), 3);
        drop(sink);
    };
    // The script has the only sink: the poster ends with it.
    futures::future::join(poster.run(), script).await;
    let events = server.objects().into_iter().filter(|object| object["kind"] == "Event");
    let mut told: Vec<(String, u64)> = events
        .map(|event| {
            let text = event["message"].as_str().or(event["note"].as_str()).unwrap_or_default().to_owned();
            (text, event["series"]["count"].as_u64().unwrap_or(1))
        })
        .collect();
    told.sort();
    assert_eq!(told, [("for a".to_owned(), 2), ("for b".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_scrubbing_pod_is_told_of_its_volume() {
    let server = server();
    let mut released = volume("v", "5Gi");
    released["spec"]["persistentVolumeReclaimPolicy"] = json!("Recycle");
    released["spec"]["claimRef"] = json!({"namespace": "default", "name": "gone", "uid": "u"});
    released["status"] = json!({"phase": "Bound"});
    server.import(released).expect("a volume");
    let tell = |uid: &Value, name: &str, message: &str| {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "default", "name": name},
            "involvedObject": {
                "kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": "recycler-for-v", "uid": uid,
            },
            "type": "Warning", "reason": "Failed", "message": message, "source": {"component": "kubelet"},
        });
        let path = "/api/v1/namespaces/default/events";
        let (code, answer) = server.request("POST", path, "application/json", event.to_string().as_bytes());
        assert_eq!(code, 201, "{}", String::from_utf8_lossy(&answer));
    };
    run(&server, async {
        let pod = server.get("Pod", "default", "recycler-for-v").expect("a pod that scrubs");
        tell(&pod["metadata"]["uid"], "a", "Failed to pull image");
        tell(&json!("another"), "b", "of a pod of the same name that was there before");
    })
    .await;
    let events = server.objects().into_iter().filter(|object| object["kind"] == "Event");
    let told: Vec<String> = events
        .filter(|event| {
            event["involvedObject"]["kind"] == "PersistentVolume"
                || event["regarding"]["kind"] == "PersistentVolume"
        })
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}{}", text("type"), text("reason"), text("message"), text("note"))
        })
        .collect();
    assert_eq!(told, ["Warning RecyclerPod Recycler pod: Failed to pull image"]);
}
