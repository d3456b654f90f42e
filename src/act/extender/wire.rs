//! What kube-scheduler and an extender send each other.
//!
//! Only forms, no decisions. Nodes that kube-scheduler sends whole go back as the same bytes: it takes what comes back for
//! the node. Answers to `k8s.io/kube-scheduler/extender/v1`, whose fields have no names of their own in JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::objects::Pod;

/// The pod and the nodes that a filter or a prioritizer is asked about.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Args {
    /// The pod.
    pub pod: Pod,
    /// The nodes, of a kube-scheduler whose configuration says that the extender knows none.
    #[serde(default)]
    pub nodes: Option<NodeList>,
    /// The names of the nodes, of a kube-scheduler whose configuration says `nodeCacheCapable: true`.
    #[serde(default)]
    pub node_names: Option<Vec<String>>,
}

/// Nodes as they were sent.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct NodeList {
    /// Each node. Go sends `null` for none.
    #[serde(default)]
    pub items: Option<Vec<Box<RawValue>>>,
}

/// Which nodes are left.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult {
    /// Those that are left, if nodes were sent.
    pub nodes: Option<NodeList>,
    /// The names of those that are left, if names were sent.
    pub node_names: Option<Vec<String>>,
    /// Those that are not, where evicting pods might help: for volumes it never does.
    pub failed_nodes: BTreeMap<String, String>,
    /// Those that are not, with what stands against each.
    pub failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// Why there is no answer; `""` when there is one.
    pub error: String,
}

/// How good a node is.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority {
    /// The node's name.
    pub host: String,
    /// From 0 to 10.
    pub score: i64,
}

/// Which pod is to be bound to which node.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingArgs {
    /// The pod's name.
    pub pod_name: String,
    /// The pod's namespace.
    pub pod_namespace: String,
    /// The pod's uid.
    #[serde(rename = "PodUID")]
    pub pod_uid: String,
    /// The node's name.
    pub node: String,
}

/// Whether a pod was bound.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingResult {
    /// Why not; `""` when it was.
    pub error: String,
}
