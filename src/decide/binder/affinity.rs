//! Pods that want to be near other pods, or away from them.
//!
//! What is required decides where a pod may be, what is preferred where it would rather be; both are looked up once for all
//! nodes. Pods that have ended are nobody's neighbours. Answers to upstream's plugin `InterPodAffinity`.

use std::collections::BTreeMap;

use super::terms::{self, Term};
use super::unfit::Unfit;
use crate::cluster::{Cluster, Key};
use crate::objects::{Node, Pod, pod};

/// Places, each a topology key and its value, and what they weigh.
#[derive(Debug, Default)]
struct Places(BTreeMap<String, BTreeMap<String, i64>>);

impl Places {
    /// Adds the place that a node is in, as far as this key tells places apart.
    fn add(&mut self, node: &Node, key: &str, weight: i64) {
        if let Some(value) = label(node, key) {
            let values = self.0.entry(key.to_owned()).or_default();
            *values.entry(value.to_owned()).or_default() += weight;
        }
    }

    /// What the places weigh that a node is in. Cost: one look for each key.
    fn of<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = i64> + 'a {
        self.0.iter().filter_map(|(key, values)| values.get(label(node, key)?).copied())
    }

    fn has(&self, node: &Node, key: &str) -> bool {
        label(node, key).is_some_and(|value| self.0.get(key).is_some_and(|values| values.contains_key(value)))
    }
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Where a pod may be, as far as other pods are concerned; computed once for all nodes.
#[derive(Debug, Default)]
pub struct Near {
    /// Places that its own anti-affinity forbids.
    avoided: Places,
    /// Places that other pods' anti-affinity forbids.
    forbidden: Places,
    /// The topology keys of its affinity.
    keys: Vec<String>,
    /// The places of those pods of which all terms of its affinity speak.
    wanted: Places,
    /// Whether the pod is the first of its kind: all terms speak of itself, and of no other pod.
    is_first: bool,
}

/// The node of a pod that has not ended.
fn node_of<'a>(cluster: &'a Cluster, key: &Key, pod: &Pod) -> Option<&'a Node> {
    if pod::is_finished(pod) {
        return None;
    }
    cluster.node(cluster.node_of(key, pod)?).map(AsRef::as_ref)
}

/// The other pods that are on nodes, or about to be.
fn others<'a>(cluster: &'a Cluster, key: &Key) -> impl Iterator<Item = (&'a Pod, &'a Node)> {
    let others = cluster.keyed_pods().filter(move |(other, _)| *other != key);
    others.filter_map(|(key, pod)| Some((pod.as_ref(), node_of(cluster, key, pod)?)))
}

/// Those of them that have terms of their own.
fn speaking<'a>(cluster: &'a Cluster, key: &Key) -> impl Iterator<Item = (&'a Pod, &'a Node)> {
    let others = cluster.pods_with_affinity().filter(move |(other, _)| *other != key);
    others.filter_map(|(key, pod)| Some((pod.as_ref(), node_of(cluster, key, pod)?)))
}

impl Near {
    /// Looks at the pods that are on nodes. Cost: those of the cluster when the pod has terms itself, else only
    /// those with terms.
    #[must_use]
    pub fn of(cluster: &Cluster, key: &Key, pod: &Pod) -> Self {
        let mut near = Near::default();
        for (other, node) in speaking(cluster, key) {
            for term in terms::away(other).filter(|term| term.speaks_of(pod)) {
                near.forbidden.add(node, term.topology_key(), 1);
            }
        }
        let (wanted, avoided): (Vec<Term>, Vec<Term>) =
            (terms::near(pod).collect(), terms::away(pod).collect());
        if wanted.is_empty() && avoided.is_empty() {
            return near;
        }
        let all_speak_of =
            |other: &Pod| !wanted.is_empty() && wanted.iter().all(|term| term.speaks_of(other));
        for (other, node) in others(cluster, key) {
            for term in avoided.iter().filter(|term| term.speaks_of(other)) {
                near.avoided.add(node, term.topology_key(), 1);
            }
            if all_speak_of(other) {
                wanted.iter().map(Term::topology_key).for_each(|key| near.wanted.add(node, key, 1));
            }
        }
        near.is_first = near.wanted.0.is_empty() && all_speak_of(pod);
        near.keys = wanted.iter().map(|term| term.topology_key().to_owned()).collect();
        near
    }

    /// Whether the pod may be on the node.
    ///
    /// # Errors
    /// What forbids it.
    pub fn allows(&self, node: &Node) -> Result<(), Unfit<'static>> {
        let is_there =
            |key: &String| label(node, key).is_some() && (self.is_first || self.wanted.has(node, key));
        if !self.keys.iter().all(is_there) {
            return Err(Unfit::PodAffinity);
        }
        if self.avoided.of(node).next().is_some() {
            return Err(Unfit::PodAntiAffinity);
        }
        if self.forbidden.of(node).next().is_some() {
            return Err(Unfit::ExistingAntiAffinity);
        }
        Ok(())
    }
}

/// What another pod that has to be near this one adds to a place.
const REQUIRED: i64 = 1;

/// Where a pod would rather be, and where other pods would rather have it; computed once for all nodes.
#[derive(Debug, Default)]
pub struct Rather(Places);

impl Rather {
    /// Looks at the pods that are on nodes. Cost: those of the cluster when the pod prefers some, else only those with
    /// terms.
    #[must_use]
    pub fn of(cluster: &Cluster, key: &Key, pod: &Pod) -> Self {
        let mut rather = Rather::default();
        let own: Vec<(i64, Term)> = terms::preferred(pod).collect();
        if !own.is_empty() {
            for (other, node) in others(cluster, key) {
                for (weight, term) in &own {
                    rather.weigh(*weight, term, other, node);
                }
            }
        }
        for (other, node) in speaking(cluster, key) {
            terms::near(other).for_each(|term| rather.weigh(REQUIRED, &term, pod, node));
            terms::preferred(other).for_each(|(weight, term)| rather.weigh(weight, &term, pod, node));
        }
        rather
    }

    /// Takes a term into account that is said of a pod; `node` is where the other one of the two is.
    fn weigh(&mut self, weight: i64, term: &Term, of: &Pod, node: &Node) {
        if term.speaks_of(of) {
            self.0.add(node, term.topology_key(), weight);
        }
    }

    /// What speaks for the node.
    #[must_use]
    pub fn on(&self, node: &Node) -> i64 {
        self.0.of(node).sum()
    }
}

#[cfg(test)]
mod tests;
