//! What would cure it: for each reason the smallest change, if one change would.
//!
//! Prose for people; nothing here decides.

use crate::decide::Reason;
use crate::decide::matching::Mismatch;
use crate::decide::reason::PodReason;

impl Reason {
    /// The smallest change that would cure it, or `None` when nothing is wrong or no single change would.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        match self {
            Reason::Gone
            | Reason::NotDecidedAbout
            | Reason::Bound { .. }
            | Reason::DefaultClass { .. }
            | Reason::Unused { .. }
            | Reason::Reserved { .. }
            | Reason::ClaimUnknown { .. }
            | Reason::AwaitsClaim { .. }
            | Reason::BoundElsewhere { .. } => None,
            Reason::NoVolumeAndNoClass { .. } => Some(
                "create a volume without a class that fits, or set the claim's spec.storageClassName to a class with a provisioner".to_owned(),
            ),
            Reason::WaitForFirstConsumer { placed_past_scheduler: None, claim } => {
                Some(format!("create a pod that uses claim {}", claim.path()))
            }
            Reason::WaitForFirstConsumer { placed_past_scheduler: Some(pod), .. } => Some(format!(
                "replace spec.nodeName of pod {} by spec.nodeSelector with kubernetes.io/hostname",
                pod.path()
            )),
            Reason::WaitForPodScheduled { .. } => None,
            Reason::WaitForProvisioner { class, .. } => {
                Some(format!("check that the provisioner named in class {class:?} is running"))
            }
            Reason::ProvisioningDisabled { .. } => Some("create a volume that fits".to_owned()),
            Reason::ClassNotFound { class, .. } => Some(format!(
                "create StorageClass {class:?}, or a volume of that class that fits"
            )),
            Reason::NoProvisioner { class, .. } => {
                Some(format!("create a volume with spec.storageClassName {class:?} that fits"))
            }
            Reason::ClassWithoutBindingMode { class } => {
                Some(format!("recreate StorageClass {class:?} with volumeBindingMode Immediate or WaitForFirstConsumer"))
            }
            Reason::AttributesClassUnsupported { .. } => {
                Some("recreate the claim without spec.volumeAttributesClassName".to_owned())
            }
            Reason::InvalidSelector { .. } => Some(
                "recreate the claim with operators In, NotIn, Exists or DoesNotExist in spec.selector".to_owned(),
            ),
            Reason::VolumeNotFound { volume, .. } => Some(format!("create volume {}", volume.name())),
            Reason::VolumeDiffers { volume, .. } => {
                Some(format!("make volume {} and the claim agree, or let the claim have another volume", volume.name()))
            }
            Reason::BoundThoughDiffers { volume, .. } => {
                Some(format!("make volume {} and the claim agree; --strict refuses such a pair", volume.name()))
            }
            Reason::VolumeTaken { volume, .. } => Some(format!(
                "recreate the claim without spec.volumeName, or with another volume than {}",
                volume.name()
            )),
            Reason::ReferenceLost { .. } | Reason::VolumeLost { .. } => {
                Some("recreate the claim; restore its data from a backup".to_owned())
            }
            Reason::Misbound { volume, same_name: true, claim } => Some(format!(
                "set spec.claimRef.uid of volume {} to the uid of claim {}, or clear spec.claimRef",
                volume.name(),
                claim.path()
            )),
            Reason::Misbound { .. } => Some("recreate the claim".to_owned()),
            Reason::VolumeWithoutCapacity { volume } => {
                Some(format!("set spec.capacity.storage of volume {}", volume.name()))
            }
            Reason::ModeDiffers { volume, .. } => {
                Some(format!("recreate volume {} or the claim with the other's volumeMode", volume.name()))
            }
            Reason::Released { volume, policy, .. } => (policy == "Retain").then(|| {
                format!(
                    "kubectl patch pv {} --type merge -p '{{\"spec\":{{\"claimRef\":null}}}}' offers it again, with its data",
                    volume.name()
                )
            }),
            Reason::Mismatch { volume, mismatch, .. } => mismatch.fix(volume.name()),
            Reason::Pod(reason) => reason.fix(),
        }
    }
}

impl Mismatch {
    fn fix(&self, volume: &str) -> Option<String> {
        match self {
            Mismatch::ClaimedByOther { same_name: true, .. } => Some(format!(
                "kubectl patch pv {volume} --type merge -p '{{\"spec\":{{\"claimRef\":{{\"uid\":null,\"resourceVersion\":null}}}}}}' gives it to the new claim, with its data"
            )),
            Mismatch::ClaimedByOther { .. } | Mismatch::BeingDeleted => None,
            Mismatch::TooSmall { capacity, .. } => {
                Some(format!("request {capacity} or less, or create a larger volume"))
            }
            Mismatch::Mode { volume, .. } => Some(format!("set the claim's spec.volumeMode to {volume}")),
            Mismatch::AttributesClass { volume, .. } if volume.is_empty() => {
                Some("take spec.volumeAttributesClassName off the claim".to_owned())
            }
            Mismatch::AttributesClass { volume, .. } => {
                Some(format!("set the claim's spec.volumeAttributesClassName to {volume}"))
            }
            Mismatch::Phase { .. } => None,
            Mismatch::Selector => Some(format!("label volume {volume} as the claim's spec.selector asks")),
            Mismatch::Class { volume, .. } => {
                Some(format!("set the claim's spec.storageClassName to {volume:?}"))
            }
            Mismatch::NodeAffinity { .. } => None,
            Mismatch::AccessModes { volume, .. } => Some(format!("ask for {} only", volume.join(", "))),
        }
    }
}

impl PodReason {
    fn fix(&self) -> Option<String> {
        match self {
            PodReason::NotPending { .. }
            | PodReason::BindingVolumes { .. }
            | PodReason::Undone { .. }
            | PodReason::BindingFailed { .. }
            | PodReason::Placed { .. }
            | PodReason::ClaimUnbound { .. } => None,
            PodReason::Gated { pod, gates } => {
                Some(format!("remove {} from spec.schedulingGates of pod {}", gates.join(", "), pod.path()))
            }
            PodReason::ClaimNotFound { claim, ephemeral, .. } => {
                (!ephemeral).then(|| format!("create claim {}", claim.path()))
            }
            PodReason::ClaimNotOwned { claim, .. } => {
                Some(format!("delete claim {}, or rename the pod or its volume", claim.path()))
            }
            PodReason::ClaimLost { claim, .. } => Some(format!("recreate claim {}", claim.path())),
            PodReason::ClaimDeleting { claim, .. } => {
                Some(format!("delete the pods that use claim {}, then create the claim again", claim.path()))
            }
            PodReason::NoNodes { .. } => Some("add a node".to_owned()),
            PodReason::Node { fix, .. } => fix.clone(),
        }
    }
}
