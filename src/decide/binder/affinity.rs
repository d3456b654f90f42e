//! Pods that want to be near other pods, or away from them.
//!
//! What is required decides where a pod may be, what is preferred where it would rather be; both are looked up once for all
//! nodes. Pods that have ended are nobody's neighbours. Answers to upstream's plugin `InterPodAffinity`.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::{self, Term};
use super::unfit::Unfit;
use crate::cluster::{Cluster, Key};
use crate::objects::{Node, Pod, pod};

/// A place: a topology key and its value.
type Place = (String, String);

/// Where a pod may be, as far as other pods are concerned; computed once for all nodes.
#[derive(Debug, Default)]
pub struct Near {
    /// Places that its own anti-affinity forbids.
    avoided: BTreeSet<Place>,
    /// Places that other pods' anti-affinity forbids.
    forbidden: BTreeSet<Place>,
    /// The topology keys of its affinity.
    keys: Vec<String>,
    /// The places of those pods of which all terms of its affinity speak.
    wanted: BTreeSet<Place>,
    /// Whether the pod is the first of its kind: all terms speak of itself, and of no other pod.
    is_first: bool,
}

fn place(node: &Node, key: &str) -> Option<Place> {
    let value = node.metadata.labels.as_ref().and_then(|labels| labels.get(key))?;
    Some((key.to_owned(), value.clone()))
}

fn is_in(node: &Node, places: &BTreeSet<Place>) -> bool {
    let labels = node.metadata.labels.as_ref();
    places.iter().any(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
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
            let speaking = terms::away(other).filter(|term| term.speaks_of(pod));
            near.forbidden.extend(speaking.filter_map(|term| place(node, term.topology_key())));
        }
        let (wanted, avoided): (Vec<Term>, Vec<Term>) =
            (terms::near(pod).collect(), terms::away(pod).collect());
        if wanted.is_empty() && avoided.is_empty() {
            return near;
        }
        let all_speak_of =
            |other: &Pod| !wanted.is_empty() && wanted.iter().all(|term| term.speaks_of(other));
        for (other, node) in others(cluster, key) {
            let speaking = avoided.iter().filter(|term| term.speaks_of(other));
            near.avoided.extend(speaking.filter_map(|term| place(node, term.topology_key())));
            if all_speak_of(other) {
                near.wanted.extend(wanted.iter().filter_map(|term| place(node, term.topology_key())));
            }
        }
        near.is_first = near.wanted.is_empty() && all_speak_of(pod);
        near.keys = wanted.iter().map(|term| term.topology_key().to_owned()).collect();
        near
    }

    /// Whether the pod may be on the node.
    ///
    /// # Errors
    /// What forbids it.
    pub fn allows(&self, node: &Node) -> Result<(), Unfit<'static>> {
        for key in &self.keys {
            let here = place(node, key);
            if !here.is_some_and(|here| self.is_first || self.wanted.contains(&here)) {
                return Err(Unfit::PodAffinity);
            }
        }
        if is_in(node, &self.avoided) {
            return Err(Unfit::PodAntiAffinity);
        }
        if is_in(node, &self.forbidden) {
            return Err(Unfit::ExistingAntiAffinity);
        }
        Ok(())
    }
}

/// What another pod that has to be near this one adds to a place.
const REQUIRED: i64 = 1;

/// Where a pod would rather be, and where other pods would rather have it; computed once for all nodes.
#[derive(Debug, Default)]
pub struct Rather(BTreeMap<Place, i64>);

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
        if term.speaks_of(of)
            && let Some(place) = place(node, term.topology_key())
        {
            *self.0.entry(place).or_default() += weight;
        }
    }

    /// What speaks for the node.
    #[must_use]
    pub fn on(&self, node: &Node) -> i64 {
        let labels = node.metadata.labels.as_ref();
        let here =
            |(key, value): &(&String, &String)| labels.and_then(|labels| labels.get(*key)) == Some(*value);
        let places = self.0.iter().map(|((key, value), weight)| ((key, value), weight));
        places.filter(|(place, _)| here(place)).map(|(_, weight)| weight).sum()
    }
}

#[cfg(test)]
mod tests;
