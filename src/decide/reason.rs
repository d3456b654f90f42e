//! Why something is as it is: reasons as data, prose only here.
//!
//! Every plan carries a reason; `simulate`, `explain`, logs and snapshots print the same ones. The codes are a
//! closed list (see [`Reason::code`]); a message is a sentence, a fix the smallest change that would cure it.

use std::fmt;

use crate::cluster::Key;
use crate::decide::binder::check::Failed;
use crate::decide::binder::obstacle::Obstacle;
use crate::decide::matching::Mismatch;

/// Why a decision is what it is, or why a thing does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The object is gone; there is nothing to decide.
    Gone,
    /// Nothing is decided about objects of this kind.
    NotDecidedAbout,
    /// Claim and volume belong together.
    Bound {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
    },
    /// No volume fits, and no class could make one.
    NoVolumeAndNoClass {
        /// The claim.
        claim: Key,
    },
    /// The class leaves binding to the scheduler, and no pod uses the claim yet.
    WaitForFirstConsumer {
        /// The claim.
        claim: Key,
        /// A pod that uses the claim but was placed past the scheduler, by `spec.nodeName`.
        placed_past_scheduler: Option<Key>,
    },
    /// The class leaves binding to the scheduler, which has not placed these pods yet.
    WaitForPodScheduled {
        /// The claim.
        claim: Key,
        /// The pods' names.
        pods: Vec<String>,
    },
    /// A provisioner has been asked for a volume.
    WaitForProvisioner {
        /// The claim.
        claim: Key,
        /// The class.
        class: String,
    },
    /// Provisioning is switched off.
    ProvisioningDisabled {
        /// The claim.
        claim: Key,
    },
    /// The class that the claim asks for does not exist.
    ClassNotFound {
        /// The claim.
        claim: Key,
        /// The class.
        class: String,
    },
    /// No volume fits, and the class has no provisioner that could make one.
    NoProvisioner {
        /// The claim.
        claim: Key,
        /// The class.
        class: String,
        /// The provisioner that the class names.
        provisioner: String,
    },
    /// The class does not say when to bind.
    ClassWithoutBindingMode {
        /// The class.
        class: String,
    },
    /// A claim that names no class is given the default one.
    DefaultClass {
        /// The claim.
        claim: Key,
        /// The class.
        class: String,
    },
    /// The claim asks for a `VolumeAttributesClass` while that feature is off.
    AttributesClassUnsupported {
        /// The claim.
        claim: Key,
    },
    /// The claim's selector makes no sense.
    InvalidSelector {
        /// The claim.
        claim: Key,
    },
    /// The volume that the claim names does not exist.
    VolumeNotFound {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
    },
    /// The volume that the claim names does not satisfy it.
    VolumeDiffers {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
        /// What differs, in upstream's words.
        what: String,
    },
    /// Claim and volume belong together, because a user said so, though the volume is not what the claim asks for.
    BoundThoughDiffers {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
        /// What differs, in upstream's words.
        what: String,
    },
    /// The volume that the claim names belongs to another claim.
    VolumeTaken {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
        /// `NAMESPACE/NAME` of the claim that has it.
        by: String,
        /// Whether the controller itself made the binding, which must never happen.
        by_controller: bool,
    },
    /// The claim was bound and no longer names its volume.
    ReferenceLost {
        /// The claim.
        claim: Key,
    },
    /// The claim was bound and its volume is gone.
    VolumeLost {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
    },
    /// The claim was bound, but its volume belongs to another claim.
    Misbound {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
        /// Whether the volume names this claim and only the uid differs.
        same_name: bool,
    },
    /// The volume does not say how large it is, so the claim cannot either.
    VolumeWithoutCapacity {
        /// The volume.
        volume: Key,
    },
    /// The volume is nobody's.
    Unused {
        /// The volume.
        volume: Key,
    },
    /// The volume is reserved by name; its claim decides.
    Reserved {
        /// The volume.
        volume: Key,
        /// The claim.
        claim: Key,
    },
    /// The API server has to say whether the volume's claim exists.
    ClaimUnknown {
        /// The volume.
        volume: Key,
        /// The claim.
        claim: Key,
    },
    /// The volume's claim has yet to take it.
    AwaitsClaim {
        /// The volume.
        volume: Key,
        /// The claim.
        claim: Key,
    },
    /// The volume is for a claim of another volume mode.
    ModeDiffers {
        /// The volume.
        volume: Key,
        /// The claim.
        claim: Key,
    },
    /// The volume's claim is gone.
    Released {
        /// The volume.
        volume: Key,
        /// The claim that had it.
        claim: Key,
        /// The reclaim policy.
        policy: String,
    },
    /// The volume's claim took another volume.
    BoundElsewhere {
        /// The volume.
        volume: Key,
        /// The claim.
        claim: Key,
        /// The volume that the claim has.
        has: String,
    },
    /// Why one volume is not for a claim.
    Mismatch {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
        /// What does not fit.
        mismatch: Mismatch,
    },
    /// Why a pod, or a pod on one node, is not placed.
    Pod(PodReason),
}

