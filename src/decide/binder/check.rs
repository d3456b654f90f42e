//! Whether the volumes of a pod that is about to run are bound.
//!
//! Looks at what the API server has shown, never at what is assumed. Answers to upstream's `checkBindings`, which
//! is polled each second; here every change of a claim or volume of the pod leads here.

use std::sync::Arc;

use crate::cluster::{Assumption, Cluster, Key, Object};
use crate::decide::reason::PodReason;
use crate::decide::{Action, Event, Plan, Reason, Write};
use crate::objects::{Claim, Node, Pod, Volume, claim, topology, volume};

/// How far the binding of one volume has come.
enum Progress {
    Bound,
    Waiting,
}

/// Decides about a pod whose volumes are being bound.
#[must_use]
pub fn check(cluster: &Cluster, key: &Key, pod: &Arc<Pod>, assumption: &Assumption) -> Plan {
    let node = &*assumption.node;
    match all_bound(cluster, assumption) {
        Ok(Progress::Bound) => bind(key, pod, node),
        Ok(Progress::Waiting) => {
            Plan::nothing(Reason::Pod(PodReason::BindingVolumes { pod: key.clone(), node: node.to_owned() }))
        }
        Err(why) => {
            let reason = Reason::Pod(PodReason::BindingFailed { pod: key.clone(), why });
            let mut plan = Plan::nothing(reason);
            let message = format!("running PreBind plugin \"VolumeBinding\": {}", plan.reason);
            plan.emit(Event::warning(key, "FailedScheduling", message));
            plan.actions.push(Action::Forget(key.clone()));
            plan
        }
    }
}

/// Places the pod on the node.
#[must_use]
pub fn bind(key: &Key, pod: &Arc<Pod>, node: &str) -> Plan {
    let mut plan = Plan::nothing(Reason::Pod(PodReason::Placed { pod: key.clone(), node: node.to_owned() }));
    plan.write(&Object::Pod(pod.clone()), Write::BindPod { pod: key.clone(), node: node.to_owned() });
    plan.emit(Event::normal(key, "Scheduled", format!("Successfully assigned {} to {node}", key.path())));
    plan.actions.push(Action::Forget(key.clone()));
    plan
}

fn all_bound(cluster: &Cluster, assumption: &Assumption) -> Result<Progress, String> {
    let node = cluster.node(&assumption.node);
    let node = node.ok_or_else(|| format!("failed to get node {:?}: node not found", assumption.node))?;
    for (claim, volume) in &assumption.bindings {
        if let Progress::Waiting = static_binding(cluster, claim, volume, node)? {
            return Ok(Progress::Waiting);
        }
    }
    for claim in &assumption.provisions {
        if let Progress::Waiting = provision(cluster, claim, node, &assumption.node)? {
            return Ok(Progress::Waiting);
        }
    }
    Ok(Progress::Bound)
}

fn known_claim<'a>(cluster: &'a Cluster, key: &Key) -> Option<&'a Arc<Claim>> {
    cluster.known(key)?.as_claim()
}

fn known_volume<'a>(cluster: &'a Cluster, key: &Key) -> Option<&'a Arc<Volume>> {
    cluster.known(key)?.as_volume()
}

fn reaches(volume: &Volume, key: &Key, node: &Node) -> Result<(), String> {
    if topology::reaches(volume, node.metadata.labels.as_ref()) {
        return Ok(());
    }
    let node = crate::objects::name(&node.metadata);
    Err(format!(
        "pv {:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms",
        key.name()
    ))
}

fn static_binding(cluster: &Cluster, claim: &Key, volume: &Key, node: &Node) -> Result<Progress, String> {
    let found = known_volume(cluster, volume);
    let found = found
        .ok_or_else(|| format!("failed to check binding: persistentvolumes {:?} not found", volume.name()))?;
    let bound_claim = known_claim(cluster, claim).ok_or_else(|| {
        format!("failed to check binding: persistentvolumeclaims {:?} not found", claim.name())
    })?;
    reaches(found, volume, node)?;
    let is_reserved = volume::claim_ref(found).is_some_and(|r| !volume::referred_uid(r).is_empty());
    if !is_reserved {
        return Err(format!("ClaimRef got reset for pv {:?}", volume.name()));
    }
    Ok(if claim::is_fully_bound(bound_claim) { Progress::Bound } else { Progress::Waiting })
}

fn provision(cluster: &Cluster, key: &Key, node: &Node, node_name: &str) -> Result<Progress, String> {
    let claim = known_claim(cluster, key).ok_or_else(|| {
        format!("failed to check provisioning pvc: persistentvolumeclaims {:?} not found", key.name())
    })?;
    if claim::selected_node(claim) != Some(node_name) {
        return Err(format!("provisioning failed for PVC {:?}", key.name()));
    }
    let volume_name = claim::volume_name(claim);
    if volume_name.is_empty() {
        return Ok(Progress::Waiting);
    }
    let volume_key = Key::volume(volume_name);
    let Some(volume) = known_volume(cluster, &volume_key) else { return Ok(Progress::Waiting) };
    reaches(volume, &volume_key, node)?;
    Ok(if claim::is_fully_bound(claim) { Progress::Bound } else { Progress::Waiting })
}
