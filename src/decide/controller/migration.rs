//! CSI migration annotations and the finalizers that depend on them.
//!
//! Answers to upstream's `updateClaimMigrationAnnotations`, `updateVolumeMigrationAnnotationsAndFinalizers` and
//! `modifyDeletionFinalizers`.

use crate::cluster::Object;
use crate::decide::{Plan, Settings, Write};
use crate::objects::{Claim, Volume, annotations, is_deleting, translation, volume};

/// The finalizer that external provisioners put on their volumes.
const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Adds the write that corrects the claim's annotation, if it is not right; returns the claim as it will be.
pub fn anneal_claim(plan: &mut Plan, settings: &Settings, object: &Object, claim: &Claim) -> Object {
    let migrated_to = translation::annealed_claim(settings.drivers, &claim.metadata);
    plan.write(object, Write::AnnealClaim { claim: object.key(), migrated_to })
}

/// Adds the write that corrects the volume's annotation and finalizers, if they are not right; returns the volume
/// as it will be.
pub fn anneal_volume(plan: &mut Plan, settings: &Settings, object: &Object, volume: &Volume) -> Object {
    let migrated_to = translation::annealed_volume(settings.drivers, &volume.metadata);
    let finalizers = finalizers(settings, volume);
    plan.write(object, Write::AnnealVolume { volume: object.key(), migrated_to, finalizers })
}

/// The finalizers that the volume should have: one that an in-tree plugin made and that is to be deleted is kept
/// until its storage is gone.
#[must_use]
pub fn finalizers(settings: &Settings, volume: &Volume) -> Vec<String> {
    let mut finalizers = volume.metadata.finalizers.clone().unwrap_or_default();
    let Some(provisioner) = volume::provisioned_by(volume) else { return finalizers };
    if translation::driver_among(settings.drivers, provisioner).is_some() {
        finalizers.retain(|f| f != annotations::IN_TREE_FINALIZER);
        return finalizers;
    }
    if !provisioner.starts_with(annotations::IN_TREE_PREFIX) {
        return finalizers;
    }
    let policy = volume::reclaim_policy(volume);
    let has = finalizers.iter().any(|f| f == annotations::IN_TREE_FINALIZER);
    // The server takes no new finalizer on what is being deleted.
    if policy == volume::DELETE && !has && !is_deleting(&volume.metadata) {
        finalizers.push(annotations::IN_TREE_FINALIZER.to_owned());
    } else if policy == volume::RETAIN || policy == volume::RECYCLE {
        finalizers.retain(|f| f != annotations::IN_TREE_FINALIZER);
    }
    finalizers.retain(|f| f != EXTERNAL_FINALIZER);
    finalizers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_deleted_is_given_no_finalizer() {
        let volume = |deleted| {
            let provisioned_by =
                serde_json::json!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"});
            let volume = serde_json::json!({
                "metadata": {"name": "p", "annotations": provisioned_by, "deletionTimestamp": deleted},
                "spec": {"persistentVolumeReclaimPolicy": "Delete"},
            });
            serde_json::from_value::<Volume>(volume).unwrap()
        };
        assert_eq!(finalizers(&Settings::default(), &volume(None)), [annotations::IN_TREE_FINALIZER]);
        assert!(finalizers(&Settings::default(), &volume(Some("2026-01-02T03:04:05Z"))).is_empty());
    }
}
