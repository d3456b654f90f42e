//! What a pod requires that is not looked at here.
//!
//! Such a pod is placed all the same, and told so. Nothing here keeps a pod from a node. Answers to upstream's plugins
//! `PodTopologySpread` and `DynamicResources`, and to what `InterPodAffinity` knows of namespaces.

use std::fmt;

use super::terms;
use crate::objects::Pod;

/// A requirement that plays no part in where a pod is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beyond {
    /// Pods of a kind are to be spread over places.
    TopologySpread,
    /// Pods are told apart by the labels of their namespaces.
    NamespaceLabels,
    /// Devices are to be allocated.
    ResourceClaims,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Beyond::TopologySpread => {
                "topologySpreadConstraints with whenUnsatisfiable DoNotSchedule are not considered by this scheduler"
            }
            Beyond::NamespaceLabels => {
                "terms of podAffinity and podAntiAffinity whose namespaceSelector asks for labels are not considered by this scheduler"
            }
            Beyond::ResourceClaims => {
                "resourceClaims are not considered by this scheduler, and no devices are allocated"
            }
        })
    }
}

/// What the pod requires that is not looked at.
pub fn of(pod: &Pod) -> impl Iterator<Item = Beyond> {
    let spec = pod.spec.as_ref();
    let mut spread = spec.into_iter().flat_map(|s| s.topology_spread_constraints.iter().flatten());
    let spread = spread.any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule");
    let claims = spec.and_then(|s| s.resource_claims.as_ref()).is_some_and(|claims| !claims.is_empty());
    [
        (spread, Beyond::TopologySpread),
        (terms::is_any_left_out(pod), Beyond::NamespaceLabels),
        (claims, Beyond::ResourceClaims),
    ]
    .into_iter()
    .filter_map(|(is_there, beyond)| is_there.then_some(beyond))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::cluster::{Cluster, Key, Object};
    use crate::decide::binder::{Pods, schedule};
    use crate::decide::{Action, Settings};

    fn spread(when: &str) -> Value {
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when}]})
    }

    fn away(terms: &str, selector: &Value) -> Value {
        let term = json!({"topologyKey": "zone", "namespaceSelector": selector});
        let term =
            if terms.starts_with("preferred") { json!({"weight": 1, "podAffinityTerm": term}) } else { term };
        let terms = format!("{terms}DuringSchedulingIgnoredDuringExecution");
        json!({"affinity": {"podAntiAffinity": {terms: [term]}}})
    }

    #[rstest]
    #[case(json!({}), None)]
    #[case(spread("DoNotSchedule"), Some(Beyond::TopologySpread))]
    #[case(spread("ScheduleAnyway"), None)]
    #[case(away("required", &json!({})), None)]
    #[case(away("required", &json!({"matchLabels": {"kubernetes.io/metadata.name": "a"}})), None)]
    #[case(away("required", &json!({"matchLabels": {"team": "a"}})), Some(Beyond::NamespaceLabels))]
    #[case(away("preferred", &json!({"matchLabels": {"team": "a"}})), None)]
    #[case(json!({"resourceClaims": [{"name": "gpu"}]}), Some(Beyond::ResourceClaims))]
    fn what_is_required_and_not_looked_at_is_named(#[case] mut spec: Value, #[case] wanted: Option<Beyond>) {
        spec["containers"] = json!([]);
        let pod: Pod = from_value(json!({"spec": spec})).unwrap();
        assert_eq!(of(&pod).collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_pod_is_placed_all_the_same_and_told() {
        let mut cluster = Cluster::new();
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}});
        cluster.show(Object::from(from_value::<crate::objects::Node>(node).unwrap()));
        let mut spec = spread("DoNotSchedule");
        spec["containers"] = json!([]);
        let pod = json!({"metadata": {"namespace": "default", "name": "p"}, "spec": spec});
        cluster.show(Object::from(from_value::<Pod>(pod).unwrap()));
        let plan = schedule(&cluster, &Settings::default(), &Pods::All, &Key::pod("default", "p"));
        assert_eq!(plan.reason.to_string(), "the pod is on node n");
        let events = plan
            .actions
            .iter()
            .filter_map(|action| if let Action::Emit(event) = action { Some(event) } else { None });
        let told = events.filter(|event| event.reason == "NotConsidered").map(|event| event.message.as_str());
        let text = "topologySpreadConstraints with whenUnsatisfiable DoNotSchedule are not considered by this scheduler";
        assert_eq!(told.collect::<Vec<_>>(), [text]);
    }
}
