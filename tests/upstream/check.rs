//! Holding what happened against what was recorded.

use std::collections::BTreeMap;

use pvbind::cluster::{Key, Object};
use serde_json::Value;

use crate::mock::Used;
use crate::record::Record;

/// What a run left and did.
#[derive(Debug, Default)]
pub struct Run {
    /// The claims and volumes that the API server holds.
    pub objects: BTreeMap<Key, Object>,
    /// The events in order, as `TYPE REASON MESSAGE`.
    pub events: Vec<String>,
    /// The writes in order: (resource, subresource, name, patch).
    pub writes: Vec<(String, String, String, Value)>,
    /// The volumes that were created, as they were sent.
    pub created: Vec<Value>,
    /// How many volumes were deleted.
    pub deletes: usize,
    /// How many objects were asked for.
    pub reads: usize,
    /// How often each of the plugin's results was used.
    pub used: Used,
    /// Whether each call failed.
    pub failed: Vec<bool>,
}

/// Fails where the plugin was called more or less often than by upstream.
fn plugin(record: &Record, run: &Run) {
    if let Some(used) = record.used() {
        assert_eq!(run.used, used, "results of the plugin that were used");
    }
}

/// Fails where other volumes were created than by upstream.
fn created(record: &Record, run: &Run) {
    let Some(recorded) = record.observed_creates().filter(|_| is_single_call(record)) else { return };
    let sent: Vec<Value> = run.created.iter().map(|volume| without_versions(volume.clone())).collect();
    let recorded: Vec<Value> = recorded.into_iter().map(without_versions).collect();
    assert_eq!(sent, recorded, "created volumes");
}

fn without_versions(mut value: Value) -> Value {
    value["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    if let Some(reference) = value.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
        reference.remove("resourceVersion");
    }
    value
}

fn comparable(object: &Object) -> Value {
    let value = match object {
        Object::Claim(claim) => serde_json::to_value(&**claim),
        Object::Volume(volume) => serde_json::to_value(&**volume),
        other => panic!("{} is neither claim nor volume", other.key()),
    }
    .expect("an API object serialises");
    without_versions(value)
}

fn by_key<'a>(objects: impl Iterator<Item = &'a Object>) -> BTreeMap<String, Value> {
    objects.map(|object| (object.key().to_string(), comparable(object))).collect()
}

/// Fails where the end state differs from the recorded one.
pub fn end_state(record: &Record, run: &Run) {
    let volumes = record.expected_volumes.iter().cloned().map(Object::from);
    let claims = record.expected_claims.iter().cloned().map(Object::from);
    let expected: Vec<Object> = volumes.chain(claims).collect();
    let expected = by_key(expected.iter());
    let actual = by_key(run.objects.values());
    for key in expected.keys().chain(actual.keys()) {
        let (expected, actual) = (expected.get(key), actual.get(key));
        let text = |v: Option<&Value>| v.map_or("(absent)".to_owned(), |v| format!("{v:#}"));
        assert!(expected == actual, "{key}\nrecorded: {}\nactual: {}", text(expected), text(actual));
    }
}

/// Fails where the events differ from the recorded ones: the full texts where a single call was recorded, else
/// upstream's own rule, as many events as it expects, by prefix.
pub fn events(record: &Record, run: &Run) {
    let actual = &run.events;
    let recorded = record.observed_events().filter(|_| is_single_call(record));
    if let Some(mut recorded) = recorded {
        // Upstream says that storage is left over after it has deleted it, because it finds no volume to take a
        // finalizer from. We only say so when it is.
        let deletes = record.plugin_calls().and_then(|calls| calls.delete.as_ref());
        if deletes.is_some_and(|calls| calls.contains(&None)) {
            recorded.retain(|event| !event.contains("ProvisioningCleanupFailed"));
        }
        assert_eq!(actual, &recorded, "events");
    }
    assert!(
        actual.len() >= record.expected_events.len(),
        "expected {:?}, got {actual:?}",
        record.expected_events
    );
    for (expected, actual) in record.expected_events.iter().zip(actual) {
        assert!(actual.starts_with(expected.as_str()), "expected {expected:?}, got {actual:?}");
    }
}

/// Fails where the writes are not exactly upstream's, in upstream's order.
pub fn writes(record: &Record, run: &Run) {
    if !is_single_call(record) {
        return;
    }
    let Some(recorded) = record.observed_writes() else { return };
    let actual: Vec<_> = run
        .writes
        .iter()
        .zip(&recorded)
        .map(|((resource, subresource, name, patch), (.., wanted))| {
            let mut change = patch.clone();
            let meta =
                change["metadata"].as_object_mut().expect("a patch names the version it was decided on");
            let precondition = meta.remove("resourceVersion");
            // Upstream drops an annotation map that it has emptied; we take away what is ours, key by key.
            let emptied = wanted["metadata"]["annotations"].is_null();
            if let Some(annotations) = meta.get_mut("annotations").filter(|_| emptied)
                && annotations.as_object().is_some_and(|keys| keys.values().all(Value::is_null))
            {
                *annotations = Value::Null;
            }
            assert!(precondition.is_some_and(|v| v.is_string()), "no precondition on {name}");
            if meta.is_empty() {
                change.as_object_mut().expect("a patch").remove("metadata");
            }
            (resource.clone(), subresource.clone(), name.clone(), change)
        })
        .collect();
    assert_eq!(actual, recorded, "writes");
    assert_eq!(run.writes.len(), recorded.len(), "writes: {:?}", run.writes);
}

/// Fails where a call failed that should not have, or the reverse.
pub fn failures(record: &Record, run: &Run) {
    let expected: Vec<bool> =
        record.call.steps.iter().filter(|s| s.op.starts_with("sync")).map(|s| s.expect_error).collect();
    assert_eq!(run.failed, expected, "which calls failed");
}

/// Whether the record is of one call of `syncClaim` or `syncVolume`.
pub fn is_single_call(record: &Record) -> bool {
    matches!(record.mode.as_str(), "syncClaim" | "syncVolume")
}

/// All of the above.
pub fn all(record: &Record, run: &Run) {
    failures(record, run);
    end_state(record, run);
    events(record, run);
    writes(record, run);
    created(record, run);
    plugin(record, run);
}
