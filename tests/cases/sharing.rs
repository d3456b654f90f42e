//! Pods that wait for claims of theirs: claims that many share, and claims that nobody binds.

use serde_json::json;

use crate::stage::{Deed, Stage, claim, class, delayed_class, local_class, local_volume, node, pod};

const PODS: usize = 50;

/// Pods that use one claim.
fn sharing(stage: &Stage, class: &str) {
    stage.create(&claim("c1", &json!({"storageClassName": class})));
    for i in 0..PODS {
        stage.create(&pod(&format!("d{i}"), &["c1"]));
    }
}

/// All of them are placed on the node, and none was refused on the way.
#[track_caller]
fn all_on(stage: &Stage, node: &str) {
    for i in 0..PODS {
        let pod = format!("d{i}");
        assert_eq!(stage.node_of(&pod), node, "{pod}");
        assert_eq!(stage.refusals(&pod), <[String; 0]>::default(), "{pod}");
    }
}

/// kubernetes/kubernetes#73216: some of the pods stayed Pending with "not bound". `testdata/worlds/shared-claim-eight-pods` has
/// a few of them.
#[tokio::test(start_paused = true)]
async fn b13_all_pods_that_share_a_delayed_claim_are_placed_where_its_volume_is() {
    let mut stage = Stage::scheduling();
    stage.create_all([local_class("local"), node("n1", 110), node("n2", 110)]);
    stage.create(&local_volume("p1", "local", "5Gi", "n2"));
    sharing(&stage, "local");
    stage.start();
    let took = stage.settle().await;
    all_on(&stage, "n2");
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    assert!(took.as_secs() < 1, "{took:?}");
    let counts = stage.stop().await.counts;
    assert_eq!((counts.conflicts, counts.failures), (0, 0), "{counts:?}");
}

/// kubernetes/kubernetes#73216: the same when the claim's volume has to be made, and the pods come while it is being made.
#[tokio::test(start_paused = true)]
async fn b13_sibling_pods_that_share_a_claim_follow_the_first_to_where_its_volume_is_made() {
    let mut stage = Stage::scheduling();
    stage.create_all([delayed_class("w"), node("n1", 110), node("n2", 110)]);
    stage.start();
    stage.settle().await;
    sharing(&stage, "w");
    stage.settle().await;
    assert_eq!(stage.selected_node("c1"), "n1");
    assert!(stage.all("Pod").iter().all(|pod| pod["spec"]["nodeName"].is_null()), "nothing is made yet");
    let provisioner = stage.provision(|_| Deed::Make);
    let took = stage.settle().await;
    all_on(&stage, "n1");
    assert!(took.as_secs() < 1, "{took:?}");
    let counts = stage.stop().await.counts;
    assert_eq!((counts.conflicts, counts.failures), (0, 0), "{counts:?}");
    provisioner.abort();
}

/// kubernetes/kubernetes#73216: where the node has no room for all, those that fit run and the others say why.
#[tokio::test(start_paused = true)]
async fn b13_sibling_those_that_find_no_room_beside_the_volume_wait_for_it() {
    let mut stage = Stage::scheduling();
    stage.create_all([local_class("local"), node("n1", PODS - 1), node("n2", 110)]);
    stage.create(&local_volume("p1", "local", "5Gi", "n1"));
    sharing(&stage, "local");
    stage.start();
    stage.settle().await;
    let waiting: Vec<String> =
        (0..PODS).map(|i| format!("d{i}")).filter(|pod| stage.node_of(pod).is_empty()).collect();
    let [last] = &waiting[..] else { panic!("one too many: {waiting:?}") };
    let why = stage.refusals(last);
    assert!(why.iter().any(|why| why.contains("1 Too many pods")), "{why:?}");
    let first = if last == "d0" { "d1" } else { "d0" };
    stage.delete("Pod", first);
    stage.settle().await;
    assert_eq!(stage.node_of(last), "n1");
    stage.stop().await;
}

/// kubernetes/kubernetes#91755: a claim that ought to be bound by now is none of the scheduler's business: nobody is evicted
/// for a pod that uses it. `testdata/worlds/pod-claim-immediate-unbound` has the message; that the framework is told
/// `UnschedulableAndUnresolvable` is among upstream's recorded cases of the plugin.
#[tokio::test(start_paused = true)]
async fn b10_an_unbound_immediate_claim_is_no_reason_to_evict_anybody() {
    let mut stage = Stage::scheduling();
    stage.create_all([class("sc1", false), node("n1", 1)]);
    stage.create(&pod("victim", &[]));
    stage.create(&claim("c1", &json!({"storageClassName": "sc1"})));
    let mut urgent = pod("d1", &["c1"]);
    urgent["spec"]["priority"] = json!(1_000_000);
    stage.start();
    stage.settle().await;
    assert_eq!(stage.node_of("victim"), "n1");
    stage.server.import(urgent).expect("admission would ask for a class of this priority");
    stage.settle().await;
    let why = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    assert_eq!(stage.refusals("d1"), [why]);
    assert!(!stage.get("Pod", "victim").is_null());
    assert_eq!(stage.selected_node("c1"), "", "no node is selected for it");

    // Once the claim is bound the node is looked at.
    stage.create(&local_volume("p1", "sc1", "5Gi", "n1"));
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    assert_eq!(
        stage.refusals("d1"),
        [&*why.replace("pod has unbound immediate PersistentVolumeClaims", "1 Too many pods"), why]
    );
    stage.delete("Pod", "victim");
    stage.settle().await;
    assert_eq!(stage.node_of("d1"), "n1");
    stage.stop().await;
}

/// kubernetes/kubernetes#91755: a claim of a delayed class that names its volume is bound without the scheduler too.
#[tokio::test(start_paused = true)]
async fn b10_sibling_a_claim_that_names_its_volume_is_waited_for() {
    let mut stage = Stage::scheduling();
    stage.create_all([local_class("local"), node("n1", 9), node("n2", 9)]);
    stage.create(&local_volume("other", "local", "5Gi", "n1"));
    stage.create(&claim("c1", &json!({"storageClassName": "local", "volumeName": "p1"})));
    stage.create(&pod("d1", &["c1"]));
    stage.start();
    stage.settle().await;
    let why = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    assert_eq!(stage.refusals("d1"), [why]);
    assert_eq!(stage.volume_state("other"), ("Available".into(), String::new()));
    stage.create(&local_volume("p1", "local", "5Gi", "n2"));
    let took = stage.settle().await;
    assert_eq!((stage.node_of("d1"), took.as_secs()), ("n2".into(), 0));
    stage.stop().await;
}
