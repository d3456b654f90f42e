//! Claims whose volumes an external program makes for the selected node: nodes that are gone, and programs that refuse.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::stage::{Deed, Stage, claim, delayed_class, local_class, local_volume, node, pod};

const NODE: &str = "volume.kubernetes.io/selected-node";

/// A pod with a claim of a class whose volumes are made, on so many nodes.
fn set(stage: &Stage, nodes: &[&str]) {
    stage.create(&delayed_class("w"));
    stage.create_all(nodes.iter().map(|name| node(name, 9)));
    stage.create(&claim("c1", &json!({"storageClassName": "w"})));
    stage.create(&pod("d1", &["c1"]));
}

fn select(stage: &Stage, claim: &str, node: &str) {
    stage.patch("PersistentVolumeClaim", claim, &json!({"metadata": {"annotations": {NODE: node}}}));
}

/// kubernetes/kubernetes#100485: nobody who makes volumes has to be there for the scheduler to choose again.
#[tokio::test(start_paused = true)]
async fn b5_a_node_that_is_gone_is_taken_back_by_the_scheduler_itself() {
    for mut stage in [Stage::scheduling_alone(), Stage::scheduling()] {
        set(&stage, &["n1"]);
        select(&stage, "c1", "gone");
        stage.start();
        let took = stage.settle().await;
        assert_eq!((stage.selected_node("c1"), took.as_secs()), ("n1".into(), 0));
        assert_eq!(stage.refusals("d1"), <[String; 0]>::default());
        stage.stop().await;
    }
}

/// kubernetes/kubernetes#100485: the same for a class whose volumes are there, for which nobody would ever do it.
#[tokio::test(start_paused = true)]
async fn b5_sibling_a_claim_of_a_class_that_nobody_provisions_finds_its_volume_again() {
    let mut stage = Stage::scheduling();
    stage.create_all([local_class("local"), node("n1", 9), local_volume("p1", "local", "5Gi", "n1")]);
    stage.create(&claim("c1", &json!({"storageClassName": "local"})));
    stage.create(&pod("d1", &["c1"]));
    select(&stage, "c1", "gone");
    stage.start();
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n1");
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    stage.stop().await;
}

/// kubernetes/kubernetes#100485: a node that is there stays selected, for the volume may be being made there right now; the
/// pod waits for it.
#[tokio::test(start_paused = true)]
async fn b5_sibling_a_node_that_is_only_cordoned_stays_selected() {
    let mut stage = Stage::scheduling();
    set(&stage, &["n1", "n2"]);
    select(&stage, "c1", "n2");
    stage.patch("Node", "n2", &json!({"spec": {"unschedulable": true}}));
    stage.start();
    stage.settle().await;
    assert_eq!((stage.node_of("d1"), stage.selected_node("c1")), (String::new(), "n2".into()));
    let why = "0/2 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 1 node(s) were unschedulable.";
    assert_eq!(stage.refusals("d1"), [why]);
    let provisioner = stage.provision(|_| Deed::Make);
    stage.patch("Node", "n2", &json!({"spec": {"unschedulable": null}}));
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n2");
    stage.stop().await;
    provisioner.abort();
}

/// kubernetes/kubernetes#100485: a node that goes while the volume is being made: the claim moves on with its pod.
#[tokio::test(start_paused = true)]
async fn b5_sibling_a_node_that_goes_while_the_volume_is_made_is_left() {
    let mut stage = Stage::scheduling();
    set(&stage, &["n1", "n2"]);
    stage.start();
    stage.settle().await;
    assert_eq!(stage.selected_node("c1"), "n1");
    stage.delete("Node", "n1");
    let took = stage.settle().await;
    assert_eq!(stage.selected_node("c1"), "n2");
    assert!(took < Duration::from_millis(100), "{took:?}");
    let why = "running PreBind plugin \"VolumeBinding\": binding volumes: failed to get node \"n1\": node \"n1\" not found";
    assert_eq!(stage.refusals("d1"), [why]);
    let provisioner = stage.provision(|_| Deed::Make);
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n2");
    stage.stop().await;
    provisioner.abort();
}

