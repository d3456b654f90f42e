//! Placing pods: which node, and which volumes there.
//!
//! One decision does what upstream does in `PreFilter`, `Filter`, `Score` and `Reserve`: [`claims`] sorts the
//! pod's claims, [`fit`] and [`find`] look at each node, [`prefer`] chooses among those that fit, and [`place`]
//! reserves. While the volumes are being bound, [`check`] is the decision at every change (`PreBind`). Nothing
//! here waits or polls. Answers to the scheduler's `VolumeBinding` plugin and to the plugins beside it that a user
//! would miss. Nobody is ever preempted; [`beyond`] names what else is out of its scope.

pub mod affinity;
pub mod beyond;
pub mod capacity;
pub mod check;
pub mod claims;
pub mod disks;
pub mod eligible;
pub mod find;
pub mod fit;
pub mod hints;
pub mod limits;
pub mod obstacle;
pub mod place;
pub mod prefer;
pub mod requested;
pub mod reserve;
pub mod score;
pub mod storage;
pub mod terms;
pub mod together;
pub mod unfit;
pub mod zone;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSchedulingGate;

use crate::cluster::{Cluster, Key};
use crate::decide::reason::PodReason;
use crate::decide::{Action, Plan, Reason, Settings};
use crate::objects::{Pod, is_deleting, pod};

/// Which pods are scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// All that are on no node.
    All,
    /// Those that name this scheduler.
    Naming(String),
    /// Those that another scheduler wants to be placed, each on the node that it has chosen; without a node, those that it
    /// wanted to be placed and for which something may still be reserved.
    Requested(BTreeMap<Key, Option<Arc<str>>>),
}

impl Pods {
    fn include(&self, key: &Key, pod: &Pod) -> bool {
        match self {
            Pods::All => true,
            Pods::Naming(name) => pod::scheduler_name(pod) == name,
            Pods::Requested(nodes) => nodes.contains_key(key),
        }
    }
}

/// Whether the pod is yet to be placed.
fn is_pending(pod: &Pod) -> bool {
    pod::node_name(pod).is_empty() && !pod::is_finished(pod) && !is_deleting(&pod.metadata)
}

/// What keeps the pod from being scheduled until somebody takes it away.
fn gates(pod: &Pod) -> &[PodSchedulingGate] {
    pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_deref()).unwrap_or_default()
}

/// Decides about a pod.
#[must_use]
pub fn schedule(cluster: &Cluster, settings: &Settings, pods: &Pods, key: &Key) -> Plan {
    let plan = decide(cluster, settings, pods, key);
    match pods {
        Pods::All | Pods::Naming(_) => plan,
        Pods::Requested(_) => requested::silent(plan, key),
    }
}

fn decide(cluster: &Cluster, settings: &Settings, pods: &Pods, key: &Key) -> Plan {
    let Some(pod) = cluster.pod(key) else { return Plan::nothing(Reason::Gone) };
    if !is_pending(pod) || !pods.include(key, pod) {
        let mut plan = Plan::nothing(Reason::Pod(PodReason::NotPending { pod: key.clone() }));
        if cluster.assumption(key).is_some() {
            plan.actions.push(Action::Forget(key.clone()));
        }
        return plan;
    }
    let gates = gates(pod);
    if !gates.is_empty() {
        let gates = gates.iter().map(|gate| gate.name.clone()).collect();
        return Plan::nothing(Reason::Pod(PodReason::Gated { pod: key.clone(), gates }));
    }
    let node = match pods {
        Pods::All | Pods::Naming(_) => None,
        Pods::Requested(nodes) => nodes.get(key),
    };
    match (node, cluster.assumption(key)) {
        (Some(None), _) => requested::undo(cluster, key, pod),
        (None | Some(Some(_)), Some(assumption)) => check::check(cluster, key, pod, assumption),
        (Some(Some(node)), None) => requested::place(cluster, settings, key, pod, node),
        (None, None) => place::place(cluster, settings, key, pod),
    }
}
