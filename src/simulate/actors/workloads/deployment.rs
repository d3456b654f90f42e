//! `Deployment`: one `ReplicaSet` per template, scaled so that the newest takes over.
//!
//! Decides the sizes of its `ReplicaSets`: with `Recreate` the old ones go to zero first, with `RollingUpdate` new pods
//! come as `maxSurge` allows and old ones go as `maxUnavailable` allows. It never makes a pod, keeps no history limit and
//! knows no rollback. It answers to upstream's `deployment` controller.

use super::replica_set::replicas;
use super::{TEMPLATE_HASH, count, template_hash, update_status};
use crate::simulate::actors::call::{Call, Kind, Name, Remark, Target};
use crate::simulate::actors::world::World;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;
use std::sync::Arc;

const SOURCE: &str = "deployment-controller";

/// What to do about a Deployment's `ReplicaSets` and status.
#[must_use]
pub fn plan(world: &World, name: &Name) -> Vec<Call> {
    let Some(deployment) = world.deployments.get(name) else { return Vec::new() };
    let owner = Target::of(Kind::Deployment, &deployment.metadata);
    let children = world.family.dependents(&owner.uid).filter(|(kind, _)| *kind == Kind::ReplicaSet);
    let sets: Vec<_> = children.filter_map(|(_, name)| world.replica_sets.get(name)).collect();
    let Some(spec) = &deployment.spec else { return Vec::new() };
    let newest = sets.iter().copied().find(|set| {
        let template = set.spec.as_ref().and_then(|s| s.template.as_ref());
        template.is_some_and(|t| without_hash(t) == without_hash(&spec.template))
    });
    let old: Vec<_> = sets.iter().copied().filter(|s| newest.is_none_or(|n| !Arc::ptr_eq(s, n))).collect();
    let mut calls = Vec::new();
    if deployment.metadata.deletion_timestamp.is_none() && spec.paused != Some(true) {
        calls.extend(rollout(world, deployment, &owner, newest, &old));
    }
    let healthy =
        |set: &ReplicaSet| world.family.tally(set.metadata.uid.as_ref()).map_or(0, |t| t.healthy.len());
    let active =
        |set: &ReplicaSet| world.family.tally(set.metadata.uid.as_ref()).map_or(0, |t| t.active.len());
    let ready: usize = sets.iter().map(|s| healthy(s)).sum();
    let total: usize = sets.iter().map(|s| active(s)).sum();
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let status = json!({
        "replicas": count(total), "updatedReplicas": count(newest.map_or(0, |s| active(s))),
        "readyReplicas": count(ready), "availableReplicas": count(ready),
        "unavailableReplicas": count(wanted.saturating_sub(ready)), "observedGeneration": deployment.metadata.generation,
    });
    calls.extend(update_status(owner, &json!(deployment.status), &status));
    calls
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|m| m.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    template
}

fn rollout(
    world: &World,
    deployment: &Deployment,
    owner: &Target,
    newest: Option<&Arc<ReplicaSet>>,
    old: &[&Arc<ReplicaSet>],
) -> Vec<Call> {
    let Some(spec) = &deployment.spec else { return Vec::new() };
    let wanted = spec.replicas.unwrap_or(1).max(0);
    let healthy =
        |set: &ReplicaSet| world.family.tally(set.metadata.uid.as_ref()).map_or(0, |t| t.healthy.len());
    let old_size: i32 = old.iter().map(|set| replicas(set)).sum();
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate") {
        let shrink: Vec<_> = old.iter().filter_map(|set| scale(set, 0, owner)).flatten().collect();
        let remain = old.iter().filter_map(|s| world.family.tally(s.metadata.uid.as_ref()));
        if !shrink.is_empty() || remain.into_iter().any(|t| !t.active.is_empty() || !t.leaving.is_empty()) {
            return shrink;
        }
        return grow(world, deployment, owner, newest, wanted);
    }
    let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
    let surge = share(rolling.and_then(|r| r.max_surge.as_ref()), wanted, true);
    let mut unavailable = share(rolling.and_then(|r| r.max_unavailable.as_ref()), wanted, false);
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    let size = newest.map_or(0, |set| replicas(set));
    let room = wanted.saturating_add(surge).saturating_sub(old_size).max(0);
    let target = if size >= wanted { wanted } else { size.max(room.min(wanted)) };
    let mut calls = grow(world, deployment, owner, newest, target);
    // Old pods that are not ready serve nobody and go first; the others as far as enough stay available.
    let available = newest.map_or(0, |set| healthy(set)) + old.iter().map(|set| healthy(set)).sum::<usize>();
    let mut spare = count(available).saturating_sub(wanted.saturating_sub(unavailable)).max(0);
    for set in old {
        let ready = count(healthy(set)).min(replicas(set));
        let taken = ready.min(spare);
        spare -= taken;
        calls.extend(scale(set, ready - taken, owner).into_iter().flatten());
    }
    calls
}

