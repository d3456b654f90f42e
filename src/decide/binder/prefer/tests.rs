//! The facts of upstream's `TestTaintTolerationScore` and `TestNodeAffinityPriority`, restated, and how they are weighed.

use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;
use crate::cluster::Object;

/// Taints and labels of nodes, named `n0`, `n1` and so on.
fn world(nodes: &[Value]) -> (Cluster, Vec<Node>) {
    let mut cluster = Cluster::new();
    let mut shown = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let taints: Vec<Value> = node["taints"].as_array().into_iter().flatten().cloned().collect();
        let node: Node = from_value(json!({
            "metadata": {"name": format!("n{index}"), "labels": node["labels"]},
            "spec": {"taints": taints},
        }))
        .unwrap();
        cluster.show(Object::from(node.clone()));
        shown.push(node);
    }
    (cluster, shown)
}

fn pod(mut spec: Value) -> Pod {
    spec["containers"] = json!([]);
    from_value(json!({"metadata": {"namespace": "default", "name": "p"}, "spec": spec})).unwrap()
}

fn preferred(spec: Value, nodes: &[Value]) -> Vec<i64> {
    let (cluster, nodes) = world(nodes);
    let nodes: Vec<_> = nodes.iter().map(Some).collect();
    preferences(&cluster, &Key::pod("default", "p"), &pod(spec), &nodes)
}

fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect})
}

fn tainted(taints: &[Value]) -> Value {
    json!({"taints": taints})
}

const PREFER: &str = "PreferNoSchedule";

/// What upstream gives the nodes for their taints, of at most 100.
#[rstest]
#[case::tolerated(
    &[taint("foo", "bar", PREFER)],
    &[tainted(&[taint("foo", "bar", PREFER)]), tainted(&[taint("foo", "blah", PREFER)])],
    &[100, 0]
)]
#[case::as_many_as_there_are(
    &[taint("cpu", "arm64", PREFER), taint("disk", "ssd", PREFER)],
    &[tainted(&[]), tainted(&[taint("cpu", "arm64", PREFER)]), tainted(&[taint("cpu", "arm64", PREFER), taint("disk", "ssd", PREFER)])],
    &[100, 100, 100]
)]
#[case::the_more_the_worse(
    &[taint("foo", "bar", PREFER)],
    &[tainted(&[]), tainted(&[taint("cpu", "arm64", PREFER)]), tainted(&[taint("cpu", "arm64", PREFER), taint("disk", "ssd", PREFER)])],
    &[100, 50, 0]
)]
#[case::only_that_effect(
    &[taint("cpu", "arm64", "NoSchedule"), taint("disk", "ssd", "NoSchedule")],
    &[tainted(&[]), tainted(&[taint("cpu", "arm64", "NoSchedule")]), tainted(&[taint("cpu", "arm64", PREFER), taint("disk", "ssd", PREFER)])],
    &[100, 100, 0]
)]
#[case::no_tolerations(&[], &[tainted(&[]), tainted(&[taint("cpu", "arm64", PREFER)])], &[100, 0])]
fn taints_that_are_not_tolerated(
    #[case] tolerated: &[Value],
    #[case] nodes: &[Value],
    #[case] wanted: &[i64],
) {
    let wanted: Vec<i64> = wanted.iter().map(|score| score * WEIGHTS.0).collect();
    assert_eq!(preferred(json!({"tolerations": tolerated}), nodes), wanted);
}

/// Terms with their weights, each written `key=value key=value`.
fn prefers(terms: &[(i32, &str)]) -> Value {
    let expression = |pair: &str| {
        let (key, value) = pair.split_once('=').expect("key=value");
        json!({"key": key, "operator": "In", "values": [value]})
    };
    let term = |(weight, labels): &(i32, &str)| {
        let expressions: Vec<Value> = labels.split_whitespace().map(expression).collect();
        json!({"weight": weight, "preference": {"matchExpressions": expressions}})
    };
    let terms: Vec<Value> = terms.iter().map(term).collect();
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// What upstream gives the nodes for their labels, of at most 100.
#[rstest]
#[case::none_matches(&[(2, "foo=bar")], &[json!({"abc": "az11"}), json!({"key": "value"}), json!({"az": "az1"})], &[0, 0, 0])]
#[case::one_matches(&[(2, "foo=bar")], &[json!({"foo": "bar"}), json!({"key": "value"}), json!({"az": "az1"})], &[100, 0, 0])]
#[case::all_match(
    &[(2, "foo=bar"), (4, "key=value"), (5, "foo=bar key=value az=az1")],
    &[json!({"foo": "bar"}), json!({"foo": "bar", "key": "value", "az": "az1"}), json!({"key": "value"})],
    &[18, 100, 36]
)]
#[case::nothing_is_asked(&[(7, "")], &[json!({"foo": "bar"}), json!({})], &[0, 0])]
fn labels_that_are_preferred(#[case] terms: &[(i32, &str)], #[case] nodes: &[Value], #[case] wanted: &[i64]) {
    let nodes: Vec<Value> = nodes.iter().map(|labels| json!({"labels": labels})).collect();
    let wanted: Vec<i64> = wanted.iter().map(|score| WEIGHTS.0 * MOST + WEIGHTS.1 * score).collect();
    assert_eq!(preferred(prefers(terms), &nodes), wanted);
}

#[test]
fn what_is_preferred_comes_before_volumes_and_these_before_names() {
    let (mut cluster, _) =
        world(&[json!({"labels": {}}), json!({"labels": {"foo": "bar"}}), json!({"labels": {}})]);
    let key = Key::pod("default", "p");
    let nothing = PodVolumes::default;
    let provision = crate::cluster::Provision { claim: std::sync::Arc::default(), capacity: None };
    let made = || PodVolumes { provisions: vec![provision.clone()], ..PodVolumes::default() };
    let fitting = [("n0", made()), ("n1", made()), ("n2", nothing())];
    let chosen = |cluster: &Cluster, spec: Value| {
        best(cluster, &key, &pod(spec), &fitting).expect("some node is the best").0
    };
    assert_eq!(chosen(&cluster, prefers(&[(1, "foo=bar")])), "n1");
    assert_eq!(chosen(&cluster, json!({})), "n2");
    let busy = json!({"metadata": {"namespace": "default", "name": "busy"}, "spec": {"nodeName": "n0", "containers": []}});
    cluster.show(Object::from(from_value::<Pod>(busy).unwrap()));
    let alike = [("n0", nothing()), ("n1", nothing()), ("n2", nothing())];
    assert_eq!(best(&cluster, &key, &pod(json!({})), &alike).expect("one is").0, "n1");
    assert_eq!(best(&cluster, &key, &pod(json!({})), &[]), None);
}
