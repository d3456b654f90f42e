//! A pod's volumes are reserved one after the other, and the second cannot be had: the first is given back, so that the
//! pod stays schedulable (kubernetes/kubernetes#73263).

use fake_apiserver::Call;
use serde_json::{Value, json};

use crate::stage::{Stage, claim, local_class, local_volume, node, pod};
use crate::troubled::{placed, sound};

/// Two nodes, the first with two volumes, and a pod that needs two.
fn set(stage: &Stage, on_n2: &[&str]) {
    stage.create_all([local_class("local"), node("n1", 9), node("n2", 9)]);
    let volumes = ["p1", "p2"].map(|name| local_volume(name, "local", "5Gi", "n1"));
    stage.create_all(
        volumes.into_iter().chain(on_n2.iter().map(|name| local_volume(name, "local", "5Gi", "n2"))),
    );
    for volume in stage.all("PersistentVolume") {
        let name = volume["metadata"]["name"].as_str().expect("a name");
        stage.patch_status("PersistentVolume", name, &json!({"phase": "Available"}));
    }
    stage.create_all(["c1", "c2"].map(|name| claim(name, &json!({"storageClassName": "local"}))));
    stage.create(&pod("d1", &["c1", "c2"]));
}

/// Whether a request reserves a volume.
fn reserves(volume: &'static str) -> impl Fn(&Call) -> bool {
    move |call| (call.verb, &*call.name, &*call.subresource) == ("patch", volume, "")
}

/// Just before `p2` is reserved, somebody else takes it for good.
fn take_away(stage: &Stage) {
    stage.just_before(reserves("p2"), |by_hand| {
        let other = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "somebody-else"});
        by_hand.patch("PersistentVolume", "p2", &json!({"spec": {"claimRef": other}}));
    });
}

/// The volume is reserved for the claim, as a process that died left it.
fn half_reserved(stage: &Stage, volume: &str, claim: &str) {
    let reference = json!({
        "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim,
        "uid": stage.claim(claim)["metadata"]["uid"],
    });
    let mark = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
    stage.patch("PersistentVolume", volume, &json!({"metadata": mark, "spec": {"claimRef": reference}}));
}

/// Whom a volume is reserved for, and who did it.
fn reserved(stage: &Stage, volume: &str) -> (Value, bool) {
    let volume = stage.volume(volume);
    let by_controller = volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes";
    (volume["spec"]["claimRef"]["name"].clone(), by_controller)
}

/// kubernetes/kubernetes#73263, by a scheduler with nobody to bind the claims: the reservation is taken back, and the pod
/// goes where it finds two volumes.
#[tokio::test(start_paused = true)]
async fn b3_what_was_reserved_is_given_back_when_the_rest_cannot_be_had() {
    let mut stage = Stage::scheduling_alone();
    set(&stage, &["p3", "p4"]);
    take_away(&stage);
    stage.server.record_calls(true);
    stage.start();
    stage.settle().await;
    assert!(stage.calls().iter().any(|call| call.code == 409 && call.name == "p2"), "{:?}", stage.calls());
    assert_eq!(reserved(&stage, "p1"), (Value::Null, false));
    assert_eq!(reserved(&stage, "p3"), (json!("c1"), true));
    assert_eq!(reserved(&stage, "p4"), (json!("c2"), true));
    assert_eq!(stage.refusals("d1"), <[String; 0]>::default(), "the pod has a place all the time");
    stage.bind_by_hand("c1", "p3");
    stage.bind_by_hand("c2", "p4");
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n2");
    stage.stop().await;
}

/// kubernetes/kubernetes#73263: with no other place the volume is free for others, and the pod waits for a place.
#[tokio::test(start_paused = true)]
async fn b3_sibling_a_pod_without_a_place_reserves_nothing_until_there_is_one() {
    for mut stage in [Stage::scheduling_alone(), Stage::scheduling()] {
        set(&stage, &["p3"]);
        take_away(&stage);
        stage.start();
        stage.settle().await;
        assert_eq!(stage.node_of("d1"), "");
        for volume in ["p1", "p3"] {
            assert_eq!(reserved(&stage, volume), (Value::Null, false), "{volume}");
        }
        let why = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
        assert_eq!(stage.refusals("d1"), [why]);
        stage.create(&local_volume("p4", "local", "5Gi", "n2"));
        stage.patch_status("PersistentVolume", "p4", &json!({"phase": "Available"}));
        stage.settle().await;
        assert_eq!(reserved(&stage, "p1"), (Value::Null, false));
        assert_eq!(reserved(&stage, "p3"), (json!("c1"), true));
        assert_eq!(reserved(&stage, "p4"), (json!("c2"), true));
        stage.stop().await;
    }
}

