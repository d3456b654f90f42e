//! Decides whether jobs, and the templates from which cron jobs make them, may be stored. Answers to
//! `kubernetes/pkg/apis/batch/validation`.

mod success;

use serde_json::Value;

use super::field::{Causes, Field};
use super::{names, pods, selectors};
use crate::object::{as_map_mut, text};
use crate::status::Cause;

const IMMUTABLE: &str = "field is immutable";
const MOST_INDEXED: i64 = 100_000;
const OPERATORS: &[&str] = &["In", "NotIn"];
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const TRUTHS: &[&str] = &["False", "True", "Unknown"];
/// A cron job's jobs are named after it and the minute, eleven characters.
const LONGEST_CRON_NAME: usize = 52;

pub(super) fn create(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    job_spec(&spec, &mut causes);
    let selector = spec.at("selector");
    if !selector.is_set() {
        causes.push(selector.required(""));
    }
    selectors::selector(&selector, &mut causes);
    let labels = spec.at("template.metadata.labels");
    if selectors::picks(selector.value, labels.value) == Some(false) {
        causes.push(labels.invalid("`selector` does not match template `labels`"));
    }
    if !spec.at("manualSelector").is_true() && selector.is_set() {
        generated(value, &spec, &mut causes);
    }
    hostname(value, &spec, &mut causes);
    causes
}

/// The pods of an indexed job are named after it, and so are their hosts.
fn hostname(value: &Value, spec: &Field<'_>, causes: &mut Causes) {
    let completions = spec.at("completions").number().filter(|number| *number > 0);
    let Some(last) = completions.filter(|_| spec.at("completionMode").text() == "Indexed") else { return };
    let name = Field::root(value).at("metadata.name");
    let longest = format!("{}-{}", name.text(), last - 1);
    if !names::label(&longest).is_empty() {
        causes.push(name.invalid(&format!("will not able to create pod with invalid DNS label: {longest}")));
    }
}

