//! What to do about a claim.
//!
//! A claim without the bind-completed annotation gets a volume: the one it names, else the best that fits, else
//! one that is provisioned. A claim with it keeps its volume or is Lost. Answers to upstream's `syncClaim`,
//! `syncUnboundClaim` and `syncBoundClaim`.

use std::sync::Arc;

use super::{bind, migration, provision};
use crate::cluster::{Cluster, Key, Object};
use crate::decide::{Event, Plan, Reason, Settings, Write, matching};
use crate::objects::{Claim, Volume, annotation, annotations, claim, class, name, pod, uid, volume};

/// Decides about a claim.
#[must_use]
pub fn sync(cluster: &Cluster, settings: &Settings, key: &Key, claim: &Arc<Claim>) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let object = migration::anneal_claim(&mut plan, settings, &Object::Claim(claim.clone()), claim);
    let annealed = object.as_claim().unwrap_or(claim).clone();
    plan.reason = if claim::is_bind_completed(&annealed) {
        sync_bound(cluster, settings, key, &annealed, &mut plan)
    } else if claim::volume_name(&annealed).is_empty() {
        sync_unbound(cluster, settings, key, &annealed, &mut plan)
    } else {
        sync_named(cluster, settings, key, &annealed, &mut plan)
    };
    plan
}

/// Adds the binding of claim and volume; the reason is that they belong together unless binding fails.
fn bind_to(
    plan: &mut Plan,
    settings: &Settings,
    volume: &Arc<Volume>,
    claim: &Arc<Claim>,
    key: &Key,
) -> Reason {
    let bound = Reason::Bound { claim: key.clone(), volume: Key::volume(name(&volume.metadata)) };
    plan.reason = bound;
    bind::bind(plan, settings, volume, claim);
    plan.reason.clone()
}

/// Binds a claim that is not bound yet to a volume that is free or reserved for it. Upstream never looks at what a
/// user reserved, and binds it in silence: here it is said, and a strict program refuses.
fn take(plan: &mut Plan, settings: &Settings, volume: &Arc<Volume>, claim: &Arc<Claim>, key: &Key) -> Reason {
    let Some(what) = matching::reserved_differences(volume, claim, settings) else {
        return bind_to(plan, settings, volume, claim, key);
    };
    let volume_key = Key::volume(name(&volume.metadata));
    if settings.strict {
        return refuse(plan, key, claim, volume_key, what);
    }
    let reason = bind_to(plan, settings, volume, claim, key);
    if matches!(reason, Reason::Bound { .. }) {
        let differs = Reason::BoundThoughDiffers { claim: key.clone(), volume: volume_key, what };
        plan.emit(Event::warning(key, "VolumeMismatch", differs.to_string()));
    }
    reason
}

fn set_pending(plan: &mut Plan, key: &Key, claim: &Arc<Claim>) {
    let status = Write::SetClaimStatus {
        claim: key.clone(),
        phase: claim::PENDING,
        volume: None,
        attributes_class: false,
    };
    plan.write(&Object::Claim(claim.clone()), status);
}

/// The claim does not say which volume it wants.
fn sync_unbound(
    cluster: &Cluster,
    settings: &Settings,
    key: &Key,
    claim: &Arc<Claim>,
    plan: &mut Plan,
) -> Reason {
    let found = matching::delays_binding(cluster, claim).and_then(|delayed| {
        matching::find(cluster, settings, key, claim, delayed).map(|volume| (delayed, volume))
    });
    let delayed = match found {
        Err(failure) => return failure,
        Ok((_, Some(volume))) => {
            return take(plan, settings, volume, claim, key);
        }
        Ok((delayed, None)) => delayed,
    };
    if !claim::has_class(claim)
        && let Some(default) = cluster.default_class()
    {
        let class = name(&default.metadata).to_owned();
        let write = Write::SetClaimClass { claim: key.clone(), class: class.clone() };
        plan.write(&Object::Claim(claim.clone()), write);
        return Reason::DefaultClass { claim: key.clone(), class };
    }
    let reason = if delayed && claim::selected_node(claim).is_none() {
        let (reason, event) = awaited_pods(cluster, key);
        plan.emit(event);
        reason
    } else if !claim::class(claim).is_empty() {
        return provision::provision(cluster, settings, key, claim, plan);
    } else {
        let reason = Reason::NoVolumeAndNoClass { claim: key.clone() };
        plan.emit(Event::normal(key, "FailedBinding", reason.to_string()));
        reason
    };
    set_pending(plan, key, claim);
    reason
}

/// Which pods a claim of a delayed class waits for, and the event that says so. Answers to
/// `emitEventForUnboundDelayBindingClaim`.
fn awaited_pods(cluster: &Cluster, key: &Key) -> (Reason, Event) {
    let running = cluster.pods_using(key).filter(|(_, pod)| !pod::is_terminated(pod));
    let (unplaced, placed): (Vec<_>, Vec<_>) = running.partition(|(_, pod)| pod::node_name(pod).is_empty());
    if unplaced.is_empty() {
        let waits = |pod| Reason::WaitForFirstConsumer { claim: key.clone(), placed_past_scheduler: pod };
        // The event says what upstream's says; that a pod went past the scheduler is said by the reason.
        let event = Event::normal(key, "WaitForFirstConsumer", waits(None).to_string());
        return (waits(placed.first().map(|(pod, _)| (*pod).clone())), event);
    }
    let pods = unplaced.iter().map(|(pod, _)| pod.name().to_owned()).collect();
    let reason = Reason::WaitForPodScheduled { claim: key.clone(), pods };
    let event = Event::normal(key, "WaitForPodScheduled", reason.to_string());
    (reason, event)
}

