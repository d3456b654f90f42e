//! Which claims a pod uses, and whether it still runs.
//!
//! Answers to upstream's `component-helpers/storage/ephemeral` and `pkg/volume/util.IsPodTerminated`.

use k8s_openapi::api::core::v1::PodCondition;

use super::{Claim, Pod, is_deleting, name, uid};

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimUse {
    /// The claim's name; it lives in the pod's namespace.
    pub claim: String,
    /// Whether the claim belongs to a generic ephemeral volume of the pod.
    pub ephemeral: bool,
}

/// The claims that the pod's volumes use, in the order of the volumes.
pub fn claims(pod: &Pod) -> impl Iterator<Item = ClaimUse> + '_ {
    let volumes = pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter_map(|volume| {
        if let Some(source) = &volume.persistent_volume_claim {
            Some(ClaimUse { claim: source.claim_name.clone(), ephemeral: false })
        } else if volume.ephemeral.is_some() {
            let claim = format!("{}-{}", name(&pod.metadata), volume.name);
            Some(ClaimUse { claim, ephemeral: true })
        } else {
            None
        }
    })
}

/// The scheduler that the pod names.
#[must_use]
pub fn scheduler_name(pod: &Pod) -> &str {
    let named = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref());
    named.filter(|name| !name.is_empty()).unwrap_or("default-scheduler")
}

/// Whether the pod wants to be near other pods, or away from them.
#[must_use]
pub fn speaks_of_others(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    affinity.is_some_and(|a| a.pod_anti_affinity.is_some() || a.pod_affinity.is_some())
}

/// The node that the pod is on, `""` while it is on none.
#[must_use]
pub fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

/// The pod's phase, `""` before the server has set one.
#[must_use]
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Whether the pod has run to its end.
#[must_use]
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod no longer uses its volumes: it has finished, or it is being deleted and none of its
/// containers runs any more.
#[must_use]
pub fn is_terminated(pod: &Pod) -> bool {
    if is_finished(pod) {
        return true;
    }
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    is_deleting(&pod.metadata)
        && statuses.iter().all(|status| {
            status.state.as_ref().is_some_and(|s| s.terminated.is_some() || s.waiting.is_some())
        })
}

/// Whether the claim was made for this pod: the pod is its controlling owner.
#[must_use]
pub fn owns(pod: &Pod, claim: &Claim) -> bool {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid(&pod.metadata))
}

/// Says in the pod's `PodScheduled` condition why no node was found; a pod that already says so stays as it is.
pub fn set_unschedulable(pod: &mut Pod, message: &str) {
    let generation = pod.metadata.generation;
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    let position = conditions.iter().position(|c| c.type_ == "PodScheduled").unwrap_or_else(|| {
        conditions.push(PodCondition { type_: "PodScheduled".to_owned(), ..PodCondition::default() });
        conditions.len() - 1
    });
    let condition = &mut conditions[position];
    let (reason, message) = (Some("Unschedulable".to_owned()), Some(message.to_owned()));
    if condition.status == "False" && condition.reason == reason && condition.message == message {
        return;
    }
    if condition.status != "False" {
        // Whoever sends it says since when.
        condition.last_transition_time = None;
    }
    "False".clone_into(&mut condition.status);
    (condition.reason, condition.message) = (reason, message);
    condition.observed_generation = generation;
}

/// The pod's conditions, if it has any.
#[must_use]
pub fn conditions(pod: &Pod) -> Option<&Vec<PodCondition>> {
    pod.status.as_ref()?.conditions.as_ref()
}

/// The namespace of the pods that scrub volumes.
pub const RECYCLER_NAMESPACE: &str = "default";

/// The name of the pod that scrubs a volume.
#[must_use]
pub fn recycler_name(volume: &str) -> String {
    format!("recycler-for-{volume}")
}

/// The volume that a pod of this name scrubs, if it is such a pod.
#[must_use]
pub fn recycled_volume<'a>(namespace: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix("recycler-for-").filter(|_| namespace == RECYCLER_NAMESPACE)
}
