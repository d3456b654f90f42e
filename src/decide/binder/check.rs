//! Whether the volumes of a pod that is about to run are bound.
//!
//! Looks at what the API server has shown, never at what is assumed. Answers to upstream's `checkBindings`, which
//! is polled each second; here every change of a claim or volume of the pod leads here.

use std::sync::Arc;

use crate::cluster::{Assumption, Cluster, Key, Object};
use crate::decide::reason::PodReason;
use crate::decide::{Action, Event, Plan, Reason, Write};
use crate::objects::translation::OnNodes;
use crate::objects::{Claim, Node, Pod, Volume, claim, name, topology, volume};

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

fn reaches(cluster: &Cluster, volume: &Volume, node: &Node) -> Result<(), String> {
    let node_name = name(&node.metadata);
    let on_nodes = OnNodes::new(volume);
    let on_node = on_nodes.on(|| cluster.csi_node(node_name).map(AsRef::as_ref));
    let on_node =
        on_node.map_err(|why| format!("failed to translate pv to csi: could not translate pv: {why}"))?;
    if topology::reaches(on_node, node.metadata.labels.as_ref()) {
        return Ok(());
    }
    Err(format!(
        "pv {:?} node affinity doesn't match node {node_name:?}: no matching NodeSelectorTerms",
        name(&volume.metadata)
    ))
}

fn static_binding(cluster: &Cluster, claim: &Key, volume: &Key, node: &Node) -> Result<Progress, String> {
    let found = known_volume(cluster, volume);
    let found = found
        .ok_or_else(|| format!("failed to check binding: persistentvolumes {:?} not found", volume.name()))?;
    let bound_claim = known_claim(cluster, claim).ok_or_else(|| {
        format!("failed to check binding: persistentvolumeclaims {:?} not found", claim.name())
    })?;
    reaches(cluster, found, node)?;
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
        assert_eq!(reaches(&cluster, &volume, &node), wanted.map_err(str::to_owned));
    }
}