/// The claim names the volume that it wants.
fn sync_named(
    cluster: &Cluster,
    settings: &Settings,
    key: &Key,
    claim: &Arc<Claim>,
    plan: &mut Plan,
) -> Reason {
    let volume_key = Key::volume(claim::volume_name(claim));
    let Some(volume) = cluster.volume(&volume_key) else {
        set_pending(plan, key, claim);
        return Reason::VolumeNotFound { claim: key.clone(), volume: volume_key };
    };
    let Some(reference) = volume::claim_ref(volume) else {
        return match matching::check_named(volume, claim, settings) {
            Ok(()) => bind_to(plan, settings, volume, claim, key),
            Err(what) => refuse(plan, key, claim, volume_key, what),
        };
    };
    if volume::is_for(volume, claim) {
        return take(plan, settings, volume, claim, key);
    }
    let message = format!("volume {:?} already bound to a different claim.", volume_key.name());
    plan.emit(Event::warning(key, "FailedBinding", message));
    let by_controller = annotation(&claim.metadata, annotations::BOUND_BY_CONTROLLER).is_some();
    if !by_controller {
        set_pending(plan, key, claim);
    }
    let (namespace, other) = volume::referred(reference);
    let by = format!("{namespace}/{other}");
    Reason::VolumeTaken { claim: key.clone(), volume: volume_key, by, by_controller }
}

/// Leaves the claim pending, and says what differs between it and the volume.
fn refuse(plan: &mut Plan, key: &Key, claim: &Arc<Claim>, volume: Key, what: String) -> Reason {
    let reason = Reason::VolumeDiffers { claim: key.clone(), volume, what };
    plan.emit(Event::warning(key, "VolumeMismatch", reason.to_string()));
    set_pending(plan, key, claim);
    reason
}

/// The claim has been bound before.
fn sync_bound(
    cluster: &Cluster,
    settings: &Settings,
    key: &Key,
    claim: &Arc<Claim>,
    plan: &mut Plan,
) -> Reason {
    if claim::volume_name(claim).is_empty() {
        let message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        lose(plan, key, claim, "ClaimLost", message);
        return Reason::ReferenceLost { claim: key.clone() };
    }
    let volume_key = Key::volume(claim::volume_name(claim));
    let Some(volume) = cluster.volume(&volume_key) else {
        let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        lose(plan, key, claim, "ClaimLost", message);
        return Reason::VolumeLost { claim: key.clone(), volume: volume_key };
    };
    let Some(reference) = volume::claim_ref(volume) else {
        // The claim is bound and the volume has come unbound, or its new state has not been seen yet.
        return bind_to(plan, settings, volume, claim, key);
    };
    if volume::referred_uid(reference) == uid(&claim.metadata) {
        return bind_to(plan, settings, volume, claim, key);
    }
    let same_name = volume::referred(reference) == (key.namespace(), key.name());
    if same_name && volume::referred_uid(reference).is_empty() {
        // Something rewrote the reference without its uid. It still names this claim, which still names the
        // volume, and nobody else does: the pair is whole. Upstream gives the claim up for lost.
        return bind_to(plan, settings, volume, claim, key);
    }
    let message = "Two claims are bound to the same volume, this one is bound incorrectly";
    lose(plan, key, claim, "ClaimMisbound", message);
    Reason::Misbound { claim: key.clone(), volume: volume_key, same_name }
}

/// Sets the claim Lost and says so, once.
fn lose(plan: &mut Plan, key: &Key, claim: &Arc<Claim>, event: &'static str, message: &str) {
    if claim::phase(claim) == claim::LOST {
        return;
    }
    let status = Write::SetClaimStatus {
        claim: key.clone(),
        phase: claim::LOST,
        volume: None,
        attributes_class: false,
    };
    plan.write(&Object::Claim(claim.clone()), status);
    plan.emit(Event::warning(key, event, message));
}

/// The claim that a free volume should be offered to: the first that it fits, the largest request first, among those
/// that the controller binds by itself.
#[must_use]
pub fn offer<'a>(cluster: &'a Cluster, settings: &Settings, volume: &Volume) -> Option<&'a Key> {
    let class_name = volume::class(volume);
    let delayed = cluster.class(class_name).is_some_and(|class| class::delays_binding(class) != Some(false));
    if delayed || !crate::cluster::volumes::is_free(volume) {
        return None;
    }
    let waiting =
        cluster.waiting_claims().at_most(class_name, volume::mode(volume), volume::capacity(volume));
    let fits = |claim: &Claim| {
        let wanted = matching::For { claim, node: None, attributes_class: settings.volume_attributes_class };
        matching::judge(volume, &wanted).is_ok()
    };
    let mut claims = waiting.filter_map(|key| Some((key, cluster.claim(key)?)));
    claims.find(|(_, claim)| fits(claim)).map(|(key, _)| key)
}
