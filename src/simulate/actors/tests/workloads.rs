//! How many pods the workload controllers make, and of what names.

use super::scene::{Scene, claim, key, node, pod, workload};
use crate::simulate::actors::{Key, Kind};
use rstest::rstest;
use serde_json::{Value, json};

fn scene(kind: Kind, spec: &Value) -> Scene {
    Scene::of([node("n1", json!({})), workload(kind, "web", spec)])
}

#[test]
fn a_replica_set_has_as_many_pods_as_it_asks_for() {
    let mut first = scene(Kind::ReplicaSet, &json!({"replicas": 3}));
    first.play_bound();
    let names: Vec<String> = first.names(Kind::Pod).into_iter().map(str::to_owned).collect();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.starts_with("web-") && name.len() == 9), "{names:?}");
    let mut again = scene(Kind::ReplicaSet, &json!({"replicas": 3}));
    again.play_bound();
    assert_eq!(again.names(Kind::Pod), names, "the same in every run");
    let gone = names[0].clone();
    first.delete(Kind::Pod, &gone);
    first.play_bound();
    assert_eq!(first.names(Kind::Pod).len(), 3);
    assert!(!first.names(Kind::Pod).contains(&gone.as_str()), "no name comes twice");
    first.merge(Kind::ReplicaSet, "web", &json!({"spec": {"replicas": 1}}));
    first.play_bound();
    assert_eq!(first.names(Kind::Pod).len(), 1);
    let status = &first.get(Kind::ReplicaSet, "web").expect("the set")["status"];
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(1), &json!(1)));
}

#[test]
fn a_pod_that_nobody_needs_goes_first() {
    let mut scene = scene(Kind::ReplicaSet, &json!({"replicas": 2}));
    scene.play_bound();
    let running: Vec<String> = scene.names(Kind::Pod).into_iter().map(str::to_owned).collect();
    scene.merge(Kind::ReplicaSet, "web", &json!({"spec": {"replicas": 3}}));
    scene.play();
    scene.merge(Kind::ReplicaSet, "web", &json!({"spec": {"replicas": 2}}));
    scene.play();
    assert_eq!(scene.names(Kind::Pod), running);
    assert_eq!(
        scene.did(&["event Normal SuccessfulDelete ReplicaSet default/web: Deleted pod: web-"]).len(),
        1
    );
}

#[test]
fn a_deployment_makes_one_replica_set() {
    let mut scene = scene(Kind::Deployment, &json!({"replicas": 2}));
    scene.play_bound();
    let [set] = scene.names(Kind::ReplicaSet)[..] else {
        panic!("one set: {:?}", scene.names(Kind::ReplicaSet))
    };
    let object = scene.get(Kind::ReplicaSet, set).expect("the set");
    let hash = set.strip_prefix("web-").expect("a name of ours");
    assert_eq!(object["metadata"]["labels"]["pod-template-hash"], hash);
    assert_eq!(object["spec"]["selector"]["matchLabels"], json!({"app": "web", "pod-template-hash": hash}));
    assert!(scene.names(Kind::Pod).iter().all(|pod| pod.starts_with(set)));
    let event = format!(
        "event Normal ScalingReplicaSet Deployment default/web: Scaled up replica set {set} from 0 to 2"
    );
    assert_eq!(scene.did(&["event Normal ScalingReplicaSet"]), [event]);
    let status = &scene.get(Kind::Deployment, "web").expect("the deployment")["status"];
    assert_eq!((&status["readyReplicas"], &status["unavailableReplicas"]), (&json!(2), &json!(0)));
}

#[rstest]
#[case::rolling(json!({"type": "RollingUpdate"}))]
#[case::one_at_a_time(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}))]
#[case::by_percent(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "0%"}}))]
#[case::recreate(json!({"type": "Recreate"}))]
fn a_new_template_takes_over(#[case] strategy: Value) {
    let mut scene = scene(Kind::Deployment, &json!({"replicas": 4, "strategy": strategy}));
    scene.play_bound();
    let old = scene.names(Kind::ReplicaSet)[0].to_owned();
    let containers = json!([{"name": "x", "image": "y"}]);
    scene.merge(
        Kind::Deployment,
        "web",
        &json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    );
    scene.play_bound();
    assert_eq!(scene.names(Kind::ReplicaSet).len(), 2);
    let pods = scene.names(Kind::Pod);
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| !pod.starts_with(&old)), "{old}: {pods:?}");
    assert_eq!(scene.get(Kind::ReplicaSet, &old).expect("the old set")["spec"]["replicas"], 0);
}

