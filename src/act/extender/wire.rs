//! What kube-scheduler and an extender send each other.
//!
//! Only forms, no decisions. Nodes that kube-scheduler sends whole go back as the same bytes: it takes what comes back for
//! the node. Answers to `k8s.io/kube-scheduler/extender/v1`, whose fields have no names of their own in JSON.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::objects::{Pod, uid};

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

/// Whom kube-scheduler could evict for a pod, by node.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionArgs {
    /// The pod.
    pub pod: Pod,
    /// The pods themselves, of a kube-scheduler whose configuration says that the extender knows no nodes.
    #[serde(default)]
    pub node_name_to_victims: Option<BTreeMap<String, Victims<WholePod>>>,
    /// Their uids.
    #[serde(default)]
    pub node_name_to_meta_victims: Option<BTreeMap<String, Victims<MetaPod>>>,
}

/// The nodes where that is of use.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionResult {
    /// Whom to evict there.
    pub node_name_to_meta_victims: BTreeMap<String, Victims<MetaPod>>,
}

/// Whom to evict on one node.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Victims<P> {
    /// The pods.
    pub pods: Option<Vec<P>>,
    /// How many disruption budgets that goes against.
    #[serde(rename = "NumPDBViolations")]
    pub budgets: i64,
}

/// A pod to be evicted.
#[derive(Debug, Deserialize, Serialize)]
pub struct MetaPod {
    /// Its uid.
    #[serde(rename = "UID")]
    pub uid: String,
}

/// A pod to be evicted, of which nobody wants to know more than its uid.
#[derive(Debug, Deserialize)]
pub struct WholePod {
    /// What carries it.
    pub metadata: ObjectMeta,
}

impl From<Victims<WholePod>> for Victims<MetaPod> {
    fn from(victims: Victims<WholePod>) -> Self {
        let meta = |pod: WholePod| MetaPod { uid: uid(&pod.metadata).to_owned() };
        let pods = victims.pods.map(|pods| pods.into_iter().map(meta).collect());
        Victims { pods, budgets: victims.budgets }
    }
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
        let empty = args(r#"{"metadata":{},"items":null}"#, "null");
        assert!(empty.nodes.unwrap().items.is_none() && empty.node_names.is_none());
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

    #[test]
    fn victims_are_read_whole_or_by_uid_and_written_by_uid() {
        let by_uid = r#"{"n1":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}"#;
        let whole = format!(r#"{{"n1":{{"Pods":[{POD}],"NumPDBViolations":1}}}}"#);
        let args = |whole: &str, by_uid: &str| -> PreemptionArgs {
            let args =
                format!(r#"{{"Pod":{POD},"NodeNameToVictims":{whole},"NodeNameToMetaVictims":{by_uid}}}"#);
            serde_json::from_str(&args).unwrap()
        };
        let whole = args(&whole, "null").node_name_to_victims.unwrap();
        let whole = whole.into_iter().map(|(node, victims)| (node, victims.into())).collect();
        for victims in [whole, args("null", by_uid).node_name_to_meta_victims.unwrap()] {
            let result = PreemptionResult { node_name_to_meta_victims: victims };
            let expected = format!(r#"{{"NodeNameToMetaVictims":{by_uid}}}"#);
            assert_eq!(serde_json::to_string(&result).unwrap(), expected);
        }
    }
}
