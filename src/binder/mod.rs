//! The volume binder, for other schedulers.
//!
//! Whoever has a scheduler of its own (a batch scheduler, a simulator, a plugin in another framework) feeds a
//! [`Cluster`] with what its watches show, and asks here what the scheduler of this crate asks: what a pod's claims would
//! get on a node ([`Cycle::filter`]), that this is taken for one pod and not offered to the next ([`assume`],
//! [`revert`]), which requests make it true and whether they have led to bound claims ([`Bind`]). Nothing here waits, reads a
//! clock or talks to an API server: the caller sends the requests, shows the answers to the cluster, and asks again whenever
//! something has changed. `examples/library.rs` is a scheduler of a few lines.
//!
//! Answers to upstream's `SchedulerVolumeBinder` (as Volcano has it too) and to the extension points of the plugin
//! `VolumeBinding`.

mod bind;
mod cycle;
pub mod extender;

pub use crate::cluster::{Binding, Cluster, OutOfSync, PodVolumes, Provision};
pub use crate::decide::Settings;
pub use crate::decide::binder::check::{Failed, Progress};
pub use crate::decide::binder::storage::{Point, Scoring, Shape};
pub use bind::{Bind, Request};
pub use cycle::{Code, Cycle, Status};

use crate::cluster::Key;
use crate::decide::binder::{claims, reserve};
use crate::objects::Pod;

/// Whether every claim of the pod is there and has its volume.
fn all_bound(cluster: &Cluster, key: &Key, pod: &Pod) -> bool {
    claims::sort(cluster, key, pod)
        .is_ok_and(|claims| claims.delayed.is_empty() && claims.immediate.is_empty())
}

/// Takes what a pod's claims get on a node for the pod: until it is written, or reverted, no other pod is offered it.
/// Says whether all of the pod's claims are bound already, so that nothing is taken.
///
/// # Errors
/// When one of the objects has changed since it was found. Nothing is taken then: look at the nodes again.
pub fn assume(cluster: &mut Cluster, pod: &Pod, node: &str, volumes: &PodVolumes) -> Result<bool, OutOfSync> {
    if all_bound(cluster, &cycle::key(pod), pod) {
        return Ok(true);
    }
    let mut taken = Vec::new();
    for (before, write) in reserve::writes(node, volumes) {
        let Some(after) = write.apply(&before) else { continue };
        if let Err(error) = cluster.reserve(after.clone()) {
            for object in &taken {
                cluster.release(object);
            }
            return Err(error);
        }
        taken.push(after);
    }
    Ok(false)
}

/// Gives back what was taken for a pod that is not going to run on the node after all; what has been written, or taken anew
/// since, stays.
pub fn revert(cluster: &mut Cluster, volumes: &PodVolumes) {
    for (before, _) in reserve::writes("", volumes) {
        cluster.release(&before);
    }
}
