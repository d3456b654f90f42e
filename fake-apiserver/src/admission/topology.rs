//! Decides which labels a pod gets from its node: where the node is. Never looks at other labels, and never refuses. Answers
//! to `kubernetes/plugin/pkg/admission/podtopologylabels`.

use serde_json::{Value, json};

use crate::object::{as_map_mut, metadata_mut};
use crate::store::Store;

const TOPOLOGY: &[&str] = &["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Labels a pod that is placed on a node; its own labels of that name are overwritten.
pub(crate) fn label(store: &Store, node: &str, pod: &mut Value) {
    let Some(node) = store.kinds.named("Node").and_then(|index| store.get(index, node)) else { return };
    for name in TOPOLOGY {
        if let Some(place) = node.value["metadata"]["labels"].get(name).cloned() {
            let labels = metadata_mut(pod).entry("labels").or_insert_with(|| json!({}));
            as_map_mut(labels).insert((*name).to_owned(), place);
        }
    }
}
