//! What to do about a volume.
//!
//! A volume follows its claim: free, reserved, bound, or released and then reclaimed. Answers to upstream's
//! `syncVolume`.

use std::sync::Arc;

use super::{bind, claim as claims, migration, reclaim};
use crate::cluster::{Cluster, Key, Object};
use crate::decide::{Action, Event, Plan, Reads, Reason, Settings, Write};
use crate::objects::{Claim, Volume, claim, name, uid, volume};

/// Decides about a volume.
#[must_use]
pub fn sync(cluster: &Cluster, settings: &Settings, key: &Key, volume: &Arc<Volume>, reads: &Reads) -> Plan {
    let mut plan = Plan::nothing(Reason::Unused { volume: key.clone() });
    let object = migration::anneal_volume(&mut plan, settings, &Object::Volume(volume.clone()), volume);
    let Some(reference) = volume::claim_ref(volume) else {
        let object = bind::set_phase(&mut plan, &object, volume::AVAILABLE, "");
        if object.as_volume().is_some_and(|volume| claims::offer(cluster, settings, volume).is_some()) {
            plan.actions.push(Action::Offer(key.clone()));
        }
        return plan;
    };
    let (namespace, claim_name) = volume::referred(reference);
    let claim_key = Key::claim(namespace, claim_name);
    if volume::referred_uid(reference).is_empty() {
        if is_about_to_be_taken(cluster, settings, key, &claim_key) {
            // A phase that the claim's own decision is about to overwrite is not worth a write.
            plan.actions.push(Action::Enqueue(claim_key.clone()));
        } else {
            bind::set_phase(&mut plan, &object, volume::AVAILABLE, "");
        }
        plan.reason = Reason::Reserved { volume: key.clone(), claim: claim_key };
        return plan;
    }
    let claim = match claim_of(cluster, volume, &claim_key, volume::referred_uid(reference), reads) {
        Found::Unknown => {
            plan.reason = Reason::ClaimUnknown { volume: key.clone(), claim: claim_key.clone() };
            plan.actions.push(Action::Read(claim_key));
            return plan;
        }
        Found::Gone => {
            let policy = volume::reclaim_policy(volume).to_owned();
            plan.reason = Reason::Released { volume: key.clone(), claim: claim_key, policy };
            reclaim::release(&mut plan, &object);
            return plan;
        }
        Found::Claim(claim) => claim,
    };
    plan.reason = follow(&mut plan, key, &object, volume, &claim_key, &claim);
    plan
}

/// Whether the claim that the volume is reserved for takes it as soon as it is decided about.
fn is_about_to_be_taken(cluster: &Cluster, settings: &Settings, volume: &Key, claim: &Key) -> bool {
    let Some(found) = cluster.claim(claim) else { return false };
    let plan = claims::sync(cluster, settings, claim, found);
    plan.writes().any(|write| matches!(write, Write::ReserveVolume { volume: taken, .. } if taken == volume))
}

/// What is known of the claim that a volume is bound to.
enum Found {
    Claim(Arc<Claim>),
    Gone,
    /// Only the API server can say.
    Unknown,
}

/// The claim that the volume is bound to. A claim that is not known, or is known with another uid, may only be
/// newer than what the watches have shown: the API server is asked before a volume is released.
fn claim_of(cluster: &Cluster, volume: &Volume, key: &Key, wanted_uid: &str, reads: &Reads) -> Found {
    let is_meant = |claim: &Arc<Claim>| uid(&claim.metadata) == wanted_uid;
    if let Some(answer) = reads.get(key) {
        let claim = answer.as_ref().and_then(Object::as_claim).filter(|claim| is_meant(claim));
        return claim.map_or(Found::Gone, |claim| Found::Claim(claim.clone()));
    }
    match cluster.claim(key) {
        Some(claim) if is_meant(claim) => Found::Claim(claim.clone()),
        Some(_) => Found::Unknown,
        None if matches!(volume::phase(volume), volume::RELEASED | volume::FAILED) => Found::Gone,
        None => Found::Unknown,
    }
}

/// The claim exists: the volume is bound to it, waits for it, or was left by it.
fn follow(
    plan: &mut Plan,
    key: &Key,
    object: &Object,
    volume: &Volume,
    claim_key: &Key,
    claim: &Claim,
) -> Reason {
    let (of_volume, of_claim) = (key.clone(), claim_key.clone());
    if claim::volume_name(claim).is_empty() {
        if volume::mode(volume) == claim::mode(claim) {
            plan.actions.push(Action::Enqueue(claim_key.clone()));
            return Reason::AwaitsClaim { volume: of_volume, claim: of_claim };
        }
        let message = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
            claim_key.name()
        );
        plan.emit(Event::warning(key, "VolumeMismatch", message));
        let message = format!(
            "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
            key.name()
        );
        plan.emit(Event::warning(claim_key, "VolumeMismatch", message));
        return Reason::ModeDiffers { volume: of_volume, claim: of_claim };
    }
    if claim::volume_name(claim) == name(&volume.metadata) {
        bind::set_phase(plan, object, volume::BOUND, "");
        return Reason::Bound { claim: of_claim, volume: of_volume };
    }
    let was_made_for_it = volume::provisioned_by(volume).is_some();
    if was_made_for_it && volume::reclaim_policy(volume) == volume::DELETE {
        reclaim::release(plan, object);
    } else {
        bind::unbind(plan, object);
    }
    Reason::BoundElsewhere { volume: of_volume, claim: of_claim, has: claim::volume_name(claim).to_owned() }
}
