//! The same end whatever goes wrong on the way, and the same bytes when nothing does.

use super::live::{Live, claim, node, pod, server, stateful_set};
use super::scene::workload;
use crate::simulate::actors::Kind;
use fake_apiserver::{Call, Fault, FaultHook, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A cluster of everything, played as far as it goes without placement, with a fault for each write that `hook` picks.
async fn play_everything(hook: Option<FaultHook>) -> Vec<Value> {
    let scratch = json!({"volumeClaimTemplate": {"spec": claim("", "fast", json!({}))["spec"]}});
    let ephemeral = json!({"template": {"spec": {"volumes": [{"name": "tmp", "ephemeral": scratch}]}}});
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "drv.example.com",
    });
    let asks = json!({"volume.kubernetes.io/storage-provisioner": "drv.example.com"});
    let server = server();
    let objects =
        [node(), class, claim("c1", "fast", asks.clone()), claim("c2", "fast", asks), pod("d1", "c1")];
    let live = Live::start_on(&server, objects).await;
    server.set_faults(hook);
    let mut set = stateful_set(2);
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    for object in
        [set, workload(Kind::DaemonSet, "agent", &ephemeral), workload(Kind::Job, "once", &json!({}))]
    {
        server.import(object).expect("imported");
    }
    server.import(workload(Kind::Deployment, "front", &json!({"replicas": 3}))).expect("imported");
    tokio::time::sleep(Duration::from_secs(60)).await;
    server.set_faults(None);
    live.delete(Kind::Claim, "c2").await;
    let objects = server.objects().iter().map(|object| (**object).clone()).collect();
    live.stop().await;
    objects
}

/// What is there by kind, without what depends on how often something was tried.
fn census(objects: &[Value]) -> BTreeMap<String, usize> {
    let mut census = BTreeMap::new();
    for object in objects.iter().filter(|o| o["kind"] != "Event") {
        *census.entry(object["kind"].to_string()).or_default() += 1;
    }
    census
}

#[tokio::test(start_paused = true)]
async fn the_same_input_gives_the_same_bytes() {
    let first = play_everything(None).await;
    assert_eq!(first, play_everything(None).await);
    let census = census(&first);
    let count = |kind: &str| census.get(&format!("\"{kind}\"")).copied();
    assert_eq!(
        (count("Pod"), count("PersistentVolumeClaim"), count("PersistentVolume")),
        (Some(8), Some(4), Some(2))
    );
}

fn refused(code: u16, reason: &str) -> Fault {
    Fault::Status(Box::new(Status::new(code, reason, "no")))
}

#[rstest::rstest]
#[case::conflict(2, || refused(409, "Conflict"))]
#[case::refused(3, || refused(500, "InternalError"))]
#[case::too_many(2, || refused(429, "TooManyRequests"))]
#[case::answer_lost(3, || Fault::Lost)]
#[tokio::test(start_paused = true)]
async fn faults_change_nothing_but_the_time(#[case] each: u64, #[case] fault: fn() -> Fault) {
    let hook: FaultHook = Arc::new(move |call: &Call| {
        let writes = !matches!(call.verb, "get" | "list" | "watch");
        (writes && call.number.is_multiple_of(each)).then(fault)
    });
    assert_eq!(census(&play_everything(Some(hook)).await), census(&play_everything(None).await));
}
