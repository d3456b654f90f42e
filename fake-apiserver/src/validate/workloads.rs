//! Decides whether the kinds that make pods may be stored. What is wrong with the pods is asked of `pods`.
//! Answers to `kubernetes/pkg/apis/apps/validation` and `ValidateReplicationController`.

use serde_json::{Value, json};

use super::field::{Causes, Field};
use super::{pods, selectors};
use crate::object::as_map_mut;
use crate::status::Cause;

const IMMUTABLE: &str = "field is immutable";
const STATEFUL: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub(super) fn create(kind: &str, value: &Value) -> Causes {
    let mut causes = stored(kind, value);
    if kind == "StatefulSet" {
        stateful_claims(&Field::root(value).at("spec"), &mut causes);
    }
    causes
}

/// What holds however often it was written.
fn stored(kind: &str, value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        // A stateful set keeps every revision where the limit is negative.
        if !(kind == "StatefulSet" && field == "revisionHistoryLimit") {
            spec.at(field).at_least(0, &mut causes);
        }
    }
    selector(kind, &spec, &mut causes);
    let template = spec.at("template");
    if kind != "ReplicationController" || !without_template(&template) {
        let with_claims = (kind == "StatefulSet").then(|| template_with_claims(value));
        let judged = with_claims.as_ref().map_or(template.value, |template| template);
        pods::template(&Field::new(judged, template.path.as_str()), &mut causes);
        only_running(kind, &template, &mut causes);
    }
    match kind {
        "Deployment" => deployment(&spec, &mut causes),
        "DaemonSet" => daemon_strategy(&spec.at("updateStrategy"), &mut causes),
        "StatefulSet" => stateful(&spec, &mut causes),
        _ => {}
    }
    causes
}

fn selector(kind: &str, spec: &Field<'_>, causes: &mut Causes) {
    let selector = spec.at("selector");
    let labels = spec.at("template.metadata.labels");
    let differs = "`selector` does not match template `labels`";
    if kind == "ReplicationController" {
        if selector.is_empty() {
            causes.push(selector.required(""));
        }
        if without_template(&spec.at("template")) {
            causes.push(spec.at("template").required(""));
            return;
        }
        let fits = selector.entries().iter().all(|(key, value)| labels.value.get(key) == Some(value.value));
        if !selector.is_empty() && !fits {
            causes.push(labels.invalid(differs));
        }
        return;
    }
    if !selector.is_set() && kind != "DaemonSet" {
        causes.push(selector.required(""));
    }
    selectors::selector(&selector, causes);
    if selector.is_set() && selectors::is_blank(&selector) {
        causes.push(selector.invalid("empty selector is invalid"));
    }
    match selectors::picks(selector.value, labels.value) {
        None if kind == "DaemonSet" => {}
        None => causes.push(selector.invalid("invalid label selector")),
        Some(false) if selector.is_set() || kind == "DaemonSet" => {
            causes.push(labels.invalid(differs));
        }
        // Nothing to select by picks nothing, but only labels that are there can differ.
        Some(false) if !selector.is_set() => causes.push(labels.invalid(differs)),
        Some(_) => {}
    }
}

/// Whether a controller of the oldest kind says nothing of its pods: the defaults alone are nothing.
fn without_template(template: &Field<'_>) -> bool {
    template.at("metadata").is_empty() && template.at("spec.containers").is_empty()
}

