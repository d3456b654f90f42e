//! `Job`: pods until enough of them have succeeded.
//!
//! Decides how many pods run beside each other and which index the next one has. The stand-in kubelets let a Job's pods
//! run for ever, so a Job is finished only by what the input itself reports as succeeded. It never applies deadlines,
//! backoff limits or failure policies, and puts no tracking finalizer on its pods. It answers to upstream's `job`
//! controller.

use super::{BURST, count, create_pod, delete_pod, name_pod, pod_from, update_status};
use crate::simulate::actors::call::{Call, Kind, Name, Target};
use crate::simulate::actors::family::Tally;
use crate::simulate::actors::world::{World, annotation};
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const SOURCE: &str = "job-controller";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// What to do about a Job's pods and status.
#[must_use]
pub fn plan(world: &World, name: &Name) -> Vec<Call> {
    let Some(job) = world.jobs.get(name) else { return Vec::new() };
    let Some(spec) = &job.spec else { return Vec::new() };
    let owner = Target::of(Kind::Job, &job.metadata);
    let empty = Tally::default();
    let tally = world.family.tally(job.metadata.uid.as_ref()).unwrap_or(&empty);
    let reported = job.status.as_ref().and_then(|s| s.succeeded).unwrap_or(0);
    let succeeded = count(tally.succeeded.len()).max(reported);
    if is_finished(job) || job.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let parallel = spec.parallelism.unwrap_or(1).max(0);
    let wanted = match spec.completions {
        _ if spec.suspend == Some(true) => 0,
        Some(completions) => parallel.min(completions.saturating_sub(succeeded).max(0)),
        // Without completions one success ends the Job: no new pods, and those that run go on.
        None if succeeded > 0 => parallel.min(count(tally.active.len())),
        None => parallel,
    };
    let active = count(tally.active.len());
    let mut calls = Vec::new();
    if active < wanted {
        calls.extend(create(world, job, &owner, tally, wanted - active));
    } else {
        let surplus = tally.active.iter().rev().take(usize::try_from(active - wanted).unwrap_or(0));
        let surplus = surplus.filter_map(|pod| world.target(Kind::Pod, &name.beside(pod.clone())));
        calls.extend(surplus.flat_map(|pod| delete_pod(pod, &owner, SOURCE)));
    }
    let status = json!({
        "active": active, "ready": count(tally.healthy.len()), "succeeded": succeeded,
        "failed": count(tally.failed.len()), "terminating": count(tally.leaving.len()),
    });
    calls.extend(update_status(owner, &json!(job.status), &status));
    calls
}

fn is_finished(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
}

fn create(world: &World, job: &Job, owner: &Target, tally: &Tally, missing: i32) -> Vec<Call> {
    let Some(spec) = &job.spec else { return Vec::new() };
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let taken: BTreeSet<_> = if indexed { taken(world, owner, tally) } else { BTreeSet::new() };
    let mut free = (0..spec.completions.unwrap_or(0)).map(|i| i.to_string()).filter(|i| !taken.contains(i));
    let mut calls = Vec::new();
    let mut number = tally.seen;
    for _ in (0..missing).take(BURST) {
        let mut pod = pod_from(&spec.template, owner);
        label(&mut pod, owner);
        let mut base = format!("{}-", owner.name.name);
        if indexed {
            let Some(index) = free.next() else { break };
            base = format!("{}-{index}-", owner.name.name);
            pod["metadata"]["annotations"][INDEX] = json!(index);
            pod["metadata"]["labels"][INDEX] = json!(index);
            pod["spec"]["hostname"] = json!(format!("{}-{index}", owner.name.name));
        }
        let mut name = name_pod(&mut pod, owner, &base, number);
        while world.pods.contains_key(&owner.name.beside(name.clone())) {
            number += 1;
            name = name_pod(&mut pod, owner, &base, number);
        }
        number += 1;
        calls.extend(create_pod(pod, &name, owner, SOURCE));
    }
    calls
}

/// The indexes that a pod has or had with success.
fn taken(world: &World, owner: &Target, tally: &Tally) -> BTreeSet<String> {
    let pods = tally.active.iter().chain(&tally.succeeded).chain(&tally.leaving);
    let pods = pods.filter_map(|pod| world.pods.get(&owner.name.beside(pod.clone())));
    pods.map(|pod| annotation(&pod.metadata, INDEX).to_owned()).collect()
}

fn label(pod: &mut Value, owner: &Target) {
    for (key, value) in [("controller-uid", &owner.uid), ("job-name", &owner.name.name)] {
        pod["metadata"]["labels"][key] = json!(value);
        pod["metadata"]["labels"][format!("batch.kubernetes.io/{key}")] = json!(value);
    }
}
