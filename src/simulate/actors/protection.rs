//! What keeps a claim or a volume that is in use from going away: upstream's `pvc-protection`, `pv-protection` and
//! `vac-protection`.
//!
//! Decides when the protection finalizer of a deleted object may be taken off, and puts it on where admission did not.
//! It never deletes anything. Unlike upstream it makes no live list of pods before letting a claim go: the shell takes
//! in everything that the watches hold before anything is decided.

use super::call::{Call, Kind, Name, Target};
use super::world::{World, finalizers_without, has_finalizer, is_for_pod, node_of};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use std::collections::BTreeSet;

/// On every claim.
pub const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// On every volume.
pub const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// On every `VolumeAttributesClass`.
pub const CLASS_FINALIZER: &str = "kubernetes.io/vac-protection";

/// What to do about a claim's finalizer.
#[must_use]
pub fn plan_claim(world: &World, name: &Name) -> Vec<Call> {
    let Some(claim) = world.claims.get(name) else { return Vec::new() };
    let used = || world.pods_of_claim(name).any(|pod| uses(pod, claim));
    protect(Kind::Claim, &claim.metadata, CLAIM_FINALIZER, used)
}

/// What to do about a volume's finalizer.
#[must_use]
pub fn plan_volume(world: &World, name: &Name) -> Vec<Call> {
    let Some(volume) = world.volumes.get(name) else { return Vec::new() };
    let bound = || volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    protect(Kind::Volume, &volume.metadata, VOLUME_FINALIZER, bound)
}

/// What to do about the finalizer of a `VolumeAttributesClass`.
#[must_use]
pub fn plan_class(world: &World, name: &Name) -> Vec<Call> {
    let Some(class) = world.attributes_classes.get(name) else { return Vec::new() };
    let used = || world.users_of_attributes.of(&name.name).next().is_some();
    protect(Kind::AttributesClass, &class.metadata, CLASS_FINALIZER, used)
}

/// The `VolumeAttributesClass`es that a claim has, wants or is on its way to.
#[must_use]
pub fn attributes_of_claim(claim: &PersistentVolumeClaim) -> BTreeSet<String> {
    let wanted = claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.clone());
    let status = claim.status.as_ref();
    let current = status.and_then(|s| s.current_volume_attributes_class_name.clone());
    let target =
        status.and_then(|s| s.modify_volume_status.as_ref()?.target_volume_attributes_class_name.clone());
    [wanted, current, target].into_iter().flatten().filter(|class| !class.is_empty()).collect()
}

fn protect(kind: Kind, meta: &ObjectMeta, finalizer: &str, used: impl FnOnce() -> bool) -> Vec<Call> {
    let (leaving, held) = (meta.deletion_timestamp.is_some(), has_finalizer(meta, finalizer));
    let finalizers = if leaving && held && !used() {
        finalizers_without(meta, finalizer)
    } else if !leaving && !held {
        meta.finalizers.iter().flatten().cloned().chain([finalizer.to_owned()]).collect()
    } else {
        return Vec::new();
    };
    vec![Call::merge(Target::of(kind, meta), json!({ "metadata": { "finalizers": finalizers } }))]
}

/// Upstream's `podUsesPVC`: a pod that has no node yet holds nothing, a finished pod still does.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    if node_of(pod).is_empty() {
        return false;
    }
    let name = Name::of(&claim.metadata);
    super::world::claims_of(pod).filter(|(_, claim)| *claim == name).any(|(volume, _)| {
        volume.persistent_volume_claim.is_some() || !is_shut_down(pod) && is_for_pod(pod, claim)
    })
}

/// The kubelet is done with the pod, or somebody deleted it by force.
fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0)
}
