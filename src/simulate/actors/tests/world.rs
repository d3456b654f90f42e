//! What the World remembers, and whom a change wakes.

use super::scene::{pod, workload};
use crate::simulate::actors::{Key, Kind, Name, World, intake};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn at(mut object: Value, uid: &str, version: u64) -> Value {
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["uid"] = json!(uid);
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object
}

fn version(world: &World) -> Option<&str> {
    world.meta(Kind::Pod, &Name::new("default", "d1"))?.resource_version.as_deref()
}

#[test]
fn the_newest_version_wins_whatever_the_order() {
    let (mut world, mut keys) = (World::default(), BTreeSet::new());
    intake::take(&mut world, at(pod("d1", None, &[]), "a", 7), false, &mut keys);
    keys.clear();
    intake::take(&mut world, at(pod("d1", Some("n1"), &[]), "a", 5), false, &mut keys);
    assert_eq!((version(&world), keys.len()), (Some("7"), 0));
    intake::take(&mut world, at(pod("d1", None, &[]), "a", 6), true, &mut keys);
    assert_eq!((version(&world), keys.len()), (Some("7"), 0), "an older deletion is of an earlier pod");
    intake::take(&mut world, at(pod("d1", None, &[]), "a", 8), true, &mut keys);
    assert_eq!(version(&world), None);
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let (mut world, mut keys) = (World::default(), BTreeSet::new());
    for odd in
        [json!(null), json!({"kind": "Status"}), json!({"kind": "Pod", "spec": 5}), json!({"kind": "Event"})]
    {
        intake::take(&mut world, odd, false, &mut keys);
    }
    assert!(keys.is_empty());
}

#[test]
fn a_status_of_its_own_does_not_wake_every_replica() {
    let (mut world, mut keys) = (World::default(), BTreeSet::new());
    let set = workload(Kind::StatefulSet, "web", &json!({"replicas": 50, "podManagementPolicy": "Parallel"}));
    intake::take(&mut world, at(set.clone(), "s", 1), false, &mut keys);
    assert_eq!(keys.len(), 51);
    keys.clear();
    let mut set = at(set, "s", 2);
    set["status"] = json!({"replicas": 3});
    intake::take(&mut world, set, false, &mut keys);
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), [Key::StatefulSet(Name::new("default", "web"))]);
}