/// Why a pod is where it is, or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodReason {
    /// The pod is on a node, or is not this scheduler's.
    NotPending {
        /// The pod.
        pod: Key,
    },
    /// The pod is held back by scheduling gates.
    Gated {
        /// The pod.
        pod: Key,
        /// The gates' names.
        gates: Vec<String>,
    },
    /// A claim of the pod does not exist.
    ClaimNotFound {
        /// The pod.
        pod: Key,
        /// The claim.
        claim: Key,
        /// Whether the claim is still to be made for a generic ephemeral volume.
        ephemeral: bool,
    },
    /// The claim of an ephemeral volume was not made for the pod.
    ClaimNotOwned {
        /// The pod.
        pod: Key,
        /// The claim.
        claim: Key,
    },
    /// A claim of the pod is Lost.
    ClaimLost {
        /// The pod.
        pod: Key,
        /// The claim.
        claim: Key,
        /// The volume that it had.
        volume: String,
    },
    /// A claim of the pod is being deleted.
    ClaimDeleting {
        /// The pod.
        pod: Key,
        /// The claim.
        claim: Key,
    },
    /// A claim of the pod should be bound before the pod is placed, and is not.
    ClaimUnbound {
        /// The pod.
        pod: Key,
        /// The claim.
        claim: Key,
    },
    /// There are no nodes.
    NoNodes {
        /// The pod.
        pod: Key,
    },
    /// The pod does not fit on a node.
    Node {
        /// The pod.
        pod: Key,
        /// The node.
        node: String,
        /// Why not, in upstream's words.
        why: String,
        /// What of the pod's volumes it is, if it is one of them.
        obstacle: Option<Box<Obstacle>>,
        /// What would cure it, if one thing would.
        fix: Option<String>,
    },
    /// The pod is about to run on a node, once its volumes are bound.
    BindingVolumes {
        /// The pod.
        pod: Key,
        /// The node.
        node: String,
    },
    /// What was reserved for the pod's claims is given back, as it fits on no node with them.
    Undone {
        /// The pod.
        pod: Key,
    },
    /// Binding the pod's volumes failed.
    BindingFailed {
        /// The pod.
        pod: Key,
        /// Why.
        why: Failed,
    },
    /// The pod is placed.
    Placed {
        /// The pod.
        pod: Key,
        /// The node.
        node: String,
    },
}

