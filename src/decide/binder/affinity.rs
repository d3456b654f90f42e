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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Object;
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    fn node(name: &str, zone: &str) -> Node {
        from_value(json!({"metadata": {"name": name, "labels": {"zone": zone}}})).unwrap()
    }

    fn pod(namespace: &str, name: &str, at: &str, affinity: &Value) -> Pod {
        from_value(json!({
            "metadata": {"namespace": namespace, "name": name, "labels": {"app": "a"}},
            "spec": {"nodeName": at, "containers": [], "affinity": affinity},
        }))
        .unwrap()
    }

    fn term(app: &str, namespaces: &Value) -> Value {
        json!([{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone", "namespaces": namespaces}])
    }

    fn near(kind: &str, app: &str, namespaces: &Value) -> Value {
        json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": term(app, namespaces)}})
    }

    /// One pod runs in zone `x`; the other may be in zones `x` and `y`, or not.
    #[rstest]
    #[case::nobody_wants_anything(json!(null), "ns", json!(null), [Ok(()), Ok(())])]
    #[case::away(near("podAntiAffinity", "a", &json!(null)), "ns", json!(null), [Err(Unfit::PodAntiAffinity), Ok(())])]
    #[case::away_from_others(near("podAntiAffinity", "b", &json!(null)), "ns", json!(null), [Ok(()), Ok(())])]
    #[case::away_elsewhere(near("podAntiAffinity", "a", &json!(null)), "other", json!(null), [Ok(()), Ok(())])]
    #[case::away_from_named(near("podAntiAffinity", "a", &json!(["other"])), "other", json!(null), [Err(Unfit::PodAntiAffinity), Ok(())])]
    #[case::away_from_named_only(near("podAntiAffinity", "a", &json!(["other"])), "ns", json!(null), [Ok(()), Ok(())])]
    #[case::not_wanted(json!(null), "ns", near("podAntiAffinity", "a", &json!(null)), [Err(Unfit::ExistingAntiAffinity), Ok(())])]
    #[case::not_wanted_elsewhere(json!(null), "other", near("podAntiAffinity", "a", &json!(null)), [Ok(()), Ok(())])]
    #[case::together(near("podAffinity", "a", &json!(null)), "ns", json!(null), [Ok(()), Err(Unfit::PodAffinity)])]
    #[case::first_of_its_kind(near("podAffinity", "a", &json!(null)), "other", json!(null), [Ok(()), Ok(())])]
    #[case::with_nobody(near("podAffinity", "b", &json!(null)), "ns", json!(null), [Err(Unfit::PodAffinity), Err(Unfit::PodAffinity)])]
    fn pods_are_where_they_may_be(
        #[case] wanted: Value,
        #[case] namespace: &str,
        #[case] of_other: Value,
        #[case] allowed: [Result<(), Unfit<'static>>; 2],
    ) {
        let (x, y) = (node("x1", "x"), node("y1", "y"));
        let mut cluster = Cluster::new();
        cluster.show(Object::from(x.clone()));
        cluster.show(Object::from(y.clone()));
        cluster.show(Object::from(pod(namespace, "other", "x1", &of_other)));
        let pod = pod("ns", "p", "", &wanted);
        let near = Near::of(&cluster, &Key::pod("ns", "p"), &pod);
        assert_eq!([near.allows(&x), near.allows(&y)], allowed);
        let nowhere: Node = from_value(json!({"metadata": {"name": "z1"}})).unwrap();
        let bound = near.wanted.is_empty();
        assert_eq!(
            near.allows(&nowhere).is_ok(),
            bound,
            "a node without the label is no place to be near to"
        );
    }

    #[test]
    fn only_pods_with_affinity_follow_others() {
        let away = pod("ns", "p", "", &near("podAntiAffinity", "a", &json!(null)));
        let beside = pod("ns", "p", "", &near("podAffinity", "a", &json!(null)));
        let alone = pod("ns", "p", "", &json!(null));
        let follows = [away, beside, alone].map(|pod| crate::decide::binder::follows_others(&pod));
        assert_eq!(follows, [false, true, false]);
    }

    #[test]
    fn a_pod_is_not_in_its_own_way() {
        let mut cluster = Cluster::new();
        cluster.show(Object::from(node("x1", "x")));
        let pod = pod("ns", "p", "x1", &near("podAntiAffinity", "a", &json!(null)));
        cluster.show(Object::from(pod.clone()));
        let near = Near::of(&cluster, &Key::pod("ns", "p"), &pod);
        assert_eq!(near.allows(&node("x1", "x")), Ok(()));
    }
}