/// kubernetes/kubernetes#73263: where one program does both, the controller's part does not bind the first claim while the
/// scheduler's part has yet to find a place for all of them.
#[tokio::test(start_paused = true)]
async fn b3_sibling_no_claim_is_bound_for_a_pod_before_all_of_its_volumes_are_reserved() {
    let mut stage = Stage::scheduling();
    set(&stage, &["p3", "p4"]);
    take_away(&stage);
    stage.start();
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n2");
    assert_eq!(reserved(&stage, "p1"), (Value::Null, false));
    assert_eq!(reserved(&stage, "p2").0, "somebody-else");
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p3".into()));
    assert_eq!(stage.claim_state("c2"), ("Bound".into(), "p4".into()));
    let counts = stage.stop().await.counts;
    assert_eq!(counts.conflicts, 1, "the one that was made");
}

/// kubernetes/kubernetes#73263, to the letter: a label of `p2` changes, and while the first pod tries again, another one
/// that can be nowhere else takes `p2`.
#[tokio::test(start_paused = true)]
async fn b3_sibling_another_pod_that_takes_the_second_volume_strands_nobody() {
    let mut stage = Stage::scheduling();
    set(&stage, &["p3", "p4"]);
    stage.create(&claim("c3", &json!({"storageClassName": "local"})));
    let mut other = pod("d2", &["c3"]);
    other["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n1"});
    stage.create(&other);
    stage.just_before(reserves("p2"), |by_hand| {
        by_hand.patch("PersistentVolume", "p2", &json!({"metadata": {"labels": {"seen": "by-a-collector"}}}));
    });
    stage.start();
    stage.settle().await;
    placed(&stage, "both pods");
    sound(&stage, "both pods");
    assert_eq!((stage.node_of("d1"), stage.node_of("d2")), ("n2".into(), "n1".into()));
    stage.stop().await;
}

/// kubernetes/kubernetes#73263: the process dies between the two reservations, and the second volume goes to somebody else
/// before there is a new one.
#[tokio::test(start_paused = true)]
async fn b3_sibling_half_a_reservation_of_a_process_that_died_is_given_back() {
    for mut stage in [Stage::scheduling_alone(), Stage::scheduling()] {
        set(&stage, &["p3", "p4"]);
        half_reserved(&stage, "p1", "c1");
        let other = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "somebody-else"});
        stage.patch("PersistentVolume", "p2", &json!({"spec": {"claimRef": other}}));
        stage.start();
        stage.settle().await;
        assert_eq!(reserved(&stage, "p1"), (Value::Null, false));
        assert_eq!(reserved(&stage, "p3"), (json!("c1"), true));
        assert_eq!(reserved(&stage, "p4"), (json!("c2"), true));
        stage.stop().await;
    }
}

/// What a user reserved for the claim stays reserved, and is bound: it was not the program's to give back.
#[tokio::test(start_paused = true)]
async fn b3_sibling_what_a_user_reserved_is_not_given_back() {
    let mut stage = Stage::scheduling();
    set(&stage, &["p3", "p4"]);
    let by_user = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c1"});
    stage.patch("PersistentVolume", "p1", &json!({"spec": {"claimRef": by_user}}));
    let other = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "somebody-else"});
    stage.patch("PersistentVolume", "p2", &json!({"spec": {"claimRef": other}}));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    assert_eq!(stage.node_of("d1"), "", "the second claim finds nothing beside the first");
    stage.patch("PersistentVolume", "p2", &json!({"spec": {"claimRef": null}}));
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n1");
    sound(&stage, "in the end");
    stage.stop().await;
}

/// What stands in the pod's way may be a claim that is not there: what was reserved for the others is given back as well.
#[tokio::test(start_paused = true)]
async fn b3_sibling_a_pod_that_lacks_a_claim_holds_no_volume() {
    for mut stage in [Stage::scheduling_alone(), Stage::scheduling()] {
        set(&stage, &[]);
        stage.create(&pod("d2", &["c3", "not-there"]));
        stage.create(&claim("c3", &json!({"storageClassName": "local"})));
        stage.delete("Pod", "d1");
        half_reserved(&stage, "p1", "c3");
        stage.start();
        stage.settle().await;
        assert_eq!(reserved(&stage, "p1"), (Value::Null, false));
        assert_eq!(stage.claim_state("c3"), ("Pending".into(), String::new()));
        stage.create(&claim("not-there", &json!({"storageClassName": "local"})));
        stage.settle().await;
        let both = [reserved(&stage, "p1"), reserved(&stage, "p2")];
        assert_eq!(both, [(json!("c3"), true), (json!("not-there"), true)]);
        stage.stop().await;
    }
}

/// All nodes go before there is a new process: what one that died has reserved holds nobody, be the volume so new that it is
/// Pending.
#[tokio::test(start_paused = true)]
async fn b3_sibling_what_was_reserved_is_given_back_when_no_node_is_left() {
    for phase in ["Available", "Pending"] {
        let mut stage = Stage::scheduling();
        set(&stage, &[]);
        half_reserved(&stage, "p1", "c1");
        stage.patch_status("PersistentVolume", "p1", &json!({"phase": phase}));
        for node in ["n1", "n2"] {
            stage.delete("Node", node);
        }
        stage.start();
        stage.settle().await;
        assert_eq!(reserved(&stage, "p1"), (Value::Null, false), "phase {phase:?}");
        assert_eq!(stage.claim_state("c1"), ("Pending".into(), String::new()), "phase {phase:?}");
        stage.stop().await;
    }
}