/// volcano-sh/volcano#2843, volcano-sh/volcano#4369: one claim that nobody can serve held up the others, or brought the
/// scheduler down. Here its pod tries again after pauses that grow, and the other pod is placed at once.
#[tokio::test(start_paused = true)]
async fn b18_a_claim_that_is_always_refused_holds_up_its_own_pod_alone() {
    let mut stage = Stage::scheduling();
    set(&stage, &["n1", "n2"]);
    let refusals: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = refusals.clone();
    let provisioner = stage.provision(move |claim| {
        if claim == "good" {
            return Deed::Make;
        }
        noted.lock().expect("nobody panics while noting").push(Instant::now());
        Deed::Refuse
    });
    stage.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.create(&claim("good", &json!({"storageClassName": "w"})));
    stage.create(&pod("d2", &["good"]));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!stage.node_of("d2").is_empty(), "it waits for nobody");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let refusals = refusals.lock().expect("nobody notes any more").clone();
    let pauses: Vec<Duration> = refusals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    let last = pauses.last().expect("it was tried more than once");
    assert!(Duration::from_secs(10) <= *last && *last < Duration::from_secs(12), "{pauses:?}");
    assert!(pauses.len() < 75, "{pauses:?}");
    let counts = stage.stop().await.counts;
    assert_eq!((counts.conflicts, counts.failures), (0, 0), "{counts:?}");
    provisioner.abort();
}

/// volcano-sh/volcano#4480: another client changed the claim just before the node was selected for it, and the pod waited for
/// a minute.
#[tokio::test(start_paused = true)]
async fn b18_a_claim_that_somebody_else_has_just_changed_is_written_again_at_once() {
    let mut stage = Stage::scheduling_alone();
    set(&stage, &["n1"]);
    stage.just_before(
        |call| call.verb == "patch" && call.name == "c1",
        |by_hand| {
            by_hand.patch("PersistentVolumeClaim", "c1", &json!({"metadata": {"labels": {"seen": "yes"}}}));
        },
    );
    stage.start();
    let took = stage.settle().await;
    assert_eq!(stage.selected_node("c1"), "n1");
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!(stage.stop().await.counts.conflicts, 1, "the one that was made");
}

/// kubernetes/kubernetes#83181: the pod was told `selectedNode annotation value "" not set to scheduled node`.
#[tokio::test(start_paused = true)]
async fn b19_a_pod_is_told_that_making_its_volume_failed_and_of_which_claim() {
    let mut stage = Stage::scheduling();
    set(&stage, &["n1"]);
    let refuses = Arc::new(Mutex::new(1));
    let provisioner = stage.provision(move |_| {
        let mut left = refuses.lock().expect("nobody panics while counting");
        if *left == 0 {
            return Deed::Make;
        }
        *left -= 1;
        Deed::Refuse
    });
    stage.start();
    stage.settle().await;
    let why = "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"c1\"";
    assert_eq!(stage.refusals("d1"), [why]);
    assert_eq!(stage.node_of("d1"), "n1", "it is tried again");
    stage.stop().await;
    provisioner.abort();
}

/// kubernetes/kubernetes#83181: the refusal may come when the pod has waited for long.
#[tokio::test(start_paused = true)]
async fn b19_sibling_a_refusal_that_comes_late_is_told_as_such() {
    let mut stage = Stage::scheduling();
    set(&stage, &["n1", "n2"]);
    stage.start();
    stage.settle().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(stage.refusals("d1"), <[String; 0]>::default());
    stage.by_hand().provision(&stage.claim("c1"), Deed::Refuse);
    stage.patch("Node", "n1", &json!({"spec": {"unschedulable": true}}));
    stage.settle().await;
    let why = "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"c1\"";
    assert_eq!(stage.refusals("d1"), [why]);
    assert_eq!(stage.selected_node("c1"), "n2", "the choice is free again");
    stage.stop().await;
}
