//! `plugin` and `preBindPreFlight`: one pod through a scheduling cycle.

use pvbind::binder::{Cluster, Code, Cycle, Point, Shape, Status};
use pvbind::objects::{Node, Pod, name};
use serde_json::{Value, json};

use crate::record::{Record, part, pod_volumes, with_choice};
use crate::story::Story;

/// A status as the records have it; `null` is a success.
fn recorded(status: Option<&Status>) -> Value {
    let Some(Status { code, reasons }) = status else { return Value::Null };
    let code = match code {
        Code::Skip => "Skip",
        Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        Code::Error => "Error",
    };
    json!({"code": code, "reasons": reasons})
}

pub fn run(record: &Record) -> String {
    let mut story = Story::default();
    story.state(&record.state);
    let (cluster, settings) = (record.state.cluster(), record.settings());
    let (pod, nodes): (Pod, Vec<Node>) = (record.given("pod"), record.given("nodes"));
    story.pod(&pod);
    let cycle = Cycle::pre_filter(&cluster, &pod);
    let status = recorded(cycle.as_ref().err());
    story.line(format_args!("PreFilter -> {status}"));
    compare(record, "preFilterStatus", &status);
    let Ok(mut cycle) = cycle else { return story.text() };
    check_eligible(record, &cycle, &cluster);
    let statuses = cycle.filter(&cluster, &settings, &nodes);
    let statuses: Vec<Value> = statuses.iter().map(|status| recorded(status.as_ref().err())).collect();
    for (node, status) in nodes.iter().zip(&statuses) {
        story.node(node);
        story.line(format_args!("Filter -> {status}"));
        if let Some(volumes) = cycle.on_node(name(&node.metadata)) {
            story.volumes(volumes);
        }
    }
    compare(record, "filterStatuses", &json!(statuses));
    if record.is_behaviour() {
        for node in &nodes {
            let node = name(&node.metadata);
            let wanted = record.got["podVolumesByNode"].get(node).filter(|value| !value.is_null());
            let found = cycle.on_node(node).cloned();
            let wanted =
                wanted.map(|value| pod_volumes(&with_choice(value, &found.clone().unwrap_or_default())));
            assert_eq!(found, wanted, "podVolumesByNode of {node}");
        }
    }
    check_scores(record, &cycle, &nodes, &mut story);
    story.text()
}

/// The newer source looks at every node; the others at those that the bound volumes leave.
fn check_eligible(record: &Record, cycle: &Cycle, cluster: &Cluster) {
    let recorded = &record.want["preFilterResult"];
    if record.is_behaviour() {
        assert!(recorded.is_null(), "preFilterResult");
        return;
    }
    let eligible = cycle.eligible_nodes(cluster).map(|names| json!({ "nodeNames": names }));
    assert_eq!(eligible.unwrap_or_default(), *recorded, "preFilterResult");
}

/// The shape by which nodes are scored, if they are.
fn shape(record: &Record) -> Option<Shape> {
    let features = record.config["features"].as_object().expect("features");
    let scores = features.iter().any(|(name, on)| {
        ["enableStorageCapacityScoring", "enableVolumeCapacityPriority"].contains(&name.as_str())
            && *on == true
    });
    let points = record.config["args"]["shape"].as_array().into_iter().flatten().map(|point| {
        let field = |name: &str| point[name].as_u64().and_then(|n| u8::try_from(n).ok()).expect("a number");
        Point { utilization: field("utilization"), score: field("score") }
    });
    scores.then(|| Shape::configured(&points.collect::<Vec<_>>()).expect("a shape"))
}

/// Without a shape, scoring is skipped; an older source says that every node has 0 then.
fn check_scores(record: &Record, cycle: &Cycle, nodes: &[Node], story: &mut Story) {
    let Some(shape) = shape(record) else {
        if record.is_behaviour() {
            assert_eq!(record.got["preScoreStatus"]["code"], "Skip", "preScoreStatus");
            assert!(record.got["scores"].is_null(), "scores");
        } else {
            assert_eq!(record.want["scores"], json!(vec![0; nodes.len()]), "scores");
        }
        return;
    };
    let scores: Vec<u64> = nodes.iter().map(|node| cycle.score(&shape, name(&node.metadata))).collect();
    story.line(format_args!("Score -> {scores:?}"));
    if record.is_behaviour() {
        assert!(record.got["preScoreStatus"].is_null(), "preScoreStatus");
    }
    compare(record, "scores", &json!(scores));
}

/// Compares what is asserted, and what the behaviour did.
fn compare(record: &Record, field: &str, found: &Value) {
    assert_eq!(*found, record.want[field], "{field}");
    if record.is_behaviour() {
        assert_eq!(*found, record.got[field], "{field}");
    }
}

pub fn pre_flight(record: &Record) -> String {
    let mut story = Story::default();
    let node: String = record.given("nodeName");
    let state: Option<Value> = record.input("cycleState");
    let by_node = state.as_ref().and_then(|state| state["podVolumesByNode"].as_object());
    let by_node = by_node.into_iter().flatten().map(|(node, volumes)| (node.clone(), pod_volumes(volumes)));
    let all_bound = state.as_ref().is_some_and(|state| state["allBound"] == true);
    let cycle = Cycle::restored(by_node.collect(), all_bound);
    let status = cycle.pre_bind(&node).err();
    story.line(format_args!("cycle {state:?}, node {node} -> {}", recorded(status.as_ref())));
    let wanted = &record.want["status"];
    let code = |status: &Value| status.get("code").cloned();
    assert_eq!(code(&recorded(status.as_ref())), code(wanted), "status");
    // There is no cycle without its state here; upstream says that it does not find it.
    if state.is_some() {
        assert_eq!(recorded(status.as_ref()), record.got["status"], "status");
    }
    assert_eq!(part(&record.want, "allowParallel"), Some(true), "one pod's binding waits for no other's");
    story.text()
}