/// The labels that tie a job to its pods are the server's own.
fn generated(value: &Value, spec: &Field<'_>, causes: &mut Causes) {
    let (uid, name) = (text(value, &["metadata", "uid"]), text(value, &["metadata", "name"]));
    let labels = spec.at("template.metadata.labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let map: serde_json::Map<String, Value> =
        expected.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    for (key, value) in expected {
        let path = format!("{}[{key}]", labels.path);
        match labels.value.get(key) {
            None => causes.push(Cause::required(path, &format!("must be '{value}'"))),
            Some(given) if given != value => {
                causes.push(Cause::invalid(path, given.clone(), &format!("must be '{value}'")));
            }
            Some(_) => {}
        }
    }
    let selector = spec.at("selector");
    if selectors::picks(selector.value, &Value::Object(map)) == Some(false) {
        causes.push(selector.invalid("`selector` not auto-generated"));
    }
}

fn job_spec(spec: &Field<'_>, causes: &mut Causes) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.at(field).at_least(0, causes);
    }
    let (per_index, failed) = (spec.at("backoffLimitPerIndex"), spec.at("maxFailedIndexes"));
    if failed.is_set() && !per_index.is_set() {
        causes.push(per_index.required("when maxFailedIndexes is specified"));
    }
    let manager = spec.at("managedBy");
    if manager.is_set() {
        manager.follow(domain_path, causes);
    }
    completion(spec, causes);
    failures(spec, causes);
    success::policy(spec, causes);
    let replacement = spec.at("podReplacementPolicy");
    if replacement.is_set() {
        let all: &[&str] = if spec.at("podFailurePolicy").is_set() {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        replacement.must_be_one_of(all, causes);
    }
    pods::template(&spec.at("template"), causes);
    let restart = spec.at("template.spec.restartPolicy");
    match restart.text() {
        "" | "Always" => causes.push(restart.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec.at("podFailurePolicy").is_set() => {
            causes.push(restart.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
        }
        _ => restart.must_be_one_of(&["OnFailure", "Never"], causes),
    }
}

/// `example.com/path`, as those who manage jobs are named.
fn domain_path(text: &str) -> Vec<String> {
    let Some((domain, path)) = text.split_once('/') else {
        return vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    };
    if path.is_empty() {
        return vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    }
    names::subdomain(domain)
}

fn completion(spec: &Field<'_>, causes: &mut Causes) {
    let (mode, completions) = (spec.at("completionMode"), spec.at("completions"));
    let (per_index, failed) = (spec.at("backoffLimitPerIndex"), spec.at("maxFailedIndexes"));
    if mode.is_set() {
        mode.must_be_one_of(&["NonIndexed", "Indexed"], causes);
    }
    if mode.text() == "Indexed" {
        if !completions.is_set() {
            causes.push(completions.required("when completion mode is Indexed"));
        }
        if spec.at("parallelism").number().is_some_and(|number| number > MOST_INDEXED) {
            let why = format!("must be less than or equal to {MOST_INDEXED} when completion mode is Indexed");
            causes.push(spec.at("parallelism").invalid(&why));
        }
        if let (Some(all), Some(number)) = (completions.number(), failed.number())
            && number > all
        {
            causes.push(failed.invalid("must be less than or equal to completions"));
        }
        if failed.number().is_some_and(|number| number > MOST_INDEXED) {
            causes.push(failed.invalid(&format!("must be less than or equal to {MOST_INDEXED}")));
        }
    } else if !mode.is_set() || mode.text() == "NonIndexed" {
        for field in [&per_index, &failed] {
            if field.is_set() {
                causes.push(field.invalid("requires indexed completion mode"));
            }
        }
    }
}

fn failures(spec: &Field<'_>, causes: &mut Causes) {
    let names: Vec<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|part| spec.at("template.spec").at(part).items())
        .map(|container| container.at("name").text())
        .collect();
    for rule in spec.at("podFailurePolicy.rules").items() {
        let action = rule.at("action");
        if action.is_empty() {
            causes.push(action.required(""));
        } else if action.text() == "FailIndex" && !spec.at("backoffLimitPerIndex").is_set() {
            causes.push(action.invalid("requires the backoffLimitPerIndex to be set"));
        } else {
            action.must_be_one_of(ACTIONS, causes);
        }
        let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
        if codes.is_set() {
            exit_codes(&codes, &names, causes);
        }
        for pattern in conditions.items() {
            pattern.at("type").follow(names::qualified_name, causes);
            pattern.at("status").must_be_one_of(TRUTHS, causes);
        }
        match (codes.is_set(), conditions.is_empty()) {
            (true, false) => {
                causes.push(rule.invalid("specifying both OnExitCodes and OnPodConditions is not supported"));
            }
            (false, true) => {
                causes.push(rule.invalid("specifying one of OnExitCodes and OnPodConditions is required"));
            }
            _ => {}
        }
    }
}

fn exit_codes(codes: &Field<'_>, containers: &[&str], causes: &mut Causes) {
    let (operator, values) = (codes.at("operator"), codes.at("values"));
    if operator.is_empty() {
        causes.push(operator.required(""));
    } else {
        operator.must_be_one_of(OPERATORS, causes);
    }
    let name = codes.at("containerName");
    if name.is_set() && !containers.contains(&name.text()) {
        causes.push(name.invalid("must be one of the container or initContainer names in the pod template"));
    }
    if values.is_empty() {
        causes.push(values.invalid("at least one value is required"));
    }
    let mut seen = Vec::new();
    for value in values.items() {
        let number = value.number().unwrap_or(0);
        if operator.text() == "In" && number == 0 {
            causes.push(value.invalid("must not be 0 for the In operator"));
        }
        if seen.contains(&number) {
            causes.push(value.duplicate());
        }
        seen.push(number);
    }
    if !seen.is_sorted() {
        causes.push(values.invalid("must be ordered"));
    }
}

pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    let (before, after) = (Field::root(old).at("spec"), Field::root(new).at("spec"));
    job_spec(&after, &mut causes);
    if !after.at("selector").is_set() {
        causes.push(after.at("selector").required(""));
    }
    selectors::selector(&after.at("selector"), &mut causes);
    let labels = after.at("template.metadata.labels");
    if selectors::picks(after.at("selector").value, labels.value) == Some(false) {
        causes.push(labels.invalid("`selector` does not match template `labels`"));
    }
    let indexed = after.at("completionMode").text() == "Indexed";
    let (was, is) = (before.at("completions"), after.at("completions"));
    if was.value != is.value {
        if !indexed {
            causes.push(is.invalid(IMMUTABLE));
        } else if is.is_set() && is.value != after.at("parallelism").value {
            causes.push(is.invalid("can only be modified in tandem with spec.parallelism"));
        }
    }
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        if before.at(field).value != after.at(field).value {
            causes.push(after.at(field).invalid(IMMUTABLE));
        }
    }
    kept_template(old, new, &after.at("template"), &mut causes);
    causes
}

