//! Whether a node takes the volumes of a pod beside those that it has.
//!
//! A node's `CSINode` says how many volumes of a driver can be attached to it. What counts is what the pods on the node
//! use, those that are about to run there among them, and what the node's status says is attached, each volume once.
//! It never looks at what a pod's claims would get on the node: a claim without a volume counts for its class's
//! driver. Answers to upstream's plugin `NodeVolumeLimits`.

use std::collections::BTreeSet;

use super::unfit::Unfit;
use crate::cluster::{Cluster, Key};
use crate::objects::attachment::{self, Attachment};
use crate::objects::{Claim, Node, Pod, claim, name, pod};

/// What has to be attached for a pod.
#[derive(Debug)]
pub struct Attachments(BTreeSet<Attachment>);

/// What is attached for a claim, or going to be.
fn of_claim(cluster: &Cluster, claim: &Claim) -> Option<Attachment> {
    match cluster.volume(&Key::volume(claim::volume_name(claim))) {
        Some(volume) => Attachment::of(volume),
        None => Attachment::awaited(claim, cluster.class(claim::class(claim))?),
    }
}

/// What is attached for the volumes of a pod.
fn of_pod<'a>(
    cluster: &'a Cluster,
    namespace: &'a str,
    pod: &'a Pod,
) -> impl Iterator<Item = Attachment> + 'a {
    let claims = pod::claims(pod).filter_map(move |used| {
        let claim = cluster.claim(&Key::claim(namespace, &used.claim))?;
        // A claim that was not made for the pod is not what the pod waits for.
        let is_its_own = !used.ephemeral || pod::owns(pod, claim);
        is_its_own.then(|| of_claim(cluster, claim)).flatten()
    });
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
    claims.chain(volumes.iter().filter_map(Attachment::in_pod))
}

impl Attachments {
    /// What has to be attached for the pod.
    #[must_use]
    pub fn of(cluster: &Cluster, namespace: &str, pod: &Pod) -> Self {
        Attachments(of_pod(cluster, namespace, pod).collect())
    }

    /// Whether the node takes them. Its pods are looked at only where they might be too many.
    ///
    /// # Errors
    /// The driver that would have too many.
    pub fn fit<'a>(&self, cluster: &'a Cluster, node: &Node) -> Result<(), Unfit<'a>> {
        if self.0.is_empty() {
            return Ok(());
        }
        let node_name = name(&node.metadata);
        let Some(csi_node) = cluster.csi_node(node_name) else { return Ok(()) };
        for driver in &csi_node.spec.drivers {
            let Some(limit) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) else {
                continue;
            };
            let limit = usize::try_from(limit).unwrap_or(0);
            let wanted = self.0.iter().filter(|attachment| attachment.driver == driver.name).count();
            if wanted == 0 || at_most(cluster, node) + wanted <= limit {
                continue;
            }
            let there = there(cluster, node, &driver.name);
            let new =
                |attachment: &&Attachment| attachment.driver == driver.name && !there.contains(attachment);
            let new = self.0.iter().filter(new).count();
            if new > 0 && there.len() + new > limit {
                let (driver, there) = (driver.name.as_str(), there.len());
                return Err(Unfit::TooManyVolumes { driver, limit, there, new });
            }
        }
        Ok(())
    }
}

/// The most that can be attached to the node, of whatever driver.
fn at_most(cluster: &Cluster, node: &Node) -> usize {
    let used = cluster.in_use(name(&node.metadata)).map_or(0, |in_use| in_use.attachable);
    let status = node.status.as_ref();
    used + status.and_then(|s| s.volumes_attached.as_ref()).map_or(0, Vec::len)
}

/// What a driver has attached to the node, or is going to attach there.
fn there(cluster: &Cluster, node: &Node, driver: &str) -> BTreeSet<Attachment> {
    let pods = cluster.in_use(name(&node.metadata)).into_iter().flat_map(|in_use| &in_use.pods);
    let pods = pods.filter_map(|key| Some((key.namespace(), cluster.pod(key)?)));
    let used = pods.flat_map(|(namespace, pod)| of_pod(cluster, namespace, pod));
    used.chain(attachment::on(node)).filter(|attachment| attachment.driver == driver).collect()
}

#[cfg(test)]
mod tests;
