//! Volumes that an in-tree plugin made before its CSI driver took over: who is told, and who stands back.

use serde_json::{Value, json};

use crate::stage::{Stage, claim, class, volume};

const MIGRATED: &str = "pv.kubernetes.io/migrated-to";
const EBS: &str = "ebs.csi.aws.com";

fn ebs_class() -> Value {
    let mut class = class("ebs", false);
    class["provisioner"] = json!("kubernetes.io/aws-ebs");
    class
}

/// As the in-tree plugin made it, with what it is annotated with besides.
fn ebs_volume(annotations: &Value, finalizers: &Value) -> Value {
    let mut notes = json!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs"});
    for (key, value) in annotations.as_object().expect("a map") {
        notes[key] = value.clone();
    }
    volume(
        "p1",
        &json!({
            "metadata": {"annotations": notes, "finalizers": finalizers},
            "spec": {
                "storageClassName": "ebs", "persistentVolumeReclaimPolicy": "Delete", "hostPath": null,
                "awsElasticBlockStore": {"volumeID": "v1"},
            },
        }),
    )
}

/// kubernetes/kubernetes#79043: nobody, or the wrong side, deleted the volume.
#[tokio::test(start_paused = true)]
async fn a22_a_migrated_volume_is_left_to_its_driver() {
    let mut stage = Stage::new();
    stage.create(&ebs_class());
    stage.create(&ebs_volume(&json!({}), &json!(["kubernetes.io/pv-controller"])));
    stage.create(&claim("c1", &json!({"storageClassName": "ebs"})));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    assert_eq!(stage.volume("p1")["metadata"]["annotations"][MIGRATED], EBS);
    assert!(stage.finalizers("PersistentVolume", "p1").is_empty(), "the in-tree plugin keeps it no longer");

    stage.server.record_calls(true);
    stage.delete("PersistentVolumeClaim", "c1");
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Released".into(), "c1".into()));
    let deletes = stage.calls().into_iter().filter(|call| call.verb == "delete" && call.name == "p1");
    assert_eq!(deletes.count(), 0);
    assert_eq!(stage.events("p1"), [], "standing back is no failure");
    stage.stop().await;
}

/// kubernetes/kubernetes#79043: a claim that a migrated class is to serve says so to the driver.
#[tokio::test(start_paused = true)]
async fn a22_sibling_a_claim_of_a_migrated_class_is_handed_to_the_driver() {
    let mut stage = Stage::new();
    stage.create(&ebs_class());
    stage.create(&claim("c1", &json!({"storageClassName": "ebs"})));
    stage.start();
    stage.settle().await;
    let notes = stage.claim("c1")["metadata"]["annotations"].clone();
    assert_eq!(notes["volume.kubernetes.io/storage-provisioner"], EBS, "{notes}");
    let told = stage.events("c1");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "ExternalProvisioning");
    assert!(told[0].1.contains(EBS), "{told:?}");
    stage.stop().await;
}

/// kubernetes/kubernetes#79043: a claim that the in-tree plugin was asked for is handed over as well.
#[tokio::test(start_paused = true)]
async fn a22_sibling_a_claim_that_the_in_tree_plugin_was_asked_for_is_handed_over() {
    let mut stage = Stage::new();
    stage.create(&ebs_class());
    let mut asked = claim("c1", &json!({"storageClassName": "ebs"}));
    asked["metadata"]["annotations"] =
        json!({"volume.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs"});
    stage.create(&asked);
    stage.create(&ebs_volume(&json!({}), &json!([])));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    assert_eq!(stage.claim("c1")["metadata"]["annotations"][MIGRATED], EBS);
    stage.stop().await;
}

/// kubernetes/kubernetes#79043: with migration off the annotation goes. No plugin of this version has it off but those
/// that were never migrated.
#[tokio::test(start_paused = true)]
async fn a22_sibling_an_annotation_that_is_wrong_is_taken_away() {
    let mut stage = Stage::new();
    let mut wrong = volume("p1", &json!({}));
    wrong["metadata"]["annotations"] =
        json!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path", MIGRATED: EBS});
    stage.create(&wrong);
    stage.create(&ebs_class());
    let mut right = ebs_volume(&json!({MIGRATED: "other.csi.example.com"}), &json!([]));
    right["metadata"]["name"] = json!("p2");
    stage.create(&right);
    stage.start();
    stage.settle().await;
    let wrong = stage.volume("p1")["metadata"]["annotations"].clone();
    assert_eq!(wrong, json!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"}));
    assert_eq!(stage.volume("p2")["metadata"]["annotations"][MIGRATED], EBS);
    stage.stop().await;
}
