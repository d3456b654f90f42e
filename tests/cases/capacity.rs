//! B1: how much room there is for volumes that are to be made.
//!
//! Upstream compares each claim alone with the whole of what a driver reports, and finds out afterwards; the design of
//! storage capacity tracking names that as its drawback.

use serde_json::{Value, json};

use crate::offline::{simulated, simulated_then};
use crate::stage::{Stage, claim, volume};

const NO_SPACE: &str = "0/1 nodes are available: 1 node(s) did not have enough free storage.";

/// B1: two claims of one pod do not fit into what would hold each of them alone.
#[test]
fn b1_two_claims_of_one_pod_are_counted_together() {
    let ended = simulated("capacity-two-claims.yaml");
    assert_eq!(ended.node("app"), "");
    assert_eq!(ended.refusals("app"), [NO_SPACE]);
    assert_eq!((ended.state("a"), ended.state("b")), (("Pending", ""), ("Pending", "")));
}

/// The same, once there is a node that has room for both.
#[test]
fn b1_they_go_where_both_fit() {
    let ended = simulated_then("capacity-two-claims.yaml", "capacity-second-node.then.yaml");
    assert_eq!(ended.node("app"), "n2");
    assert_eq!((ended.state("a").0, ended.state("b").0), ("Bound", "Bound"));
}

/// Sibling: the largest size that a volume may have is for each of them alone.
#[test]
fn b1_sibling_the_largest_volume_is_a_limit_for_each() {
    assert_eq!(simulated("capacity-largest-volume.yaml").node("app"), "n1");
    let ended = simulated("capacity-volume-too-large.yaml");
    assert_eq!(ended.node("app"), "");
    assert_eq!(ended.refusals("app"), [NO_SPACE]);
}

fn report(size: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": "at-n1", "namespace": "default"},
        "storageClassName": "w", "capacity": size,
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "n1"}},
    })
}

/// A pod with one claim of 60Gi, both of this name.
fn pod(name: &str) -> [Value; 2] {
    let wanted = json!({"storageClassName": "w", "resources": {"requests": {"storage": "60Gi"}}});
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "x", "image": "x"}], "volumes": volumes},
    });
    [claim(name, &wanted), pod]
}

/// A server with one node, at which a driver reports 100Gi. Nobody makes volumes and nobody reports but the case.
fn stage() -> Stage {
    let stage = Stage::scheduling();
    let labels = json!({"kubernetes.io/hostname": "n1"});
    stage.create(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "drv.example.com"},
        "spec": {"storageCapacity": true},
    }));
    stage.create(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "w"},
        "provisioner": "drv.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    }));
    stage.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}));
    // The server taints a node that nobody has called ready.
    stage.patch("Node", "n1", &json!({"spec": {"taints": null}}));
    stage.patch_status("Node", "n1", &json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}));
    stage.create(&report("100Gi"));
    stage
}

/// What an external provisioner makes for a claim.
fn make(stage: &Stage, name: &str) {
    let uid = stage.claim(name)["metadata"]["uid"].clone();
    stage.create(&volume(
        &format!("of-{name}"),
        &json!({
            "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "drv.example.com"}},
            "spec": {
                "storageClassName": "w", "capacity": {"storage": "60Gi"}, "hostPath": null,
                "claimRef": {"namespace": "default", "name": name, "uid": uid},
                "csi": {"driver": "drv.example.com", "volumeHandle": name},
            },
        }),
    ));
}

/// The node of a pod, and the one that is selected for its claim.
fn nodes(stage: &Stage, name: &str) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let selected = &stage.claim(name)["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
    (text(&stage.get("Pod", name)["spec"]["nodeName"]), text(selected))
}

fn of(pod: &str, claim: &str) -> (String, String) {
    (pod.to_owned(), claim.to_owned())
}

async fn first_of_two() -> Stage {
    let mut stage = stage();
    for object in pod("first").iter().chain(&pod("second")) {
        stage.create(object);
    }
    stage.start();
    stage.settle().await;
    assert_eq!(nodes(&stage, "first"), of("", "n1"));
    assert_eq!(nodes(&stage, "second"), of("", ""));
    stage
}

/// Sibling: two pods, and the volume of the first has yet to be made.
#[tokio::test(start_paused = true)]
async fn b1_sibling_two_pods_in_flight_are_counted_together() {
    let stage = first_of_two().await;
    let message = &stage.get("Pod", "second")["status"]["conditions"][0]["message"];
    assert_eq!(message, NO_SPACE);
    // The first pod and its claim go away before anything is made: there is room for the second.
    stage.delete("Pod", "first");
    stage.delete("PersistentVolumeClaim", "first");
    stage.settle().await;
    assert_eq!(nodes(&stage, "second"), of("", "n1"));
}

/// Sibling: the same over a restart, which forgets where pods were about to run.
#[tokio::test(start_paused = true)]
async fn b1_sibling_a_restart_does_not_forget_what_is_promised() {
    let mut stage = first_of_two().await;
    stage.stop().await;
    stage.delete("Pod", "first");
    stage.start();
    stage.settle().await;
    assert_eq!(nodes(&stage, "second"), of("", ""), "the first volume is going to be made");
}

/// Sibling: the volume of the first is made and bound, and the driver has not reported since.
#[tokio::test(start_paused = true)]
async fn b1_sibling_what_is_made_counts_until_the_driver_reports_it() {
    let stage = first_of_two().await;
    make(&stage, "first");
    stage.settle().await;
    assert_eq!(nodes(&stage, "first"), of("n1", "n1"));
    assert_eq!(stage.claim_state("first"), ("Bound".to_owned(), "of-first".to_owned()));
    assert_eq!(nodes(&stage, "second"), of("", ""), "what is reported is older than the volume");
    stage.patch("CSIStorageCapacity", "at-n1", &json!({"capacity": "40Gi"}));
    stage.settle().await;
    assert_eq!(nodes(&stage, "second"), of("", ""), "what is reported has the volume, and leaves too little");
    stage.patch("CSIStorageCapacity", "at-n1", &json!({"capacity": "60Gi"}));
    stage.settle().await;
    assert_eq!(nodes(&stage, "second"), of("", "n1"));
}

/// Sibling: the driver reports before the volume is there to be seen, and nothing is counted twice.
#[tokio::test(start_paused = true)]
async fn b1_sibling_a_report_that_comes_first_is_not_counted_twice() {
    let stage = first_of_two().await;
    stage.patch("CSIStorageCapacity", "at-n1", &json!({"capacity": "40Gi"}));
    make(&stage, "first");
    let small =
        claim("small", &json!({"storageClassName": "w", "resources": {"requests": {"storage": "40Gi"}}}));
    let [_, small_pod] = pod("small");
    stage.create(&small);
    stage.create(&small_pod);
    stage.settle().await;
    assert_eq!(nodes(&stage, "small"), of("", "n1"));
}

/// The other way: with `--strict-capacity=false` each claim is compared alone, as upstream does.
#[tokio::test(start_paused = true)]
async fn b1_variant_each_alone_fits_as_upstream_has_it() {
    let mut stage = stage();
    stage.count_each_alone();
    for object in pod("first").iter().chain(&pod("second")) {
        stage.create(object);
    }
    stage.start();
    stage.settle().await;
    assert_eq!((nodes(&stage, "first"), nodes(&stage, "second")), (of("", "n1"), of("", "n1")));
}
