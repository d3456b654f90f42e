//! Choosing a node for a pod, and reserving there what its claims get.
//!
//! Answers to upstream's scheduling cycle: `PreFilter`, `Filter`, `Score`, `Reserve` and the writes of `PreBind`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::affinity::Near;
use super::claims::{self, PodClaims};
use super::find::{self, PodSearch};
use super::fit::Wanted;
use super::hints::refusal::{self, Refusal};
use super::obstacle::Obstacle;
use super::unfit::Unfit;
use super::{beyond, check, prefer, reserve};
use crate::cluster::{Assumption, Cluster, Key, Object, PodVolumes};
use crate::decide::reason::PodReason;
use crate::decide::{Action, Event, Plan, Reason, Settings, Write};
use crate::objects::{Node, Pod, name};

/// What looking at every node came to.
pub struct Survey<'a> {
    /// The nodes that fit, with what the pod's claims get there.
    pub fitting: Vec<(&'a str, PodVolumes)>,
    /// The others, each with what it does not offer; one with several conflicts is there several times.
    pub unfit: Vec<(&'a Node, Unfit<'a>)>,
    claims: PodClaims,
}

impl Survey<'_> {
    /// The refusals as reasons.
    pub fn reasons<'s>(
        &'s self,
        cluster: &'s Cluster,
        settings: &Settings,
        pod: &'s Key,
    ) -> impl Iterator<Item = PodReason> + use<'s> {
        let search = PodSearch::new(cluster, settings, &self.claims);
        self.unfit.iter().map(move |(node, unfit)| {
            let obstacle = if let Unfit::Volumes(conflict) = unfit {
                search.obstacle(node, *conflict)
            } else if let Unfit::Zone(zone) = unfit {
                Some(zone.obstacle(node))
            } else {
                None
            };
            let fix = obstacle.as_ref().map_or_else(|| unfit.fix(name(&node.metadata)), Obstacle::fix);
            PodReason::Node {
                pod: pod.clone(),
                node: name(&node.metadata).to_owned(),
                why: unfit.why().into_owned(),
                obstacle: obstacle.map(Box::new),
                fix,
            }
        })
    }

    /// What has to change before the pod is looked at again.
    fn refusals(&self) -> BTreeSet<Refusal> {
        refusal::of(self.unfit.iter().map(|(_, unfit)| unfit), &self.claims)
    }

    /// How many nodes are refused for each reason, in upstream's form.
    fn histogram(&self) -> String {
        let mut counts: BTreeMap<Cow<str>, usize> = BTreeMap::new();
        for (_, unfit) in &self.unfit {
            *counts.entry(unfit.why()).or_default() += 1;
        }
        let mut parts: Vec<String> = counts.iter().map(|(why, count)| format!("{count} {why}")).collect();
        parts.sort_unstable();
        parts.join(", ")
    }
}

/// Looks at every node.
///
/// # Errors
/// Why the pod can be on no node at all.
pub fn survey<'a>(
    cluster: &'a Cluster,
    settings: &Settings,
    key: &Key,
    wanted: &'a Wanted,
) -> Result<Survey<'a>, Reason> {
    let pod = wanted.pod();
    claims::check(cluster, key, pod).map_err(Reason::Pod)?;
    let claims = claims::sort(cluster, key, pod).map_err(|why| why.reason(key))?;
    if let Some((claim, _)) = claims.immediate.first() {
        return Err(Reason::Pod(PodReason::ClaimUnbound { pod: key.clone(), claim: claim.clone() }));
    }
    let near = Near::of(cluster, key, pod);
    let search = PodSearch::new(cluster, settings, &claims);
    let (mut fitting, mut unfit) = (Vec::new(), Vec::new());
    for node in cluster.nodes().map(AsRef::as_ref) {
        if let Err(why) = wanted.fits(cluster, node) {
            unfit.extend(why.into_iter().map(|why| (node, why)));
            continue;
        }
        let found = search.on_node(node).map_err(find::Failure::reason)?;
        if !found.conflicts.is_empty() {
            unfit.extend(found.conflicts.into_iter().map(|conflict| (node, Unfit::Volumes(conflict))));
            continue;
        }
        match wanted.zones().allow(node).and_then(|()| near.allows(node)) {
            Ok(()) => fitting.push((name(&node.metadata), found.volumes)),
            Err(why) => unfit.push((node, why)),
        }
    }
    Ok(Survey { fitting, unfit, claims })
}

