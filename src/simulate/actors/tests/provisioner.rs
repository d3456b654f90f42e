//! Which volumes the stand-in provisioner makes and deletes, and where.

use super::scene::{NOW, Scene, bound_volume, claim, key, node};
use crate::simulate::actors::{Key, Kind, Name};
use rstest::rstest;
use serde_json::{Value, json};

fn class(binding: &str, fields: &Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "drv.example.com", "volumeBindingMode": binding, "reclaimPolicy": "Delete",
    });
    json_patch::merge(&mut class, fields);
    class
}

fn asking(fields: &Value) -> Value {
    let mut asking = claim(
        "c1",
        json!({
            "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}},
        }),
        "Pending",
    );
    asking["metadata"]["uid"] = json!("u1");
    asking["metadata"]["annotations"] =
        json!({"volume.kubernetes.io/storage-provisioner": "drv.example.com"});
    json_patch::merge(&mut asking, fields);
    asking
}

fn selecting(node: &str) -> Value {
    asking(&json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}}))
}

fn capacity(name: &str, host: &str, capacity: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": name},
        "storageClassName": "fast", "capacity": capacity, "nodeTopology": {"matchLabels": {"host": host}},
    })
}

fn tracking() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "drv.example.com"},
        "spec": {"storageCapacity": true},
    })
}

const CLEARED: &str = concat!(
    r#"merge PersistentVolumeClaim default/c1 "#,
    r#"{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null}}}"#
);

#[test]
fn a_volume_is_made_to_measure() {
    let topologies = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]);
    let fields = json!({"allowedTopologies": topologies, "mountOptions": ["ro"]});
    let asks = json!({"spec": {"volumeMode": "Block", "volumeAttributesClassName": "gold"}});
    let mut scene = Scene::of([class("Immediate", &fields), asking(&asks)]);
    scene.play();
    let volume = scene.get(Kind::Volume, "pvc-u1").expect("the volume");
    assert_eq!(
        volume["spec"],
        json!({
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "5Gi"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c1",
                "uid": "u1", "resourceVersion": "2",
            },
            "csi": {"driver": "drv.example.com", "volumeHandle": "pvc-u1"},
            "mountOptions": ["ro"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
            ]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "fast",
            "volumeAttributesClassName": "gold",
            "volumeMode": "Block",
        })
    );
    let meta = &volume["metadata"];
    assert_eq!(meta["annotations"], json!({"pv.kubernetes.io/provisioned-by": "drv.example.com"}));
    assert_eq!(
        meta["finalizers"],
        json!(["external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection"])
    );
    assert_eq!(
        scene.did(&["event", "create"]),
        [
            concat!(
                "event Normal Provisioning PersistentVolumeClaim default/c1: ",
                "External provisioner is provisioning volume for claim \"default/c1\""
            ),
            "create PersistentVolume pvc-u1",
            concat!(
                "event Normal ProvisioningSucceeded PersistentVolumeClaim default/c1: ",
                "Successfully provisioned volume pvc-u1"
            ),
        ]
    );
}

#[test]
fn a_kept_volume_carries_no_finalizer_of_the_driver() {
    let mut scene = Scene::of([class("Immediate", &json!({"reclaimPolicy": "Retain"})), asking(&json!({}))]);
    scene.play();
    let volume = scene.get(Kind::Volume, "pvc-u1").expect("the volume");
    assert_eq!(volume["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

#[rstest]
#[case::asks(json!({}), true)]
#[case::asks_the_old_way(json!({"metadata": {"annotations": {
    "volume.kubernetes.io/storage-provisioner": null,
    "volume.beta.kubernetes.io/storage-provisioner": "drv.example.com"}}}), true)]
#[case::asks_nobody(json!({"metadata": {"annotations": null}}), false)]
#[case::asks_another(
    json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "other.example.com"}}}), false)]
#[case::asks_a_built_in(
    json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "kubernetes.io/host-path"}}}), false)]
#[case::has_a_volume(json!({"spec": {"volumeName": "p1"}}), false)]
#[case::is_leaving(json!({"metadata": {"deletionTimestamp": NOW}}), false)]
#[case::class_is_missing(json!({"spec": {"storageClassName": "slow"}}), false)]
fn a_claim_is_served(#[case] fields: Value, #[case] served: bool) {
    let mut scene = Scene::of([class("Immediate", &json!({})), asking(&fields)]);
    scene.due.retain(|key| matches!(key, Key::Provision(_)));
    scene.play();
    assert_eq!(scene.did(&["create"]).len(), usize::from(served));
}

#[test]
fn a_selector_is_refused() {
    let scene = Scene::of([class("Immediate", &json!({})), asking(&json!({"spec": {"selector": {}}}))]);
    assert_eq!(
        scene.plan(&Key::Provision(key("c1"))),
        [concat!(
            "event Warning ProvisioningFailed PersistentVolumeClaim default/c1: ",
            "failed to provision volume with StorageClass: claim Selector is not supported"
        )]
    );
}

