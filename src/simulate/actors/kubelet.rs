//! The stand-in kubelets: what becomes of a pod on its node.
//!
//! Decides when a placed pod runs (its node exists and each of its claims is Bound to a volume that exists) and when a
//! deleted pod is gone (at once). Recycler pods succeed; every other pod runs for ever, a Job's too, as with the
//! kubelets the reference worlds were recorded with. A new node is tainted as not ready by admission; unless its status
//! says that it is not, the taint comes off, as the node lifecycle controller does once a kubelet reports. It never starts a container, and it answers to upstream's
//! `kubelet/volumemanager` (which refuses claims that are unbound, going away, or somebody else's).

use super::call::{Call, Kind, Name, Target};
use super::world::{World, claims_of, is_for_pod, node_of, phase};
use k8s_openapi::api::core::v1::{Container, Node, Pod, Taint, Volume};
use serde_json::{Value, json};

const RECYCLER: &str = "recycler-for-";

/// Whether a node carries the taint of a node that nobody has found ready yet.
#[must_use]
pub fn is_unready(node: &Node) -> bool {
    node.spec.iter().flat_map(|s| s.taints.iter().flatten()).any(is_newness)
}

fn is_newness(taint: &Taint) -> bool {
    taint.key == "node.kubernetes.io/not-ready" && taint.effect == "NoSchedule"
}

/// What to do about a node: it is ready unless its status says otherwise.
#[must_use]
pub fn plan_node(world: &World, name: &Name) -> Vec<Call> {
    let Some(node) = world.nodes.get(name).filter(|node| is_unready(node)) else { return Vec::new() };
    let conditions = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    if conditions.into_iter().any(|c| c.type_ == "Ready" && c.status != "True") {
        return Vec::new();
    }
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let left: Vec<_> = taints.filter(|taint| !is_newness(taint)).collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    vec![Call::merge(Target::of(Kind::Node, &node.metadata), json!({ "spec": { "taints": left } }))]
}

/// What to do about a pod; `now` is written where a status says since when.
#[must_use]
pub fn plan(world: &World, name: &Name, now: &str) -> Vec<Call> {
    let Some(pod) = world.pods.get(name) else { return Vec::new() };
    let target = Target::of(Kind::Pod, &pod.metadata);
    if pod.metadata.deletion_timestamp.is_some() {
        // A pod with no grace left has been let go already; if it is still there, a finalizer holds it.
        if pod.metadata.deletion_grace_period_seconds == Some(0) {
            return Vec::new();
        }
        return vec![Call::Delete { target, grace_seconds: Some(0) }];
    }
    let node = node_of(pod);
    if node.is_empty() || phase(pod) != "Pending" || world.node(node).is_none() {
        return Vec::new();
    }
    if !claims_of(pod).all(|(volume, claim)| is_mountable(world, pod, volume, &claim)) {
        return Vec::new();
    }
    let finished = name.name.starts_with(RECYCLER);
    vec![Call::merge_status(target, &status(pod, finished, now))]
}

fn is_mountable(world: &World, pod: &Pod, volume: &Volume, claim: &Name) -> bool {
    let Some(claim) = world.claims.get(claim) else { return false };
    let bound = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    let at = claim.spec.as_ref().and_then(|s| s.volume_name.clone()).unwrap_or_default();
    bound
        && claim.metadata.deletion_timestamp.is_none()
        && (volume.ephemeral.is_none() || is_for_pod(pod, claim))
        && world.volumes.contains_key(&Name::new("", at))
}

fn status(pod: &Pod, finished: bool, now: &str) -> Value {
    let played = ["Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready"];
    let old = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let kept = old.filter(|c| !played.contains(&c.type_.as_str())).map(|c| json!(c));
    let ready = if finished { "False" } else { "True" };
    let made = played.into_iter().map(|kind| {
        let status = if matches!(kind, "ContainersReady" | "Ready") { ready } else { "True" };
        json!({ "type": kind, "status": status, "lastTransitionTime": now })
    });
    let spec = pod.spec.as_ref();
    let containers =
        spec.iter().flat_map(|s| &s.containers).map(|c| container_status(c, finished, !finished, now));
    let mut status = json!({
        "phase": if finished { "Succeeded" } else { "Running" },
        "startTime": now,
        "conditions": kept.chain(made).collect::<Vec<_>>(),
        "containerStatuses": containers.collect::<Vec<_>>(),
    });
    // An init container is done and counts as ready; a sidecar is one that goes on running beside the others.
    let first = spec.iter().flat_map(|s| s.init_containers.iter().flatten());
    let first: Vec<_> = first
        .map(|c| container_status(c, finished || c.restart_policy.as_deref() != Some("Always"), true, now))
        .collect();
    if !first.is_empty() {
        status["initContainerStatuses"] = Value::Array(first);
    }
    status
}

fn container_status(container: &Container, done: bool, ready: bool, now: &str) -> Value {
    let state = if done {
        json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now } })
    } else {
        json!({ "running": { "startedAt": now } })
    };
    json!({
        "name": container.name, "image": container.image.clone().unwrap_or_default(), "imageID": "",
        "ready": ready, "started": !done, "restartCount": 0, "state": state,
    })
}