#[test]
fn a_replica_set_of_a_dump_is_recognised() {
    let mut deployment = workload(Kind::Deployment, "web", &json!({"replicas": 1}));
    deployment["metadata"]["uid"] = json!("d");
    let mut set = workload(Kind::ReplicaSet, "web-7cdf4dcdc7", &json!({"replicas": 1}));
    set["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "pod-template-hash": "7cdf4dcdc7"});
    set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
    let mut scene = Scene::of([node("n1", json!({})), deployment, set]);
    scene.play_bound();
    assert_eq!(scene.names(Kind::ReplicaSet), ["web-7cdf4dcdc7"]);
    assert_eq!(scene.names(Kind::Pod).len(), 1);
}

fn tainted(name: &str, key: &str, effect: &str) -> Value {
    let mut node = node(name, json!({"disk": "ssd"}));
    node["spec"]["taints"] = json!([{"key": key, "effect": effect}]);
    node
}

#[test]
fn a_daemon_set_runs_where_its_pods_may() {
    let spec = json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}});
    let mut scene = Scene::of([
        node("n1", json!({"disk": "ssd"})),
        node("n2", json!({"disk": "hdd"})),
        tainted("n3", "gpu", "NoSchedule"),
        tainted("n4", "node.kubernetes.io/unschedulable", "NoSchedule"),
        workload(Kind::DaemonSet, "agent", &spec),
    ]);
    scene.play();
    let targets = |scene: &Scene| -> Vec<Value> {
        let pods = scene.names(Kind::Pod).into_iter().filter_map(|name| scene.get(Kind::Pod, name));
        let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let field = "/nodeSelectorTerms/0/matchFields/0/values/0";
        let mut all: Vec<_> =
            pods.filter_map(|pod| pod.pointer(&format!("{affinity}{field}")).cloned()).collect();
        all.sort_by_key(ToString::to_string);
        all
    };
    assert_eq!(targets(&scene), ["n1", "n4"]);
    scene.put(node("n2", json!({"disk": "ssd"})));
    scene.merge(Kind::Node, "n1", &json!({"metadata": {"labels": null}}));
    scene.play();
    assert_eq!(targets(&scene), ["n2", "n4"]);
    scene.delete(Kind::Node, "n4");
    scene.play();
    assert_eq!(targets(&scene), ["n2"]);
    let pod = scene.get(Kind::Pod, scene.names(Kind::Pod)[0]).expect("the pod");
    assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(6));
}

#[rstest]
#[case::parallel(json!({"parallelism": 2, "completions": 5}), 2)]
#[case::few_left(json!({"parallelism": 4, "completions": 3}), 3)]
#[case::by_default(json!({}), 1)]
#[case::suspended(json!({"suspend": true}), 0)]
fn a_job_runs_beside_itself(#[case] spec: Value, #[case] pods: usize) {
    let mut scene = scene(Kind::Job, &spec);
    scene.play_bound();
    assert_eq!(scene.names(Kind::Pod).len(), pods);
}

#[test]
fn a_job_makes_up_for_what_succeeded() {
    let spec = json!({"parallelism": 2, "completions": 3, "completionMode": "Indexed"});
    let mut scene = scene(Kind::Job, &spec);
    scene.play_bound();
    let first = scene.names(Kind::Pod)[0].to_owned();
    assert!(first.starts_with("web-0-"), "{first}");
    scene.merge(Kind::Pod, &first, &json!({"status": {"phase": "Succeeded"}}));
    scene.play_bound();
    assert_eq!(
        scene.names(Kind::Pod).iter().map(|n| &n[..6]).collect::<Vec<_>>(),
        ["web-0-", "web-1-", "web-2-"]
    );
    let status = &scene.get(Kind::Job, "web").expect("the job")["status"];
    assert_eq!((&status["succeeded"], &status["active"]), (&json!(1), &json!(2)));
}

fn with_scratch(mut pod: Value) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"storageClassName": "w"}});
    pod["metadata"]["uid"] = json!("u1");
    pod["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
    pod
}

#[test]
fn an_ephemeral_volume_gets_a_claim_of_the_pod() {
    let mut scene = Scene::of([with_scratch(pod("d1", None, &[]))]);
    scene.play();
    let claim = scene.get(Kind::Claim, "d1-scratch").expect("the claim");
    assert_eq!(claim["spec"], json!({"storageClassName": "w"}));
    assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(
        claim["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "v1", "kind": "Pod", "name": "d1", "uid": "u1", "controller": true,
            "blockOwnerDeletion": true,
        }])
    );
    assert!(scene.plan(&Key::Ephemeral(key("d1"))).is_empty());
    scene.delete(Kind::Pod, "d1");
    scene.play();
    assert!(scene.get(Kind::Claim, "d1-scratch").is_none());
}

#[test]
fn a_claim_of_somebody_else_is_refused() {
    let mut scene =
        Scene::of([claim("d1-scratch", json!({}), "Pending"), with_scratch(pod("d1", None, &[]))]);
    scene.play();
    assert_eq!(
        scene.log,
        ["event Warning FailedBinding Pod default/d1: ephemeral volume scratch: \
          PVC default/d1-scratch was not created for pod default/d1 (pod is not owner)"]
    );
    scene.delete(Kind::Claim, "d1-scratch");
    scene.play();
    assert_eq!(scene.did(&["create"]), ["create PersistentVolumeClaim d1-scratch"]);
}

/// Decisions and calls until a workload of `size` pods runs.
fn cost(kind: Kind, size: usize) -> (usize, usize) {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let spec = json!({"replicas": size, "parallelism": size, "volumeClaimTemplates": claims});
    let mut scene = Scene::of([workload(kind, "web", &spec)]);
    if kind == Kind::DaemonSet {
        (0..size).for_each(|number| scene.put(node(&format!("n{number}"), json!({}))));
    } else {
        scene.put(node("n1", json!({})));
    }
    scene.play_bound();
    assert_eq!(scene.names(Kind::Pod).len(), size);
    (scene.plans, scene.log.len())
}

#[rstest]
fn the_cost_grows_no_faster_than_the_number_of_pods(
    #[values(Kind::StatefulSet, Kind::ReplicaSet, Kind::Deployment, Kind::DaemonSet, Kind::Job)] kind: Kind,
) {
    let (few, many) = (cost(kind, 20), cost(kind, 200));
    assert!(many.0 < few.0 * 11 && many.1 < few.1 * 11, "{few:?} {many:?}");
}
