//! Emptying a cluster between two worlds.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{Cluster, KINDS, Kind, is_late, text};

/// How long that may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long whoever watches may take to see that all is gone.
const SEEN: Duration = Duration::from_millis(400);

/// What is there without anybody having made it: nothing of a world.
fn is_of_a_world(kind: Kind, object: &Value) -> bool {
    !(kind.name == "ControllerRevision" && text(object, "/metadata/namespace") == "kube-system")
}

async fn take_away(cluster: &Cluster, kind: Kind, object: &Value) {
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let deleting = object["metadata"].get("deletionTimestamp").is_some();
    let answers = [
        if deleting && kind.name != "Pod" {
            None
        } else {
            Some(cluster.delete(kind, namespace, name, Some(0)).await)
        },
        if finalizers {
            let none = json!({"metadata": {"finalizers": null}});
            Some(cluster.merge(kind, namespace, name, false, none).await)
        } else {
            None
        },
    ];
    for error in answers.into_iter().flatten().filter_map(Result::err) {
        // Whoever guards an object may be quicker.
        assert!(is_late(&error), "{} {namespace}/{name} can't be taken away: {error}", kind.name);
    }
}

/// Takes away all objects, then all events.
pub async fn empty(cluster: &Cluster) {
    let start = Instant::now();
    loop {
        let mut left = 0;
        for kind in KINDS {
            for object in cluster.list(kind).await {
                if is_of_a_world(kind, &object) {
                    left += 1;
                    take_away(cluster, kind, &object).await;
                }
            }
        }
        if left == 0 {
            break;
        }
        assert!(start.elapsed() < LIMIT, "the cluster can't be emptied: {left} objects are left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(SEEN).await;
    cluster.forget_events("default").await;
}