/// Controllers run their pods for ever.
fn only_running(kind: &str, template: &Field<'_>, causes: &mut Causes) {
    let restart = template.at("spec.restartPolicy");
    if restart.text() != "Always" {
        causes.push(restart.unsupported(&["Always"]));
    }
    let deadline = template.at("spec.activeDeadlineSeconds");
    if deadline.is_set() {
        causes.push(deadline.forbidden(&format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

fn deployment(spec: &Field<'_>, causes: &mut Causes) {
    let (progress, ready) =
        (spec.at("progressDeadlineSeconds"), spec.at("minReadySeconds").number().unwrap_or(0));
    if progress.number().is_some_and(|seconds| seconds <= ready) {
        causes.push(progress.invalid("must be greater than minReadySeconds"));
    }
    let strategy = spec.at("strategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                causes.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
            }
        }
        "RollingUpdate" => {
            shares(&rolling, causes);
            let none = |field: &str| share(&rolling.at(field)) == Some(0);
            if none("maxUnavailable") && none("maxSurge") {
                causes.push(rolling.at("maxUnavailable").invalid("may not be 0 when `maxSurge` is 0"));
            }
            at_most_all(&rolling.at("maxUnavailable"), causes);
        }
        // Upstream names the strategy, not its type, as a daemon set's does.
        _ => Field::new(strategy.at("type").value, strategy.path.as_str())
            .must_be_one_of(&["Recreate", "RollingUpdate"], causes),
    }
}

fn shares(rolling: &Field<'_>, causes: &mut Causes) {
    for field in ["maxUnavailable", "maxSurge"] {
        int_or_percent(&rolling.at(field), causes);
    }
}

/// The number in a number or a percentage.
fn share(field: &Field<'_>) -> Option<i64> {
    match field.value {
        Value::String(text) => text.strip_suffix('%')?.parse().ok(),
        Value::Null => Some(0),
        other => other.as_i64(),
    }
}

/// A number of pods or a percentage of them, none of them negative.
pub(super) fn int_or_percent(field: &Field<'_>, causes: &mut Causes) {
    match field.value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                causes
                    .push(field.invalid(
                        "a valid percent string must be a numeric string followed by an ending '%'",
                    ));
            }
        }
        _ => field.at_least(0, causes),
    }
}

fn at_most_all(field: &Field<'_>, causes: &mut Causes) {
    if field.value.is_string() && share(field).is_some_and(|share| share > 100) {
        causes.push(field.invalid("must not be greater than 100%"));
    }
}