/// `maxSurge` or `maxUnavailable` in pods; both are a quarter unless set.
fn share(value: Option<&IntOrString>, of: i32, up: bool) -> i32 {
    let percent = match value {
        Some(IntOrString::Int(pods)) => return (*pods).max(0),
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse().unwrap_or(0).max(0),
        None => 25_i64,
    };
    let hundredths = percent.saturating_mul(i64::from(of));
    let pods = if up { hundredths.saturating_add(99) / 100 } else { hundredths / 100 };
    i32::try_from(pods).unwrap_or(i32::MAX)
}

fn grow(
    world: &World,
    deployment: &Deployment,
    owner: &Target,
    newest: Option<&Arc<ReplicaSet>>,
    size: i32,
) -> Vec<Call> {
    match newest {
        Some(set) => scale(set, size, owner).into_iter().flatten().collect(),
        None => create(world, deployment, owner, size),
    }
}

fn scale(set: &ReplicaSet, size: i32, owner: &Target) -> Option<[Call; 2]> {
    let now = replicas(set);
    if now == size || set.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let target = Target::of(Kind::ReplicaSet, &set.metadata);
    let way = if now < size { "up" } else { "down" };
    let message = format!("Scaled {way} replica set {} from {now} to {size}", target.name.name);
    let event = Call::Event(Remark::normal(owner.clone(), SOURCE, "ScalingReplicaSet", message));
    Some([Call::merge(target, json!({ "spec": { "replicas": size } })), event])
}

fn create(world: &World, deployment: &Deployment, owner: &Target, size: i32) -> Vec<Call> {
    let Some(spec) = &deployment.spec else { return Vec::new() };
    let mut hash = template_hash(&spec.template);
    let mut name = format!("{}-{hash}", owner.name.name);
    // A foreign ReplicaSet may have the name, as upstream's collision count allows for.
    while world.replica_sets.contains_key(&owner.name.beside(name.clone())) {
        hash.push('x');
        name.push('x');
    }
    let mut template = json!(spec.template);
    template["metadata"]["labels"][TEMPLATE_HASH] = json!(hash);
    let mut selector = json!(spec.selector);
    selector["matchLabels"][TEMPLATE_HASH] = json!(hash);
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": owner.name.namespace,
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": spec.replicas.unwrap_or(1).to_string(),
                "deployment.kubernetes.io/revision": "1",
            },
            "ownerReferences": [owner.controller_reference()],
        },
        "spec": { "replicas": size, "selector": selector, "template": template },
    });
    let failed = format!("Failed to create new replica set \"{name}\": ");
    let failed = Remark::warning(owner.clone(), SOURCE, "ReplicaSetCreateError", failed);
    let message = format!("Scaled up replica set {name} from 0 to {size}");
    let done = Remark::normal(owner.clone(), SOURCE, "ScalingReplicaSet", message);
    let create = Call::Create { object, otherwise: Some(failed) };
    let told = (size > 0).then_some(Call::Event(done));
    [create].into_iter().chain(told).collect()
}
