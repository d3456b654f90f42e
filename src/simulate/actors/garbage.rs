//! The garbage collector: what was owned goes with its owner.
//!
//! Decides about a dependent whose owner's deletion was seen (deleted when no other owner is left, else only the
//! reference goes), about owners that wait for their dependents, and about the content of a namespace that goes away. It
//! answers to upstream's `garbagecollector` and `namespace` controllers, and differs in one thing on purpose: an owner
//! that was never seen is not taken for a deleted one, so that a dump without its `ReplicaSets` keeps its pods.

use super::call::{Call, Kind, Name, Target};
use super::routes::{FOREGROUND, ORPHAN};
use super::world::{World, finalizers_without, has_finalizer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

/// How much of a namespace one plan deletes; each deletion makes the namespace due again.
const BURST: usize = 500;

/// What to do about an object one of whose owners is gone.
#[must_use]
pub fn plan_dependent(world: &World, kind: Kind, name: &Name) -> Vec<Call> {
    let Some(meta) = world.meta(kind, name) else { return Vec::new() };
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    let left: Vec<_> = owners.iter().filter(|o| !world.family.is_gone(&o.uid)).collect();
    if meta.deletion_timestamp.is_some() || left.len() == owners.len() {
        return Vec::new();
    }
    let target = Target::of(kind, meta);
    if left.is_empty() {
        return vec![Call::delete(target)];
    }
    vec![Call::merge(target, json!({ "metadata": { "ownerReferences": left } }))]
}

/// What to do about an owner that is being deleted and waits for its dependents.
#[must_use]
pub fn plan_owner(world: &World, kind: Kind, name: &Name) -> Vec<Call> {
    let Some(meta) = world.meta(kind, name).filter(|m| m.deletion_timestamp.is_some()) else {
        return Vec::new();
    };
    let uid = meta.uid.as_deref().unwrap_or_default();
    let dependents =
        world.family.dependents(uid).filter_map(|(kind, name)| Some((*kind, world.meta(*kind, name)?)));
    let (finalizer, calls): (_, Vec<Call>) = if has_finalizer(meta, ORPHAN) {
        (ORPHAN, dependents.map(|(kind, d)| orphan(kind, d, uid)).collect())
    } else if has_finalizer(meta, FOREGROUND) {
        let waiting: Vec<_> = dependents.filter(|(_, d)| blocks(d, uid)).collect();
        if !waiting.is_empty() {
            let fresh = waiting.into_iter().filter(|(_, d)| d.deletion_timestamp.is_none());
            return fresh.map(|(kind, d)| Call::delete(Target::of(kind, d))).collect();
        }
        (FOREGROUND, Vec::new())
    } else {
        return Vec::new();
    };
    let finalizers = finalizers_without(meta, finalizer);
    let release = Call::merge(Target::of(kind, meta), json!({ "metadata": { "finalizers": finalizers } }));
    calls.into_iter().chain([release]).collect()
}

fn blocks(dependent: &ObjectMeta, owner: &str) -> bool {
    let mut owners = dependent.owner_references.iter().flatten();
    owners.any(|o| o.uid == owner && o.block_owner_deletion == Some(true))
}

fn orphan(kind: Kind, dependent: &ObjectMeta, owner: &str) -> Call {
    let left: Vec<_> = dependent.owner_references.iter().flatten().filter(|o| o.uid != owner).collect();
    Call::merge(Target::of(kind, dependent), json!({ "metadata": { "ownerReferences": left } }))
}

/// What to do about a namespace that is being deleted: its content first, then the namespace's own finalizer.
#[must_use]
pub fn plan_namespace(world: &World, name: &str) -> Vec<Call> {
    let Some(namespace) = world.namespaces.get(&Name::new("", name)) else { return Vec::new() };
    if namespace.metadata.deletion_timestamp.is_none() {
        return Vec::new();
    }
    let content: Vec<_> = world.content_of(name).collect();
    if content.is_empty() {
        let held = namespace.spec.as_ref().and_then(|s| s.finalizers.as_ref()).is_some_and(|f| !f.is_empty());
        let target = Target::of(Kind::Namespace, &namespace.metadata);
        let patch = json!({ "spec": { "finalizers": [] } });
        return held
            .then_some(Call::Merge { target, subresource: Some("finalize"), patch })
            .into_iter()
            .collect();
    }
    let fresh = content.into_iter().filter(|(_, meta)| meta.deletion_timestamp.is_none());
    fresh.map(|(kind, meta)| Call::delete(Target::of(kind, meta))).take(BURST).collect()
}