fn daemon_strategy(strategy: &Field<'_>, causes: &mut Causes) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => causes.push(rolling.required("")),
        "RollingUpdate" => {
            shares(&rolling, causes);
            at_most_all(&rolling.at("maxUnavailable"), causes);
            at_most_all(&rolling.at("maxSurge"), causes);
            let any = |field: &str| share(&rolling.at(field)).is_some_and(|share| share > 0);
            match (any("maxUnavailable"), any("maxSurge")) {
                (true, true) => causes
                    .push(rolling.at("maxSurge").invalid("may not be set when maxUnavailable is non-zero")),
                (false, false) => {
                    causes.push(rolling.at("maxUnavailable").required("cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => Field::new(strategy.at("type").value, strategy.path.as_str())
            .must_be_one_of(&["RollingUpdate", "OnDelete"], causes),
    }
}

fn stateful(spec: &Field<'_>, causes: &mut Causes) {
    let management = spec.at("podManagementPolicy");
    if management.is_empty() {
        causes.push(management.required(""));
    } else if !matches!(management.text(), "OrderedReady" | "Parallel") {
        causes.push(management.invalid("must be 'OrderedReady' or 'Parallel'"));
    }
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "" => causes.push(strategy.required("")),
        "OnDelete" if rolling.is_set() => {
            causes.push(rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.at("partition").at_least(0, causes);
            let most = rolling.at("maxUnavailable");
            if most.is_set() {
                int_or_percent(&most, causes);
                at_most_all(&most, causes);
                if share(&most) == Some(0) {
                    causes.push(most.invalid("cannot be 0"));
                }
            }
        }
        _ => causes.push(strategy.invalid("must be 'RollingUpdate' or 'OnDelete'")),
    }
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        if retention.is_set() {
            retention.at(field).must_be_one_of(&["Delete", "Retain"], causes);
        }
    }
    spec.at("ordinals.start").at_least(0, causes);
}

/// The template of a stateful set's pods as they will be: with a volume for each claim that they get.
fn template_with_claims(value: &Value) -> Value {
    let mut template = value["spec"]["template"].clone();
    let claims = value["spec"]["volumeClaimTemplates"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|claim| {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    // Of several claims of one name, one counts.
    let mut seen: Vec<Value> = Vec::new();
    volumes.retain(|volume| {
        let known = seen.contains(&volume["name"]);
        seen.push(volume["name"].clone());
        !known
    });
    let own = template["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let overridden = |one: &Value| volumes.iter().any(|volume| volume["name"] == one["name"]);
    let rest: Vec<Value> = own.into_iter().filter(|one| !overridden(one)).collect();
    volumes.extend(rest);
    if !volumes.is_empty() {
        crate::object::map_mut(&mut template, "spec").insert("volumes".into(), volumes.into());
    }
    template
}

/// What is wrong with a new stateful set besides: its service, and the claims that its pods get as volumes.
fn stateful_claims(spec: &Field<'_>, causes: &mut Causes) {
    let service = spec.at("serviceName");
    if !service.is_empty() {
        service.follow(super::names::label, causes);
    }
    for template in spec.at("volumeClaimTemplates").items() {
        causes.extend(super::claims::spec(
            template.value.get("spec").unwrap_or(&Value::Null),
            &template.at("spec").path,
        ));
    }
}

pub(super) fn update(kind: &str, old: &Value, new: &Value) -> Causes {
    let mut causes = stored(kind, new);
    let (before, after) = (Field::root(old).at("spec"), Field::root(new).at("spec"));
    if matches!(kind, "Deployment" | "ReplicaSet" | "DaemonSet")
        && before.at("selector").value != after.at("selector").value
    {
        causes.push(after.at("selector").invalid(IMMUTABLE));
    }
    if kind == "StatefulSet" && kept(old) != kept(new) {
        causes.push(Cause::forbidden("spec", STATEFUL));
    }
    causes
}

/// The parts of a stateful set's spec that stay as they are.
fn kept(value: &Value) -> Value {
    let mut spec = value["spec"].clone();
    for field in [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ] {
        as_map_mut(&mut spec).remove(field);
    }
    spec
}

/// What is wrong with a status that was written.
pub(super) fn status(kind: &str, old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    let status = Field::root(new).at("status");
    for field in counted(kind) {
        status.at(field).at_least(0, &mut causes);
    }
    status.at("collisionCount").at_least(0, &mut causes);
    let greater = |field: &str, than: &str, causes: &mut Causes| {
        let number = |field: &str| status.at(field).number().unwrap_or(0);
        if number(field) > number(than) {
            causes.push(status.at(field).invalid(&format!("cannot be greater than {than}")));
        }
    };
    let pairs: &[(&str, &str)] = match kind {
        "DaemonSet" => &[],
        "Deployment" => &[
            ("updatedReplicas", "replicas"),
            ("readyReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ],
        "StatefulSet" => &[
            ("readyReplicas", "replicas"),
            ("currentReplicas", "replicas"),
            ("updatedReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ],
        _ => &[
            ("fullyLabeledReplicas", "replicas"),
            ("readyReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ],
    };
    for (field, than) in pairs {
        greater(field, than, &mut causes);
    }
    decremented(old, &status, kind, &mut causes);
    causes
}

fn decremented(old: &Value, status: &Field<'_>, kind: &str, causes: &mut Causes) {
    if matches!(kind, "ReplicaSet" | "ReplicationController") {
        return;
    }
    let before = old["status"]["collisionCount"].as_i64();
    let count = status.at("collisionCount");
    if before.is_some_and(|before| count.number().is_none_or(|now| now < before)) {
        causes.push(count.invalid("cannot be decremented"));
    }
}

/// The numbers in a status, none of them negative.
fn counted(kind: &str) -> &'static [&'static str] {
    match kind {
        "DaemonSet" => &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
        ],
        "Deployment" => &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
        ],
        "StatefulSet" => &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
        ],
        _ => &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "terminatingReplicas",
            "observedGeneration",
        ],
    }
}
