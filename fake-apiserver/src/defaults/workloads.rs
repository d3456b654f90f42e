//! Decides the defaults of the kinds that make pods.

use serde_json::{Map, Value, json};

use super::{default_in, items, map, pods, volumes};
use crate::object::{as_map_mut, at, metadata_mut, text};

pub(super) fn apply(kind: &str, value: &mut Value) {
    if kind == "ControllerRevision" {
        default_in(value, "revision", 0.into());
        return;
    }
    let spec = map(value, "spec");
    match kind {
        "Deployment" => {
            for (field, default) in
                [("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)]
            {
                default_in(spec, field, default.into());
            }
            rolling(spec, "strategy", "RollingUpdate", &json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
        }
        "ReplicaSet" | "ReplicationController" => default_in(spec, "replicas", 1.into()),
        "DaemonSet" => {
            default_in(spec, "revisionHistoryLimit", 10.into());
            rolling(spec, "updateStrategy", "RollingUpdate", &json!({"maxSurge": 0, "maxUnavailable": 1}));
        }
        "StatefulSet" => stateful(spec),
        "Job" => job(spec),
        "CronJob" => {
            default_in(spec, "concurrencyPolicy", "Allow".into());
            default_in(spec, "failedJobsHistoryLimit", 1.into());
            default_in(spec, "successfulJobsHistoryLimit", 3.into());
            default_in(spec, "suspend", false.into());
            let template = map(spec, "jobTemplate");
            default_in(template, "metadata", json!({}));
            let spec = map(template, "spec");
            default_template(spec);
        }
        _ => {}
    }
    if kind != "CronJob" {
        default_template(map(value, "spec"));
    }
    if kind == "ReplicationController" {
        controller_labels(value);
    }
    default_in(value, "status", Value::Object(Map::new()));
    complete_status(kind, value);
}

/// A controller of the oldest kind selects by, and has, the labels of its pods where it says nothing else.
fn controller_labels(value: &mut Value) {
    let labels = at(value, &["spec", "template", "metadata", "labels"]).cloned();
    let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|all| !all.is_empty())) else {
        return;
    };
    default_in(map(value, "spec"), "selector", labels.clone());
    metadata_mut(value).entry("labels").or_insert(labels);
}

pub(super) fn default_template(spec: &mut Value) {
    let template = map(spec, "template");
    default_in(template, "metadata", json!({}));
    pods::pod_spec(map(template, "spec"));
}

fn rolling(spec: &mut Value, field: &str, kind: &str, parameters: &Value) {
    let strategy = map(spec, field);
    default_in(strategy, "type", kind.into());
    if strategy["type"] == kind {
        let rolling = map(strategy, "rollingUpdate");
        for (name, default) in parameters.as_object().into_iter().flatten() {
            default_in(rolling, name, default.clone());
        }
    }
}

fn stateful(spec: &mut Value) {
    default_in(spec, "replicas", 1.into());
    default_in(spec, "revisionHistoryLimit", 10.into());
    default_in(spec, "podManagementPolicy", "OrderedReady".into());
    let strategy = map(spec, "updateStrategy");
    if strategy.get("type").is_none() {
        default_in(strategy, "type", "RollingUpdate".into());
        default_in(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = strategy.get_mut("rollingUpdate")
    {
        default_in(rolling, "partition", 0.into());
    }
    let retention = map(spec, "persistentVolumeClaimRetentionPolicy");
    default_in(retention, "whenDeleted", "Retain".into());
    default_in(retention, "whenScaled", "Retain".into());
    for template in items(spec, "volumeClaimTemplates") {
        default_in(template, "apiVersion", "v1".into());
        default_in(template, "kind", "PersistentVolumeClaim".into());
        volumes::claim_template(map(template, "spec"));
        default_in(map(template, "status"), "phase", "Pending".into());
    }
}

fn job(spec: &mut Value) {
    let per_index = spec.get("backoffLimitPerIndex").is_some();
    default_in(spec, "backoffLimit", if per_index { i32::MAX } else { 6 }.into());
    default_in(spec, "completionMode", "NonIndexed".into());
    default_in(spec, "suspend", false.into());
    default_in(spec, "manualSelector", false.into());
    let replaced = if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    default_in(spec, "podReplacementPolicy", replaced.into());
    for rule in items(super::map_or(spec, "podFailurePolicy"), "rules") {
        for pattern in items(rule, "onPodConditions") {
            if pattern.get("status").is_none_or(|status| *status == "") {
                as_map_mut(pattern).insert("status".into(), "True".into());
            }
        }
    }
    let parallel = spec.get("parallelism").is_some();
    if spec.get("completions").is_none() && !parallel {
        default_in(spec, "completions", 1.into());
    }
    default_in(spec, "parallelism", 1.into());
}

/// Numbers that are shown even when they are zero.
pub(super) fn complete_status(kind: &str, value: &mut Value) {
    let fields: &[&str] = match kind {
        "StatefulSet" => &["replicas", "availableReplicas"],
        "ReplicaSet" | "ReplicationController" => &["replicas"],
        "DaemonSet" => {
            &["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"]
        }
        _ => &[],
    };
    let status = map(value, "status");
    for field in fields {
        default_in(status, field, 0.into());
    }
}

/// Ties a new job to its pods by labels that carry its uid.
pub(super) fn claim_job(value: &mut Value) {
    if at(value, &["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) =
        (text(value, &["metadata", "uid"]).to_owned(), text(value, &["metadata", "name"]).to_owned());
    let spec = map(value, "spec");
    let labels = metadata_mut(map(spec, "template")).entry("labels").or_insert_with(|| json!({}));
    let labels = as_map_mut(labels);
    for (label, is) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.insert(label.into(), is.as_str().into());
    }
    default_in(spec, "selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    // Upstream lets the two share one map where the job has no labels of its own.
    let labels = at(value, &["spec", "template", "metadata", "labels"]).cloned().unwrap_or_default();
    metadata_mut(value).entry("labels").or_insert(labels);
}