/// The template stays, but for what a job that does not run may still change.
fn kept_template(old: &Value, new: &Value, template: &Field<'_>, causes: &mut Causes) {
    let before = &old["spec"]["template"];
    let runs = old["status"]["active"].as_i64().unwrap_or(0) != 0;
    let halted = old["status"]["conditions"].as_array().into_iter().flatten();
    let mut halted = halted.filter(|one| one["type"] == "Suspended" && one["status"] == "True");
    let started = !old["status"]["startTime"].is_null() && halted.next().is_none();
    if old["spec"]["suspend"] != true || started || runs {
        if before != template.value {
            causes.push(template.invalid(IMMUTABLE));
        }
        return;
    }
    let mut kept = before["spec"].clone();
    let wanted = &new["spec"]["template"]["spec"];
    let mut keep = |field: &str| match wanted.get(field) {
        Some(value) => as_map_mut(&mut kept).insert(field.to_owned(), value.clone()),
        None => as_map_mut(&mut kept).remove(field),
    };
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        keep(field);
    }
    let mut affinity = before["spec"]["affinity"].clone();
    match wanted["affinity"].get("nodeAffinity") {
        Some(node) => drop(as_map_mut(&mut affinity).insert("nodeAffinity".to_owned(), node.clone())),
        None if affinity.is_object() => drop(as_map_mut(&mut affinity).remove("nodeAffinity")),
        None => {}
    }
    match affinity.as_object() {
        Some(rest) if !rest.is_empty() || wanted["affinity"].is_object() => {
            as_map_mut(&mut kept).insert("affinity".to_owned(), affinity);
        }
        _ => drop(as_map_mut(&mut kept).remove("affinity")),
    }
    for part in ["containers", "initContainers"] {
        let wanted = wanted[part].as_array().cloned().unwrap_or_default();
        let containers = kept.get_mut(part).and_then(Value::as_array_mut);
        for (container, wanted) in
            containers.filter(|all| all.len() == wanted.len()).into_iter().flatten().zip(&wanted)
        {
            if container["name"] == wanted["name"] {
                as_map_mut(container).insert("resources".into(), wanted["resources"].clone());
            }
        }
    }
    if kept != *wanted {
        causes.push(template.at("spec").invalid(IMMUTABLE));
    }
}

pub(super) fn cron(value: &Value, old: Option<&Value>) -> Causes {
    let mut causes = Causes::new();
    let name = Field::root(value).at("metadata.name");
    if old.is_none() && name.text().len() > LONGEST_CRON_NAME {
        causes.push(name.invalid("must be no more than 52 characters"));
    }
    let spec = Field::root(value).at("spec");
    let schedule = spec.at("schedule");
    if schedule.is_empty() {
        causes.push(schedule.required(""));
    } else {
        super::schedules::check(&schedule, &mut causes);
    }
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.at(field).at_least(0, &mut causes);
    }
    let zone = spec.at("timeZone");
    if zone.is_set() && old.is_none_or(|old| old["spec"]["timeZone"] != *zone.value) {
        super::schedules::zone(&zone, &mut causes);
    }
    spec.at("concurrencyPolicy").must_be_one_of(&["Allow", "Forbid", "Replace"], &mut causes);
    let job = spec.at("jobTemplate.spec");
    job_spec(&job, &mut causes);
    if job.at("selector").is_set() {
        causes.push(job.at("selector").invalid("`selector` will be auto-generated"));
    }
    if job.at("manualSelector").is_true() {
        causes.push(job.at("manualSelector").unsupported(&["nil", "false"]));
    }
    causes
}
