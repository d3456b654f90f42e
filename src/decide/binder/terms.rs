//! What a pod says of other pods: the terms of its affinity and anti-affinity.
//!
//! A term speaks of pods of some namespaces that have some labels. Namespaces are not watched: a term whose
//! `namespaceSelector` asks for more than their names is left out here, and [`super::beyond`] says so. Nothing here knows
//! of nodes. Answers to upstream's `AffinityTerm` (`kube-scheduler/framework/types.go`) and to what the API server makes
//! of `matchLabelKeys`.

use k8s_openapi::api::core::v1::{PodAffinityTerm, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::objects::topology::{self, Labels};
use crate::objects::{Pod, namespace};

/// The label that every namespace has: its name.
const NAME: &str = "kubernetes.io/metadata.name";

/// A term, and the pod that has it.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    term: &'a PodAffinityTerm,
    owner: &'a Pod,
}

impl<'a> Term<'a> {
    /// The label that tells places apart.
    #[must_use]
    pub fn topology_key(&self) -> &'a str {
        &self.term.topology_key
    }

    /// Whether the term speaks of a pod.
    #[must_use]
    pub fn speaks_of(&self, pod: &Pod) -> bool {
        let selector = self.term.label_selector.as_ref();
        self.is_in_scope(namespace(&pod.metadata))
            && selector
                .is_some_and(|s| topology::selector_matches(s, pod.metadata.labels.as_ref()) == Some(true))
            && self.keys_match(pod)
    }

    fn is_in_scope(&self, of_pod: &str) -> bool {
        let named = self.term.namespaces.as_deref().unwrap_or_default();
        match &self.term.namespace_selector {
            None if named.is_empty() => namespace(&self.owner.metadata) == of_pod,
            None => named.iter().any(|name| name == of_pod),
            Some(selector) => {
                let labels = Labels::from([(NAME.to_owned(), of_pod.to_owned())]);
                named.iter().any(|name| name == of_pod)
                    || topology::selector_matches(selector, Some(&labels)) == Some(true)
            }
        }
    }

    /// Whether the pod has the owner's values of `matchLabelKeys`, and others of `mismatchLabelKeys`. The API server writes
    /// both into the selector; a pod that it has not seen yet has them here all the same.
    fn keys_match(&self, pod: &Pod) -> bool {
        let same = |key: &String| label(self.owner, key).is_none_or(|wanted| label(pod, key) == Some(wanted));
        let other =
            |key: &String| label(self.owner, key).is_none_or(|wanted| label(pod, key) != Some(wanted));
        self.term.match_label_keys.iter().flatten().all(same)
            && self.term.mismatch_label_keys.iter().flatten().all(other)
    }
}

fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether the namespaces that are selected can be told by their names.
fn is_by_name(selector: &LabelSelector) -> bool {
    let labels = selector.match_labels.iter().flatten().map(|(key, _)| key);
    let expressions = selector.match_expressions.iter().flatten().map(|requirement| &requirement.key);
    labels.chain(expressions).all(|key| key == NAME)
}

fn is_understood(term: &PodAffinityTerm) -> bool {
    term.namespace_selector.as_ref().is_none_or(is_by_name)
}

fn required<'a>(
    terms: Option<&'a Vec<PodAffinityTerm>>,
    owner: &'a Pod,
) -> impl Iterator<Item = Term<'a>> + use<'a> {
    let understood = terms.into_iter().flatten().filter(|term| is_understood(term));
    understood.map(move |term| Term { term, owner })
}

fn weighted<'a>(
    terms: Option<&'a Vec<WeightedPodAffinityTerm>>,
    owner: &'a Pod,
    sign: i64,
) -> impl Iterator<Item = (i64, Term<'a>)> + use<'a> {
    let understood =
        terms.into_iter().flatten().filter(|weighted| is_understood(&weighted.pod_affinity_term));
    understood.map(move |weighted| {
        (sign * i64::from(weighted.weight), Term { term: &weighted.pod_affinity_term, owner })
    })
}

/// The terms of those pods that the pod has to be near.
pub fn near(pod: &Pod) -> impl Iterator<Item = Term<'_>> {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()?.pod_affinity.as_ref());
    required(affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()), pod)
}

/// The terms of those pods that the pod has to be away from.
pub fn away(pod: &Pod) -> impl Iterator<Item = Term<'_>> {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref()?.pod_anti_affinity.as_ref());
    required(affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()), pod)
}

/// The terms of those pods that the pod would rather be near, with their weights; of those that it would rather be away
/// from, the weights are negative.
pub fn preferred(pod: &Pod) -> impl Iterator<Item = (i64, Term<'_>)> {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let near = near.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let away = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let away = away.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    weighted(near, pod, 1).chain(weighted(away, pod, -1))
}

/// Whether the pod has a required term that is left out here.
#[must_use]
pub fn is_any_left_out(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let near = near.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let away = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let away = away.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    near.into_iter().chain(away).flatten().any(|term| !is_understood(term))
}
