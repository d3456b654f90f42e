//! A pod that waits until its volumes are bound: it is woken by what it waits for, asks nobody meanwhile, and gives up when
//! that is impossible or takes too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::Call;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{Deed, Stage, claim, delayed_class, local_class, local_volume, node, pod};
use crate::troubled::sound;

/// How long binding may take, in upstream's scheduler and here.
const LIMIT: Duration = Duration::from_secs(600);

/// Long enough to see that nothing is asked; watches are begun anew after five minutes.
const WAITED: Duration = Duration::from_secs(100);

/// A pod with a claim for which a volume is there, on each of two nodes.
fn there(stage: &Stage) {
    stage.create_all([local_class("local"), node("n1", 1), node("n2", 1)]);
    stage.create_all(
        [("p1", "n1"), ("p2", "n2")].map(|(name, node)| local_volume(name, "local", "5Gi", node)),
    );
    for volume in ["p1", "p2"] {
        stage.patch_status("PersistentVolume", volume, &json!({"phase": "Available"}));
    }
    stage.create(&claim("c1", &json!({"storageClassName": "local"})));
    stage.create(&pod("d1", &["c1"]));
}

/// A pod with a claim for which a volume is made, and two nodes.
fn made(stage: &Stage) {
    stage.create_all([delayed_class("w"), node("n1", 1), node("n2", 1)]);
    stage.create(&claim("c1", &json!({"storageClassName": "w"})));
    stage.create(&pod("d1", &["c1"]));
}

/// Counts every request that the loop sends, watches included.
fn requests(stage: &Stage) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    stage.server.set_faults(Some(Arc::new(move |_: &Call| {
        counted.fetch_add(1, Ordering::SeqCst);
        None
    })));
    count
}

/// Waits until the pod is on a node; says how long that took.
async fn until_placed(stage: &Stage, pod: &str) -> Duration {
    let (begin, mut changes) = (Instant::now(), stage.server.changes());
    while stage.node_of(pod).is_empty() {
        let change = tokio::time::timeout(Duration::from_secs(60), changes.changed());
        change.await.expect("the pod is placed soon").expect("the server is there");
    }
    begin.elapsed()
}

fn prebind(why: &str) -> String {
    format!("running PreBind plugin \"VolumeBinding\": binding volumes: {why}")
}

