//! Whether the volumes of a pod that is about to run are bound.
//!
//! Looks at what the API server has shown, never at what is assumed: another pod may be assumed on the same objects. What is
//! impossible fails at once; what is only not there yet is waited for, until whoever has a clock says that the time
//! is over. Answers to upstream's `checkBindings`, which is polled each second; here every change of a claim or volume
//! of the pod leads here.

use std::sync::Arc;

use crate::cluster::{Assumption, Binding, Cluster, Key, Object, PodVolumes, Provision};
use crate::decide::reason::PodReason;
use crate::decide::{Action, Event, Plan, Reason, Write};
use crate::objects::translation::OnNodes;
use crate::objects::{Claim, Node, Pod, Volume, claim, name, topology, version, volume};

/// How far binding has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything is bound.
    Bound,
    /// Somebody has yet to do something.
    Waiting,
}

/// Why a pod's volumes cannot be bound on its node; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The node is gone.
    #[error("failed to get node {0:?}: node {0:?} not found")]
    NodeNotFound(String),
    /// The pod is gone.
    #[error("pod does not exist any more: pod {:?} not found", .0.name())]
    PodNotFound(Key),
    /// A volume that was reserved is gone.
    #[error("failed to check binding: persistentvolumes {:?} not found", .0.name())]
    VolumeNotFound(Key),
    /// A claim for which a volume was reserved is gone.
    #[error("failed to check binding: persistentvolumeclaims {:?} not found", .0.path())]
    ClaimNotFound(Key),
    /// A claim for which a volume is being made is gone.
    #[error("failed to check provisioning pvc: persistentvolumeclaims {:?} not found", .0.path())]
    ProvisionedClaimNotFound(Key),
    /// The node's CSI driver cannot serve a volume.
    #[error("failed to translate pv to csi: could not translate pv: {0}")]
    Untranslatable(String),
    /// A volume cannot be reached from the node.
    #[error("pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms")]
    NodeAffinity {
        /// The volume.
        volume: String,
        /// The node.
        node: String,
    },
    /// Somebody took the reservation of a volume back.
    #[error("ClaimRef got reset for pv {:?}", .0.name())]
    ReservationReset(Key),
    /// Somebody took the selected node off a claim, with all its annotations.
    #[error("selectedNode annotation reset for PVC {:?}", .0.name())]
    SelectedNodeReset(Key),
    /// The provisioner gave up, or another node was selected.
    #[error("provisioning failed for PVC {:?}", .0.name())]
    Provisioning(Key),
    /// The time for binding is over.
    #[error("context deadline exceeded")]
    Overdue,
}

/// Decides about a pod whose volumes are being bound.
#[must_use]
pub fn check(cluster: &Cluster, key: &Key, pod: &Arc<Pod>, assumption: &Assumption) -> Plan {
    let node = &*assumption.node;
    let progress = match progress(cluster, key, node, &assumption.volumes) {
        Ok(Progress::Waiting) if assumption.overdue => Err(Failed::Overdue),
        progress => progress,
    };
    match progress {
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

/// How far the binding of a pod's volumes on a node has come.
///
/// # Errors
/// What makes it impossible.
pub fn progress(
    cluster: &Cluster,
    pod: &Key,
    node_name: &str,
    volumes: &PodVolumes,
) -> Result<Progress, Failed> {
    let node = cluster.node(node_name).ok_or_else(|| Failed::NodeNotFound(node_name.to_owned()))?;
    if cluster.known(pod).is_none() {
        return Err(Failed::PodNotFound(pod.clone()));
    }
    for binding in &volumes.bindings {
        if let Progress::Waiting = static_binding(cluster, binding, node)? {
            return Ok(Progress::Waiting);
        }
    }
    for provision in &volumes.provisions {
        if let Progress::Waiting = provisioning(cluster, provision, node)? {
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

fn reaches(cluster: &Cluster, volume: &Volume, node: &Node) -> Result<(), Failed> {
    let node_name = name(&node.metadata);
    let on_nodes = OnNodes::new(volume);
    let on_node = on_nodes.on(|| cluster.csi_node(node_name).map(AsRef::as_ref));
    let on_node = on_node.map_err(|why| Failed::Untranslatable(why.to_string()))?;
    if topology::reaches(on_node, node.metadata.labels.as_ref()) {
        return Ok(());
    }
    Err(Failed::NodeAffinity { volume: name(&volume.metadata).to_owned(), node: node_name.to_owned() })
}

fn static_binding(cluster: &Cluster, binding: &Binding, node: &Node) -> Result<Progress, Failed> {
    let (volume_key, claim_key) = (binding.volume_key(), binding.claim_key());
    let found = known_volume(cluster, &volume_key).ok_or(Failed::VolumeNotFound(volume_key.clone()))?;
    let bound_claim = known_claim(cluster, &claim_key).ok_or(Failed::ClaimNotFound(claim_key))?;
    if version(&binding.volume.metadata) > version(&found.metadata) {
        // What was written has yet to be shown.
        return Ok(Progress::Waiting);
    }
    reaches(cluster, found, node)?;
    let is_reserved = volume::claim_ref(found).is_some_and(|r| !volume::referred_uid(r).is_empty());
    if !is_reserved {
        return Err(Failed::ReservationReset(volume_key));
    }
    Ok(if claim::is_fully_bound(bound_claim) { Progress::Bound } else { Progress::Waiting })
}

fn provisioning(cluster: &Cluster, provision: &Provision, node: &Node) -> Result<Progress, Failed> {
    let key = provision.claim_key();
    let claim = known_claim(cluster, &key).ok_or(Failed::ProvisionedClaimNotFound(key.clone()))?;
    if version(&provision.claim.metadata) > version(&claim.metadata) {
        return Ok(Progress::Waiting);
    }
    if claim.metadata.annotations.is_none() {
        return Err(Failed::SelectedNodeReset(key));
    }
    if claim::selected_node(claim) != Some(name(&node.metadata)) {
        return Err(Failed::Provisioning(key));
    }
    let volume_name = claim::volume_name(claim);
    if volume_name.is_empty() {
        return Ok(Progress::Waiting);
    }
    // A volume that is not there is only late, or the claim is going to lose it.
    let Some(volume) = known_volume(cluster, &Key::volume(volume_name)) else {
        return Ok(Progress::Waiting);
    };
    reaches(cluster, volume, node)?;
    Ok(if claim::is_fully_bound(claim) { Progress::Bound } else { Progress::Waiting })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::CsiNode;

    #[rstest::rstest]
    #[case("kubernetes.io/gce-pd", Ok(()))]
    #[case("", Err("pv \"v\" node affinity doesn't match node \"n\": no matching NodeSelectorTerms"))]
    fn the_volume_is_looked_for_as_the_node_has_it(#[case] migrated: &str, #[case] wanted: Result<(), &str>) {
        let expression = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]});
        let volume = json!({
            "metadata": {"name": "v"},
            "spec": {
                "gcePersistentDisk": {"pdName": "d"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            },
        });
        let node = json!({"metadata": {"name": "n", "labels": {"topology.gke.io/zone": "a"}}});
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": migrated});
        let csi_node =
            json!({"metadata": {"name": "n", "annotations": annotations}, "spec": {"drivers": []}});
        let mut cluster = Cluster::new();
        cluster.show(Object::from(serde_json::from_value::<CsiNode>(csi_node).unwrap()));
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let node: Node = serde_json::from_value(node).unwrap();
        let found = reaches(&cluster, &volume, &node).map_err(|why| why.to_string());
        assert_eq!(found, wanted.map_err(str::to_owned));
    }
}
