//! Decides whether an event may be stored. The newer API asks for more than the older one. Answers to
//! `kubernetes/pkg/apis/core/validation/events.go`.

use serde_json::Value;

use super::names;
use crate::object::text;
use crate::status::Cause;

const LONGEST_NOTE: usize = 1024;
const IMMUTABLE: &str = "field is immutable";

pub(super) fn create(value: &Value, newer: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let namespace = text(value, &["metadata", "namespace"]);
    let involved = text(value, &["involvedObject", "namespace"]);
    // What has no namespace is told of in "default".
    let fits = if involved.is_empty() { namespace == "default" } else { involved == namespace };
    if !fits {
        let why = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", involved, why));
    }
    if newer {
        newer_fields(value, &mut causes);
    }
    causes
}

fn newer_fields(value: &Value, causes: &mut Vec<Cause>) {
    if value["eventTime"].as_str().is_none_or(str::is_empty) {
        causes.push(Cause::required("eventTime", ""));
    }
    let controller = text(value, &["reportingComponent"]);
    if controller.is_empty() {
        causes.push(Cause::required("reportingController", ""));
        causes.push(Cause::invalid("reportingController", "", "name part must be non-empty"));
    }
    causes.extend(names::word(controller).map(|why| Cause::invalid("reportingController", controller, &why)));
    for (field, shown) in
        [("reportingInstance", "reportingInstance"), ("action", "action"), ("reason", "reason")]
    {
        if text(value, &[field]).is_empty() {
            causes.push(Cause::required(shown, ""));
        }
    }
    let kind = text(value, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(Cause::invalid("type", "", &format!("has invalid value: {kind}")));
    }
    if text(value, &["message"]).len() > LONGEST_NOTE {
        causes.push(Cause::invalid("message", "", &format!("can have at most {LONGEST_NOTE} characters")));
    }
}

pub(super) fn update(old: &Value, new: &Value, newer: bool) -> Vec<Cause> {
    let mut causes = create(new, newer);
    if !newer {
        return causes;
    }
    for (field, times) in [
        ("involvedObject", 1),
        ("reason", 2),
        ("message", 1),
        ("source", 1),
        ("firstTimestamp", 1),
        ("lastTimestamp", 1),
        ("count", 1),
        ("eventTime", 1),
        ("action", 1),
        ("related", 1),
        ("reportingComponent", 1),
        ("reportingInstance", 1),
        ("type", 1),
    ] {
        if old.get(field) != new.get(field) {
            let cause = Cause::invalid(field, new.get(field).cloned().unwrap_or_default(), IMMUTABLE);
            causes.extend(std::iter::repeat_n(cause, times));
        }
    }
    causes
}
