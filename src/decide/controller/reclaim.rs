//! What becomes of a volume whose claim is gone.
//!
//! Answers to upstream's `reclaimVolume`, `isVolumeReleased`, `findDeletablePlugin` and the decisions of
//! `deleteVolumeOperation`.

use crate::cluster::{Cluster, Key, Object};
use crate::decide::controller::bind;
use crate::decide::{Action, Event, Operation, Plan, Reason};
use crate::objects::{Volume, annotation, annotations, claim, name, uid, volume};

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
fn fail(plan: &mut Plan, object: &Object, reason: &'static str, message: &str) {
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
    /// Nobody, for this reason.
    Missing(String),
}

/// Who deletes the volume's storage: whoever made it, else whoever knows its source.
#[must_use]
pub fn deleter(volume: &Volume) -> Deleter {
    if let Some(provisioner) = volume::provisioned_by(volume).filter(|p| !p.is_empty()) {
        return if provisioner.starts_with(annotations::IN_TREE_PREFIX) {
            Deleter::Missing(format!("no volume plugin matched name: {provisioner}"))
        } else {
            Deleter::External
        };
    }
    let is_migrated = annotation(&volume.metadata, annotations::MIGRATED_TO).is_some();
    if is_migrated || volume.spec.as_ref().is_some_and(|s| s.csi.is_some()) {
        return Deleter::External;
    }
    Deleter::Missing(format!(
        "error getting deleter volume plugin for volume {:?}: no volume plugin matched",
        name(&volume.metadata)
    ))
}

/// What the delete operation does.
#[must_use]
pub fn delete(cluster: &Cluster, key: &Key) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(volume) = cluster.volume(key) else { return plan };
    plan.reason = Reason::Unused { volume: key.clone() };
    if !is_released(cluster, volume) {
        return plan;
    }
    match deleter(volume) {
        Deleter::External => {}
        Deleter::Missing(why) => fail(&mut plan, &Object::Volume(volume.clone()), "VolumeFailedDelete", &why),
    }
    plan
}

/// What the recycle operation does.
#[must_use]
pub fn recycle(cluster: &Cluster, key: &Key) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(volume) = cluster.volume(key) else { return plan };
    plan.reason = Reason::Unused { volume: key.clone() };
    if is_released(cluster, volume) {
        let why = "No recycler plugin found for the volume!";
        fail(&mut plan, &Object::Volume(volume.clone()), "VolumeFailedRecycle", why);
    }
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