impl Reason {
    /// Whether the decision is an error that is tried again with backoff, as upstream does when a sync fails.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Reason::VolumeTaken { by_controller: true, .. }
                | Reason::ClassWithoutBindingMode { .. }
                | Reason::AttributesClassUnsupported { .. }
                | Reason::InvalidSelector { .. }
                | Reason::VolumeWithoutCapacity { .. }
                | Reason::Pod(PodReason::BindingFailed { .. })
        )
    }

    /// The reason's code, from a closed list.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Gone => "Gone",
            Reason::NotDecidedAbout => "NotDecidedAbout",
            Reason::Bound { .. } => "Bound",
            Reason::NoVolumeAndNoClass { .. } => "NoVolumeAndNoClass",
            Reason::WaitForFirstConsumer { placed_past_scheduler: None, .. } => "WaitForFirstConsumer",
            Reason::WaitForFirstConsumer { placed_past_scheduler: Some(_), .. } => "PodPastScheduler",
            Reason::WaitForPodScheduled { .. } => "WaitForPodScheduled",
            Reason::WaitForProvisioner { .. } => "WaitForProvisioner",
            Reason::ProvisioningDisabled { .. } => "ProvisioningDisabled",
            Reason::ClassNotFound { .. } => "ClassNotFound",
            Reason::NoProvisioner { .. } => "NoProvisioner",
            Reason::ClassWithoutBindingMode { .. } => "ClassWithoutBindingMode",
            Reason::DefaultClass { .. } => "DefaultClass",
            Reason::AttributesClassUnsupported { .. } => "AttributesClassUnsupported",
            Reason::InvalidSelector { .. } => "InvalidSelector",
            Reason::VolumeNotFound { .. } => "VolumeNotFound",
            Reason::VolumeDiffers { .. } => "VolumeDiffers",
            Reason::BoundThoughDiffers { .. } => "BoundThoughDiffers",
            Reason::VolumeTaken { .. } => "VolumeTaken",
            Reason::ReferenceLost { .. } => "ReferenceLost",
            Reason::VolumeLost { .. } => "VolumeLost",
            Reason::Misbound { .. } => "Misbound",
            Reason::VolumeWithoutCapacity { .. } => "VolumeWithoutCapacity",
            Reason::Unused { .. } => "Unused",
            Reason::Reserved { .. } => "Reserved",
            Reason::ClaimUnknown { .. } => "ClaimUnknown",
            Reason::AwaitsClaim { .. } => "AwaitsClaim",
            Reason::ModeDiffers { .. } => "ModeDiffers",
            Reason::Released { .. } => "Released",
            Reason::BoundElsewhere { .. } => "BoundElsewhere",
            Reason::Mismatch { mismatch, .. } => mismatch.code(),
            Reason::Pod(reason) => reason.code(),
        }
    }

    /// The object that stands in the way, or that the reason is about.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        let key = match self {
            Reason::Gone | Reason::NotDecidedAbout => return None,
            Reason::ClassNotFound { class, .. }
            | Reason::NoProvisioner { class, .. }
            | Reason::ClassWithoutBindingMode { class }
            | Reason::DefaultClass { class, .. }
            | Reason::WaitForProvisioner { class, .. } => return Some(Key::class(class).to_string()),
            Reason::NoVolumeAndNoClass { claim }
            | Reason::WaitForFirstConsumer { claim, .. }
            | Reason::WaitForPodScheduled { claim, .. }
            | Reason::ProvisioningDisabled { claim }
            | Reason::AttributesClassUnsupported { claim }
            | Reason::InvalidSelector { claim }
            | Reason::ReferenceLost { claim } => claim,
            Reason::Bound { volume, .. }
            | Reason::VolumeNotFound { volume, .. }
            | Reason::VolumeDiffers { volume, .. }
            | Reason::BoundThoughDiffers { volume, .. }
            | Reason::VolumeTaken { volume, .. }
            | Reason::VolumeLost { volume, .. }
            | Reason::Misbound { volume, .. }
            | Reason::VolumeWithoutCapacity { volume }
            | Reason::Mismatch { volume, .. }
            | Reason::Unused { volume } => volume,
            Reason::Reserved { claim, .. }
            | Reason::ClaimUnknown { claim, .. }
            | Reason::AwaitsClaim { claim, .. }
            | Reason::ModeDiffers { claim, .. }
            | Reason::Released { claim, .. }
            | Reason::BoundElsewhere { claim, .. } => claim,
            Reason::Pod(reason) => return Some(reason.subject()),
        };
        Some(key.to_string())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Gone => f.write_str("it no longer exists"),
            Reason::NotDecidedAbout => f.write_str("nothing is decided about objects of this kind"),
            Reason::Bound { claim, volume } => {
                write!(f, "claim {} and volume {} belong together", claim.path(), volume.name())
            }
            Reason::NoVolumeAndNoClass { .. } => {
                f.write_str("no persistent volumes available for this claim and no storage class is set")
            }
            Reason::WaitForFirstConsumer { placed_past_scheduler: None, .. } => {
                f.write_str("waiting for first consumer to be created before binding")
            }
            Reason::WaitForFirstConsumer { placed_past_scheduler: Some(pod), .. } => write!(
                f,
                "its class waits for the scheduler to place a pod, but pod {} names its node itself (spec.nodeName), so no scheduler ever sees it",
                pod.path()
            ),
            Reason::WaitForPodScheduled { pods, .. } => match pods.as_slice() {
                [pod] => write!(f, "waiting for pod {pod} to be scheduled"),
                pods => write!(f, "waiting for pods {} to be scheduled", pods.join(",")),
            },
            Reason::WaitForProvisioner { class, .. } => {
                write!(
                    f,
                    "the provisioner of class {class:?} has been asked for a volume and has not made one"
                )
            }
            Reason::ProvisioningDisabled { .. } => {
                f.write_str("no volume fits, and provisioning is switched off")
            }
            Reason::ClassNotFound { class, .. } => write!(f, "storage class {class:?} does not exist"),
            Reason::NoProvisioner { class, provisioner, .. } => {
                write!(
                    f,
                    "no volume fits, and class {class:?} has no provisioner that could make one ({provisioner})"
                )
            }
            Reason::ClassWithoutBindingMode { class } => {
                write!(f, "VolumeBindingMode not set for StorageClass {class:?}")
            }
            Reason::DefaultClass { class, .. } => write!(f, "the claim is given the default class {class:?}"),
            Reason::AttributesClassUnsupported { claim } => write!(
                f,
                "unsupported volumeAttributesClassName is set on claim {} when the feature-gate VolumeAttributesClass is disabled",
                claim.path()
            ),
            Reason::InvalidSelector { claim } => {
                write!(f, "the selector of claim {} is invalid", claim.path())
            }
            Reason::VolumeNotFound { volume, .. } => {
                write!(f, "the claim asks for volume {}, which does not exist", volume.name())
            }
            Reason::VolumeDiffers { volume, what, .. } => {
                write!(f, "Cannot bind to requested volume {:?}: {what}", volume.name())
            }
            Reason::BoundThoughDiffers { volume, what, .. } => write!(
                f,
                "volume {:?} is reserved for the claim and bound to it, though it is not what the claim asks for: {what}",
                volume.name()
            ),
            Reason::VolumeTaken { volume, by, by_controller: false, .. } => {
                write!(f, "the claim asks for volume {}, which belongs to claim {by}", volume.name())
            }
            Reason::VolumeTaken { claim, volume, by, by_controller: true } => write!(
                f,
                "invalid binding of claim {:?} to volume {:?}: volume already claimed by {by:?}",
                claim.path(),
                volume.name()
            ),
            Reason::ReferenceLost { .. } => {
                f.write_str("the claim was bound, and its spec.volumeName has been cleared since")
            }
            Reason::VolumeLost { volume, .. } => {
                write!(f, "the claim was bound to volume {}, which no longer exists", volume.name())
            }
            Reason::Misbound { volume, same_name: true, .. } => write!(
                f,
                "volume {} belongs to an earlier claim of this name, with another uid",
                volume.name()
            ),
            Reason::Misbound { volume, same_name: false, .. } => {
                write!(f, "volume {} belongs to another claim", volume.name())
            }
            Reason::VolumeWithoutCapacity { volume } => {
                write!(f, "PersistentVolume {:?} is without a storage capacity", volume.name())
            }
            Reason::Unused { .. } => f.write_str("the volume is nobody's"),
            Reason::Reserved { claim, .. } => write!(f, "the volume is reserved for claim {}", claim.path()),
            Reason::ClaimUnknown { claim, .. } => {
                write!(f, "the API server has to say whether claim {} exists", claim.path())
            }
            Reason::AwaitsClaim { claim, .. } => {
                write!(f, "claim {} has yet to take the volume", claim.path())
            }
            Reason::ModeDiffers { claim, .. } => {
                write!(f, "the volume is for claim {}, which asks for another volumeMode", claim.path())
            }
            Reason::Released { claim, policy, .. } => {
                write!(f, "claim {} is gone; the reclaim policy is {policy}", claim.path())
            }
            Reason::BoundElsewhere { claim, has, .. } => {
                write!(f, "claim {} has volume {has} instead", claim.path())
            }
            Reason::Mismatch { volume, mismatch, .. } => write!(f, "volume {} {mismatch}", volume.name()),
            Reason::Pod(reason) => reason.fmt(f),
        }
    }
}
