//! Decides the rows of pods and of what makes pods. Answers to the `print…` functions of
//! `kubernetes/pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, Entry, NAME, Row, boolean, integer, pods, string, text, wide};
use crate::object::{at, text as string_at};

const APPS: &str = "apps";
const BATCH: &str = "batch";
const RESOURCE: &str = "resource.k8s.io";
const REPLICAS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const DEPLOYMENT: &[Column] = &[
    NAME,
    string("Ready"),
    string("Up-to-date"),
    string("Available"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const DAEMON_SET: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    integer("Up-to-date"),
    integer("Available"),
    string("Node Selector"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const JOB: &[Column] = &[
    NAME,
    string("Status"),
    string("Completions"),
    string("Duration"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const CRON_JOB: &[Column] = &[
    NAME,
    string("Schedule"),
    string("Timezone"),
    boolean("Suspend"),
    integer("Active"),
    string("Last Schedule"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
const BUDGET: &[Column] =
    &[NAME, string("Min Available"), string("Max Unavailable"), integer("Allowed Disruptions"), AGE];
const SLICE: &[Column] = &[NAME, string("Node"), string("Driver"), string("Pool"), AGE];
const POD_TEMPLATE: &[Column] = &[NAME, string("Containers"), string("Images"), string("Pod Labels")];
const TEMPLATE: &[&str] = &["spec", "template", "spec", "containers"];

pub(super) const ENTRIES: &[Entry] = &[
    ("", "Pod", pods::COLUMNS, pods::cells),
    ("", "ReplicationController", REPLICAS, |row| {
        replicas(row, text::labels(at(row.value, &["spec", "selector"])))
    }),
    ("", "PodTemplate", POD_TEMPLATE, |row| {
        let [names, images] = containers(row, &["template", "spec", "containers"]);
        let labels = text::labels(at(row.value, &["template", "metadata", "labels"]));
        vec![row.name(), names, images, labels.into()]
    }),
    ("node.k8s.io", "RuntimeClass", &[NAME, string("Handler"), AGE], |row| {
        vec![row.name(), row.text(&["handler"]).into(), row.age()]
    }),
    (APPS, "ReplicaSet", REPLICAS, |row| {
        replicas(row, text::selector_or_none(at(row.value, &["spec", "selector"])))
    }),
    (APPS, "Deployment", DEPLOYMENT, deployment),
    (APPS, "StatefulSet", &[NAME, string("Ready"), AGE, wide("Containers"), wide("Images")], |row| {
        let [names, images] = containers(row, TEMPLATE);
        vec![row.name(), ready(row), row.age(), names, images]
    }),
    (APPS, "DaemonSet", DAEMON_SET, daemon_set),
    (APPS, "ControllerRevision", &[NAME, string("Controller"), string("Revision"), AGE], revision),
    (BATCH, "Job", JOB, job),
    (BATCH, "CronJob", CRON_JOB, cron_job),
    ("policy", "PodDisruptionBudget", BUDGET, budget),
    (RESOURCE, "DeviceClass", &[NAME, AGE], |row| vec![row.name(), row.age()]),
    (RESOURCE, "ResourceClaim", &[NAME, string("State"), AGE], |row| {
        vec![row.name(), device_state(row).into(), row.age()]
    }),
    (RESOURCE, "ResourceClaimTemplate", &[NAME, AGE], |row| vec![row.name(), row.age()]),
    (RESOURCE, "ResourceSlice", SLICE, |row| {
        let text = |path: &[&str]| Value::from(row.text(path));
        vec![
            row.name(),
            text(&["spec", "nodeName"]),
            text(&["spec", "driver"]),
            text(&["spec", "pool", "name"]),
            row.age(),
        ]
    }),
    (
        "autoscaling",
        "Scale",
        &[Column { format: "", ..NAME }, integer("Desired"), integer("Available"), AGE],
        |row| {
            let (wanted, present) = (row.number(&["spec", "replicas"]), row.number(&["status", "replicas"]));
            vec![row.name(), wanted.into(), present.into(), row.age()]
        },
    ),
];

/// The names and the images of the containers.
fn containers(row: &Row<'_>, path: &[&str]) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let all: Vec<&str> = row.list(path).iter().map(|one| string_at(one, &[field])).collect();
        all.join(",").into()
    })
}

fn ready(row: &Row<'_>) -> Value {
    format!("{}/{}", row.number(&["status", "readyReplicas"]), row.number(&["spec", "replicas"])).into()
}

fn replicas(row: &Row<'_>, selector: String) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    vec![
        row.name(),
        row.number(&["spec", "replicas"]).into(),
        row.number(&["status", "replicas"]).into(),
        row.number(&["status", "readyReplicas"]).into(),
        row.age(),
        names,
        images,
        selector.into(),
    ]
}

fn deployment(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    vec![
        row.name(),
        ready(row),
        row.number(&["status", "updatedReplicas"]).into(),
        row.number(&["status", "availableReplicas"]).into(),
        row.age(),
        names,
        images,
        text::selector(at(row.value, &["spec", "selector"])).into(),
    ]
}

fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, TEMPLATE);
    let number = |name: &str| Value::from(row.number(&["status", name]));
    vec![
        row.name(),
        number("desiredNumberScheduled"),
        number("currentNumberScheduled"),
        number("numberReady"),
        number("updatedNumberScheduled"),
        number("numberAvailable"),
        text::labels(at(row.value, &["spec", "template", "spec", "nodeSelector"])).into(),
        row.age(),
        names,
        images,
        text::selector_or_none(at(row.value, &["spec", "selector"])).into(),
    ]
}

fn revision(row: &Row<'_>) -> Vec<Value> {
    let owner = row.list(&["metadata", "ownerReferences"]).iter().find(|owner| owner["controller"] == true);
    let owner = owner.map(|owner| {
        let group = string_at(owner, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        let kind = format!("{}{dot}{group}", string_at(owner, &["kind"])).to_lowercase();
        format!("{kind}/{}", string_at(owner, &["name"]))
    });
    let owner = owner.unwrap_or_else(|| "<none>".to_owned());
    vec![row.name(), owner.into(), row.number(&["revision"]).into(), row.age()]
}

fn job(row: &Row<'_>) -> Vec<Value> {
    let succeeded = row.number(&["status", "succeeded"]);
    let completions = match at(row.value, &["spec", "completions"]).and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match row.number(&["spec", "parallelism"]) {
            parallelism if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let time = |name: &str| row.text(&["status", name]).parse::<Timestamp>().ok();
    let took = time("startTime").map(|start| {
        text::duration(time("completionTime").unwrap_or(row.now).as_second() - start.as_second())
    });
    let [names, images] = containers(row, TEMPLATE);
    vec![
        row.name(),
        job_status(row).into(),
        completions.into(),
        took.unwrap_or_default().into(),
        row.age(),
        names,
        images,
        text::selector_or_none(at(row.value, &["spec", "selector"])).into(),
    ]
}

fn job_status(row: &Row<'_>) -> &'static str {
    let has = |name: &str| row.has_condition(name);
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if row.is_terminating() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row, &["spec", "jobTemplate", "spec", "template", "spec", "containers"]);
    let suspend = match row.flag(&["spec", "suspend"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = row.text(&["status", "lastScheduleTime"]);
    let last = if last.is_empty() { "<none>".to_owned() } else { text::since(last, row.now) };
    vec![
        row.name(),
        row.text(&["spec", "schedule"]).into(),
        row.text_or(&["spec", "timeZone"], "<none>").into(),
        suspend.into(),
        row.count(&["status", "active"]).into(),
        last.into(),
        row.age(),
        names,
        images,
        text::selector_or_none(at(row.value, &["spec", "jobTemplate", "spec", "selector"])).into(),
    ]
}

/// How far a claim on devices has come.
fn device_state(row: &Row<'_>) -> String {
    let mut states = Vec::new();
    let allocated = at(row.value, &["status", "allocation"]).is_some_and(Value::is_object);
    if row.is_terminating() {
        states.push("deleted");
    } else if !allocated {
        states.push("pending");
    }
    if allocated {
        states.push("allocated");
        if row.count(&["status", "reservedFor"]) > 0 {
            states.push("reserved");
        }
    }
    states.join(",")
}

fn budget(row: &Row<'_>) -> Vec<Value> {
    let amount = |name: &str| match at(row.value, &["spec", name]) {
        Some(Value::String(text)) => Value::from(text.as_str()),
        Some(Value::Number(number)) => Value::from(number.to_string()),
        _ => Value::from("N/A"),
    };
    let allowed = row.number(&["status", "disruptionsAllowed"]);
    vec![row.name(), amount("minAvailable"), amount("maxUnavailable"), allowed.into(), row.age()]
}
