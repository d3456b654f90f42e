//! Volumes and classes of in-tree plugins whose CSI drivers have taken over.

use serde_json::{Value, json};

use crate::objects::{claim, class, text, volume};
use crate::stage::Stage;

const MIGRATED: &str = "pv.kubernetes.io/migrated-to";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const IN_TREE: &str = "kubernetes.io/pv-controller";
const PLUGINS: [(&str, &str, &str); 2] = [
    ("ebs", "kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("pd", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
];

/// As the in-tree plugin made it, with the finalizer with which the in-tree controller kept it.
fn in_tree(stage: &Stage, short: &str, plugin: &str) -> Value {
    let source = if short == "ebs" {
        json!({"awsElasticBlockStore": {"volumeID": "vol-1"}})
    } else {
        json!({"gcePersistentDisk": {"pdName": "disk-1"}})
    };
    let mut extra = json!({
        "metadata": {"annotations": {PROVISIONED_BY: plugin}, "finalizers": [IN_TREE]},
        "spec": {"hostPath": null, "persistentVolumeReclaimPolicy": "Delete"},
    });
    json_patch::merge(&mut extra["spec"], &source);
    volume(&stage.named(short), &stage.named(short), &extra)
}

fn finalizers(volume: &Value) -> Vec<&str> {
    let all = volume.pointer("/metadata/finalizers").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Volumes and claims say who has taken over, and are left to him.
pub async fn to_csi(stage: &Stage) {
    for (short, plugin, driver) in PLUGINS {
        stage.create(&class(&stage.named(short), plugin)).await;
        stage.create(&in_tree(stage, short, plugin)).await;
        stage.create(&claim(short, &stage.named(short), &json!({}))).await;
        let (_, volume) = stage.bound(short).await;
        assert_eq!(volume["metadata"]["annotations"][MIGRATED], driver, "{volume}");
        assert!(!finalizers(&volume).contains(&IN_TREE), "the in-tree plugin keeps it no longer: {volume}");

        let asking = format!("asking-{short}");
        stage.create(&claim(&asking, &stage.named(short), &json!({}))).await;
        let handed = |claim: &Value| {
            claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] == driver
        };
        stage.shows("PersistentVolumeClaim", &asking, "it is handed to the driver", handed).await;
        stage.told(&asking, "ExternalProvisioning", driver).await;

        stage.delete("PersistentVolumeClaim", short).await;
        let released = stage.volume_is(&stage.named(short), "Released").await;
        assert!(
            text(&released, "/metadata/deletionTimestamp").is_empty(),
            "its driver deletes it: {released}"
        );
    }
}
