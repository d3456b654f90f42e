//! The words for mismatches and for what keeps pods from nodes.
//!
//! Prose for people; nothing here decides.

use std::fmt;

use crate::cluster::Key;
use crate::decide::matching::Mismatch;
use crate::decide::reason::PodReason;

/// A class's name in a sentence.
fn class(name: &str) -> String {
    if name.is_empty() { "no class".to_owned() } else { format!("class {name:?}") }
}

impl Mismatch {
    /// The mismatch's code, from the closed list of [`crate::decide::Reason::code`].
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Mismatch::ClaimedByOther { .. } => "VolumeClaimedByOther",
            Mismatch::TooSmall { .. } => "VolumeTooSmall",
            Mismatch::Mode { .. } => "VolumeModeDiffers",
            Mismatch::AttributesClass { .. } => "VolumeAttributesClassDiffers",
            Mismatch::BeingDeleted => "VolumeBeingDeleted",
            Mismatch::Phase { .. } => "VolumeNotAvailable",
            Mismatch::Selector => "VolumeNotSelected",
            Mismatch::Class { .. } => "VolumeClassDiffers",
            Mismatch::NodeAffinity { .. } => "VolumeNotOnNode",
            Mismatch::AccessModes { .. } => "VolumeAccessModesDiffer",
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::ClaimedByOther { other, same_name: true } => {
                write!(f, "belongs to an earlier claim {other} that was deleted")
            }
            Mismatch::ClaimedByOther { other, same_name: false } => write!(f, "belongs to claim {other}"),
            Mismatch::TooSmall { capacity, requested } => {
                write!(f, "has {capacity}, and {requested} is requested")
            }
            Mismatch::Mode { volume, claim } => {
                write!(f, "has volumeMode {volume}, and {claim} is asked for")
            }
            Mismatch::AttributesClass { volume, claim } => {
                let name = |name: &str| if name.is_empty() { "none".to_owned() } else { format!("{name:?}") };
                write!(f, "has volumeAttributesClassName {}, and {} is asked for", name(volume), name(claim))
            }
            Mismatch::BeingDeleted => f.write_str("is being deleted"),
            Mismatch::Phase { phase } if phase.is_empty() => f.write_str("has no phase yet"),
            Mismatch::Phase { phase } => write!(f, "is {phase}, not Available"),
            Mismatch::Selector => f.write_str("does not have the labels that the claim selects"),
            Mismatch::Class { volume, claim } => {
                write!(f, "has {}, and {} is asked for", class(volume), class(claim))
            }
            Mismatch::NodeAffinity { node } => write!(f, "cannot be reached from node {node}"),
            Mismatch::AccessModes { volume, claim } => {
                write!(f, "offers {}, and {} is asked for", volume.join(", "), claim.join(", "))
            }
        }
    }
}

impl PodReason {
    pub(super) fn code(&self) -> &'static str {
        match self {
            PodReason::NotPending { .. } => "PodNotPending",
            PodReason::Gated { .. } => "PodGated",
            PodReason::ClaimNotFound { .. } => "PodClaimNotFound",
            PodReason::ClaimNotOwned { .. } => "PodClaimNotOwned",
            PodReason::ClaimLost { .. } => "PodClaimLost",
            PodReason::ClaimDeleting { .. } => "PodClaimDeleting",
            PodReason::ClaimUnbound { .. } => "PodClaimUnbound",
            PodReason::NoNodes { .. } => "NoNodes",
            PodReason::Node { .. } => "NodeDoesNotFit",
            PodReason::BindingVolumes { .. } => "PodBindingVolumes",
            PodReason::Undone { .. } => "PodReservationsUndone",
            PodReason::BindingFailed { .. } => "PodBindingFailed",
            PodReason::Placed { .. } => "PodPlaced",
        }
    }

    pub(super) fn subject(&self) -> String {
        match self {
            PodReason::NotPending { pod }
            | PodReason::Gated { pod, .. }
            | PodReason::NoNodes { pod }
            | PodReason::Undone { pod }
            | PodReason::BindingFailed { pod, .. } => pod.to_string(),
            PodReason::ClaimNotFound { claim, .. }
            | PodReason::ClaimNotOwned { claim, .. }
            | PodReason::ClaimLost { claim, .. }
            | PodReason::ClaimDeleting { claim, .. }
            | PodReason::ClaimUnbound { claim, .. } => claim.to_string(),
            PodReason::Node { node, .. }
            | PodReason::BindingVolumes { node, .. }
            | PodReason::Placed { node, .. } => Key::node(node).to_string(),
        }
    }
}

impl fmt::Display for PodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodReason::NotPending { .. } => f.write_str("the pod waits for no scheduler"),
            PodReason::Gated { gates, .. } => {
                write!(f, "scheduling gates hold the pod back: {}", gates.join(", "))
            }
            PodReason::ClaimNotFound { claim, ephemeral: false, .. } => {
                write!(f, "persistentvolumeclaim {:?} not found", claim.name())
            }
            PodReason::ClaimNotFound { claim, ephemeral: true, .. } => write!(
                f,
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {:?}",
                claim.name()
            ),
            PodReason::ClaimNotOwned { pod, claim } => {
                write!(f, "PVC {} was not created for pod {} (pod is not owner)", claim.path(), pod.path())
            }
            PodReason::ClaimLost { claim, volume, .. } => write!(
                f,
                "persistentvolumeclaim {:?} bound to non-existent persistentvolume {volume:?}",
                claim.name()
            ),
            PodReason::ClaimDeleting { claim, .. } => {
                write!(f, "persistentvolumeclaim {:?} is being deleted", claim.name())
            }
            PodReason::ClaimUnbound { .. } => f.write_str("pod has unbound immediate PersistentVolumeClaims"),
            PodReason::NoNodes { .. } => f.write_str("no nodes available to schedule pods"),
            PodReason::Node { node, why, obstacle: None, .. } => write!(f, "node {node}: {why}"),
            PodReason::Node { node, why, obstacle: Some(obstacle), .. } => {
                write!(f, "node {node}: {why}: {obstacle}")
            }
            PodReason::BindingVolumes { node, .. } => {
                write!(f, "node {node} is chosen; the pod's volumes are being bound")
            }
            PodReason::Undone { .. } => f.write_str(
                "the pod fits on no node with what was reserved for its claims; that is given back",
            ),
            PodReason::BindingFailed { why, .. } => write!(f, "binding volumes: {why}"),
            PodReason::Placed { node, .. } => write!(f, "the pod is on node {node}"),
        }
    }
}
