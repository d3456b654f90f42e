//! Volumes that a real external provisioner makes.

use std::path::Path;

use serde_json::json;

use crate::objects::{DIRECTORY, claim, class, delayed_class, name, pod, text};
use crate::stage::Stage;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A claim gets a volume at once; when the claim goes the volume goes, and its storage with it.
pub async fn at_once(stage: &Stage) {
    stage.create(&class(stage.prefix(), DIRECTORY)).await;
    stage.create(&claim("asking", stage.prefix(), &json!({}))).await;
    let (asking, made) = stage.bound("asking").await;
    assert_eq!(name(&made), format!("pvc-{}", text(&asking, "/metadata/uid")));
    assert_eq!(made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], DIRECTORY);
    assert_eq!(asking["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"], DIRECTORY);
    let folder = text(&made, "/spec/hostPath/path");
    assert!(!stage.shares_files() || Path::new(folder).is_dir(), "{folder} is there");

    stage.delete("PersistentVolumeClaim", "asking").await;
    stage.gone("PersistentVolume", name(&made)).await;
    assert!(!stage.shares_files() || !Path::new(folder).exists(), "{folder} is gone");
}

/// A claim of a pod gets a volume for the node that the pod gets, made by whoever is told the node.
pub async fn for_a_pod(stage: &Stage) {
    stage.nodes(2).await;
    stage.create(&delayed_class(stage.prefix(), DIRECTORY)).await;
    stage.create(&claim("wanted", stage.prefix(), &json!({}))).await;
    stage.told("wanted", "WaitForFirstConsumer", "").await;
    stage.create(&pod("wanting", "pvbind", &["wanted"])).await;
    let node = stage.placed("wanting").await;
    let (claim, volume) = stage.bound("wanted").await;
    assert_eq!(claim["metadata"]["annotations"][SELECTED_NODE], node.as_str());
    let reached =
        text(&volume, "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0");
    assert_eq!(reached, node);
    stage.delete("Pod", "wanting").await;
    stage.gone("Pod", "wanting").await;
    stage.delete("PersistentVolumeClaim", "wanted").await;
    stage.gone("PersistentVolume", name(&volume)).await;
}
