//! In which label a node differs from what a volume or a class asks for.
//!
//! For people alone: [`super::topology`] decides, and this says of the nearest alternative what it lacks first.

use std::fmt;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorTerm};

use super::topology::{self, Labels};
use super::{Node, Volume, name};

/// A label of a node that is not what is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The label's key.
    pub key: String,
    /// How its value is compared: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// What it is compared with.
    pub wanted: Vec<String>,
    /// The node.
    pub node: String,
    /// What the node has.
    pub has: Option<String>,
    /// How many alternatives there are.
    pub alternatives: usize,
}

impl Difference {
    fn of(node: &Node, requirement: &NodeSelectorRequirement, alternatives: usize) -> Self {
        let labels = node.metadata.labels.as_ref();
        Difference {
            key: requirement.key.clone(),
            operator: requirement.operator.clone(),
            wanted: requirement.values.clone().unwrap_or_default(),
            node: name(&node.metadata).to_owned(),
            has: labels.and_then(|labels| labels.get(&requirement.key)).cloned(),
            alternatives,
        }
    }

    /// What the node lacks to reach a volume.
    #[must_use]
    pub fn to_volume(volume: &Volume, node: &Node) -> Option<Self> {
        let terms = topology::required(volume)?.node_selector_terms.iter();
        let terms = terms.map(|term| term.match_expressions.clone().unwrap_or_default());
        nearest(terms.collect(), node)
    }

    /// What the node lacks for volumes of a class with these allowed topologies.
    #[must_use]
    pub fn to_topologies(terms: &[TopologySelectorTerm], node: &Node) -> Option<Self> {
        let terms = terms.iter().map(|term| {
            let expressions = term.match_label_expressions.iter().flatten();
            let requirements = expressions.map(|expression| NodeSelectorRequirement {
                key: expression.key.clone(),
                operator: "In".to_owned(),
                values: Some(expression.values.clone()),
            });
            requirements.collect()
        });
        nearest(terms.collect(), node)
    }

    /// What the node would have to have.
    #[must_use]
    pub fn asked(&self) -> String {
        let (key, values) = (&self.key, self.wanted.join(" or "));
        match self.operator.as_str() {
            "In" => format!("label {key}={values}"),
            "NotIn" => format!("a label {key} other than {values}, or none"),
            "DoesNotExist" => format!("no label {key}"),
            "Gt" => format!("a label {key} above {values}"),
            "Lt" => format!("a label {key} below {values}"),
            _ => format!("a label {key}"),
        }
    }
}

/// The first requirement that the node does not meet of the alternative of which it lacks the least.
fn nearest(alternatives: Vec<Vec<NodeSelectorRequirement>>, node: &Node) -> Option<Difference> {
    let labels = node.metadata.labels.as_ref();
    let count = alternatives.len();
    let unmet = alternatives.into_iter().map(|requirements| {
        let is_unmet = |requirement: &NodeSelectorRequirement| !is_met(requirement, labels);
        requirements.into_iter().filter(is_unmet).collect::<Vec<_>>()
    });
    let unmet = unmet.filter(|unmet| !unmet.is_empty()).min_by_key(Vec::len)?;
    unmet.first().map(|requirement| Difference::of(node, requirement, count))
}

fn is_met(requirement: &NodeSelectorRequirement, labels: Option<&Labels>) -> bool {
    let term = NodeSelectorTerm { match_expressions: Some(vec![requirement.clone()]), match_fields: None };
    topology::term_matches(&term, "", labels)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "needs a node with {}", self.asked())?;
        if self.alternatives > 1 {
            write!(f, " (by the nearest of {} alternatives)", self.alternatives)?;
        }
        match &self.has {
            Some(value) => write!(f, ", and node {} has {}={value}", self.node, self.key),
            None => write!(f, ", and node {} has no label {}", self.node, self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;

    fn node(labels: &Value) -> Node {
        from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"key": key, "operator": operator, "values": values})
    }

    #[rstest]
    #[case(json!([[expression("zone", "In", &["a", "b"])]]), json!({"zone": "c"}), "needs a node with label zone=a or b, and node n has zone=c")]
    #[case(json!([[expression("zone", "In", &["a"])]]), json!({}), "needs a node with label zone=a, and node n has no label zone")]
    #[case(json!([[expression("zone", "NotIn", &["a"])]]), json!({"zone": "a"}), "needs a node with a label zone other than a, or none, and node n has zone=a")]
    #[case(json!([[expression("zone", "Exists", &[])]]), json!({}), "needs a node with a label zone, and node n has no label zone")]
    #[case(json!([[expression("zone", "DoesNotExist", &[])]]), json!({"zone": "a"}), "needs a node with no label zone, and node n has zone=a")]
    #[case(json!([[expression("rack", "Gt", &["5"])]]), json!({"rack": "5"}), "needs a node with a label rack above 5, and node n has rack=5")]
    #[case(json!([[expression("zone", "In", &["a"]), expression("rack", "In", &["1"])]]), json!({"zone": "a", "rack": "2"}), "needs a node with label rack=1, and node n has rack=2")]
    #[case(json!([[expression("zone", "In", &["a"]), expression("rack", "In", &["1"])], [expression("zone", "In", &["b"])]]), json!({}), "needs a node with label zone=b (by the nearest of 2 alternatives), and node n has no label zone")]
    fn a_volume_names_what_the_node_lacks(#[case] terms: Value, #[case] labels: Value, #[case] wanted: &str) {
        let terms =
            terms.as_array().unwrap().iter().map(|expressions| json!({"matchExpressions": expressions}));
        let affinity = json!({"required": {"nodeSelectorTerms": terms.collect::<Vec<_>>()}});
        let volume: Volume = from_value(json!({"spec": {"nodeAffinity": affinity}})).unwrap();
        let node = node(&labels);
        assert!(!topology::reaches(&volume, node.metadata.labels.as_ref()));
        assert_eq!(Difference::to_volume(&volume, &node).unwrap().to_string(), wanted);
    }

    #[test]
    fn a_class_does_so_too() {
        let term = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]});
        let terms: Vec<TopologySelectorTerm> = from_value(json!([term])).unwrap();
        let difference = Difference::to_topologies(&terms, &node(&json!({"zone": "c"}))).unwrap();
        assert_eq!(difference.to_string(), "needs a node with label zone=a or b, and node n has zone=c");
        assert_eq!(Difference::to_topologies(&terms, &node(&json!({"zone": "a"}))), None);
    }
}
