//! Where a volume can be used: node selectors, label selectors and allowed topologies.
//!
//! Answers to upstream's `component-helpers/scheduling/corev1/nodeaffinity`, `apimachinery/pkg/labels` and
//! `MatchTopologySelectorTerms`. A requirement that upstream would refuse matches nothing here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Volume;

/// An object's labels.
pub type Labels = BTreeMap<String, String>;

/// The label by which a node's own name is found.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Whether one `key operator values` requirement holds for a value that may be absent. `None` for a
/// requirement that makes no sense.
fn holds(value: Option<&str>, operator: &str, values: &[String]) -> Option<bool> {
    let listed = || value.is_some_and(|value| values.iter().any(|v| v == value));
    let compare = |wanted: std::cmp::Ordering| {
        let [bound] = values else { return None };
        let bound: i64 = bound.parse().ok()?;
        let Some(value) = value.and_then(|v| v.parse::<i64>().ok()) else { return Some(false) };
        Some(value.cmp(&bound) == wanted)
    };
    match operator {
        "In" if !values.is_empty() => Some(listed()),
        "NotIn" if !values.is_empty() => Some(!listed()),
        "Exists" if values.is_empty() => Some(value.is_some()),
        "DoesNotExist" if values.is_empty() => Some(value.is_none()),
        "Gt" => compare(std::cmp::Ordering::Greater),
        "Lt" => compare(std::cmp::Ordering::Less),
        _ => None,
    }
}

/// Whether a label selector matches; `None` when the selector is malformed.
#[must_use]
pub fn selector_matches(selector: &LabelSelector, labels: Option<&Labels>) -> Option<bool> {
    let value = |key: &str| labels.and_then(|l| l.get(key)).map(String::as_str);
    let mut all = true;
    for (key, wanted) in selector.match_labels.iter().flatten() {
        all &= value(key) == Some(wanted);
    }
    for requirement in selector.match_expressions.iter().flatten() {
        let values = requirement.values.as_deref().unwrap_or_default();
        if matches!(requirement.operator.as_str(), "Gt" | "Lt") {
            return None;
        }
        all &= holds(value(&requirement.key), &requirement.operator, values)?;
    }
    Some(all)
}

/// Whether a node with this name meets all requirements on its fields. A requirement names exactly one value, and a
/// node without a name meets any that makes sense: upstream asks so where it knows only a node's labels.
fn fields_hold(requirements: &[NodeSelectorRequirement], node_name: &str) -> bool {
    requirements.iter().all(|requirement| {
        let value = if requirement.key == "metadata.name" { node_name } else { "" };
        let [wanted] = requirement.values.as_deref().unwrap_or_default() else { return false };
        match requirement.operator.as_str() {
            "In" => node_name.is_empty() || value == wanted,
            "NotIn" => node_name.is_empty() || value != wanted,
            _ => false,
        }
    })
}

/// Whether one term of a node selector matches. A term without requirements matches nothing.
#[must_use]
pub fn term_matches(term: &NodeSelectorTerm, node_name: &str, labels: Option<&Labels>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let value = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let holds = |requirement: &NodeSelectorRequirement| {
        let values = requirement.values.as_deref().unwrap_or_default();
        holds(value(&requirement.key), &requirement.operator, values) == Some(true)
    };
    expressions.iter().all(holds) && fields_hold(fields, node_name)
}

/// Whether a node selector matches: any of its terms does.
#[must_use]
pub fn node_selector_matches(selector: &NodeSelector, node_name: &str, labels: Option<&Labels>) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node_name, labels))
}

/// Whether the volume can be used on a node with these labels. Answers to upstream's `CheckNodeAffinity`,
/// which knows only the labels: what a term asks of the node's name is not looked at.
#[must_use]
pub fn reaches(volume: &Volume, labels: Option<&Labels>) -> bool {
    match required(volume) {
        None => true,
        Some(selector) => node_selector_matches(selector, "", labels),
    }
}

/// The node selector that the volume requires, if any.
#[must_use]
pub fn required(volume: &Volume) -> Option<&NodeSelector> {
    volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()
}

/// The label and the values of which a node must have one to reach the volume, where the volume's affinity
/// says so in the plain form that local volumes use: one term with `key In values`. It narrows a search;
/// [`reaches`] still decides.
#[must_use]
pub fn pin(volume: &Volume) -> Option<(&str, &[String])> {
    let [term] = required(volume)?.node_selector_terms.as_slice() else { return None };
    let expressions = term.match_expressions.as_deref()?;
    let requirement = expressions.iter().find(|r| r.operator == "In")?;
    Some((&requirement.key, requirement.values.as_deref().unwrap_or_default()))
}

/// Whether a node with these labels satisfies a class's allowed topologies; no terms allow every node.
/// Answers to upstream's `MatchTopologySelectorTerms`.
#[must_use]
pub fn topology_allowed(terms: &[TopologySelectorTerm], labels: Option<&Labels>) -> bool {
    terms.is_empty()
        || terms.iter().any(|term| {
            let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
            !expressions.is_empty()
                && expressions
                    .iter()
                    .all(|e| labels.and_then(|l| l.get(&e.key)).is_some_and(|value| e.values.contains(value)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream hands the labels over as a node without a name, and looks at no field of such a node.
    #[rstest::rstest]
    #[case("In", &["a"], true)]
    #[case("NotIn", &["a"], true)]
    #[case("In", &["a", "b"], false)]
    #[case("Exists", &[], false)]
    fn the_name_of_the_node_does_not_matter_to_a_volume(
        #[case] operator: &str,
        #[case] values: &[&str],
        #[case] reached: bool,
    ) {
        let fields = serde_json::json!([{"key": "metadata.name", "operator": operator, "values": values}]);
        let required = serde_json::json!({"nodeSelectorTerms": [{"matchFields": fields}]});
        let volume = serde_json::json!({"spec": {"nodeAffinity": {"required": required}}});
        let volume: Volume = serde_json::from_value(volume).unwrap();
        assert_eq!(reaches(&volume, None), reached);
    }
}
