//! Where a volume can be used: asked of node selectors and of volumes' affinity.

use pvbind::objects::topology::{self, Labels};
use pvbind::objects::{Node, Volume, name};
use serde_json::json;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorTerm};

use super::Row;

/// Upstream gives an error for a selector that makes no sense and matches nothing; here it just matches nothing.
pub fn selector_matches(row: &Row) -> String {
    let (node, selector): (Option<Node>, Option<NodeSelector>) =
        (row.input("node"), row.input("nodeSelector"));
    let selector = selector.unwrap_or_default();
    // Here nobody asks about a node that is not there: it is no node at all.
    let result = node.as_ref().is_some_and(|node| {
        topology::node_selector_matches(&selector, name(&node.metadata), node.metadata.labels.as_ref())
    });
    let error = row.observed["error"].clone();
    assert!(error.is_null() || !result);
    row.check(json!({"match": result}), json!({"match": result, "error": error}));
    let node = node.map_or("no node".to_owned(), |node| {
        format!("node {:?} with {}", name(&node.metadata), labels(node.metadata.labels.as_ref()))
    });
    format!("{node}: {} -> {result}", terms(&selector))
}

pub fn reaches(row: &Row) -> String {
    let (volume, of_node): (Volume, Labels) = (row.given("volume"), row.given("nodeLabels"));
    let reached = topology::reaches(&volume, Some(&of_node));
    row.check(json!({"error": !reached}), json!({"error": row.unsaid(!reached)}));
    let required = topology::required(&volume).map_or("requires nothing".to_owned(), terms);
    format!("node with {}: {required} -> {reached}", labels(Some(&of_node)))
}

fn labels(labels: Option<&Labels>) -> String {
    let labels = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
    format!("[{}]", labels.collect::<Vec<_>>().join(", "))
}

fn terms(selector: &NodeSelector) -> String {
    let told = |term: &NodeSelectorTerm| {
        let all = |what: &str, requirements: &Option<Vec<_>>| -> Vec<String> {
            let one = |r: &k8s_openapi::api::core::v1::NodeSelectorRequirement| {
                let values = r.values.as_deref().unwrap_or_default().join("|");
                format!("{what} {} {} {values}", r.key, r.operator)
            };
            requirements.iter().flatten().map(one).collect()
        };
        let (labels, fields) = (all("label", &term.match_expressions), all("field", &term.match_fields));
        format!("({})", [labels, fields].concat().join(" and "))
    };
    let terms: Vec<String> = selector.node_selector_terms.iter().map(told).collect();
    if terms.is_empty() { "no terms".to_owned() } else { terms.join(" or ") }
}
