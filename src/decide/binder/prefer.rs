//! Which of the nodes that fit is best.
//!
//! What is preferred comes first: taints with the effect `PreferNoSchedule`, preferred node affinity, what pods prefer of
//! each other and, if it is asked for, how full storage would become, weighed against each other as upstream does by
//! default. Among equals [`rank`] decides. Upstream weighs
//! in what else is on the nodes, and draws among equals; see *Differences from upstream*. Answers to the scores of
//! upstream's plugins `TaintToleration`, `NodeAffinity` and `InterPodAffinity`.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::PreferredSchedulingTerm;

use super::affinity::Rather;
use super::score::rank;
use crate::cluster::{Cluster, Key, PodVolumes};
use crate::decide::Settings;
use crate::objects::{Node, Pod, name, taint, topology};

/// A node that fits, and what the pod's claims get there.
pub type Fitting<'a> = (&'a str, PodVolumes);

/// What the best node gets for each thing that is preferred.
const MOST: i64 = 100;
/// What counts how much: the taints, the pod's node affinity, pods' affinity. Storage counts once.
const WEIGHTS: (i64, i64, i64) = (3, 2, 2);

/// The best of the nodes.
#[must_use]
pub fn best<'s, 'a>(
    cluster: &Cluster,
    settings: &Settings,
    key: &Key,
    pod: &Pod,
    fitting: &'s [Fitting<'a>],
) -> Option<&'s Fitting<'a>> {
    if let [only] = fitting {
        return Some(only);
    }
    let nodes = fitting.iter().map(|(node, _)| cluster.node(node).map(AsRef::as_ref));
    let preferences = preferences(cluster, key, pod, &nodes.collect::<Vec<_>>());
    let ranked = fitting.iter().zip(preferences);
    let best = ranked.min_by_key(|((node, volumes), preference)| {
        let storage = settings.scoring.score(cluster, settings, volumes);
        let preference = preference.saturating_add_unsigned(storage);
        (Reverse(preference), rank(cluster, node, volumes))
    });
    best.map(|(fitting, _)| fitting)
}

/// How much is preferred about each node.
fn preferences(cluster: &Cluster, key: &Key, pod: &Pod, nodes: &[Option<&Node>]) -> Vec<i64> {
    let rather = Rather::of(cluster, key, pod);
    let spec = pod.spec.as_ref();
    let affinity = spec.and_then(|s| s.affinity.as_ref()?.node_affinity.as_ref());
    let preferred = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref());
    let of_each =
        |score: &dyn Fn(&Node) -> i64| nodes.iter().map(|node| node.map_or(0, score)).collect::<Vec<i64>>();
    let taints = of_each(&|node| {
        let tolerations = spec.and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
        let untolerated = taint::all_untolerated(tolerations, node, &["PreferNoSchedule"]);
        i64::try_from(untolerated.count()).unwrap_or(i64::MAX)
    });
    let terms = of_each(&|node| matched_weight(preferred.unwrap_or_default(), node));
    let pods = of_each(&|node| rather.on(node));
    let (most_taints, most_terms) = (greatest(&taints), greatest(&terms));
    let (least_pods, most_pods) = (pods.iter().min().copied().unwrap_or(0), greatest(&pods));
    let score = |((taints, terms), pods): ((&i64, &i64), &i64)| {
        let taints = MOST - share(*taints, most_taints);
        let terms = share(*terms, most_terms);
        let pods = share(pods - least_pods, most_pods - least_pods);
        WEIGHTS.0 * taints + WEIGHTS.1 * terms + WEIGHTS.2 * pods
    };
    taints.iter().zip(&terms).zip(&pods).map(score).collect()
}

fn greatest(scores: &[i64]) -> i64 {
    scores.iter().max().copied().unwrap_or(0)
}

/// The part of [`MOST`] that a score is of the greatest one.
fn share(score: i64, greatest: i64) -> i64 {
    if greatest <= 0 { 0 } else { MOST.saturating_mul(score) / greatest }
}

/// The sum of the weights of those terms that match the node.
fn matched_weight(terms: &[PreferredSchedulingTerm], node: &Node) -> i64 {
    let labels = node.metadata.labels.as_ref();
    let matched =
        terms.iter().filter(|term| topology::term_matches(&term.preference, name(&node.metadata), labels));
    matched.map(|term| i64::from(term.weight)).sum()
}

#[cfg(test)]
mod tests;
