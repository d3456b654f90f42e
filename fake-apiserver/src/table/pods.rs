//! Decides the row of a pod, above all what its containers say of its status. Answers to `printPod` of
//! `kubernetes/pkg/printers/internalversion/printers.go`.

use serde_json::{Value, json};

use super::{AGE, Column, NAME, Row, string, text, wide};
use crate::object::{at, text as string_at};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    string("Ready"),
    string("Status"),
    string("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

/// What was learned from the containers so far.
#[derive(Default)]
struct Seen<'a> {
    reason: String,
    ready: usize,
    restarts: i64,
    /// When a container last came to an end, as the text that sorts like the time.
    last_end: &'a str,
}

impl<'a> Seen<'a> {
    fn count_restarts(&mut self, container: &'a Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or(0);
        let end = string_at(container, &["lastState", "terminated", "finishedAt"]);
        self.last_end = self.last_end.max(end);
    }
}

pub(super) fn cells(row: &Row<'_>) -> Vec<Value> {
    let mut seen = Seen { reason: first_reason(row), ..Seen::default() };
    let initializing = look_at_init_containers(row, &mut seen);
    if !initializing || row.has_condition("Initialized") {
        look_at_containers(row, &mut seen);
    }
    if row.is_terminating() {
        if row.text(&["status", "reason"]) == "NodeLost" {
            seen.reason = "Unknown".into();
        } else if !matches!(row.text(&["status", "phase"]), "Succeeded" | "Failed") {
            seen.reason = "Terminating".into();
        }
    }
    let restarts = if seen.restarts != 0 && !seen.last_end.is_empty() {
        format!("{} ({} ago)", seen.restarts, text::since(seen.last_end, row.now))
    } else {
        seen.restarts.to_string()
    };
    let sidecars = row.list(&["spec", "initContainers"]).iter().filter(|one| restarts_always(one)).count();
    let total = row.list(&["spec", "containers"]).len() + sidecars;
    let ip = row.list(&["status", "podIPs"]).first().map_or("", |ip| string_at(ip, &["ip"]));
    vec![
        row.name(),
        format!("{}/{total}", seen.ready).into(),
        seen.reason.into(),
        restarts.into(),
        row.age(),
        if ip.is_empty() { "<none>" } else { ip }.into(),
        row.text_or(&["spec", "nodeName"], "<none>").into(),
        row.text_or(&["status", "nominatedNodeName"], "<none>").into(),
        gates(row).into(),
    ]
}

