//! Promises, from the choice of a node to the report that has them.

use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;
use crate::cluster::Wakes;
use crate::objects::{Class, CsiDriver, Node, Volume};

fn object<T>(value: Value) -> Object
where
    T: serde::de::DeserializeOwned,
    Object: From<T>,
{
    Object::from(from_value::<T>(value).unwrap())
}

fn driver() -> Object {
    object::<CsiDriver>(json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}}))
}

fn class() -> Object {
    object::<Class>(json!({"metadata": {"name": "w"}, "provisioner": "d"}))
}

fn node(name: &str) -> Object {
    object::<Node>(json!({"metadata": {"name": name, "labels": {"host": name}}}))
}

fn report(name: &str, node: &str, gigabytes: u32, version: u32) -> Object {
    object::<Capacity>(json!({
        "metadata": {"namespace": "d", "name": name, "resourceVersion": version.to_string()},
        "storageClassName": "w",
        "nodeTopology": {"matchLabels": {"host": node}},
        "capacity": format!("{gigabytes}Gi"),
    }))
}

fn claim(name: &str, node: Option<&str>, gigabytes: u32) -> Value {
    let annotations = node.map(|node| json!({"volume.kubernetes.io/selected-node": node}));
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "annotations": annotations},
        "spec": {"storageClassName": "w", "resources": {"requests": {"storage": format!("{gigabytes}Gi")}}},
    })
}

fn selected(name: &str, node: &str, gigabytes: u32) -> Object {
    object::<Claim>(claim(name, Some(node), gigabytes))
}

fn bound(name: &str, node: &str, gigabytes: u32) -> Object {
    let mut claim = claim(name, Some(node), gigabytes);
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    claim["spec"]["volumeName"] = json!(format!("of-{name}"));
    object::<Claim>(claim)
}

/// The volume of a claim, made by a provisioner or by hand.
fn volume(claim: &str, version: u32, provisioned: bool) -> Object {
    let annotations = provisioned.then(|| json!({"pv.kubernetes.io/provisioned-by": "d"}));
    object::<Volume>(json!({
        "metadata": {
            "name": format!("of-{claim}"), "resourceVersion": version.to_string(), "annotations": annotations,
        },
        "spec": {"claimRef": {"namespace": "default", "name": claim, "uid": claim}},
    }))
}

fn world() -> Cluster {
    let mut cluster = Cluster::new();
    for object in [driver(), class(), node("n1"), node("n2"), report("r1", "n1", 100, 10)] {
        cluster.show(object);
    }
    cluster
}

fn key(object: &Object) -> Key {
    object.key()
}

/// What is promised of a report, in gigabytes.
fn promised(cluster: &Cluster, report: &str) -> i64 {
    let key = Key::new(super::super::Kind::Capacity, "d", report);
    let claims = cluster.debits().claims_on(&key).map(|claim| cluster.debits().of(claim).expect("of it").1);
    let sum = claims.fold(Amount::ZERO, |sum, size| sum + size);
    assert_eq!(sum, cluster.debits().on(&key), "the sum is that of its parts");
    sum.value() >> 30
}

/// Whether there is more of the report for others.
fn is_relieved(wakes: Wakes) -> bool {
    let change = wakes.change.expect("something has changed");
    change.relieved.contains(&report("r1", "n1", 0, 0).key())
}

#[test]
fn a_claim_is_promised_its_size_from_the_choice_of_a_node_to_the_next_report() {
    let mut cluster = world();
    cluster.show(object::<Claim>(claim("c", None, 60)));
    assert_eq!(promised(&cluster, "r1"), 0);
    cluster.show(selected("c", "n1", 60));
    assert_eq!(promised(&cluster, "r1"), 60);
    cluster.show(volume("c", 20, true));
    cluster.show(bound("c", "n1", 60));
    assert_eq!(promised(&cluster, "r1"), 60, "nobody has reported since");
    let wakes = cluster.show(report("r1", "n1", 40, 30));
    assert!(!is_relieved(wakes), "it has fallen by all that was promised");
    assert_eq!(promised(&cluster, "r1"), 0);
}

#[rstest]
#[case::is_chosen_no_longer(&[], |cluster: &mut Cluster| is_relieved(cluster.show(object::<Claim>(claim("c", None, 60)))))]
#[case::claim_goes(&[], |cluster: &mut Cluster| is_relieved(cluster.gone(&key(&selected("c", "n1", 60)))))]
#[case::takes_a_volume_by_hand(&[], |cluster: &mut Cluster| is_relieved(cluster.show(volume("c", 20, false))))]
#[case::volume_goes(&[volume("c", 20, true), bound("c", "n1", 60)], |cluster: &mut Cluster| is_relieved(cluster.gone(&Key::volume("of-c"))))]
#[case::is_reported_and_more_is_free(&[volume("c", 20, true), bound("c", "n1", 60)], |cluster: &mut Cluster| is_relieved(cluster.show(report("r1", "n1", 90, 30))))]
fn a_promise_that_comes_to_nothing_makes_room(
    #[case] before: &[Object],
    #[case] ends: fn(&mut Cluster) -> bool,
) {
    let mut cluster = world();
    cluster.show(selected("c", "n1", 60));
    for object in before {
        cluster.show(object.clone());
    }
    assert_eq!(promised(&cluster, "r1"), 60);
    assert!(ends(&mut cluster), "pods that wait hear of it");
    assert_eq!(promised(&cluster, "r1"), 0);
}

