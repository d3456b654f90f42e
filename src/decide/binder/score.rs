//! Which of the nodes that fit is best.
//!
//! The node where the volumes waste the least, then the one with the fewest pods, then the first by name. Upstream
//! leaves the first to a feature gate and draws among equals; see *Differences from upstream*.

use crate::cluster::{Cluster, PodVolumes};
use crate::objects::quantity::Amount;

/// A node's rank; the least is the best.
#[must_use]
pub fn rank<'a>(cluster: &Cluster, node: &'a str, volumes: &PodVolumes) -> (bool, Amount, usize, &'a str) {
    let pods = cluster.in_use(node).map_or(0, |in_use| in_use.pods.len());
    // A volume that exists is better than one that has to be made.
    (!volumes.provisions.is_empty(), volumes.waste(), pods, node)
}
