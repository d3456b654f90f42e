//! What a volume offers, and whose it is.
//!
//! Answers to upstream's `component-helpers/storage/volume/pv_helpers.go`.

use k8s_openapi::api::core::v1::ObjectReference;

use super::{Claim, Volume, annotation, annotations, name, namespace, quantity::Amount, uid};

/// The default volume mode.
pub const FILESYSTEM: &str = "Filesystem";

/// The phase of a volume that nobody has claimed.
pub const AVAILABLE: &str = "Available";
/// The phase of a volume that is bound to a claim.
pub const BOUND: &str = "Bound";
/// The phase of a volume whose claim is gone.
pub const RELEASED: &str = "Released";
/// The phase of a volume whose reclamation failed.
pub const FAILED: &str = "Failed";

/// The reclaim policy under which a released volume is left alone.
pub const RETAIN: &str = "Retain";
/// The reclaim policy under which a released volume is deleted.
pub const DELETE: &str = "Delete";
/// The reclaim policy under which a released volume is scrubbed and offered again.
pub const RECYCLE: &str = "Recycle";

/// The volume's class, `""` for none. The beta annotation wins.
#[must_use]
pub fn class(volume: &Volume) -> &str {
    annotation(&volume.metadata, annotations::BETA_CLASS)
        .or_else(|| volume.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or_default()
}

/// The volume's capacity; zero when it names none or a malformed one.
#[must_use]
pub fn capacity(volume: &Volume) -> Amount {
    capacity_written(volume).and_then(Amount::parse).unwrap_or_default()
}

/// The volume's capacity as the user wrote it, for messages.
#[must_use]
pub fn capacity_text(volume: &Volume) -> &str {
    capacity_written(volume).unwrap_or("0")
}

/// The volume's capacity as the user wrote it, if it names one.
#[must_use]
pub fn capacity_written(volume: &Volume) -> Option<&str> {
    volume.spec.as_ref()?.capacity.as_ref()?.get("storage").map(|amount| amount.0.as_str())
}

/// The access modes that the volume offers.
#[must_use]
pub fn access_modes(volume: &Volume) -> &[String] {
    volume.spec.as_ref().and_then(|s| s.access_modes.as_deref()).unwrap_or_default()
}

/// The volume's mode; `Filesystem` when it says nothing.
#[must_use]
pub fn mode(volume: &Volume) -> &str {
    volume.spec.as_ref().and_then(|s| s.volume_mode.as_deref()).unwrap_or(FILESYSTEM)
}

/// The `VolumeAttributesClass` of the volume, `""` for none.
#[must_use]
pub fn attributes_class(volume: &Volume) -> &str {
    volume.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// The volume's phase, `""` before the server has set one.
#[must_use]
pub fn phase(volume: &Volume) -> &str {
    volume.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// What happens to the volume when its claim is gone, `""` when it does not say.
#[must_use]
pub fn reclaim_policy(volume: &Volume) -> &str {
    volume.spec.as_ref().and_then(|s| s.persistent_volume_reclaim_policy.as_deref()).unwrap_or_default()
}

/// The claim that the volume is reserved for or bound to.
#[must_use]
pub fn claim_ref(volume: &Volume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// The namespace and name in a claim reference.
#[must_use]
pub fn referred(reference: &ObjectReference) -> (&str, &str) {
    (reference.namespace.as_deref().unwrap_or_default(), reference.name.as_deref().unwrap_or_default())
}

/// The uid in a claim reference; `""` means that the volume is reserved by name only.
#[must_use]
pub fn referred_uid(reference: &ObjectReference) -> &str {
    reference.uid.as_deref().unwrap_or_default()
}

/// Whether the volume is bound to this claim or reserved for it: the names agree and the uid, if there is one,
/// does too. Answers to upstream's `IsVolumeBoundToClaim`.
#[must_use]
pub fn is_for(volume: &Volume, claim: &Claim) -> bool {
    let Some(reference) = claim_ref(volume) else { return false };
    let of_claim = (namespace(&claim.metadata), name(&claim.metadata));
    let referred_uid = referred_uid(reference);
    referred(reference) == of_claim && (referred_uid.is_empty() || referred_uid == uid(&claim.metadata))
}

/// The name of the plugin or provisioner that made the volume, if one did.
#[must_use]
pub fn provisioned_by(volume: &Volume) -> Option<&str> {
    annotation(&volume.metadata, annotations::PROVISIONED_BY)
}

/// Whether a user wrote the reference to a claim: neither the controller nor a provisioner did.
#[must_use]
pub fn is_reserved_by_user(volume: &Volume) -> bool {
    claim_ref(volume).is_some() && !is_bound_by_controller(volume) && provisioned_by(volume).is_none()
}

/// Whether the controller, not the user, made the binding.
#[must_use]
pub fn is_bound_by_controller(volume: &Volume) -> bool {
    annotation(&volume.metadata, annotations::BOUND_BY_CONTROLLER).is_some()
}
