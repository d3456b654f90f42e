//! What is attached to a node for a volume, so that it can be counted.
//!
//! Two names of one thing have to be equal here: a volume that several pods use is attached once, and a volume of a
//! migrated plugin is its CSI driver's. Nothing here says how many a node takes. Answers to upstream's
//! `filterAttachableVolumes` and `getCSIDriverInfo` (`pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`).

use k8s_openapi::api::core::v1::Volume as PodVolume;

use super::translation;
use super::{Claim, Class, Node, Pod, Volume, name, namespace};

/// What a driver attaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handle {
    /// A volume, by the driver's name for it.
    Volume(String),
    /// The volume that a claim is going to have, `NAMESPACE/NAME`.
    Claim(String),
}

/// Something that is, or is going to be, attached to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// The CSI driver.
    pub driver: String,
    /// What it attaches.
    pub handle: Handle,
}

/// The prefix of a CSI volume's name in the status of a node.
const ON_NODE: &str = "kubernetes.io/csi/";

impl Attachment {
    fn new(driver: &str, handle: Handle) -> Self {
        Attachment { driver: driver.to_owned(), handle }
    }

    fn known(driver: &str, handle: &str) -> Option<Self> {
        let is_known = !driver.is_empty() && !handle.is_empty();
        is_known.then(|| Attachment::new(driver, Handle::Volume(handle.to_owned())))
    }

    /// What is attached for a volume; `None` when no CSI driver does it.
    #[must_use]
    pub fn of(volume: &Volume) -> Option<Self> {
        let source = translation::attached(volume)?;
        Attachment::known(&source.driver, &source.volume_handle)
    }

    /// What is going to be attached for a claim that has no volume yet: one of its class's driver.
    #[must_use]
    pub fn awaited(claim: &Claim, class: &Class) -> Option<Self> {
        let driver = translation::attaching_driver(&class.provisioner)?;
        let claim = format!("{}/{}", namespace(&claim.metadata), name(&claim.metadata));
        Some(Attachment::new(driver, Handle::Claim(claim)))
    }

    /// What is attached for a volume that stands in a pod. CSI volumes that stand there are made on the node, for that
    /// pod alone: nothing is attached for them.
    #[must_use]
    pub fn in_pod(volume: &PodVolume) -> Option<Self> {
        let source = translation::attached_in_pod(volume)?;
        Attachment::known(&source.driver, &source.volume_handle)
    }
}

/// What the node's status says is attached to it; what no CSI driver attached is left out.
pub fn on(node: &Node) -> impl Iterator<Item = Attachment> + '_ {
    let attached = node.status.as_ref().and_then(|s| s.volumes_attached.as_deref()).unwrap_or_default();
    attached.iter().filter_map(|volume| {
        let (driver, handle) = volume.name.strip_prefix(ON_NODE)?.split_once('^')?;
        Attachment::known(driver, handle)
    })
}

/// How many volumes of the pod may have to be attached, at most.
#[must_use]
pub fn at_most(pod: &Pod) -> usize {
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
    let may_be = |volume: &&PodVolume| {
        volume.persistent_volume_claim.is_some()
            || volume.ephemeral.is_some()
            || translation::is_migrated_in_pod(volume)
    };
    volumes.iter().filter(may_be).count()
}
