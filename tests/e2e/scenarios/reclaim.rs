//! What becomes of volumes whose claims are gone.

use std::path::Path;

use serde_json::{Value, json};

use crate::objects::{claim, class, name, text, volume};
use crate::stage::Stage;
use crate::target::Nodes;

fn under(stage: &Stage, short: &str, policy: &str) -> Value {
    let spec = json!({"persistentVolumeReclaimPolicy": policy});
    volume(&stage.named(short), stage.prefix(), &json!({ "spec": spec }))
}

/// Binds a claim to the volume, and deletes the claim.
async fn use_up(stage: &Stage, claim_name: &str, short: &str) {
    let spec = json!({"volumeName": stage.named(short)});
    stage.create(&claim(claim_name, stage.prefix(), &spec)).await;
    stage.bound(claim_name).await;
    stage.delete("PersistentVolumeClaim", claim_name).await;
    stage.gone("PersistentVolumeClaim", claim_name).await;
}

/// What is kept is nobody's, until an administrator says so.
pub async fn retain(stage: &Stage) {
    stage.create(&under(stage, "kept", "Retain")).await;
    use_up(stage, "first", "kept").await;
    let kept = stage.volume_is(&stage.named("kept"), "Released").await;
    assert_eq!(text(&kept, "/spec/claimRef/name"), "first", "it says whose it was");
    // A claim of the same name is another claim.
    stage.create(&claim("first", stage.prefix(), &json!({}))).await;
    stage.told("first", "ProvisioningFailed", "").await;
    stage.volume_is(&stage.named("kept"), "Released").await;
    stage.patch("PersistentVolume", &stage.named("kept"), &json!({"spec": {"claimRef": null}})).await;
    assert_eq!(name(&stage.bound("first").await.1), stage.named("kept"));
}

/// A directory that the controller made goes with its volume, and so does one that it did not make; it makes none that is
/// outside of its reach.
pub async fn delete_host_path(stage: &Stage) {
    let folder = format!("/tmp/pvbind-e2e/{}", stage.named("given"));
    if stage.shares_files() {
        std::fs::create_dir_all(Path::new(&folder).join("sub")).expect("a folder");
    }
    stage.create(&under(stage, "given", "Delete")).await;
    use_up(stage, "giver", "given").await;
    stage.gone("PersistentVolume", &stage.named("given")).await;
    assert!(!Path::new(&folder).exists(), "{folder} is gone");

    stage.create(&class(&stage.named("made"), "kubernetes.io/host-path")).await;
    stage.create(&claim("asking", &stage.named("made"), &json!({}))).await;
    let (_, made) = stage.bound("asking").await;
    let folder = text(&made, "/spec/hostPath/path");
    assert!(!stage.shares_files() || Path::new(folder).is_dir(), "{folder} is there");
    stage.delete("PersistentVolumeClaim", "asking").await;
    stage.gone("PersistentVolume", name(&made)).await;
    assert!(!stage.shares_files() || !Path::new(folder).exists(), "{folder} is gone");

    let outside =
        json!({"spec": {"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/srv/pvbind-e2e"}}});
    stage.create(&volume(&stage.named("outside"), stage.prefix(), &outside)).await;
    use_up(stage, "owner", "outside").await;
    stage.volume_is(&stage.named("outside"), "Failed").await;
}

/// A volume is scrubbed by a pod and free again. Where no kubelet runs the pod, the scenario says that it has ended well.
pub async fn recycle(stage: &Stage) {
    stage.create(&under(stage, "used", "Recycle")).await;
    use_up(stage, "first", "used").await;
    let scrubber = format!("recycler-for-{}", stage.named("used"));
    if stage.kind_of_nodes() == Nodes::MadeUp {
        stage.succeed("default", &scrubber).await;
    }
    let free = stage.volume_is(&stage.named("used"), "Available").await;
    assert!(free.pointer("/spec/claimRef").is_none(), "it is kept for nobody: {free}");
    use_up(stage, "second", "used").await;
    if stage.kind_of_nodes() == Nodes::MadeUp {
        stage.succeed("default", &scrubber).await;
    }
    stage.volume_is(&stage.named("used"), "Available").await;
}
