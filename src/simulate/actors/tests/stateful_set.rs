//! In which order replicas and their claims come and go.

use super::scene::{NOW, Scene, claim, key, node, pod, workload};
use crate::simulate::actors::{Key, Kind};
use rstest::rstest;
use serde_json::{Value, json};

fn set(spec: &Value) -> Value {
    let template = json!([{
        "metadata": {"name": "data", "labels": {"tier": "db"}},
        "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]},
    }]);
    let mut all = json!({"serviceName": "svc", "volumeClaimTemplates": template});
    json_patch::merge(&mut all, spec);
    workload(Kind::StatefulSet, "web", &all)
}

fn scene(spec: &Value) -> Scene {
    Scene::of([node("n1", json!({})), set(spec)])
}

/// The log without the kubelets and statuses: only what the set did.
fn acts(scene: &Scene) -> Vec<&str> {
    scene.did(&["create", "delete"])
}

#[test]
fn replicas_come_one_after_the_other() {
    let mut scene = scene(&json!({"replicas": 3}));
    scene.play();
    assert_eq!(acts(&scene), ["create PersistentVolumeClaim data-web-0", "create Pod web-0"]);
    assert_eq!(
        scene.did(&["event"]),
        [
            "event Normal SuccessfulCreate StatefulSet default/web: Create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "event Normal SuccessfulCreate StatefulSet default/web: Create Pod web-0 in StatefulSet web successful",
        ]
    );
    scene.play_bound();
    let all = ["web-0", "web-1", "web-2"];
    assert_eq!(scene.names(Kind::Pod), all);
    assert_eq!(scene.names(Kind::Claim), all.map(|name| format!("data-{name}")));
    let status = &scene.get(Kind::StatefulSet, "web").expect("the set")["status"];
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(3), &json!(3)));
}

#[test]
fn a_replica_knows_who_it_is() {
    let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
    let mut scene = scene(&json!({"replicas": 1, "template": {"spec": {"volumes": volumes}}}));
    scene.play();
    let pod = scene.get(Kind::Pod, "web-0").expect("the pod");
    let labels = &pod["metadata"]["labels"];
    assert_eq!((&labels["app"], &labels["apps.kubernetes.io/pod-index"]), (&json!("web"), &json!("0")));
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
    assert!(labels["controller-revision-hash"].as_str().is_some_and(|hash| hash.starts_with("web-")));
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-0"), &json!("svc")));
    assert_eq!(
        pod["spec"]["volumes"],
        json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}, {"name": "tmp", "emptyDir": {}},
        ])
    );
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("StatefulSet"), &json!(true)));
    let claim = scene.get(Kind::Claim, "data-web-0").expect("the claim");
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web", "tier": "db"}));
    assert_eq!(claim["metadata"]["ownerReferences"], json!([]));
}

#[test]
fn a_parallel_set_waits_for_nobody() {
    let mut scene =
        scene(&json!({"replicas": 2, "podManagementPolicy": "Parallel", "ordinals": {"start": 5}}));
    scene.play();
    assert_eq!(scene.names(Kind::Pod), ["web-5", "web-6"]);
    scene.merge(Kind::StatefulSet, "web", &json!({"spec": {"replicas": 0}}));
    scene.play();
    assert_eq!((scene.names(Kind::Pod).len(), scene.names(Kind::Claim).len()), (0, 2));
}

#[test]
fn an_existing_claim_is_used() {
    let mut scene = Scene::of([claim("data-web-0", json!({}), "Pending"), set(&json!({"replicas": 1}))]);
    scene.play();
    assert_eq!(acts(&scene), ["create Pod web-0"]);
}