/// The condition that clients use to grey out what is over.
pub(super) fn conditions(row: &Row<'_>) -> Option<Value> {
    let (reason, message) = match row.text(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// What the pod itself says.
fn first_reason(row: &Row<'_>) -> String {
    let conditions = row.list(&["status", "conditions"]);
    let gated =
        conditions.iter().any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated");
    if gated {
        return "SchedulingGated".to_owned();
    }
    row.text_or(&["status", "reason"], row.text(&["status", "phase"])).to_owned()
}

fn restarts_always(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// What a state says of an end: a reason, a signal or a code.
fn end(terminated: &Value) -> String {
    let reason = string_at(terminated, &["reason"]);
    let number = |name: &str| terminated[name].as_i64().unwrap_or(0);
    if !reason.is_empty() {
        reason.to_owned()
    } else if number("signal") != 0 {
        format!("Signal:{}", number("signal"))
    } else {
        format!("ExitCode:{}", number("exitCode"))
    }
}

fn state<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    at(container, &["state", name]).filter(|state| state.is_object())
}

/// Says whether the pod is still, or for ever, initialising.
fn look_at_init_containers<'a>(row: &Row<'a>, seen: &mut Seen<'a>) -> bool {
    let specs = row.list(&["spec", "initContainers"]);
    let mut sidecars = Seen::default();
    let mut initializing = false;
    for (index, container) in row.list(&["status", "initContainerStatuses"]).iter().enumerate() {
        let spec = specs.iter().find(|spec| spec["name"] == container["name"]);
        let sidecar = spec.is_some_and(restarts_always);
        seen.count_restarts(container);
        if sidecar {
            sidecars.count_restarts(container);
        }
        let terminated = state(container, "terminated");
        if terminated.is_some_and(|state| state["exitCode"].as_i64().unwrap_or(0) == 0) {
            continue;
        }
        if sidecar && container["started"] == true {
            seen.ready += usize::from(container["ready"] == true);
            continue;
        }
        let waiting = state(container, "waiting").map_or("", |state| string_at(state, &["reason"]));
        seen.reason = match terminated {
            Some(state) => format!("Init:{}", end(state)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", specs.len()),
        };
        initializing = true;
        break;
    }
    if !initializing || row.has_condition("Initialized") {
        (seen.restarts, seen.last_end) = (sidecars.restarts, sidecars.last_end);
    }
    initializing
}

fn look_at_containers<'a>(row: &Row<'a>, seen: &mut Seen<'a>) {
    let (mut running, mut failure) = (false, None);
    for container in row.list(&["status", "containerStatuses"]).iter().rev() {
        seen.count_restarts(container);
        let waiting = state(container, "waiting").map_or("", |state| string_at(state, &["reason"]));
        if !waiting.is_empty() {
            waiting.clone_into(&mut seen.reason);
        } else if let Some(state) = state(container, "terminated") {
            seen.reason = end(state);
            if state["exitCode"].as_i64().unwrap_or(0) != 0 {
                failure = Some(seen.reason.clone());
            }
        } else if container["ready"] == true && state(container, "running").is_some() {
            running = true;
            seen.ready += 1;
        }
    }
    if seen.reason == "Completed" {
        if running && row.has_condition("Ready") {
            seen.reason = "Running".into();
        } else if let Some(failure) = failure {
            seen.reason = failure;
        } else if running {
            seen.reason = "NotReady".into();
        }
    }
}

fn gates(row: &Row<'_>) -> String {
    let gates = row.list(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates.iter().filter(|gate| row.has_condition(string_at(gate, &["conditionType"]))).count();
    format!("{passed}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[track_caller]
    fn check(spec: &Value, status: &Value, expected: [&str; 3]) {
        let value = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        let row = Row { value: &value, now: "2024-01-01T01:00:00Z".parse::<Timestamp>().unwrap() };
        let cells = cells(&row);
        assert_eq!([&cells[1], &cells[2], &cells[3]], expected);
    }

    #[test]
    fn the_status_is_what_the_containers_say() {
        let one = json!({"containers": [{"name": "a"}]});
        check(&one, &json!({"phase": "Pending"}), ["0/1", "Pending", "0"]);
        let running = json!({"phase": "Running", "containerStatuses": [{
            "ready": true, "restartCount": 2, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": "2024-01-01T00:55:00Z"}}}]});
        check(&one, &running, ["1/1", "Running", "2 (5m ago)"]);
        let crashing = json!({"phase": "Running", "containerStatuses": [{
            "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
        check(&one, &crashing, ["0/1", "CrashLoopBackOff", "1"]);
        let killed = json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "signal": 9}}}]});
        check(&one, &killed, ["0/1", "Signal:9", "0"]);
        let gated = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]});
        check(&one, &gated, ["0/1", "SchedulingGated", "0"]);
    }

    #[test]
    fn what_is_over_beside_what_runs() {
        let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let status = |ready: &str| {
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [
                {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}},
                {"ready": true, "state": {"running": {}}}]})
        };
        check(&two, &status("True"), ["1/2", "Running", "0"]);
        check(&two, &status("False"), ["1/2", "NotReady", "0"]);
    }

    #[test]
    fn init_containers_come_first() {
        let spec = json!({"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]});
        let first = json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 3, "state": {"waiting": {"reason": "PodInitializing"}}}]});
        check(&spec, &first, ["0/2", "Init:0/2", "3"]);
        let failed = json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1}}}]});
        check(&spec, &failed, ["0/2", "Init:ExitCode:1", "0"]);
        let done = json!({"phase": "Running", "initContainerStatuses": [
            {"name": "i", "restartCount": 3, "state": {"terminated": {"exitCode": 0}}},
            {"name": "s", "restartCount": 1, "started": true, "ready": true, "state": {"running": {}}}],
            "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}}}]});
        check(&spec, &done, ["2/2", "Running", "1"]);
    }
}
