//! When the stand-in kubelets run a pod, and when they let it go.

use super::scene::{NOW, Scene, bound_volume, claim, key, node, pod};
use crate::simulate::actors::{Key, Kind};
use rstest::rstest;
use serde_json::{Value, json};

fn kubelet(scene: &Scene, name: &str) -> Vec<String> {
    scene.plan(&Key::Kubelet(key(name)))
}

fn bound(name: &str) -> Value {
    claim(name, json!({"volumeName": "p1"}), "Bound")
}

#[rstest]
#[case::runs(vec![pod("d1", Some("n1"), &["c1"]), bound("c1"), bound_volume("p1", "c1")], true)]
#[case::without_claims(vec![pod("d1", Some("n1"), &[])], true)]
#[case::not_placed(vec![pod("d1", None, &[])], false)]
#[case::node_is_missing(vec![pod("d1", Some("n2"), &[])], false)]
#[case::claim_is_missing(vec![pod("d1", Some("n1"), &["c1"]), bound_volume("p1", "c1")], false)]
#[case::claim_is_pending(vec![pod("d1", Some("n1"), &["c1"]), claim("c1", json!({}), "Pending")], false)]
#[case::volume_is_missing(vec![pod("d1", Some("n1"), &["c1"]), bound("c1")], false)]
#[case::one_of_two(vec![pod("d1", Some("n1"), &["c1", "c2"]), bound("c1"), bound_volume("p1", "c1")], false)]
fn a_placed_pod_runs_when_its_claims_are_bound(#[case] objects: Vec<Value>, #[case] runs: bool) {
    let mut scene = Scene::of(objects.into_iter().chain([node("n1", json!({}))]));
    assert_eq!(kubelet(&scene, "d1").len(), usize::from(runs));
    scene.play();
    let status = &scene.get(Kind::Pod, "d1").expect("the pod")["status"];
    assert_eq!(status["phase"], if runs { "Running" } else { "Pending" });
    assert!(scene.plan(&Key::Kubelet(key("d1"))).is_empty(), "a second look changes nothing");
}

#[test]
fn a_running_pod_is_ready_and_keeps_what_the_scheduler_said() {
    let mut placed = pod("d1", Some("n1"), &[]);
    placed["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
    placed["spec"]["initContainers"] =
        json!([{"name": "first", "image": "i"}, {"name": "side", "image": "s", "restartPolicy": "Always"}]);
    let mut scene = Scene::of([node("n1", json!({})), placed]);
    scene.play();
    let status = &scene.get(Kind::Pod, "d1").expect("the pod")["status"];
    let kinds: Vec<_> = status["conditions"].as_array().expect("a list").iter().map(|c| &c["type"]).collect();
    assert_eq!(
        json!(kinds),
        json!(["PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready"])
    );
    assert_eq!(status["containerStatuses"][0]["state"], json!({"running": {"startedAt": NOW}}));
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    assert_eq!(status["initContainerStatuses"][1]["state"], json!({"running": {"startedAt": NOW}}));
}

#[test]
fn a_recycler_pod_succeeds() {
    let mut scene = Scene::of([node("n1", json!({})), pod("recycler-for-p1", Some("n1"), &[])]);
    scene.play();
    let status = &scene.get(Kind::Pod, "recycler-for-p1").expect("the pod")["status"];
    assert_eq!(status["phase"], "Succeeded");
    assert_eq!(status["containerStatuses"][0]["ready"], false);
}

#[test]
fn a_deleted_pod_goes_at_once_wherever_it_is() {
    let mut scene = Scene::of([pod("d1", Some("gone"), &[])]);
    scene.delete(Kind::Pod, "d1");
    assert_eq!(kubelet(&scene, "d1"), ["delete Pod default/d1 grace=0"]);
    scene.play();
    assert!(scene.get(Kind::Pod, "d1").is_none());
}

#[test]
fn a_deleted_pod_that_a_finalizer_holds_is_let_go_once() {
    let mut held = pod("d1", Some("n1"), &[]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let mut scene = Scene::of([node("n1", json!({})), held]);
    scene.delete(Kind::Pod, "d1");
    scene.play();
    assert_eq!(scene.did(&["delete"]), ["delete Pod default/d1 grace=0"]);
    assert!(scene.get(Kind::Pod, "d1").is_some());
}

#[test]
fn what_was_missing_wakes_the_pod() {
    let mut scene = Scene::of([pod("d1", Some("n1"), &["c1"])]);
    scene.play();
    for object in [node("n1", json!({})), bound("c1"), bound_volume("p1", "c1")] {
        assert!(scene.did(&["merge Pod"]).is_empty());
        scene.put(object);
        scene.play();
    }
    assert_eq!(scene.did(&["merge Pod"]).len(), 1);
}

#[rstest]
#[case::says_nothing(json!(null), true)]
#[case::says_ready(json!([{"type": "Ready", "status": "True"}]), true)]
#[case::says_not_ready(json!([{"type": "Ready", "status": "False"}]), false)]
fn a_new_node_is_ready_unless_it_says_otherwise(#[case] conditions: Value, #[case] ready: bool) {
    let mut new = node("n1", json!({}));
    new["spec"]["taints"] = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoSchedule"},
    ]);
    new["status"] = json!({"conditions": conditions});
    let mut scene = Scene::of([new]);
    scene.play();
    let expected = r#"merge Node n1 {"spec":{"taints":[{"effect":"NoSchedule","key":"gpu"}]}}"#;
    assert_eq!(scene.log, if ready { vec![expected] } else { vec![] });
}
