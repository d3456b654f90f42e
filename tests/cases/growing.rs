//! Pods that wait for room at a driver: what lets them go on, and what does not.

use serde_json::{Value, json};

use crate::stage::{Deed, Stage, capacity, claim, delayed_class, driver, node, pod};

const FULL: &str = "0/1 nodes are available: 1 node(s) did not have enough free storage.";

/// A pod that wants 5Gi of a driver which has 1Gi left.
async fn waiting() -> Stage {
    let mut stage = Stage::scheduling();
    stage.create_all([delayed_class("w"), driver(true), node("n1", 9), capacity("k1", "w", "1Gi", "n1")]);
    stage.create(&claim(
        "c1",
        &json!({"storageClassName": "w", "resources": {"requests": {"storage": "5Gi"}}}),
    ));
    stage.create(&pod("d1", &["c1"]));
    stage.start();
    stage.settle().await;
    assert_eq!((stage.node_of("d1"), stage.selected_node("c1")), (String::new(), String::new()));
    assert_eq!(stage.refusals("d1"), [FULL]);
    assert_eq!(stage.times_refused("d1"), 1);
    stage
}

/// The pod goes on at once after `change`, and after nothing else.
async fn goes_on_after(change: impl Fn(&Stage)) {
    let mut stage = waiting().await;
    let provisioner = stage.provision(|_| Deed::Make);
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "", "not by itself");
    change(&stage);
    let took = stage.settle().await;
    assert_eq!((stage.node_of("d1"), took.as_secs()), ("n1".into(), 0));
    stage.stop().await;
    provisioner.abort();
}

/// The pod waits on after `change`, and nothing is said or written because of it.
async fn waits_on_after(change: impl Fn(&Stage)) {
    let mut stage = waiting().await;
    let told = stage.times_refused("d1");
    stage.server.record_calls(true);
    change(&stage);
    stage.settle().await;
    assert_eq!((stage.node_of("d1"), stage.selected_node("c1")), (String::new(), String::new()));
    assert_eq!(stage.times_refused("d1"), told, "it was not looked at again");
    let by_loop: Vec<_> =
        stage.calls().into_iter().filter(|call| call.resource != "csistoragecapacities").collect();
    assert_eq!(by_loop, []);
    stage.stop().await;
}

fn set(stage: &Stage, fields: &Value) {
    stage.patch("CSIStorageCapacity", "k1", fields);
}

/// kubernetes/kubernetes#104250: nothing woke the pod. `testdata/worlds/capacity-grows` has the same offline.
#[tokio::test(start_paused = true)]
async fn b15_a_capacity_that_grows_lets_the_pod_go_on() {
    goes_on_after(|stage| set(stage, &json!({"capacity": "10Gi"}))).await;
}

/// kubernetes/kubernetes#104250: less room is no news to a pod that lacks room.
#[tokio::test(start_paused = true)]
async fn b15_a_capacity_that_shrinks_or_stays_does_not() {
    waits_on_after(|stage| set(stage, &json!({"capacity": "1Mi"}))).await;
    waits_on_after(|stage| set(stage, &json!({"metadata": {"labels": {"seen": "again"}}}))).await;
    waits_on_after(|stage| stage.delete("CSIStorageCapacity", "k1")).await;
}

/// kubernetes/kubernetes#104250: the limit is the largest volume that may be made, where the driver says it.
#[tokio::test(start_paused = true)]
async fn b15_sibling_the_largest_volume_is_the_limit() {
    let large = json!({"capacity": "100Gi", "maximumVolumeSize": "2Gi"});
    waits_on_after(|stage| set(stage, &large)).await;
    goes_on_after(|stage| {
        set(stage, &large);
        set(stage, &json!({"maximumVolumeSize": "5Gi"}));
    })
    .await;
    goes_on_after(|stage| {
        set(stage, &large);
        set(stage, &json!({"maximumVolumeSize": null}));
    })
    .await;
}

/// kubernetes/kubernetes#104250: room may also be reported by an object of its own.
#[tokio::test(start_paused = true)]
async fn b15_sibling_a_capacity_that_is_new_lets_the_pod_go_on() {
    goes_on_after(|stage| drop(stage.create(&capacity("k2", "w", "5Gi", "n1")))).await;
}

/// kubernetes/kubernetes#104250: room of another class, or where no node is, is not the pod's.
#[tokio::test(start_paused = true)]
async fn b15_sibling_room_elsewhere_does_not() {
    waits_on_after(|stage| drop(stage.create(&capacity("k2", "other", "50Gi", "n1")))).await;
    waits_on_after(|stage| drop(stage.create(&capacity("k2", "w", "50Gi", "n2")))).await;
}

/// Upstream's hint, kubernetes/kubernetes#125171, looks at inline volumes only, and the pod waits for something else to
/// happen: a driver that does not track its room has room.
#[tokio::test(start_paused = true)]
async fn b21_a_driver_that_stops_tracking_lets_the_pod_go_on() {
    goes_on_after(|stage| {
        stage.patch("CSIDriver", crate::stage::DRIVER, &json!({"spec": {"storageCapacity": false}}));
    })
    .await;
}

/// A driver that is not registered any more tracks nothing either.
#[tokio::test(start_paused = true)]
async fn b21_sibling_a_driver_that_is_gone_lets_the_pod_go_on() {
    goes_on_after(|stage| stage.delete("CSIDriver", crate::stage::DRIVER)).await;
}

/// A pod that comes while there is no room takes none from the one that has it: they go one after the other.
#[tokio::test(start_paused = true)]
async fn b15_sibling_room_that_grows_for_one_lets_one_go_on() {
    let mut stage = waiting().await;
    stage.create(&claim(
        "c2",
        &json!({"storageClassName": "w", "resources": {"requests": {"storage": "5Gi"}}}),
    ));
    stage.create(&pod("d2", &["c2"]));
    stage.settle().await;
    set(&stage, &json!({"capacity": "9Gi"}));
    stage.settle().await;
    let selected = [stage.selected_node("c1"), stage.selected_node("c2")];
    assert_eq!(selected, ["n1", ""], "the first in the queue, and it alone");
    // The driver has set the room aside before it says that the volume is there.
    set(&stage, &json!({"capacity": "4Gi"}));
    stage.settle().await;
    let provisioner = stage.provision(|_| Deed::Make);
    stage.settle().await;
    assert_eq!((stage.node_of("d1"), stage.node_of("d2")), ("n1".into(), String::new()));
    set(&stage, &json!({"capacity": "5Gi"}));
    stage.settle().await;
    assert_eq!(stage.node_of("d2"), "n1");
    stage.stop().await;
    provisioner.abort();
}
