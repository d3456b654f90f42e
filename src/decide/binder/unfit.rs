//! Why a node is not for a pod, and what would cure it.
//!
//! A survey refuses many nodes and most of what it says is never read, so a refusal borrows what it speaks of and
//! makes its text only when asked. It decides nothing. The words of [`Unfit::why`] are those of upstream's plugins
//! (`NodeUnschedulable`, `TaintToleration`, `NodeAffinity`, `NodePorts`, `NodeResourcesFit`, `VolumeRestrictions`,
//! `NodeVolumeLimits`, `VolumeBinding`, `VolumeZone`, `InterPodAffinity`), which people match on.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Taint;

use super::find::Conflict;
use super::zone::Zone;
use crate::cluster::Key;

/// What a node does not offer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unfit<'a> {
    /// It is cordoned.
    Unschedulable,
    /// It has a taint that the pod does not tolerate.
    Taint(&'a Taint),
    /// It lacks a label of the pod's `nodeSelector`.
    Label {
        /// The label's key.
        key: &'a str,
        /// The value that is asked for.
        value: &'a str,
    },
    /// The pod's required node affinity does not match it.
    Affinity,
    /// A host port is taken.
    Port {
        /// The port.
        number: i32,
        /// The pod that has it.
        holder: &'a Key,
    },
    /// It runs as many pods as it may.
    TooManyPods,
    /// It has too little of a resource left.
    Insufficient(&'a str),
    /// Another pod has a claim that only one pod may use.
    ClaimInUse {
        /// The claim.
        claim: &'a Key,
        /// The pod that has it.
        holder: &'a Key,
    },
    /// Another pod on the node has a disk that stands in the pod.
    DiskInUse {
        /// The pod that has it.
        holder: &'a Key,
    },
    /// The labels of a volume say that it is elsewhere.
    Zone(&'a Zone),
    /// A driver can't attach the pod's volumes beside those that it has attached.
    TooManyVolumes {
        /// The driver.
        driver: &'a str,
        /// How many it attaches at most.
        limit: usize,
        /// How many are there.
        there: usize,
        /// How many more the pod needs.
        new: usize,
    },
    /// The pod wants to be near pods that are not there.
    PodAffinity,
    /// The pod wants to be away from pods that are there.
    PodAntiAffinity,
    /// Pods that are there want the pod to be away.
    ExistingAntiAffinity,
    /// The pod's volumes conflict with it.
    Volumes(Conflict),
}

impl Unfit<'_> {
    /// What the node does not offer, in upstream's words.
    #[must_use]
    pub fn why(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Unfit::Unschedulable => "node(s) were unschedulable",
            Unfit::Taint(_) => "node(s) had untolerated taint(s)",
            Unfit::Label { .. } | Unfit::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Unfit::Port { .. } => "node(s) didn't have free ports for the requested pod ports",
            Unfit::TooManyPods => "Too many pods",
            Unfit::Insufficient(resource) => return Cow::Owned(format!("Insufficient {resource}")),
            Unfit::ClaimInUse { .. } => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Unfit::DiskInUse { .. } => "node(s) had no available disk",
            Unfit::Zone(_) => "node(s) had no available volume zone",
            Unfit::TooManyVolumes { .. } => "node(s) exceed max volume count",
            Unfit::PodAffinity => "node(s) didn't match pod affinity rules",
            Unfit::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Unfit::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Unfit::Volumes(conflict) => conflict.as_str(),
        })
    }

    /// What would cure it, as far as the node alone tells; of volumes their [`super::obstacle`] tells.
    #[must_use]
    pub fn fix(&self, node: &str) -> Option<String> {
        match self {
            Unfit::Unschedulable => Some(format!("kubectl uncordon {node}")),
            Unfit::Taint(Taint { key, value, effect, .. }) => {
                let value = value.as_deref().unwrap_or_default();
                Some(format!(
                    "let the pod tolerate {key}={value}:{effect}, or take the taint off node {node}"
                ))
            }
            Unfit::Label { key, value } => Some(format!("label node {node} with {key}={value}")),
            Unfit::Port { number, holder } => {
                Some(format!("host port {number} is held by pod {}", holder.path()))
            }
            Unfit::TooManyPods => Some(format!("raise status.allocatable.pods of node {node}")),
            Unfit::Insufficient(resource) => {
                Some(format!("request less {resource}, or free some on node {node}"))
            }
            Unfit::ClaimInUse { claim, holder } => {
                Some(format!("claim {} is used by pod {}", claim.path(), holder.path()))
            }
            Unfit::DiskInUse { holder } => Some(format!("the disk is used by pod {}", holder.path())),
            Unfit::TooManyVolumes { driver, limit, there, new } => Some(format!(
                "driver {driver} attaches at most {limit} volumes to node {node}; {there} are there, and the pod needs {new} more"
            )),
            Unfit::Affinity
            | Unfit::PodAffinity
            | Unfit::PodAntiAffinity
            | Unfit::ExistingAntiAffinity
            | Unfit::Zone(_)
            | Unfit::Volumes(_) => None,
        }
    }
}
