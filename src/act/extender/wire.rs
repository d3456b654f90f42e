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

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go makes of a pod that has a name and nothing else.
    const POD: &str =
        r#"{"metadata":{"name":"p","namespace":"ns","uid":"u"},"spec":{"containers":null},"status":{}}"#;

    fn args(nodes: &str, names: &str) -> Args {
        let text = format!(r#"{{"Pod":{POD},"Nodes":{nodes},"NodeNames":{names}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn questions_read_as_go_writes_them() {
        let named = args("null", r#"["n1","n2"]"#);
        assert_eq!(named.pod.metadata.uid.as_deref(), Some("u"));
        assert_eq!((named.nodes.is_some(), named.node_names), (false, Some(vec!["n1".into(), "n2".into()])));
        let node = r#"{"metadata":{"name":"n1","labels":{"zone":"a"}},"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}}}}"#;
        let whole = args(&format!(r#"{{"metadata":{{}},"items":[{node}]}}"#), "null");
        let items = whole.nodes.unwrap().items.unwrap();
        assert_eq!(items.iter().map(|item| item.get()).collect::<Vec<_>>(), [node]);
        let none = args(r#"{"metadata":{},"items":null}"#, "null");
        assert!(none.nodes.unwrap().items.is_none() && none.node_names.is_none());
        let binding = r#"{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n1"}"#;
        let [pod_name, pod_namespace, pod_uid, node] = ["p", "ns", "u", "n1"].map(str::to_owned);
        let expected = BindingArgs { pod_name, pod_namespace, pod_uid, node };
        assert_eq!(serde_json::from_str::<BindingArgs>(binding).unwrap(), expected);
    }

    #[test]
    fn answers_are_written_as_go_reads_them() {
        let result = FilterResult {
            node_names: Some(vec!["n1".to_owned(), "n2".to_owned()]),
            failed_and_unresolvable_nodes: BTreeMap::from([("n3".to_owned(), "no".to_owned())]),
            ..FilterResult::default()
        };
        let text = r#"{"Nodes":null,"NodeNames":["n1","n2"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"n3":"no"},"Error":""}"#;
        assert_eq!(serde_json::to_string(&result).unwrap(), text);
        let priorities = [HostPriority { host: "n1".to_owned(), score: 10 }];
        assert_eq!(serde_json::to_string(&priorities).unwrap(), r#"[{"Host":"n1","Score":10}]"#);
        let refused = BindingResult { error: "no".to_owned() };
        assert_eq!(serde_json::to_string(&refused).unwrap(), r#"{"Error":"no"}"#);
    }
}
