//! Pods that want to be near other pods, or away from them.
//!
//! Answers to upstream's plugin `InterPodAffinity`, the required terms. Namespace selectors are not looked at: a
//! term with one counts the pod's own namespace and those that it names.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodAffinityTerm;

use super::unfit::Unfit;
use crate::cluster::{Cluster, Key};
use crate::objects::topology::{self, Labels};
use crate::objects::{Node, Pod, namespace};

/// The required anti-affinity terms of a pod.
#[must_use]
pub fn anti_terms(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let anti = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    anti.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

/// The required affinity terms of a pod.
#[must_use]
pub fn terms(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let affinity = affinity.and_then(|a| a.pod_affinity.as_ref());
    affinity
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default()
}

/// Whether a term that `owner` has speaks of a pod.
fn speaks_of(term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let in_scope = if named.is_empty() {
        namespace(&owner.metadata) == namespace(&pod.metadata)
    } else {
        named.iter().any(|n| n == namespace(&pod.metadata))
    };
    let selector = term.label_selector.as_ref();
    in_scope
        && selector.is_some_and(|s| topology::selector_matches(s, pod.metadata.labels.as_ref()) == Some(true))
}

/// A place: a topology key and its value.
type Place = (String, String);

/// Where a pod may be, as far as other pods are concerned; computed once for all nodes.
#[derive(Debug, Default)]
pub struct Near {
    /// Places that its own anti-affinity forbids.
    avoided: BTreeSet<Place>,
    /// Places that other pods' anti-affinity forbids.
    forbidden: BTreeSet<Place>,
    /// For each affinity term: its topology key, the places that satisfy it, and whether any place does because
    /// the pod is the first of its kind.
    wanted: Vec<(String, BTreeSet<Place>, bool)>,
}

fn place(node: &Node, key: &str) -> Option<Place> {
    let value = node.metadata.labels.as_ref().and_then(|labels: &Labels| labels.get(key))?;
    Some((key.to_owned(), value.clone()))
}

impl Near {
    /// Looks at the pods that are on nodes. Cost: those of the cluster when the pod has terms itself, else only
    /// those with anti-affinity.
    #[must_use]
    pub fn of(cluster: &Cluster, key: &Key, pod: &Pod) -> Self {
        let mut near = Near::default();
        for (other_key, other) in cluster.pods_with_anti_affinity().filter(|(other, _)| *other != key) {
            let Some(node) = node_of(cluster, other_key, other) else { continue };
            let speaking = anti_terms(other).iter().filter(|term| speaks_of(term, other, pod));
            near.forbidden.extend(speaking.filter_map(|term| place(node, &term.topology_key)));
        }
        for term in anti_terms(pod) {
            near.avoided.extend(places(cluster, key, pod, term));
        }
        for term in terms(pod) {
            let places = places(cluster, key, pod, term);
            let is_first = places.is_empty() && speaks_of(term, pod, pod);
            near.wanted.push((term.topology_key.clone(), places, is_first));
        }
        near
    }

    /// Whether the pod may be on the node.
    ///
    /// # Errors
    /// What forbids it.
    pub fn allows(&self, node: &Node) -> Result<(), Unfit<'static>> {
        for (key, places, is_first) in &self.wanted {
            let here = place(node, key);
            let satisfied = here.is_some_and(|here| *is_first || places.contains(&here));
            if !satisfied {
                return Err(Unfit::PodAffinity);
            }
        }
        let stands_in = |places: &BTreeSet<Place>| {
            places.iter().any(|(key, value)| {
                node.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
            })
        };
        if stands_in(&self.avoided) {
            return Err(Unfit::PodAntiAffinity);
        }
        if stands_in(&self.forbidden) {
            return Err(Unfit::ExistingAntiAffinity);
        }
        Ok(())
    }
}

fn node_of<'a>(cluster: &'a Cluster, key: &Key, pod: &Pod) -> Option<&'a Node> {
    cluster.node(cluster.node_of(key, pod)?).map(AsRef::as_ref)
}

fn places(cluster: &Cluster, key: &Key, pod: &Pod, term: &PodAffinityTerm) -> BTreeSet<Place> {
    cluster
        .keyed_pods()
        .filter(|(other_key, other)| *other_key != key && speaks_of(term, pod, other))
        .filter_map(|(other_key, other)| place(node_of(cluster, other_key, other)?, &term.topology_key))
        .collect()
}