#[test]
fn a_claim_that_goes_leaves_its_volume_counted() {
    let mut cluster = world();
    for object in [selected("c", "n1", 60), volume("c", 20, true), bound("c", "n1", 60)] {
        cluster.show(object);
    }
    cluster.gone(&key(&selected("c", "n1", 60)));
    assert_eq!(promised(&cluster, "r1"), 60);
    cluster.gone(&Key::volume("of-c"));
    assert_eq!(promised(&cluster, "r1"), 0);
}

#[test]
fn a_report_that_is_newer_than_the_volume_has_it_whichever_is_seen_first() {
    let mut cluster = world();
    cluster.show(selected("c", "n1", 60));
    // The pool has grown meanwhile: nothing but the order of versions tells.
    cluster.show(report("r1", "n1", 140, 30));
    assert_eq!(promised(&cluster, "r1"), 60);
    cluster.show(volume("c", 20, true));
    assert_eq!(promised(&cluster, "r1"), 0);
}

#[test]
fn a_report_that_falls_before_the_volume_is_seen_has_what_was_promised_first() {
    let mut cluster = world();
    for (name, size) in [("a", 60), ("b", 30)] {
        cluster.show(selected(name, "n1", size));
    }
    cluster.show(report("r1", "n1", 90, 11));
    assert_eq!(promised(&cluster, "r1"), 90, "ten are nobody's");
    cluster.show(report("r1", "n1", 30, 12));
    assert_eq!(promised(&cluster, "r1"), 30);
    cluster.show(volume("a", 20, true));
    assert_eq!(promised(&cluster, "r1"), 30, "it is counted once");
    cluster.show(volume("b", 21, true));
    cluster.show(report("r1", "n1", 1, 22));
    assert_eq!(promised(&cluster, "r1"), 0);
}

#[test]
fn what_a_report_falls_by_is_first_what_has_been_made() {
    let mut cluster = world();
    cluster.show(selected("early", "n1", 30));
    cluster.show(selected("made", "n1", 30));
    cluster.show(volume("made", 20, true));
    cluster.show(report("r1", "n1", 70, 21));
    assert_eq!(promised(&cluster, "r1"), 30, "the other one is still to come");
}

#[test]
fn whatever_is_seen_first_the_promise_is_booked_in_the_end() {
    let objects = [driver(), class(), node("n1"), report("r1", "n1", 100, 10), selected("c", "n1", 60)];
    for last in 0..objects.len() {
        let mut cluster = Cluster::new();
        for step in 1..=objects.len() {
            assert_eq!(promised(&cluster, "r1"), 0);
            cluster.show(objects[(last + step) % objects.len()].clone());
        }
        assert_eq!(promised(&cluster, "r1"), 60, "{last}");
    }
}

#[test]
fn a_node_may_draw_from_several_reports() {
    let mut cluster = world();
    cluster.show(report("r2", "n1", 100, 10));
    cluster.show(selected("a", "n1", 60));
    cluster.show(selected("b", "n1", 60));
    assert_eq!((promised(&cluster, "r1"), promised(&cluster, "r2")), (60, 60));
    cluster.show(selected("c", "n1", 60));
    assert_eq!((promised(&cluster, "r1"), promised(&cluster, "r2")), (120, 60), "it is made all the same");
    cluster.gone(&key(&report("r1", "n1", 100, 10)));
    assert_eq!(promised(&cluster, "r2"), 180);
}

#[test]
fn another_node_or_another_size_is_another_promise() {
    let mut cluster = world();
    cluster.show(report("r2", "n2", 100, 10));
    cluster.show(selected("c", "n1", 60));
    cluster.show(selected("c", "n1", 50));
    assert_eq!((promised(&cluster, "r1"), promised(&cluster, "r2")), (50, 0));
    cluster.show(selected("c", "n2", 50));
    assert_eq!((promised(&cluster, "r1"), promised(&cluster, "r2")), (0, 50));
}

#[test]
fn what_is_only_assumed_counts_as_long_as_it_is() {
    let mut cluster = world();
    cluster.show(object::<Claim>(claim("c", None, 60)));
    cluster.assume(selected("c", "n1", 60));
    assert_eq!(promised(&cluster, "r1"), 60);
    cluster.restore(&key(&selected("c", "n1", 60)));
    assert_eq!(promised(&cluster, "r1"), 0);
}

#[test]
fn a_claim_that_loses_the_volume_that_was_reserved_for_it_has_one_made() {
    let mut cluster = world();
    cluster.show(volume("c", 20, false));
    cluster.show(selected("c", "n1", 60));
    assert_eq!(promised(&cluster, "r1"), 0);
    cluster.gone(&Key::volume("of-c"));
    assert_eq!(promised(&cluster, "r1"), 60);
}

#[rstest]
#[case::no_topology(json!({"nodeTopology": null}))]
#[case::another_class(json!({"storageClassName": "other"}))]
#[case::another_node(json!({"nodeTopology": {"matchLabels": {"host": "n2"}}}))]
fn a_report_about_something_else_is_not_drawn_from(#[case] differs: Value) {
    let mut value = json!({
        "metadata": {"namespace": "d", "name": "r1"}, "storageClassName": "w", "capacity": "100Gi",
        "nodeTopology": {"matchLabels": {"host": "n1"}},
    });
    for (field, other) in differs.as_object().unwrap() {
        value[field] = other.clone();
    }
    let mut cluster = Cluster::new();
    for object in [driver(), class(), node("n1"), object::<Capacity>(value), selected("c", "n1", 60)] {
        cluster.show(object);
    }
    assert_eq!(promised(&cluster, "r1"), 0);
}
