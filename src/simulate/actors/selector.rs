//! Whether labels fit a selector, and whether a pod of a template may be on a node.
//!
//! Pure questions, answered by [`crate::objects`]; what is malformed fits nothing.

use k8s_openapi::api::core::v1::{Node, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::objects::topology::{self, Labels};

/// Whether labels fit a label selector; an empty selector fits everything.
#[must_use]
pub fn matches_labels(selector: &LabelSelector, labels: &Labels) -> bool {
    topology::selector_matches(selector, Some(labels)) == Some(true)
}

/// Whether the node is one that the pod selects: its `nodeName`, `nodeSelector` and required node affinity.
#[must_use]
pub fn selects_node(spec: &PodSpec, node: &Node) -> bool {
    let (node_name, labels) =
        (node.metadata.name.as_deref().unwrap_or_default(), node.metadata.labels.as_ref());
    let named = spec.node_name.as_deref().is_none_or(|name| name.is_empty() || name == node_name);
    let selected =
        spec.node_selector.iter().flatten().all(|(k, v)| labels.and_then(|labels| labels.get(k)) == Some(v));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref());
    named
        && selected
        && required.is_none_or(|required| topology::node_selector_matches(required, node_name, labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    fn node() -> Node {
        from_value(json!({
            "metadata": {"name": "n1", "labels": {"zone": "a", "size": "5"}},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        }))
        .expect("as the API spells it")
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({"nodeName": "n2"}), false)]
    #[case(json!({"nodeSelector": {"zone": "a"}}), true)]
    #[case(json!({"nodeSelector": {"zone": "b"}}), false)]
    fn nodes_by_selector(#[case] spec: Value, #[case] fits: bool) {
        let mut spec = spec;
        spec["containers"] = json!([]);
        assert_eq!(selects_node(&from_value(spec).expect("as the API spells it"), &node()), fits);
    }

    #[rstest]
    #[case(json!({"key": "zone", "operator": "In", "values": ["a", "b"]}), true)]
    #[case(json!({"key": "zone", "operator": "NotIn", "values": ["a"]}), false)]
    #[case(json!({"key": "rack", "operator": "NotIn", "values": ["a"]}), true)]
    #[case(json!({"key": "rack", "operator": "Exists"}), false)]
    #[case(json!({"key": "rack", "operator": "DoesNotExist"}), true)]
    #[case(json!({"key": "size", "operator": "Gt", "values": ["4"]}), true)]
    #[case(json!({"key": "size", "operator": "Lt", "values": ["4"]}), false)]
    #[case(json!({"key": "zone", "operator": "Near", "values": ["a"]}), false)]
    fn nodes_by_affinity(#[case] expression: Value, #[case] fits: bool) {
        let required = json!({"nodeSelectorTerms": [{}, {"matchExpressions": [expression]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        let spec = from_value(json!({"containers": [], "affinity": affinity})).expect("as the API spells it");
        assert_eq!(selects_node(&spec, &node()), fits);
    }
}
