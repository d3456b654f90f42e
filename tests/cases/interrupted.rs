//! What a pod is being placed with goes away, just before any one write in turn: the pod itself, one of its claims, its
//! node. Nothing panics, nothing stays taken that nobody uses, and what is left goes on.

use serde_json::json;

use crate::stage::{
    ByHand, Deed, Stage, Trouble, claim, delayed_class, local_class, local_volume, node, pod,
};
use crate::troubled::{paired, placed, sound};

/// More writes than the scene needs.
const MOST: usize = 60;
/// What the scene writes on one node at least: the phases of three volumes, the provisioner and the node of a claim, two
/// reservations, three bound volumes and claims, three statuses of claims, and the pod's place.
const LEAST: usize = 3 + 2 + 2 + 3 + 3 + 3 + 1;

/// A pod with two claims for which volumes are there, on each of these nodes, and one for which a volume is made. Each node
/// has room for one pod.
fn scene(nodes: &[&str]) -> Stage {
    let stage = Stage::scheduling();
    stage.create_all([local_class("local"), delayed_class("made")]);
    for on in nodes {
        stage.create_all([node(on, 1)]);
        stage.create_all([1, 2, 3].map(|i| local_volume(&format!("{on}-{i}"), "local", "5Gi", on)));
    }
    let classes = [("c1", "local"), ("c2", "local"), ("c3", "made")];
    stage.create_all(classes.map(|(name, class)| claim(name, &json!({"storageClassName": class}))));
    stage.create(&pod("d1", &["c1", "c2", "c3"]));
    stage
}

/// Runs the scene with `deed` just before each write in turn, and then `check`.
async fn before_each_write(nodes: &[&str], deed: fn(&ByHand), check: impl AsyncFn(&mut Stage, &str)) {
    for at in 1..MOST {
        let mut stage = scene(nodes);
        let provisioner = stage.provision(|_| Deed::Make);
        let happened = stage.run_with(Trouble::Meanwhile(deed), at).await;
        if !happened {
            assert!(at > LEAST, "{at} writes");
            return;
        }
        check(&mut stage, &format!("before write {at}")).await;
        stage.stop().await;
        provisioner.abort();
    }
    panic!("more than {MOST} writes");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_while_its_volumes_are_bound_leaves_its_room_to_others() {
    let gone: fn(&ByHand) = |by_hand| by_hand.delete("Pod", "d1");
    before_each_write(&["n1"], gone, async |stage, what| {
        paired(stage, what);
        // There is room for one pod, and there are volumes for it.
        stage.create(&claim("c4", &json!({"storageClassName": "local"})));
        stage.create(&pod("d2", &["c4"]));
        stage.settle().await;
        placed(stage, what);
        paired(stage, what);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_made_anew_gets_what_the_one_before_it_was_to_have() {
    let anew: fn(&ByHand) = |by_hand| {
        by_hand.delete("Pod", "d1");
        by_hand.create(&pod("d1", &["c1", "c2", "c3"]));
    };
    before_each_write(&["n1", "n2"], anew, async |stage, what| {
        placed(stage, what);
        sound(stage, what);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_while_it_is_bound_is_waited_for_and_its_successor_served() {
    let gone: fn(&ByHand) = |by_hand| by_hand.delete("PersistentVolumeClaim", "c1");
    before_each_write(&["n1"], gone, async |stage, what| {
        paired(stage, what);
        stage.create(&claim("c1", &json!({"storageClassName": "local"})));
        stage.settle().await;
        placed(stage, what);
        paired(stage, what);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_while_volumes_are_bound_for_it_is_left_unless_a_claim_is_bound_there() {
    let gone: fn(&ByHand) = |by_hand| by_hand.delete("Node", "n1");
    before_each_write(&["n1", "n2"], gone, async |stage, what| {
        paired(stage, what);
        let on_n1 = ["c1", "c2", "c3"].iter().any(|claim| {
            let volume = stage.claim(claim)["spec"]["volumeName"].as_str().map(|name| stage.volume(name));
            volume.is_some_and(|volume| volume.to_string().contains("[\"n1\"]"))
        });
        if on_n1 {
            // What is bound is bound: the pod goes where it is, once that is there again.
            stage.create_all([node("n1", 1)]);
            stage.settle().await;
        }
        placed(stage, what);
        sound(stage, what);
        assert_eq!(stage.node_of("d1"), if on_n1 { "n1" } else { "n2" }, "{what}");
    })
    .await;
}
