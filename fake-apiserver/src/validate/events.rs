//! Decides whether an event may be stored. The newer API asks for more than the older one. Answers to
//! `kubernetes/pkg/apis/core/validation/events.go`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::names;
use crate::object::text;
use crate::status::Cause;

const LONGEST: usize = 128;
const LONGEST_NOTE: usize = 1024;
const IMMUTABLE: &str = "field is immutable";

/// What upstream calls the fields of an event, and how often it looks at each when one is changed.
const FIXED: &[(&str, &str, usize)] = &[
    ("involvedObject", "involvedObject", 1),
    ("reason", "reason", 2),
    ("message", "message", 1),
    ("source", "source", 1),
    ("firstTimestamp", "firstTimestamp", 1),
    ("lastTimestamp", "lastTimestamp", 1),
    ("count", "count", 1),
    ("eventTime", "eventTime", 1),
    ("action", "action", 1),
    ("related", "related", 1),
    ("reportingComponent", "reportingController", 1),
    ("reportingInstance", "reportingInstance", 1),
    ("type", "type", 1),
];

pub(super) fn create(value: &Value, newer: bool) -> Causes {
    let mut causes = either(value, newer);
    if !newer {
        return causes;
    }
    series(value, &mut causes);
    if !has_time(value) {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = text(value, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(Cause::invalid("type", "", &format!("has invalid value: {kind}")));
    }
    let event = Field::root(value);
    let unset = |field: &str| Cause::invalid(field, "", "needs to be unset");
    for field in ["firstTimestamp", "lastTimestamp"] {
        causes.extend((!event.at(field).is_empty()).then(|| unset(field)));
    }
    causes.extend((event.at("count").number().unwrap_or(0) != 0).then(|| unset("count")));
    let source = event.at("source");
    let named = !source.at("component").is_empty() || !source.at("host").is_empty();
    causes.extend(named.then(|| unset("source")));
    causes
}

fn has_time(value: &Value) -> bool {
    !text(value, &["eventTime"]).is_empty()
}

/// What both APIs ask for. An event with a time is one of the newer kind, wherever it comes from.
fn either(value: &Value, newer: bool) -> Causes {
    let mut causes = Causes::new();
    let (namespace, involved) =
        (text(value, &["metadata", "namespace"]), text(value, &["involvedObject", "namespace"]));
    // What has no namespace is told of in "default".
    let fits = match (has_time(value), involved.is_empty()) {
        (false, true) => namespace == "default",
        (false, false) => involved == namespace,
        (true, true) => matches!(namespace, "default" | "kube-system"),
        (true, false) => true,
    };
    if !fits {
        let why = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", involved, why));
    }
    if !has_time(value) {
        return causes;
    }
    let shown = if newer { "reportingController" } else { "reportingComponent" };
    let controller = text(value, &["reportingComponent"]);
    if controller.is_empty() {
        causes.push(Cause::required(shown, ""));
    }
    let wrong = names::qualified_names(controller).into_iter();
    causes.extend(wrong.map(|why| Cause::invalid(shown, controller, &why)));
    for field in ["reportingInstance", "action", "reason"] {
        let given = text(value, &[field]);
        if given.is_empty() {
            causes.push(Cause::required(field, ""));
        }
        causes.extend(too_long(field, given, LONGEST));
    }
    causes.extend(too_long("message", text(value, &["message"]), LONGEST_NOTE));
    causes
}

fn too_long(field: &str, given: &str, most: usize) -> Option<Cause> {
    let why = format!("can have at most {most} characters");
    (given.len() > most).then(|| Cause::invalid(field, "", &why))
}

/// How often something happened again, which is at least once.
fn series(value: &Value, causes: &mut Causes) {
    let series = Field::root(value).at("series");
    if !series.is_set() {
        return;
    }
    if series.at("count").number().unwrap_or(0) < 2 {
        causes.push(Cause::invalid("series.count", "", "should be at least 2"));
    }
    series.at("lastObservedTime").need(causes);
}

pub(super) fn update(old: &Value, new: &Value, newer: bool) -> Causes {
    let mut causes = either(new, newer);
    if !newer {
        return causes;
    }
    if old.get("series") != new.get("series") {
        series(new, &mut causes);
    }
    for (field, shown, times) in FIXED {
        if old.get(field) != new.get(field) {
            let cause = Cause::invalid(*shown, new.get(field).cloned().unwrap_or_default(), IMMUTABLE);
            causes.extend(std::iter::repeat_n(cause, *times));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Value {
        json!({
            "metadata": {"namespace": "ns"}, "involvedObject": {"namespace": "ns"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "a.b/c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal",
        })
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the tables below are read more easily")]
    fn check(changes: Value, newer: bool, created: usize, updated: usize) {
        let mut second = event();
        second.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let causes = create(&second, newer);
        assert_eq!(causes.len(), created, "{changes}: {causes:?}");
        let causes = update(&event(), &second, newer);
        assert_eq!(causes.len(), updated, "{changes}: {causes:?}");
    }

    #[test]
    fn the_newer_api_asks_for_more() {
        check(json!({}), true, 0, 0);
        check(json!({"eventTime": null}), true, 1, 1);
        check(json!({"reportingComponent": "Bad name"}), true, 1, 2);
        check(json!({"reportingComponent": ""}), true, 3, 4);
        check(json!({"action": "a".repeat(129)}), true, 1, 2);
        check(json!({"series": {"count": 1}}), true, 2, 2);
        check(json!({"count": 1}), true, 1, 1);
        check(json!({"source": {"component": "c"}}), true, 1, 1);
        check(json!({"type": "Odd"}), true, 1, 1);
        check(json!({"involvedObject": {"namespace": "other"}}), true, 0, 1);
    }

    #[test]
    fn the_older_api_asks_for_less() {
        check(json!({"type": "Odd", "count": 1, "series": {"count": 1}}), false, 0, 0);
        check(json!({"involvedObject": {"namespace": "other"}}), false, 0, 0);
        check(json!({"eventTime": null, "involvedObject": {"namespace": "other"}}), false, 1, 1);
        check(json!({"eventTime": null, "reportingComponent": ""}), false, 0, 0);
    }
}
