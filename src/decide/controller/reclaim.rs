//! What becomes of a volume whose claim is gone.
//!
//! Answers to upstream's `reclaimVolume`, `isVolumeReleased`, `findDeletablePlugin` and the decisions of
//! `deleteVolumeOperation`.

use crate::cluster::{Cluster, Key, Object};
use crate::decide::controller::{bind, host_path};
use crate::decide::{Action, Event, Operation, Plan, Reason, Write};
use crate::objects::{Volume, annotation, annotations, claim, is_deleting, name, uid, volume};

/// Marks the volume Released and has its reclaim policy carried out.
pub fn release(plan: &mut Plan, object: &Object) {
    let Some(volume) = object.as_volume() else { return };
    let object = if matches!(volume::phase(volume), volume::RELEASED | volume::FAILED) {
        // A failure stays visible while reclaiming is tried again.
        object.clone()
    } else {
        bind::set_phase(plan, object, volume::RELEASED, "")
    };
    if annotation(&volume.metadata, annotations::MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
        // The external provisioner of the CSI driver reclaims it.
        return;
    }
    let key = object.key();
    match volume::reclaim_policy(volume) {
        volume::RETAIN => {}
        volume::RECYCLE => plan.actions.push(Action::Start(Operation::Recycle(key))),
        volume::DELETE => plan.actions.push(Action::Start(Operation::Delete(key))),
        other => unknown_policy(plan, &object, other),
    }
}

fn unknown_policy(plan: &mut Plan, object: &Object, policy: &str) {
    let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
    tracing::warn!(volume = object.key().name(), policy, message);
    fail(plan, object, "VolumeUnknownReclaimPolicy", message);
}

/// Marks the volume Failed and says why, once.
pub(super) fn fail(plan: &mut Plan, object: &Object, reason: &'static str, message: &str) {
    if object.as_volume().is_some_and(|volume| volume::phase(volume) == volume::FAILED) {
        return;
    }
    bind::set_phase(plan, object, volume::FAILED, message);
    plan.emit(Event::warning(&object.key(), reason, message));
}

/// Who deletes a volume's storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleter {
    /// An external program.
    External,
    /// The in-tree hostPath plugin.
    HostPath,
    /// Nobody, for this reason.
    Missing(String),
}

/// Who deletes the volume's storage: whoever made it, else whoever knows its source.
#[must_use]
pub fn deleter(volume: &Volume) -> Deleter {
    if let Some(provisioner) = volume::provisioned_by(volume).filter(|p| !p.is_empty()) {
        return if provisioner == host_path::PLUGIN {
            Deleter::HostPath
        } else if provisioner.starts_with(annotations::IN_TREE_PREFIX) {
            Deleter::Missing(format!("no volume plugin matched name: {provisioner}"))
        } else {
            Deleter::External
        };
    }
    let is_migrated = annotation(&volume.metadata, annotations::MIGRATED_TO).is_some();
    let spec = volume.spec.as_ref();
    if is_migrated || spec.is_some_and(|s| s.csi.is_some()) {
        return Deleter::External;
    }
    if spec.is_some_and(|s| s.host_path.is_some()) {
        return Deleter::HostPath;
    }
    Deleter::Missing(format!(
        "error getting deleter volume plugin for volume {:?}: no volume plugin matched",
        name(&volume.metadata)
    ))
}

/// What the delete operation does: first the storage goes, then the finalizer that kept the volume for it, then the
/// volume.
#[must_use]
pub fn delete(cluster: &Cluster, key: &Key) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(volume) = cluster.volume(key).filter(|volume| is_released(cluster, volume)) else { return plan };
    plan.reason = released(key, volume);
    let object = Object::Volume(volume.clone());
    match deleter(volume) {
        Deleter::External => {}
        Deleter::Missing(why) => fail(&mut plan, &object, "VolumeFailedDelete", &why),
        Deleter::HostPath => match host_path::delete(volume) {
            Err(why) => fail(&mut plan, &object, "VolumeFailedDelete", &why),
            Ok(storage) => {
                plan.actions.push(Action::Storage(storage));
                let finalizer = annotations::IN_TREE_FINALIZER;
                plan.write(&object, Write::DropFinalizer { volume: key.clone(), finalizer });
                // One that is being deleted already goes by itself, with its last finalizer.
                if !is_deleting(&volume.metadata) {
                    plan.push(Write::DeleteVolume { volume: key.clone() });
                }
            }
        },
    }
    plan
}

/// That the volume's claim is gone, as a reason.
pub(super) fn released(key: &Key, volume: &Volume) -> Reason {
    let (namespace, claim) = volume::claim_ref(volume).map_or(("", ""), volume::referred);
    let policy = volume::reclaim_policy(volume).to_owned();
    Reason::Released { volume: key.clone(), claim: Key::claim(namespace, claim), policy }
}

/// What follows when the plugin could not delete the storage.
#[must_use]
pub fn storage_failed(cluster: &Cluster, key: &Key, why: &str) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(volume) = cluster.volume(key) else { return plan };
    plan.reason = released(key, volume);
    fail(&mut plan, &Object::Volume(volume.clone()), "VolumeFailedDelete", why);
    plan
}

/// Whether the volume's claim is gone, or has another volume.
#[must_use]
pub fn is_released(cluster: &Cluster, volume: &Volume) -> bool {
    let Some(reference) = volume::claim_ref(volume) else { return false };
    let referred_uid = volume::referred_uid(reference);
    if referred_uid.is_empty() {
        return false;
    }
    let (namespace, claim_name) = volume::referred(reference);
    match cluster.claim(&Key::claim(namespace, claim_name)) {
        Some(claim) if uid(&claim.metadata) == referred_uid => {
            let has = claim::volume_name(claim);
            !has.is_empty() && has != name(&volume.metadata)
        }
        Some(_) | None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_others_still_keep_is_deleted_once() {
        let volume = |deleted| {
            let volume = serde_json::json!({
                "metadata": {"name": "p", "finalizers": ["other"], "deletionTimestamp": deleted},
                "spec": {
                    "hostPath": {"path": "/tmp/p"}, "persistentVolumeReclaimPolicy": "Delete",
                    "claimRef": {"namespace": "default", "name": "c", "uid": "u"},
                },
            });
            Object::from(serde_json::from_value::<Volume>(volume).unwrap())
        };
        let mut cluster = Cluster::new();
        cluster.show(volume(None));
        let key = Key::volume("p");
        let expected = vec![Write::DeleteVolume { volume: key.clone() }];
        assert_eq!(delete(&cluster, &key).writes().cloned().collect::<Vec<_>>(), expected);
        cluster.show(volume(Some("2026-01-02T03:04:05Z")));
        assert_eq!(delete(&cluster, &key).writes().next(), None);
    }
}
