//! The facts of upstream's `TestTaintTolerationScore` and `TestNodeAffinityPriority`, restated, and how they are weighed.

use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;
use crate::cluster::Object;
use crate::decide::binder::storage::{Point, Scoring, Shape};
use crate::decide::binder::{Pods, schedule};
use crate::objects::{Capacity, Claim, Class, CsiDriver};

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
        best(cluster, &Settings::default(), &key, &pod(spec), &fitting).expect("some node is the best").0
    };
    assert_eq!(chosen(&cluster, prefers(&[(1, "foo=bar")])), "n1");
    assert_eq!(chosen(&cluster, json!({})), "n2");
    let busy = json!({"metadata": {"namespace": "default", "name": "busy"}, "spec": {"nodeName": "n0", "containers": []}});
    cluster.show(Object::from(from_value::<Pod>(busy).unwrap()));
    let alike = [("n0", nothing()), ("n1", nothing()), ("n2", nothing())];
    assert_eq!(best(&cluster, &Settings::default(), &key, &pod(json!({})), &alike).expect("one is").0, "n1");
    assert_eq!(best(&cluster, &Settings::default(), &key, &pod(json!({})), &[]), None);
}

/// Two nodes with storage of their own, of which so many gigabytes are left, and so many are promised to other claims; the
/// pod is to have a volume of one gigabyte made.
fn storage(left: [u64; 2], promised: [u64; 2], scoring: Scoring) -> String {
    let mut cluster = Cluster::new();
    let mut show = |object: Object| drop(cluster.show(object));
    let spec = json!({"storageCapacity": true});
    show(Object::from(from_value::<CsiDriver>(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()));
    let class = json!({
        "metadata": {"name": "w"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer",
    });
    show(Object::from(from_value::<Class>(class).unwrap()));
    let claim = |name: &str, size: u64, annotations: &Value| {
        let claim = json!({
            "metadata": {"namespace": "default", "name": name, "annotations": annotations},
            "spec": {"storageClassName": "w", "resources": {"requests": {"storage": format!("{size}Gi")}}},
        });
        Object::from(from_value::<Claim>(claim).unwrap())
    };
    for (index, (left, promised)) in left.into_iter().zip(promised).enumerate() {
        let (node, labels) = (format!("n{index}"), json!({"host": index.to_string()}));
        let status = json!({"allocatable": {"pods": "9"}});
        let shown = json!({"metadata": {"name": node, "labels": labels}, "status": status});
        show(Object::from(from_value::<Node>(shown).unwrap()));
        let report = json!({
            "metadata": {"namespace": "default", "name": format!("r{index}")}, "storageClassName": "w",
            "nodeTopology": {"matchLabels": labels}, "capacity": format!("{left}Gi"),
        });
        show(Object::from(from_value::<Capacity>(report).unwrap()));
        if promised > 0 {
            let selected = json!({"volume.kubernetes.io/selected-node": node});
            show(claim(&format!("other-{index}"), promised, &selected));
        }
    }
    show(claim("c", 1, &json!({})));
    let spec = json!({
        "containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    });
    show(Object::from(pod(spec)));
    let settings = Settings { scoring, ..Settings::default() };
    let plan = schedule(&cluster, &settings, &Pods::All, &Key::pod("default", "p"));
    plan.reason.to_string()
}

#[rstest]
#[case::by_name([9, 10], [0, 0], Scoring::BestFit, "n0")]
#[case::emptier([9, 10], [0, 0], Scoring::Capacity(Shape::default()), "n1")]
#[case::fuller([10, 9], [0, 0], Scoring::Capacity(Shape::new(&[Point { utilization: 0, score: 0 }, Point { utilization: 100, score: 100 }]).unwrap()), "n1")]
#[case::promised([9, 10], [0, 5], Scoring::Capacity(Shape::default()), "n0")]
#[case::equal([9, 9], [0, 0], Scoring::Capacity(Shape::default()), "n0")]
fn nodes_are_scored_by_how_full_storage_becomes(
    #[case] left: [u64; 2],
    #[case] promised: [u64; 2],
    #[case] scoring: Scoring,
    #[case] node: &str,
) {
    let told = storage(left, promised, scoring);
    assert!(told.starts_with(&format!("node {node} is chosen")), "{told}");
}
