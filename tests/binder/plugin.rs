//! `plugin` and `preBindPreFlight`: one pod through a scheduling cycle.

use pvbind::binder::{Code, Cycle, Status};
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
    let statuses = cycle.filter(&cluster, &settings, &pod, &nodes);
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
    story.text()
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
