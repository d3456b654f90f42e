//! `DaemonSet`: one pod for each node that it selects and whose taints its pods bear.
//!
//! Decides node by node whether a pod has to come or go. The pod is tied to its node by a required affinity and still
//! goes through the scheduler, as upstream's does. It never replaces a pod because the template changed. It answers to
//! upstream's `daemon` controller.

use super::{REVISION_HASH, count, create_pod, delete_pod, name_pod, pod_from, template_hash, update_status};
use crate::objects::taint::untolerated;
use crate::simulate::actors::call::{Call, Kind, Name, Target};
use crate::simulate::actors::family::Tally;
use crate::simulate::actors::selector::selects_node;
use crate::simulate::actors::world::{World, node_of, phase};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Toleration};
use serde_json::{Value, json};
use std::sync::Arc;

const SOURCE: &str = "daemonset-controller";

/// What to do about a `DaemonSet`'s pod on one node.
#[must_use]
pub fn plan_node(world: &World, name: &Name, node_name: &str) -> Vec<Call> {
    let Some(set) = world.daemon_sets.get(name).filter(|s| s.metadata.deletion_timestamp.is_none()) else {
        return Vec::new();
    };
    let owner = Target::of(Kind::DaemonSet, &set.metadata);
    let pods = world.family.daemons(&owner.uid, node_name).filter_map(|pod| world.pods.get(pod));
    let pods: Vec<_> = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
    let leave = |pod: &Arc<Pod>| delete_pod(Target::of(Kind::Pod, &pod.metadata), &owner, SOURCE);
    let Some(node) = world.node(node_name) else {
        // A pod that never reached its node has nowhere to go; one that did is left to the pod collector.
        return pods.into_iter().filter(|pod| node_of(pod).is_empty()).flat_map(leave).collect();
    };
    let (should_run, may_stay) = fitness(set, node);
    if !may_stay {
        return pods.into_iter().flat_map(leave).collect();
    }
    let over = |pod: &&Arc<Pod>| matches!(phase(pod), "Failed" | "Succeeded");
    let (finished, mut alive): (Vec<_>, Vec<_>) = pods.into_iter().partition(over);
    if !finished.is_empty() {
        return finished.into_iter().flat_map(leave).collect();
    }
    if alive.is_empty() && should_run {
        return create(world, set, &owner, node_name);
    }
    alive.sort_by_key(|pod| (node_of(pod).is_empty(), pod.metadata.creation_timestamp.clone()));
    alive.into_iter().skip(1).flat_map(leave).collect()
}

/// Upstream's `nodeShouldRunDaemonPod`: whether a pod has to run on the node, and whether one that does may stay.
fn fitness(set: &DaemonSet, node: &Node) -> (bool, bool) {
    let spec = set.spec.as_ref().and_then(|s| s.template.spec.clone()).unwrap_or_default();
    if !selects_node(&spec, node) {
        return (false, false);
    }
    let tolerations = tolerations(&spec);
    let may_come = untolerated(&tolerations, node, &["NoSchedule", "NoExecute"]).is_none();
    (may_come, untolerated(&tolerations, node, &["NoExecute"]).is_none())
}

/// The template's tolerations and those that upstream gives every daemon.
fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let given = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ];
    let on_host = spec.host_network == Some(true);
    let given = given.into_iter().filter(|(key, _)| *key != "network-unavailable" || on_host);
    let given = given.map(|(key, effect)| Toleration {
        key: Some(format!("node.kubernetes.io/{key}")),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    });
    let mut all: Vec<Toleration> = spec.tolerations.clone().unwrap_or_default();
    for toleration in given {
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    }
    all
}

fn create(world: &World, set: &DaemonSet, owner: &Target, node: &str) -> Vec<Call> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let mut pod = pod_from(&spec.template, owner);
    pod["metadata"]["labels"][REVISION_HASH] = json!(template_hash(&spec.template));
    pod["metadata"]["labels"]["pod-template-generation"] = json!("1");
    pod["spec"]["tolerations"] = json!(tolerations(&spec.template.spec.clone().unwrap_or_default()));
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    let required =
        &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    *required = json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
    let base = format!("{}-", owner.name.name);
    let mut number = world.family.tally(set.metadata.uid.as_ref()).map_or(0, |t| t.seen);
    let mut name = name_pod(&mut pod, owner, &base, number);
    while world.pods.contains_key(&owner.name.beside(name.clone())) {
        number += 1;
        name = name_pod(&mut pod, owner, &base, number);
    }
    create_pod(pod, &name, owner, SOURCE).into()
}

/// What to do about a `DaemonSet`'s status.
#[must_use]
pub fn plan_status(world: &World, name: &Name) -> Vec<Call> {
    let Some(set) = world.daemon_sets.get(name) else { return Vec::new() };
    let tally = world.family.tally(set.metadata.uid.as_ref());
    let of = |pick: fn(&Tally) -> usize| count(tally.map_or(0, pick));
    let (current, ready) = (of(|t| t.active.len()), of(|t| t.healthy.len()));
    let status = json!({
        "currentNumberScheduled": current, "desiredNumberScheduled": current, "updatedNumberScheduled": current,
        "numberReady": ready, "numberAvailable": ready, "numberUnavailable": current - ready, "numberMisscheduled": 0,
        "observedGeneration": set.metadata.generation,
    });
    let old: Value = json!(set.status);
    update_status(Target::of(Kind::DaemonSet, &set.metadata), &old, &status).into_iter().collect()
}