fn reserved_for(stage: &Stage, volume: &str) -> Value {
    stage.volume(volume)["spec"]["claimRef"]["name"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_placed_by_the_event_that_binds_its_claim_and_nothing_is_asked_before() {
    let mut stage = Stage::scheduling_alone();
    there(&stage);
    stage.start();
    stage.settle().await;
    assert_eq!((reserved_for(&stage, "p1"), stage.node_of("d1")), (json!("c1"), String::new()));
    let asked = requests(&stage);
    tokio::time::sleep(WAITED).await;
    assert_eq!(asked.load(Ordering::SeqCst), 0, "it waits, and asks nobody");
    stage.server.set_faults(None);
    stage.server.record_calls(true);
    stage.bind_by_hand("c1", "p1");
    let took = until_placed(&stage, "d1").await;
    assert_eq!(took, Duration::ZERO);
    let by_loop: Vec<_> = stage.calls().into_iter().filter(|call| call.name == "d1").collect();
    assert_eq!(by_loop.len(), 1, "{by_loop:?}");
    assert_eq!((by_loop[0].verb, &*by_loop[0].subresource), ("create", "binding"));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_placed_by_the_event_that_its_volume_is_made() {
    let mut stage = Stage::scheduling();
    made(&stage);
    stage.start();
    stage.settle().await;
    let asked = requests(&stage);
    tokio::time::sleep(WAITED).await;
    assert_eq!(asked.load(Ordering::SeqCst), 0, "it waits, and asks nobody");
    stage.by_hand().provision(&stage.claim("c1"), Deed::Make);
    let took = until_placed(&stage, "d1").await;
    assert_eq!(took, Duration::ZERO);
    sound(&stage, "made");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_while_volumes_are_bound_for_it_is_left_at_once() {
    let mut stage = Stage::scheduling_alone();
    there(&stage);
    stage.start();
    stage.settle().await;
    assert_eq!(reserved_for(&stage, "p1"), "c1");
    stage.delete("Node", "n1");
    let took = stage.settle().await;
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!((reserved_for(&stage, "p1"), reserved_for(&stage, "p2")), (Value::Null, json!("c1")));
    assert_eq!(stage.refusals("d1"), [prebind("failed to get node \"n1\": node \"n1\" not found")]);
    stage.bind_by_hand("c1", "p2");
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n2");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_can_no_longer_reach_the_volume_is_left_at_once() {
    let mut stage = Stage::scheduling_alone();
    there(&stage);
    stage.start();
    stage.settle().await;
    stage.patch("Node", "n1", &json!({"metadata": {"labels": {"kubernetes.io/hostname": "renamed"}}}));
    let took = stage.settle().await;
    assert!(took < Duration::from_millis(100), "{took:?}");
    let why = "pv \"p1\" node affinity doesn't match node \"n1\": no matching NodeSelectorTerms";
    assert_eq!(stage.refusals("d1"), [prebind(why)]);
    assert_eq!((reserved_for(&stage, "p1"), reserved_for(&stage, "p2")), (Value::Null, json!("c1")));
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_goes_or_is_taken_back_while_it_is_bound_fails_at_once() {
    let gone: fn(&Stage) = |stage| stage.delete("PersistentVolume", "p1");
    let reset: fn(&Stage) = |stage| {
        // For somebody else, with no claim of theirs yet.
        let other = json!({"name": "other", "uid": null});
        stage.patch("PersistentVolume", "p1", &json!({"spec": {"claimRef": other}}));
    };
    for (change, why) in [
        (gone, "failed to check binding: persistentvolumes \"p1\" not found"),
        (reset, "ClaimRef got reset for pv \"p1\""),
    ] {
        let mut stage = Stage::scheduling_alone();
        there(&stage);
        stage.start();
        stage.settle().await;
        change(&stage);
        let took = stage.settle().await;
        assert!(took < Duration::from_millis(100), "{took:?}");
        assert_eq!(stage.refusals("d1"), [prebind(why)]);
        assert_eq!(reserved_for(&stage, "p2"), "c1");
        stage.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_while_it_is_bound_fails_at_once_and_its_successor_is_served() {
    for (is_there, class, why) in [
        (true, "local", "failed to check binding: persistentvolumeclaims \"default/c1\" not found"),
        (false, "w", "failed to check provisioning pvc: persistentvolumeclaims \"default/c1\" not found"),
    ] {
        let mut stage = Stage::scheduling_alone();
        if is_there {
            there(&stage);
        } else {
            made(&stage);
        }
        stage.start();
        stage.settle().await;
        stage.delete("PersistentVolumeClaim", "c1");
        let took = stage.settle().await;
        assert!(took < Duration::from_millis(100), "{took:?}");
        let missing = "0/2 nodes are available: persistentvolumeclaim \"c1\" not found.";
        assert_eq!(stage.refusals("d1"), [missing.to_owned(), prebind(why)]);
        stage.create(&claim("c1", &json!({"storageClassName": class})));
        stage.settle().await;
        let found = [reserved_for(&stage, "p2"), json!(stage.selected_node("c1"))];
        assert!(found.contains(&json!("c1")) || found.contains(&json!("n1")), "{found:?}");
        stage.stop().await;
    }
}

/// Upstream gives up after ten minutes as well, but looks once a second until then.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_volume_nobody_makes_is_scheduled_anew_after_ten_minutes() {
    let mut stage = Stage::scheduling();
    made(&stage);
    let begin = Instant::now();
    stage.start();
    tokio::time::sleep_until(begin + LIMIT.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(stage.refusals("d1"), <[String; 0]>::default());
    tokio::time::sleep_until(begin + LIMIT + Duration::from_secs(1)).await;
    assert_eq!(stage.refusals("d1"), [prebind("context deadline exceeded")]);
    // It is tried anew, and for as long.
    tokio::time::sleep_until(begin + LIMIT * 2 - Duration::from_secs(1)).await;
    assert_eq!(stage.times_refused("d1"), 1);
    tokio::time::sleep_until(begin + LIMIT * 2 + Duration::from_secs(1)).await;
    assert_eq!(stage.times_refused("d1"), 2);
    stage.by_hand().provision(&stage.claim("c1"), Deed::Make);
    assert_eq!(until_placed(&stage, "d1").await, Duration::ZERO);
    stage.stop().await;
}

/// The same where nobody binds the claim to a volume that is there.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_nobody_binds_is_scheduled_anew_after_ten_minutes() {
    let mut stage = Stage::scheduling_alone();
    there(&stage);
    stage.start();
    tokio::time::sleep(LIMIT + Duration::from_secs(1)).await;
    assert_eq!(stage.refusals("d1"), [prebind("context deadline exceeded")]);
    assert_eq!(reserved_for(&stage, "p1"), "c1", "it fits as well as before");
    stage.bind_by_hand("c1", "p1");
    assert_eq!(until_placed(&stage, "d1").await, Duration::ZERO);
    stage.stop().await;
}

/// Where the pod may be no longer when its time is over, it is placed elsewhere, with another volume.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_overdue_goes_elsewhere_if_it_has_to() {
    let mut stage = Stage::scheduling_alone();
    there(&stage);
    stage.start();
    stage.settle().await;
    stage.patch("Node", "n1", &json!({"spec": {"unschedulable": true}}));
    stage.settle().await;
    assert_eq!(reserved_for(&stage, "p1"), "c1", "the node was chosen before");
    tokio::time::sleep(LIMIT).await;
    stage.settle().await;
    assert_eq!((reserved_for(&stage, "p1"), reserved_for(&stage, "p2")), (Value::Null, json!("c1")));
    stage.stop().await;
}

/// A process that dies while it waits leaves nothing that a new one could not go on from; the time begins anew.
#[tokio::test(start_paused = true)]
async fn a_new_process_goes_on_waiting() {
    let mut stage = Stage::scheduling();
    made(&stage);
    stage.start();
    tokio::time::sleep(LIMIT / 2).await;
    stage.kill().await;
    stage.server.record_calls(true);
    stage.start();
    tokio::time::sleep(LIMIT.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(stage.calls(), [], "all that is to be asked for has been");
    assert_eq!(stage.refusals("d1"), <[String; 0]>::default());
    stage.by_hand().provision(&stage.claim("c1"), Deed::Make);
    assert_eq!(until_placed(&stage, "d1").await, Duration::ZERO);
    assert_eq!(stage.node_of("d1"), "n1");
    stage.stop().await;
}

/// A pod says since when it has no node, and which of its generations has none: neither changes with the reason alone.
#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_says_since_when() {
    let mut stage = Stage::scheduling();
    stage.create_all([local_class("local"), node("n1", 1)]);
    stage.create(&claim("c1", &json!({"storageClassName": "local"})));
    stage.create(&pod("d1", &["c1"]));
    stage.start();
    stage.settle().await;
    let said = |stage: &Stage| {
        let condition = stage.get("Pod", "d1")["status"]["conditions"][0].clone();
        assert_eq!((&condition["type"], &condition["status"]), (&json!("PodScheduled"), &json!("False")));
        (condition["message"].clone(), condition["lastTransitionTime"].clone(), condition)
    };
    let (why, since, condition) = said(&stage);
    let since_then = since.as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
    assert!(since_then.is_some(), "{condition}");
    assert_eq!(condition["observedGeneration"], json!(1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    stage.create_all([node("n2", 1)]);
    stage.settle().await;
    let (other, still, _) = said(&stage);
    assert_ne!(why, other, "there are two nodes now");
    assert_eq!(since, still);
}
