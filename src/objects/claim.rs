//! What a claim asks for and how far it has come.
//!
//! Answers to upstream's `component-helpers/storage/volume/helpers.go` and `pv_helpers.go`.

use super::{Claim, Volume, annotation, annotations, quantity::Amount};

/// The phase of a claim that waits.
pub const PENDING: &str = "Pending";
/// The phase of a claim that has its volume.
pub const BOUND: &str = "Bound";
/// The phase of a claim whose volume is gone or is another's.
pub const LOST: &str = "Lost";

/// The class that the claim asks for; `""` means volumes without a class. The beta annotation wins.
#[must_use]
pub fn class(claim: &Claim) -> &str {
    annotation(&claim.metadata, annotations::BETA_CLASS)
        .or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or_default()
}

/// Whether the claim says anything about a class: a claim that does not may be given the default one.
#[must_use]
pub fn has_class(claim: &Claim) -> bool {
    annotation(&claim.metadata, annotations::BETA_CLASS).is_some()
        || claim.spec.as_ref().is_some_and(|s| s.storage_class_name.is_some())
}

/// The volume that the claim names, `""` for any.
#[must_use]
pub fn volume_name(claim: &Claim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default()
}

/// The size that the claim requests; zero when it names none or a malformed one.
#[must_use]
pub fn requested(claim: &Claim) -> Amount {
    requested_if_any(claim).unwrap_or_default()
}

/// The size that the claim requests, if it names one.
#[must_use]
pub fn requested_if_any(claim: &Claim) -> Option<Amount> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    Amount::of(resources.requests.as_ref(), "storage")
}

/// The requested size as the user wrote it, for messages.
#[must_use]
pub fn requested_text(claim: &Claim) -> &str {
    let requests = claim.spec.as_ref().and_then(|s| s.resources.as_ref()).and_then(|r| r.requests.as_ref());
    requests.and_then(|r| r.get("storage")).map_or("0", |q| q.0.as_str())
}

/// The access modes that the claim asks for.
#[must_use]
pub fn access_modes(claim: &Claim) -> &[String] {
    claim.spec.as_ref().and_then(|s| s.access_modes.as_deref()).unwrap_or_default()
}

/// The volume mode that the claim asks for; `Filesystem` when it says nothing.
#[must_use]
pub fn mode(claim: &Claim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref()).unwrap_or(super::volume::FILESYSTEM)
}

/// The `VolumeAttributesClass` that the claim asks for, `""` for none.
#[must_use]
pub fn attributes_class(claim: &Claim) -> &str {
    claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// The claim's phase, `""` before the server has set one.
#[must_use]
pub fn phase(claim: &Claim) -> &str {
    claim.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Whether the binding of the claim has been completed once; it is then never bound anew.
#[must_use]
pub fn is_bind_completed(claim: &Claim) -> bool {
    annotation(&claim.metadata, annotations::BIND_COMPLETED).is_some()
}

/// Whether the claim has its volume for good: it names one and its binding is complete.
#[must_use]
pub fn is_fully_bound(claim: &Claim) -> bool {
    !volume_name(claim).is_empty() && is_bind_completed(claim)
}

/// The node that a scheduler chose for the claim's volume.
#[must_use]
pub fn selected_node(claim: &Claim) -> Option<&str> {
    annotation(&claim.metadata, annotations::SELECTED_NODE)
}

/// Whether every access mode that the claim asks for is offered by the volume.
#[must_use]
pub fn access_modes_fit(claim: &Claim, volume: &Volume) -> bool {
    let offered = super::volume::access_modes(volume);
    access_modes(claim).iter().all(|mode| offered.contains(mode))
}