/// Decides where the pod goes. What it requires and nobody looks at is said as it is placed.
#[must_use]
pub fn place(cluster: &Cluster, settings: &Settings, key: &Key, pod: &Arc<Pod>) -> Plan {
    let nodes = cluster.nodes().count();
    if nodes == 0 {
        if let Some(plan) = undo(cluster, key, claims::delayed(cluster, key, pod).iter()) {
            return plan;
        }
        let reason = Reason::Pod(PodReason::NoNodes { pod: key.clone() });
        let message = reason.to_string();
        return refused(key, pod, reason, message, BTreeSet::new());
    }
    let wanted = Wanted::of(cluster, key, pod);
    let survey = match survey(cluster, settings, key, &wanted) {
        Ok(survey) => survey,
        Err(reason) => {
            let delayed = claims::delayed(cluster, key, pod);
            if let Some(plan) = undo(cluster, key, delayed.iter()) {
                return plan;
            }
            let message = format!("0/{nodes} nodes are available: {reason}.");
            // No node is at fault: what cures this is a change of the claim or its class, which wakes the pod by key.
            return refused(key, pod, reason, message, BTreeSet::new());
        }
    };
    if let Some((node, volumes)) = prefer::best(cluster, settings, key, pod, &survey.fitting) {
        let mut plan = take(key, pod, node, volumes);
        for beyond in beyond::of(pod) {
            plan.emit(Event::warning(key, "NotConsidered", beyond.to_string()));
        }
        return plan;
    }
    if let Some(plan) = undo(cluster, key, survey.claims.delayed.iter().map(|(claim, _)| claim)) {
        return plan;
    }
    let message = format!("0/{nodes} nodes are available: {}.", survey.histogram());
    // One of the nodes stands for all; `explain` has the others.
    let first = survey.reasons(cluster, settings, key).next();
    let reason = first.unwrap_or(PodReason::NoNodes { pod: key.clone() });
    refused(key, pod, Reason::Pod(reason), message, survey.refusals())
}

/// No node will do, but something was reserved for the pod's claims when one would: volumes that hold the pod where it can no
/// longer be, or a node that is gone. It is given back, unless it is being bound for another pod that shares the claim, and
/// the pod is looked at again.
pub(super) fn undo<'a>(cluster: &Cluster, key: &Key, claims: impl Iterator<Item = &'a Key>) -> Option<Plan> {
    let in_use = |volume: &Key| {
        let others = cluster.assumptions().filter(|(pod, _)| *pod != key);
        let mut assumed = others.flat_map(|(_, assumption)| &assumption.volumes.bindings);
        assumed.any(|binding| binding.volume_key() == *volume)
    };
    let writes: Vec<_> = claims
        .flat_map(|claim| reserve::undo(cluster, claim).chain(reserve::unselect(cluster, claim)))
        .filter(|(_, write)| !in_use(write.target()))
        .collect();
    if writes.is_empty() {
        return None;
    }
    let mut plan = Plan::nothing(Reason::Pod(PodReason::Undone { pod: key.clone() }));
    for (before, write) in writes {
        plan.write(&before, write);
    }
    plan.actions.push(Action::Enqueue(key.clone()));
    Some(plan)
}

/// No node will do as things are: the pod waits until something changes.
fn refused(key: &Key, pod: &Arc<Pod>, reason: Reason, message: String, refusals: BTreeSet<Refusal>) -> Plan {
    let mut plan = Plan::nothing(reason);
    let write = Write::SetPodUnschedulable { pod: key.clone(), message: message.clone() };
    plan.write(&Object::Pod(pod.clone()), write);
    plan.emit(Event::warning(key, "FailedScheduling", message));
    plan.actions.push(Action::Park(key.clone(), refusals));
    plan
}

/// Reserves what the claims get on the node; when there is nothing to wait for, the pod is placed at once.
pub(super) fn take(key: &Key, pod: &Arc<Pod>, node: &str, volumes: &PodVolumes) -> Plan {
    if volumes.is_empty() {
        return check::bind(key, pod, node);
    }
    let mut plan =
        Plan::nothing(Reason::Pod(PodReason::BindingVolumes { pod: key.clone(), node: node.to_owned() }));
    plan.actions.push(Action::Assume(key.clone(), Assumption::of(node, volumes.clone())));
    for (before, write) in reserve::writes(node, volumes) {
        plan.write(&before, write);
    }
    plan.actions.push(Action::Enqueue(key.clone()));
    plan
}
