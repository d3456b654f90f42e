//! A stand-in for the external program that makes the volumes of a class.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{ByHand, DRIVER, Stage, path};

/// What a provisioner does about a claim for which a node was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It makes a volume that only this node reaches.
    Make,
    /// It refuses, and takes the selected node off the claim so that another one is chosen.
    Refuse,
}

/// What is made for a claim.
fn made_for(claim: &Value, node: &Value) -> Value {
    let meta = &claim["metadata"];
    let name = format!("pvc-{}", meta["uid"].as_str().expect("a uid"));
    let pin = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"], "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {
                "kind": "PersistentVolumeClaim", "namespace": "default", "name": meta["name"], "uid": meta["uid"],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [pin]}]}},
        },
    })
}

/// Whether a provisioner is to do something about an object.
fn asks_for_volume(object: &Value) -> bool {
    let notes = &object["metadata"]["annotations"];
    object["kind"] == "PersistentVolumeClaim"
        && object["spec"]["volumeName"].is_null()
        && object["metadata"]["deletionTimestamp"].is_null()
        && notes["volume.kubernetes.io/storage-provisioner"] == DRIVER
        && notes["volume.kubernetes.io/selected-node"].is_string()
}

impl ByHand {
    /// What a provisioner does, once.
    pub fn provision(&self, claim: &Value, deed: Deed) {
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        match deed {
            Deed::Make => {
                let volume = made_for(claim, node);
                let name = volume["metadata"]["name"].as_str().expect("a name");
                if self.server.get("PersistentVolume", "", name).is_none() {
                    let (code, answer) =
                        self.request("POST", &path("PersistentVolume", ""), "application/json", &volume);
                    assert_eq!(code, 201, "{answer}");
                }
            }
            Deed::Refuse => {
                let name = claim["metadata"]["name"].as_str().expect("a name");
                let off = json!({"volume.kubernetes.io/selected-node": null});
                self.patch("PersistentVolumeClaim", name, &json!({"metadata": {"annotations": off}}));
            }
        }
    }
}

impl Stage {
    /// Starts a provisioner, which does what `deed` says about each claim, by name, that asks for [`DRIVER`] and has its
    /// node. It runs until it is aborted.
    pub fn provision(&self, deed: impl Fn(&str) -> Deed + Send + 'static) -> JoinHandle<()> {
        let (by_hand, mut changes) = (self.by_hand(), self.server.changes());
        tokio::spawn(async move {
            loop {
                changes.mark_unchanged();
                for claim in by_hand.server.objects() {
                    if asks_for_volume(&claim) {
                        let deed = deed(claim["metadata"]["name"].as_str().expect("a name"));
                        by_hand.provision(&claim, deed);
                    }
                }
                if changes.changed().await.is_err() {
                    return;
                }
            }
        })
    }
}
