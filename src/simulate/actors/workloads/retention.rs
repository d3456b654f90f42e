//! `persistentVolumeClaimRetentionPolicy`: who owns a replica's claims, and so what they go with.
//!
//! Decides the owner references of one claim and nothing else: the collector does the deleting. It answers to upstream's
//! `updateClaimOwnerRefForSetAndPod`: the set owns the claim while `whenDeleted` is Delete, a pod that is scaled away
//! owns it when `whenScaled` is Delete, and a claim with a controller of its own is left alone.

use crate::simulate::actors::call::{Call, Kind, Target};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

/// The one of the two that has to own the claims of a replica, if either has to.
#[must_use]
pub fn owner<'a>(
    set: &StatefulSet,
    set_target: &'a Target,
    pod: Option<&'a Target>,
    scaled_down: bool,
) -> Option<&'a Target> {
    let policy = set.spec.as_ref().and_then(|s| s.persistent_volume_claim_retention_policy.as_ref());
    let deletes = |when: Option<&String>| when.is_some_and(|w| w == "Delete");
    let when_scaled = deletes(policy.and_then(|p| p.when_scaled.as_ref()));
    let when_deleted = deletes(policy.and_then(|p| p.when_deleted.as_ref()));
    if when_scaled && scaled_down {
        return pod;
    }
    when_deleted.then_some(set_target)
}

/// The change that gives a claim the right owner, if it has not got it.
#[must_use]
pub fn correct(
    claim: &PersistentVolumeClaim,
    set: &Target,
    pod: &Target,
    owner: Option<&Target>,
) -> Option<Call> {
    let references = claim.metadata.owner_references.as_deref().unwrap_or_default();
    // A reference to a set or pod of this name, also one with the uid of an earlier one, is ours to change.
    let ours = |r: &OwnerReference| {
        [set, pod].iter().any(|t| r.uid == t.uid || r.kind == t.kind.name() && r.name == t.name.name)
    };
    let foreign: Vec<_> = references.iter().filter(|r| !ours(r)).collect();
    let controlled = foreign.iter().any(|r| r.controller == Some(true));
    let owner = owner.filter(|_| !controlled);
    let mut present = references.iter().filter(|r| ours(r));
    let right = match owner {
        None => present.next().is_none(),
        Some(owner) => present.next().is_some_and(|r| r.uid == owner.uid) && present.next().is_none(),
    };
    if right || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let foreign = foreign.into_iter().map(|r| json!(r));
    let references: Vec<Value> = foreign.chain(owner.map(Target::controller_reference)).collect();
    let target = Target::of(Kind::Claim, &claim.metadata);
    Some(Call::merge(target, json!({ "metadata": { "ownerReferences": references } })))
}
