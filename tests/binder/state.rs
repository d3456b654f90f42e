//! What the binder sees once the watches have delivered what was written.

use pvbind::cluster::{Cluster, Kind, Object};
use serde_json::Value;

use crate::assume::overlay;
use crate::record::{Record, State};
use crate::story::{Story, told, told_claim};

/// Compares the cluster with a recorded state; where none is recorded, nothing has changed.
pub fn check(record: &Record, cluster: &Cluster, field: &str) {
    let recorded = record.got.get(field).filter(|value| !value.is_null());
    let recorded: Option<State> =
        recorded.map(|value: &Value| serde_json::from_value(value.clone()).expect("a state"));
    let wanted = recorded.as_ref().unwrap_or(&record.state).cluster();
    for kind in [Kind::Volume, Kind::Claim] {
        let known = |cluster: &Cluster| -> Vec<Object> {
            cluster.known_keys(kind).filter_map(|key| cluster.known(key).cloned()).collect()
        };
        assert_eq!(known(cluster), known(&wanted), "{field}");
    }
    assert_eq!(overlay(cluster), overlay(&wanted), "{field}, assumed");
}

/// What is assumed, in words.
pub fn tell(story: &mut Story, cluster: &Cluster) {
    for object in overlay(cluster).values() {
        match object {
            Object::Volume(volume) => story.line(format_args!("assumed volume {}", told(volume))),
            Object::Claim(claim) => story.line(format_args!("assumed claim {}", told_claim(claim))),
            other => panic!("nobody assumes {}", other.key()),
        }
    }
}
