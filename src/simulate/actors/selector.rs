//! Whether labels fit a selector, and whether a pod of a template may be on a node.
//!
//! Pure questions with upstream's answers (`labels.Selector`, `nodeaffinity`, `v1helper.FindMatchingUntoleratedTaint`);
//! an operator that is not known fits nothing.

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// Whether labels fit a label selector; an empty selector fits everything.
#[must_use]
pub fn matches_labels(selector: &LabelSelector, labels: &Labels) -> bool {
    let exact = selector.match_labels.iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    let mut expressions = selector.match_expressions.iter().flatten();
    exact
        && expressions
            .all(|e| holds(labels.get(&e.key), &e.operator, e.values.as_deref().unwrap_or_default()))
}

fn holds(value: Option<&String>, operator: &str, values: &[String]) -> bool {
    let number = |text: &String| text.parse::<i64>().ok();
    let compare = |wanted: fn(&i64, &i64) -> bool| {
        value.and_then(number).zip(values.first().and_then(number)).is_some_and(|(a, b)| wanted(&a, &b))
    };
    match operator {
        "In" => value.is_some_and(|v| values.contains(v)),
        "NotIn" => value.is_none_or(|v| !values.contains(v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

fn requirement_holds(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    holds(value, &requirement.operator, requirement.values.as_deref().unwrap_or_default())
}

fn term_fits(term: &NodeSelectorTerm, node: &Node, labels: &Labels) -> bool {
    let (expressions, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
    let (expressions, fields) = (expressions.unwrap_or_default(), fields.unwrap_or_default());
    // A term without any requirement fits no node.
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|e| requirement_holds(e, labels.get(&e.key)))
        && fields
            .iter()
            .all(|f| f.key == "metadata.name" && requirement_holds(f, node.metadata.name.as_ref()))
}

/// Whether the node is one that the pod selects: its `nodeName`, `nodeSelector` and required node affinity.
#[must_use]
pub fn selects_node(spec: &PodSpec, node: &Node) -> bool {
    let nothing = Labels::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&nothing);
    let named =
        spec.node_name.as_ref().is_none_or(|n| n.is_empty() || Some(n) == node.metadata.name.as_ref());
    let selected = spec.node_selector.iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref());
    named
        && selected
        && required.is_none_or(|r| r.node_selector_terms.iter().any(|t| term_fits(t, node, labels)))
}

/// The first taint with one of `effects` that the tolerations do not cover.
pub fn untolerated<'a>(tolerations: &[Toleration], node: &'a Node, effects: &[&str]) -> Option<&'a Taint> {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let mut taints = taints.filter(|t| effects.contains(&t.effect.as_str()));
    taints.find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let set = |field: &Option<String>| field.clone().filter(|f| !f.is_empty());
    let effect = set(&toleration.effect).is_none_or(|e| e == taint.effect);
    let key = set(&toleration.key).is_none_or(|k| k == taint.key);
    effect
        && key
        && match set(&toleration.operator).as_deref() {
            Some("Exists") => true,
            None | Some("Equal") => {
                toleration.key.is_some()
                    && toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or("")
            }
            Some(_) => false,
        }
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

    #[rstest]
    #[case(json!([]), false)]
    #[case(json!([{"operator": "Exists"}]), true)]
    #[case(json!([{"key": "gpu", "value": "yes"}]), true)]
    #[case(json!([{"key": "gpu", "value": "no"}]), false)]
    #[case(json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]), false)]
    fn taints(#[case] tolerations: Value, #[case] tolerated: bool) {
        let tolerations: Vec<Toleration> = from_value(tolerations).expect("as the API spells it");
        assert_eq!(untolerated(&tolerations, &node(), &["NoSchedule"]).is_none(), tolerated);
    }
}
