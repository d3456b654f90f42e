//! What the garbage collector takes away, and what it leaves.

use super::scene::{NOW, Scene, claim, pod, workload};
use crate::simulate::actors::{Key, Kind, Name, Roles};
use rstest::rstest;
use serde_json::{Value, json};

fn set(uid: &str) -> Value {
    let mut set = workload(Kind::ReplicaSet, "rs", &json!({"replicas": 0}));
    set["metadata"]["uid"] = json!(uid);
    set
}

fn owned(name: &str, owners: &[&str]) -> Value {
    let mut pod = pod(name, None, &[]);
    let owners = owners.iter().map(|uid| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": uid, "blockOwnerDeletion": true})
    });
    pod["metadata"]["ownerReferences"] = owners.collect();
    pod
}

#[test]
fn what_was_owned_goes_with_its_owner() {
    let mut scene =
        Scene::of([set("a"), owned("d1", &["a"]), owned("d2", &["a", "b"]), pod("d3", None, &[])]);
    scene.delete(Kind::ReplicaSet, "rs");
    scene.play();
    assert_eq!(scene.names(Kind::Pod), ["d2", "d3"]);
    let left = &scene.get(Kind::Pod, "d2").expect("the pod")["metadata"]["ownerReferences"];
    assert_eq!(left[0]["uid"], "b");
    // What is made for a dead owner by somebody who was late goes as well.
    scene.put(owned("d4", &["a"]));
    scene.play();
    assert_eq!(scene.names(Kind::Pod), ["d2", "d3"]);
}

#[test]
fn an_owner_that_was_never_seen_is_not_taken_for_dead() {
    let mut scene = Scene::of([owned("d1", &["never-seen"])]);
    scene.play();
    assert!(scene.log.is_empty());
}

#[test]
fn a_chain_goes_to_its_end() {
    let mut objects = vec![set("a"), owned("d1", &["a"])];
    objects[1]["metadata"]["uid"] = json!("p");
    let mut scratch = claim("d1-tmp", json!({}), "Pending");
    scratch["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "d1", "uid": "p"}]);
    objects.push(scratch);
    let mut scene = Scene::of(objects);
    scene.delete(Kind::ReplicaSet, "rs");
    scene.play();
    assert_eq!((scene.names(Kind::Pod).len(), scene.names(Kind::Claim).len()), (0, 0));
}

#[rstest]
#[case::foreground("foregroundDeletion", 0)]
#[case::orphan("orphan", 1)]
fn an_owner_waits_for_its_dependents(#[case] finalizer: &str, #[case] left: usize) {
    let mut owner = set("a");
    owner["metadata"]["finalizers"] = json!([finalizer]);
    let mut scene = Scene::of([owner, owned("d1", &["a"])]);
    scene.delete(Kind::ReplicaSet, "rs");
    scene.play();
    assert!(scene.get(Kind::ReplicaSet, "rs").is_none());
    assert_eq!(scene.names(Kind::Pod).len(), left);
}

#[test]
fn a_namespace_takes_its_content_along() {
    let space = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "deletionTimestamp": NOW},
        "spec": {"finalizers": ["kubernetes"]},
    });
    let mut scene = Scene::of([set("a"), pod("d1", None, &[]), claim("c1", json!({}), "Pending"), space]);
    scene.play();
    for kind in [Kind::Namespace, Kind::ReplicaSet, Kind::Pod, Kind::Claim] {
        assert!(scene.names(kind).is_empty(), "{kind:?}");
    }
    assert_eq!(
        scene.log.last().map(String::as_str),
        Some(r#"merge Namespace default/finalize {"spec":{"finalizers":[]}}"#)
    );
}

#[test]
fn a_role_that_is_off_decides_nothing() {
    let roles = Roles { garbage: false, ..Roles::default() };
    assert!(!Key::Dependent(Kind::Pod, Name::new("default", "d1")).is_played(roles));
    assert!(Key::Kubelet(Name::new("default", "d1")).is_played(roles));
}
