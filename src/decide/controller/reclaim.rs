//! What becomes of a volume whose claim is gone.
//!
//! Answers to upstream's `reclaimVolume`, `isVolumeReleased`, `findDeletablePlugin` and the decisions of
//! `deleteVolumeOperation`.

use crate::cluster::{Cluster, Key, Object};
use crate::decide::controller::bind;
use crate::decide::plugin::{Answer, Call, Failure, Plugin};
use crate::decide::{Action, Event, Operation, Plan, Reads, Reason, Settings, Write};
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
#[derive(Clone, Debug, PartialEq)]
pub enum Deleter {
    /// An external program.
    External,
    /// An in-tree plugin.
    Plugin(Plugin),
    /// Nobody, for this reason.
    Missing(String),
}

/// Who deletes the volume's storage: whoever made it, else whoever knows its source.
#[must_use]
pub fn deleter(settings: &Settings, volume: &Volume) -> Deleter {
    if let Some(provisioner) = volume::provisioned_by(volume).filter(|p| !p.is_empty()) {
        return match settings.plugins.iter().find(|plugin| plugin.name == provisioner) {
            Some(plugin) if plugin.deletes => Deleter::Plugin(*plugin),
            Some(_) => Deleter::Missing("no deletable volume plugin matched".to_owned()),
            None if provisioner.starts_with(annotations::IN_TREE_PREFIX) => {
                Deleter::Missing(format!("no volume plugin matched name: {provisioner}"))
            }
            None => Deleter::External,
        };
    }
    let is_migrated = annotation(&volume.metadata, annotations::MIGRATED_TO).is_some();
    if is_migrated || volume.spec.as_ref().is_some_and(|s| s.csi.is_some()) {
        return Deleter::External;
    }
    let missing = |why: &str| {
        let name = name(&volume.metadata);
        Deleter::Missing(format!("error getting deleter volume plugin for volume {name:?}: {why}"))
    };
    match settings.plugins.iter().find(|plugin| plugin.supports(volume)) {
        Some(plugin) if plugin.deletes => Deleter::Plugin(*plugin),
        Some(_) => missing("no deletable volume plugin matched"),
        None => missing("no volume plugin matched"),
    }
}

/// The next step of the delete operation. Before anything is destroyed the API server is asked whether the volume is
/// still to be deleted.
#[must_use]
pub fn delete(cluster: &Cluster, settings: &Settings, key: &Key, reads: &Reads) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(volume) = cluster.volume(key).filter(|volume| is_released(cluster, volume)) else { return plan };
    plan.reason = released(key, volume);
    match (deleter(settings, volume), reads.get(key)) {
        (Deleter::External, _) => {}
        (Deleter::Missing(why), _) => {
            fail(&mut plan, &Object::Volume(volume.clone()), "VolumeFailedDelete", &why);
        }
        (Deleter::Plugin(_), None) => plan.actions.push(Action::Read(key.clone())),
        (Deleter::Plugin(plugin), Some(read)) => {
            let read = read.as_ref().and_then(Object::as_volume);
            if let Some(volume) = read.filter(|volume| is_released(cluster, volume)) {
                let call = Call::Delete { plugin: plugin.name, volume: volume.clone() };
                plan.actions.push(Action::Ask(call));
            }
        }
    }
    plan
}

/// What follows when the storage has been deleted, or has not: first the finalizer goes that kept the volume for it,
/// then the volume.
#[must_use]
pub fn deleted(cluster: &Cluster, key: &Key, answer: Answer) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(volume) = cluster.volume(key) else { return plan };
    plan.reason = released(key, volume);
    let object = Object::Volume(volume.clone());
    match answer {
        Ok(_) => {
            let finalizer = annotations::IN_TREE_FINALIZER;
            plan.write(&object, Write::DropFinalizer { volume: key.clone(), finalizer });
            // One that is being deleted already goes by itself, with its last finalizer.
            if !is_deleting(&volume.metadata) {
                plan.push(Write::DeleteVolume { volume: key.clone() });
            }
            return plan;
        }
        // The volume did not fail: it only takes longer.
        Err(Failure::InUse(why)) => plan.emit(Event::normal(key, "VolumeDelete", why)),
        Err(failure) => {
            fail(&mut plan, &object, "VolumeFailedDelete", &described(key.name(), failure));
        }
    }
    plan.actions.push(Action::BackOff);
    plan
}

/// Why storage was not deleted, in upstream's words.
pub(super) fn described(volume: &str, failure: Failure) -> String {
    match failure {
        Failure::Setup(why) => format!("failed to create deleter for volume {volume:?}: {why}"),
        Failure::InUse(why) | Failure::Failed(why) => why,
    }
}

/// That the volume's claim is gone, as a reason.
pub(super) fn released(key: &Key, volume: &Volume) -> Reason {
    let (namespace, claim) = volume::claim_ref(volume).map_or(("", ""), volume::referred);
    let policy = volume::reclaim_policy(volume).to_owned();
    Reason::Released { volume: key.clone(), claim: Key::claim(namespace, claim), policy }
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
        assert_eq!(deleted(&cluster, &key, Ok(None)).writes().cloned().collect::<Vec<_>>(), expected);
        cluster.show(volume(Some("2026-01-02T03:04:05Z")));
        assert_eq!(deleted(&cluster, &key, Ok(None)).writes().next(), None);
    }
}
