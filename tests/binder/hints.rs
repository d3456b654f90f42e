//! Whether a change may help a pod that waits: `isSchedulableAfter…Change`.

use std::sync::Arc;

use pvbind::cluster::{Cluster, Object};
use pvbind::decide::binder::hints::{self, Hint, WrongKind};
use pvbind::objects::{Capacity, Claim, Class, CsiDriver, CsiNode, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::record::{Record, part};

/// One object of the change. What is none at all upstream is an object of a kind that nobody asks about.
fn object<T: DeserializeOwned>(value: &Value) -> Option<Object>
where
    Object: From<T>,
{
    if value.get("notAnObject").is_some() {
        return Some(Object::Node(Arc::default()));
    }
    let object: Option<T> = serde_json::from_value(value.clone()).expect("an object of that kind");
    object.map(Object::from)
}

/// What changes: the object before, if there was one, and after.
fn change<T: DeserializeOwned>(record: &Record) -> (Option<Object>, Object)
where
    Object: From<T>,
{
    let [before, after] = ["old", "new"].map(|field| object::<T>(&record.input[field]));
    (before, after.expect("no record is about the end of an object"))
}

fn pod(record: &Record) -> Pod {
    record.input("pod").unwrap_or_default()
}

/// Holds the answer against the record.
fn compare(record: &Record, answer: Result<Hint, WrongKind>) -> String {
    // Whoever gets an error has to queue the pod.
    let hint = match answer {
        Ok(Hint::Skip) => "QueueSkip",
        Ok(Hint::Queue) | Err(_) => "Queue",
    };
    let error = answer.err().map(|error| error.to_string());
    assert_eq!(json!(hint), record.want["hint"]);
    assert_eq!(json!(error.is_some()), record.want["fail"]);
    assert_eq!(json!(hint), record.got["hint"]);
    let recorded: Option<String> = part(&record.got, "error");
    assert_eq!(error, recorded.map(|error| error.replace("*struct {}", "*v1.Node")));
    let shown = |field: &str| record.input[field].to_string();
    let (pod, before, after) = (shown("pod"), shown("old"), shown("new"));
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    format!("pod     {pod}\nbefore  {before}\nafter   {after}\n\n{hint}{error}\n")
}

pub fn csi_node(record: &Record) -> String {
    let (before, after) = change::<CsiNode>(record);
    compare(record, hints::is_schedulable_after_csi_node_change(before.as_ref(), &after))
}

pub fn claim(record: &Record) -> String {
    let (before, after) = change::<Claim>(record);
    compare(record, hints::is_schedulable_after_claim_change(&pod(record), before.as_ref(), &after))
}

pub fn class(record: &Record) -> String {
    let (before, after) = change::<Class>(record);
    compare(record, hints::is_schedulable_after_class_change(before.as_ref(), &after))
}

pub fn capacity(record: &Record) -> String {
    let (before, after) = change::<Capacity>(record);
    compare(record, hints::is_schedulable_after_capacity_change(before.as_ref(), &after))
}

pub fn csi_driver(record: &Record) -> String {
    let (before, after) = change::<CsiDriver>(record);
    let cluster = Cluster::new();
    let answer =
        hints::is_schedulable_after_csi_driver_change(&cluster, &pod(record), before.as_ref(), &after);
    compare(record, answer)
}