#[test]
fn a_claim_on_its_way_out_is_waited_for() {
    let mut leaving = claim("data-web-0", json!({}), "Pending");
    leaving["metadata"]["deletionTimestamp"] = json!(NOW);
    leaving["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let mut scene = Scene::of([leaving, set(&json!({"replicas": 1}))]);
    scene.play();
    assert_eq!(
        scene.did(&["create", "event"]),
        ["event Warning FailedCreate StatefulSet default/web: \
          Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"]
    );
    scene.merge(Kind::Claim, "data-web-0", &json!({"metadata": {"finalizers": null}}));
    scene.play();
    assert_eq!(acts(&scene), ["create PersistentVolumeClaim data-web-0", "create Pod web-0"]);
}

#[test]
fn a_deleted_pod_comes_back_to_its_claim() {
    let mut scene = scene(&json!({"replicas": 2}));
    scene.play_bound();
    scene.log.clear();
    scene.delete(Kind::Pod, "web-0");
    scene.play_bound();
    assert_eq!(acts(&scene), ["delete Pod default/web-0 grace=0", "create Pod web-0"]);
    assert_eq!(scene.get(Kind::Pod, "web-0").expect("the pod")["status"]["phase"], "Running");
}

#[test]
fn a_pending_pod_whose_claim_was_deleted_gets_a_new_one() {
    let mut scene = scene(&json!({"replicas": 1}));
    scene.play();
    scene.log.clear();
    scene.merge(Kind::Claim, "data-web-0", &json!({"metadata": {"finalizers": null}}));
    scene.due.clear();
    scene.delete(Kind::Claim, "data-web-0");
    scene.play();
    assert_eq!(acts(&scene), ["create PersistentVolumeClaim data-web-0"]);
}

#[rstest]
#[case("Failed", "event Warning RecreatingFailedPod")]
#[case("Succeeded", "event Normal RecreatingTerminatedPod")]
fn a_finished_pod_is_made_again(#[case] phase: &str, #[case] event: &str) {
    let mut scene = scene(&json!({"replicas": 1}));
    scene.play_bound();
    scene.log.clear();
    scene.merge(Kind::Pod, "web-0", &json!({"status": {"phase": phase}}));
    scene.play_bound();
    assert_eq!(scene.did(&[event]).len(), 1);
    assert_eq!(scene.get(Kind::Pod, "web-0").expect("the pod")["status"]["phase"], "Running");
}

#[rstest]
#[case::ordered("OrderedReady")]
#[case::parallel("Parallel")]
fn scaling_down_takes_the_top_and_what_the_policy_says(#[case] order: &str) {
    let policy = json!({"whenScaled": "Delete"});
    let spec =
        json!({"replicas": 3, "podManagementPolicy": order, "persistentVolumeClaimRetentionPolicy": policy});
    let mut scene = scene(&spec);
    scene.play_bound();
    scene.log.clear();
    scene.merge(Kind::StatefulSet, "web", &json!({"spec": {"replicas": 1}}));
    scene.play();
    assert_eq!((scene.names(Kind::Pod), scene.names(Kind::Claim)), (vec!["web-0"], vec!["data-web-0"]));
    if order == "OrderedReady" {
        let deleted = scene.did(&["delete Pod"]);
        assert_eq!(deleted[0], "delete Pod default/web-2");
        assert_eq!(deleted.iter().position(|d| d.contains("web-1")), Some(2), "one at a time: {deleted:?}");
    }
}

#[rstest]
#[case("Retain", "Retain", 2)]
#[case("Delete", "Retain", 0)]
#[case("Delete", "Delete", 0)]
#[case("Retain", "Delete", 2)]
fn deleting_the_set_takes_what_the_policy_says(
    #[case] when_deleted: &str,
    #[case] when_scaled: &str,
    #[case] left: usize,
) {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    let mut scene = scene(&json!({"replicas": 2, "persistentVolumeClaimRetentionPolicy": policy}));
    scene.play_bound();
    scene.delete(Kind::StatefulSet, "web");
    scene.play();
    assert_eq!((scene.names(Kind::Pod).len(), scene.names(Kind::Claim).len()), (0, left));
}

#[test]
fn a_new_policy_reaches_the_claims_that_are_there() {
    let mut scene = scene(&json!({"replicas": 1}));
    scene.play_bound();
    let policy =
        |when: &str| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": when}}});
    scene.merge(Kind::StatefulSet, "web", &policy("Delete"));
    scene.play();
    let owners = |scene: &Scene| {
        scene.get(Kind::Claim, "data-web-0").expect("the claim")["metadata"]["ownerReferences"].clone()
    };
    assert_eq!(owners(&scene)[0]["kind"], "StatefulSet");
    scene.merge(Kind::StatefulSet, "web", &policy("Retain"));
    scene.play();
    assert_eq!(owners(&scene), json!([]));
}

#[test]
fn an_orphan_of_the_right_name_and_labels_is_adopted() {
    let mut orphan = pod("web-0", Some("n1"), &[]);
    orphan["metadata"]["labels"] = json!({"app": "web"});
    let mut scene = Scene::of([node("n1", json!({})), orphan, set(&json!({"replicas": 1}))]);
    scene.play();
    assert!(acts(&scene).is_empty());
    let owner = &scene.get(Kind::Pod, "web-0").expect("the pod")["metadata"]["ownerReferences"][0];
    assert_eq!(owner["name"], "web");
    let stranger = Scene::of([pod("web-0", None, &[]), set(&json!({"replicas": 1}))]);
    assert!(stranger.plan(&Key::Replica(key("web"), 0)).is_empty());
}
