//! Whether the binding of a claim waits for the rest of what its pod needs.
//!
//! A pod's volumes are reserved one after the other, and a claim that is bound stays bound. So where this program also
//! binds, it binds no claim to a volume that was reserved for a pod while the pod has yet to find a place, or to find one
//! again: until then the reservation can be given back. It places nothing and gives nothing back. Upstream's controller and
//! scheduler know nothing of each other, and a pod that lost half of its volumes stays where the other half is; see
//! *Differences from upstream*.

use super::{Pods, gates, is_pending};
use crate::cluster::{Cluster, Key};
use crate::decide::matching;
use crate::objects::{Pod, claim, pod, volume};

/// Whether the claim is to be left alone until one of its pods has been decided about.
#[must_use]
pub fn waits(cluster: &Cluster, pods: &Pods, key: &Key) -> bool {
    let Some(found) = cluster.claim(key) else { return false };
    let is_reserved = claim::volume_name(found).is_empty()
        && !claim::is_bind_completed(found)
        && cluster
            .volumes_for(key)
            .any(|(_, volume)| volume::is_for(volume, found) && volume::is_bound_by_controller(volume))
        && matching::delays_binding(cluster, found) == Ok(true);
    if !is_reserved {
        return false;
    }
    let users = || cluster.pods_using(key).filter(|(_, pod)| !pod::is_finished(pod));
    let has_place = |key: &Key, pod: &Pod| cluster.node_of(key, pod).is_some();
    let looks_for_one =
        |key: &Key, pod: &Pod| is_pending(pod) && gates(pod).is_empty() && pods.include(key, pod);
    !users().any(|(key, pod)| has_place(key, pod)) && users().any(|(key, pod)| looks_for_one(key, pod))
}
