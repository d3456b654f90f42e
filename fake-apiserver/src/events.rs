//! Decides how an event of `events.k8s.io/v1` is stored as an event of `v1` and shown again: the two groups
//! are two views of one table. Never judges an event. Answers to
//! `kubernetes/pkg/apis/events/v1/conversion.go`.

use serde_json::{Map, Value};

/// (name in `events.k8s.io/v1`, name in `v1`)
const RENAMED: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Fields that the core view shows even when they are empty.
const CORE_ALWAYS: &[(&str, bool)] = &[
    ("eventTime", false),
    ("firstTimestamp", false),
    ("lastTimestamp", false),
    ("reportingComponent", true),
    ("reportingInstance", true),
];

/// The event as `v1` has it, in which it is stored.
pub(crate) fn to_core(event: &Value) -> Value {
    let mut core =
        renamed(event, "v1", |name| RENAMED.iter().find(|(view, _)| *view == name).map(|(_, core)| *core));
    complete(&mut core);
    core
}

/// Adds what the core view shows even when it is empty.
pub(crate) fn complete(core: &mut Value) {
    let Some(fields) = core.as_object_mut() else { return };
    // Go leaves empty strings out, but for the two that the core view always shows.
    fields.retain(|name, value| {
        value != "" || CORE_ALWAYS.iter().any(|(always, is_text)| *is_text && always == name)
    });
    for (name, is_text) in CORE_ALWAYS {
        let empty = if *is_text { Value::from("") } else { Value::Null };
        fields.entry(*name).or_insert(empty);
    }
    for name in ["involvedObject", "source"] {
        fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
}

/// The event as `events.k8s.io/v1` shows it.
pub(crate) fn to_view(event: &Value) -> Value {
    let to = |name: &str| RENAMED.iter().find(|(_, core)| *core == name).map(|(view, _)| *view);
    let mut view = renamed(event, "events.k8s.io/v1", to);
    if let Some(fields) = view.as_object_mut() {
        for name in ["reportingController", "reportingInstance"] {
            if fields.get(name).is_some_and(|value| value == "") {
                fields.remove(name);
            }
        }
        for (name, empty) in
            [("deprecatedFirstTimestamp", Value::Null), ("deprecatedLastTimestamp", Value::Null)]
        {
            fields.entry(name).or_insert(empty);
        }
    }
    view
}

fn renamed(event: &Value, api_version: &str, to: impl Fn(&str) -> Option<&'static str>) -> Value {
    let mut fields = Map::new();
    for (name, value) in event.as_object().into_iter().flatten() {
        fields.insert(to(name).unwrap_or(name).to_owned(), value.clone());
    }
    if fields.contains_key("apiVersion") {
        fields.insert("apiVersion".into(), api_version.into());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_views_convert_both_ways() {
        let view = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "note": "n", "reason": "R",
            "regarding": {"kind": "Pod"}, "reportingController": "c", "reportingInstance": "i", "deprecatedCount": 2,
            "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
            "eventTime": "2024-01-01T00:00:00.000000Z",
        });
        let core = to_core(&view);
        assert_eq!(core["message"], "n");
        assert_eq!(core["involvedObject"]["kind"], "Pod");
        assert_eq!(core["reportingComponent"], "c");
        assert_eq!(core["apiVersion"], "v1");
        assert_eq!(to_view(&core), view);
    }
}
