//! Placing pods on nodes that another scheduler has chosen.
//!
//! What a pod's claims get there is found, reserved and bound by the decisions that serve this crate's scheduler. Whether the
//! pod fits on the node in other respects is the other scheduler's business, and so is telling users what became of the
//! pod: it gets the answer, and emits the events. Answers to `Reserve`, `PreBind` and `Bind` as far as they are about
//! volumes.

use std::sync::Arc;

use super::find::{Failure, PodSearch};
use super::obstacle::Obstacle;
use super::{claims, place};
use crate::cluster::{Cluster, Key, PodVolumes};
use crate::decide::reason::PodReason;
use crate::decide::{Action, Plan, Reason, Settings};
use crate::objects::{Pod, pod};

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod's volumes are being bound, or the pod is being placed.
    UnderWay,
    /// The pod is on the node.
    Placed,
    /// The pod cannot be placed there, as things are.
    Impossible(String),
}

/// Decides about a pod that is to be on the node.
pub(super) fn place(cluster: &Cluster, settings: &Settings, key: &Key, pod: &Arc<Pod>, node: &str) -> Plan {
    match find(cluster, settings, key, pod, node) {
        Ok(volumes) => place::take(key, pod, node, &volumes),
        Err(reason) => Plan::nothing(reason),
    }
}

/// Gives back what was reserved for a pod that is not to be placed after all. A claim that the controller has begun to bind
/// keeps its volume.
pub(super) fn undo(cluster: &Cluster, key: &Key, pod: &Pod) -> Plan {
    let plan = place::undo(cluster, key, claims::delayed(cluster, key, pod).iter());
    let mut plan =
        plan.unwrap_or_else(|| Plan::nothing(Reason::Pod(PodReason::NotPending { pod: key.clone() })));
    plan.actions.push(Action::Forget(key.clone()));
    plan
}

fn find(
    cluster: &Cluster,
    settings: &Settings,
    key: &Key,
    pod: &Pod,
    node_name: &str,
) -> Result<PodVolumes, Reason> {
    if !claims::check(cluster, key, pod).map_err(Reason::Pod)? {
        return Ok(PodVolumes::default());
    }
    let claims = claims::sort(cluster, key, pod).map_err(|why| why.reason(key))?;
    if let Some((claim, _)) = claims.immediate.first() {
        return Err(Reason::Pod(PodReason::ClaimUnbound { pod: key.clone(), claim: claim.clone() }));
    }
    let refused = |why: String, obstacle: Option<Obstacle>| {
        let (node, fix) = (node_name.to_owned(), obstacle.as_ref().and_then(Obstacle::fix));
        let obstacle = obstacle.map(Box::new);
        Reason::Pod(PodReason::Node { pod: key.clone(), node, why, obstacle, fix })
    };
    let node = cluster.node(node_name).ok_or_else(|| refused("node not found".to_owned(), None))?;
    let search = PodSearch::new(cluster, settings, &claims);
    let found = search.on_node(node).map_err(Failure::reason)?;
    let Some(first) = found.conflicts.first() else { return Ok(found.volumes) };
    let why: Vec<&str> = found.conflicts.iter().map(|conflict| conflict.as_str()).collect();
    Err(refused(why.join(", "), search.obstacle(node, *first)))
}

/// The plan without what would tell users of the pod.
pub(super) fn silent(mut plan: Plan, pod: &Key) -> Plan {
    plan.actions.retain(|action| !matches!(action, Action::Emit(event) if event.regarding == *pod));
    plan
}

/// What has become of the request to place a pod on a node, after a decision about the pod for this reason.
#[must_use]
pub fn outcome(cluster: &Cluster, key: &Key, node: &str, reason: &Reason) -> Outcome {
    // What is only assumed may still fail.
    let known = cluster.known(key).and_then(|object| object.as_pod());
    match known.map_or("", |pod| pod::node_name(pod)) {
        "" => {}
        found if found == node => return Outcome::Placed,
        other => return Outcome::Impossible(format!("pod {} is on node {other} already", key.path())),
    }
    if matches!(reason, Reason::Pod(PodReason::Placed { .. } | PodReason::BindingVolumes { .. })) {
        return Outcome::UnderWay;
    }
    Outcome::Impossible(match reason {
        Reason::Gone => format!("pod {} no longer exists", key.path()),
        reason => reason.to_string(),
    })
}