#[test]
fn a_claim_that_waits_for_its_consumer_waits_for_a_node() {
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"},
        "spec": {"drivers": [
            {"name": "other", "nodeID": "n1", "topologyKeys": ["rack"]},
            {"name": "drv.example.com", "nodeID": "n1", "topologyKeys": ["zone", "host"]},
        ]},
    });
    let labels = json!({"zone": "z1", "rack": "r1"});
    let class = class("WaitForFirstConsumer", &json!({}));
    let mut scene = Scene::of([class, asking(&json!({})), node("n1", labels), csi_node]);
    scene.play();
    assert!(scene.log.is_empty());
    scene.merge(
        Kind::Claim,
        "c1",
        &json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}),
    );
    scene.play();
    let volume = scene.get(Kind::Volume, "pvc-u1").expect("the volume");
    assert_eq!(
        volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"],
        json!([{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["z1"]}, {"key": "host", "operator": "In", "values": [""]},
        ]}])
    );
}

#[test]
fn a_node_that_is_gone_is_given_back() {
    let mut scene = Scene::of([class("WaitForFirstConsumer", &json!({})), selecting("n1")]);
    assert_eq!(scene.plan(&Key::Provision(key("c1")))[0], CLEARED);
    scene.play();
    assert!(scene.did(&["create"]).is_empty());
}

#[test]
fn room_is_taken_off_and_a_full_node_given_back() {
    let objects = [
        class("WaitForFirstConsumer", &json!({})),
        tracking(),
        node("n1", json!({"host": "n1"})),
        capacity("k0", "n0", "1Gi"),
        capacity("k1", "n1", "8Gi"),
        selecting("n1"),
    ];
    let mut scene = Scene::of(objects);
    scene.play();
    assert_eq!(
        scene.did(&["merge CSIStorageCapacity", "create"]),
        [r#"merge CSIStorageCapacity default/k1 {"capacity":"3072Mi"}"#, "create PersistentVolume pvc-u1"]
    );
    let mut second = selecting("n1");
    second["metadata"]["name"] = json!("c2");
    second["metadata"]["uid"] = json!("u2");
    scene.put(second);
    scene.play();
    assert_eq!(scene.names(Kind::Volume), ["pvc-u1"]);
    let claim = scene.get(Kind::Claim, "c2").expect("the claim");
    assert!(claim["metadata"]["annotations"].get("volume.kubernetes.io/selected-node").is_none());
}

#[rstest]
#[case::not_tracked(json!({"spec": {"storageCapacity": false}}), capacity("k1", "n1", "1Gi"), true)]
#[case::elsewhere(json!({}), capacity("k1", "n2", "1Gi"), true)]
#[case::too_small(json!({}), capacity("k1", "n1", "1Gi"), false)]
#[case::unreadable(json!({}), capacity("k1", "n1", "much"), true)]
fn room_counts_where_it_is_tracked(#[case] driver: Value, #[case] room: Value, #[case] served: bool) {
    let mut tracks = tracking();
    json_patch::merge(&mut tracks, &driver);
    let host = node("n1", json!({"host": "n1"}));
    let mut scene =
        Scene::of([class("WaitForFirstConsumer", &json!({})), tracks, room, host, selecting("n1")]);
    scene.play();
    assert_eq!(scene.did(&["create"]).len(), usize::from(served));
}

#[test]
fn claims_are_served_in_name_order() {
    let mut scene = Scene::of([class("Immediate", &json!({}))]);
    for name in ["c3", "c1", "c2"] {
        scene.put(asking(&json!({"metadata": {"name": name, "uid": name}})));
    }
    scene.play();
    let made = [
        "create PersistentVolume pvc-c1",
        "create PersistentVolume pvc-c2",
        "create PersistentVolume pvc-c3",
    ];
    assert_eq!(scene.did(&["create"]), made);
}

fn released(fields: &Value) -> Value {
    let mut volume = bound_volume("p1", "c1");
    volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/provisioned-by": "drv.example.com"});
    volume["metadata"]["finalizers"] =
        json!(["external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection"]);
    volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    volume["status"]["phase"] = json!("Released");
    json_patch::merge(&mut volume, fields);
    volume
}

#[rstest]
#[case::goes(json!({}), true)]
#[case::is_bound(json!({"status": {"phase": "Bound"}}), false)]
#[case::is_kept(json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}), false)]
#[case::is_not_ours(json!({"metadata": {"annotations": null}}), false)]
#[case::is_built_in(
    json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"}}}), false)]
#[case::is_migrated(json!({"metadata": {"annotations": {
    "pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs",
    "pv.kubernetes.io/migrated-to": "ebs.csi.aws.com"}}}), true)]
fn a_released_volume(#[case] fields: Value, #[case] goes: bool) {
    let mut scene = Scene::of([released(&fields)]);
    let planned = scene.plan(&Key::Reclaim(Name::new("", "p1")));
    assert_eq!(planned, if goes { vec!["delete PersistentVolume p1"] } else { vec![] });
    scene.play();
    assert_eq!(scene.get(Kind::Volume, "p1").is_none(), goes);
}
