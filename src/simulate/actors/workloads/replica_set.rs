//! `ReplicaSet`: as many pods as it asks for, with names made from a hash instead of chance.
//!
//! Decides which pods to make and which to take away (unplaced before placed, unready before ready, as upstream ranks
//! them). It never adopts a pod that it did not make. It answers to upstream's `replicaset` controller.

use super::{BURST, count, create_pod, delete_pod, name_pod, pod_from, update_status};
use crate::simulate::actors::call::{Call, Kind, Name, Target};
use crate::simulate::actors::family::Tally;
use crate::simulate::actors::world::World;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::json;

const SOURCE: &str = "replicaset-controller";

/// What to do about a `ReplicaSet`'s pods and status.
#[must_use]
pub fn plan(world: &World, name: &Name) -> Vec<Call> {
    let Some(set) = world.replica_sets.get(name) else { return Vec::new() };
    let owner = Target::of(Kind::ReplicaSet, &set.metadata);
    let empty = Tally::default();
    let tally = world.family.tally(set.metadata.uid.as_ref()).unwrap_or(&empty);
    let mut calls = Vec::new();
    if set.metadata.deletion_timestamp.is_none() {
        let wanted = usize::try_from(replicas(set)).unwrap_or(0);
        if tally.active.len() < wanted {
            calls.extend(create(world, set, &owner, tally, wanted - tally.active.len()));
        } else {
            let surplus = surplus(tally).take(tally.active.len() - wanted);
            let surplus = surplus.filter_map(|pod| world.target(Kind::Pod, &name.beside(pod.clone())));
            calls.extend(surplus.flat_map(|pod| delete_pod(pod, &owner, SOURCE)));
        }
    }
    let ready = count(tally.healthy.len());
    let status = json!({
        "replicas": count(tally.active.len()), "fullyLabeledReplicas": count(tally.active.len()),
        "readyReplicas": ready, "availableReplicas": ready, "observedGeneration": set.metadata.generation,
    });
    calls.extend(update_status(owner, &json!(set.status), &status));
    calls
}

/// How many pods a `ReplicaSet` asks for; the default is one.
#[must_use]
pub fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1).max(0)
}

fn create<'a>(
    world: &'a World,
    set: &'a ReplicaSet,
    owner: &'a Target,
    tally: &'a Tally,
    missing: usize,
) -> impl Iterator<Item = Call> + 'a {
    let template = set.spec.as_ref().and_then(|s| s.template.clone()).unwrap_or_default();
    let base = format!("{}-", owner.name.name);
    let mut number = tally.seen;
    (0..missing.min(BURST)).flat_map(move |_| {
        loop {
            let mut pod = pod_from(&template, owner);
            let name = name_pod(&mut pod, owner, &base, number);
            number += 1;
            // A dump may hold a pod that happens to have the next name.
            if !world.pods.contains_key(&owner.name.beside(name.clone())) {
                break create_pod(pod, &name, owner, SOURCE);
            }
        }
    })
}

/// Pods in the order in which they can be spared.
fn surplus(tally: &Tally) -> impl Iterator<Item = &String> {
    let (placed, healthy) = (&tally.placed, &tally.healthy);
    let unplaced = tally.active.iter().filter(|pod| !placed.contains(*pod));
    let unready = tally.active.iter().filter(|pod| placed.contains(*pod) && !healthy.contains(*pod));
    unplaced.chain(unready).chain(healthy)
}
