//! Who ought to look again when an object changes.
//!
//! Upstream looks at everything again every fifteen seconds; here each change names the few keys whose decision
//! may depend on it, so nothing polls and nothing is resynced. A key named too often costs a little time, a key
//! not named is a bug: every rule says which question of [`crate::decide`] it serves.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AttachedVolume, NodeSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Cluster, Key, Kind, Object, volumes};
use crate::objects::topology::Labels;
use crate::objects::{Claim, Node, Pod, Volume, claim, class, pod, requests, uid, volume};

/// What a node offers, by resource.
type Offered = BTreeMap<String, Quantity>;

/// What a change wakes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// The keys that ought to be synced again.
    pub keys: Vec<Key>,
    /// Whether a pod that found no node before may find one now.
    pub may_help_pods: bool,
    /// Whether there are more or fewer nodes now, which what is said of pods that wait tells.
    pub node_count_changed: bool,
    /// Whether such a pod may find one now if it wants to be near other pods.
    pub may_help_followers: bool,
}

/// What the change of `key` from `before` to `after` wakes; the cluster is as after the change.
pub(super) fn wakes(cluster: &Cluster, key: &Key, before: Option<&Object>, after: Option<&Object>) -> Wakes {
    let mut wakes = Wakes::default();
    match key.kind() {
        Kind::Volume => {
            let (before, after) = (before.and_then(Object::as_volume), after.and_then(Object::as_volume));
            volume_changed(cluster, key, before.map(AsRef::as_ref), after.map(AsRef::as_ref), &mut wakes);
        }
        Kind::Claim => {
            let (before, after) = (before.and_then(Object::as_claim), after.and_then(Object::as_claim));
            claim_changed(cluster, key, before.map(AsRef::as_ref), after.map(AsRef::as_ref), &mut wakes);
        }
        Kind::Pod => {
            let (before, after) = (before.and_then(Object::as_pod), after.and_then(Object::as_pod));
            pod_changed(cluster, key, before.map(AsRef::as_ref), after.map(AsRef::as_ref), &mut wakes);
        }
        Kind::Class => {
            class_changed(cluster, key, before, after, &mut wakes);
            wakes.may_help_pods = true;
        }
        Kind::Node => {
            let (old, new) = (before.and_then(Object::as_node), after.and_then(Object::as_node));
            wakes.may_help_pods = old.map(|node| node_offers(node)) != new.map(|node| node_offers(node))
                || old.zip(new).is_some_and(|(old, new)| is_detached(old, new));
            wakes.node_count_changed = before.is_none() != after.is_none();
            if wakes.may_help_pods || after.is_none() {
                // What is being bound for the node may be impossible there now.
                let there = cluster.assumptions().filter(|(_, assumption)| *assumption.node == *key.name());
                wakes.keys.extend(there.map(|(pod, _)| pod.clone()));
            }
        }
        Kind::CsiNode | Kind::CsiDriver | Kind::Capacity => wakes.may_help_pods = true,
    }
    wakes
}

/// What of a node decides whether a pod fits there; its heartbeats change the rest.
fn node_offers(node: &Node) -> (Option<&Labels>, Option<&NodeSpec>, Option<&Offered>) {
    let status = node.status.as_ref();
    let offered = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
    (node.metadata.labels.as_ref(), node.spec.as_ref(), offered)
}

/// Whether a volume is attached to the node no longer: another one may be.
fn is_detached(before: &Node, after: &Node) -> bool {
    let attached = |volume: &AttachedVolume| {
        let status = after.status.as_ref();
        status.and_then(|s| s.volumes_attached.as_ref()).is_some_and(|volumes| volumes.contains(volume))
    };
    let status = before.status.as_ref();
    status.and_then(|s| s.volumes_attached.as_ref()).is_some_and(|before| !before.iter().all(attached))
}

fn volume_changed(
    cluster: &Cluster,
    key: &Key,
    before: Option<&Volume>,
    after: Option<&Volume>,
    wakes: &mut Wakes,
) {
    wakes.keys.push(key.clone());
    // The claim that the volume is or was for: it may bind now, or have lost it.
    for reference in [before, after].into_iter().flatten().filter_map(volume::claim_ref) {
        let (namespace, name) = volume::referred(reference);
        let claim = Key::claim(namespace, name);
        wakes.keys.extend(cluster.pods_by_claim.of(&claim).cloned());
        wakes.keys.push(claim);
    }
    // The claims that name the volume, whomever it is for.
    for claim in cluster.claims_by_volume.of(key) {
        wakes.keys.push(claim.clone());
        wakes.keys.extend(cluster.pods_by_claim.of(claim).cloned());
    }
    wakes.may_help_pods = after.is_some_and(volumes::is_free) && before.is_none_or(|b| !volumes::is_free(b));
}

fn claim_changed(
    cluster: &Cluster,
    key: &Key,
    before: Option<&Claim>,
    after: Option<&Claim>,
    wakes: &mut Wakes,
) {
    wakes.keys.push(key.clone());
    // A volume looks at its claim's existence, uid, volume name and volume mode.
    let seen = |c: &Claim| {
        (uid(&c.metadata).to_owned(), claim::volume_name(c).to_owned(), claim::mode(c).to_owned())
    };
    if before.map(seen) != after.map(seen) {
        wakes.keys.extend(cluster.volumes_by_claim.of(key).cloned());
    }
    wakes.keys.extend(cluster.pods_by_claim.of(key).cloned());
}

fn pod_changed(cluster: &Cluster, key: &Key, before: Option<&Pod>, after: Option<&Pod>, wakes: &mut Wakes) {
    wakes.keys.push(key.clone());
    // A volume that is being scrubbed waits for the pod that does it.
    wakes.keys.extend(pod::recycled_volume(key.namespace(), key.name()).map(Key::volume));
    // A claim that waits for its first consumer says which pods it waits for, and a volume is recycled only
    // when no running pod uses it.
    let uses = |p: &Pod| (pod::node_name(p).to_owned(), pod::is_terminated(p));
    if before.map(uses) != after.map(uses) {
        for used in [before, after].into_iter().flatten().flat_map(pod::claims) {
            let claim = Key::claim(key.namespace(), &used.claim);
            if cluster.claim(&claim).is_none_or(|claim| !claim::is_bind_completed(claim)) {
                wakes.keys.push(claim.clone());
            }
            wakes.keys.extend(cluster.volumes_by_claim.of(&claim).cloned());
        }
    }
    let runs = |p: &Pod| !pod::node_name(p).is_empty() && !pod::is_finished(p);
    let left = before.is_some_and(runs) && !after.is_some_and(runs);
    let came = after.is_some_and(runs) && !before.is_some_and(runs);
    // Where other pods may be depends on its labels, and what is left for them on what it requests.
    let changed = |before: &Pod, after: &Pod| {
        runs(before)
            && runs(after)
            && (before.metadata.labels != after.metadata.labels || has_shrunk(before, after))
    };
    wakes.may_help_pods = left || before.zip(after).is_some_and(|(before, after)| changed(before, after));
    wakes.may_help_followers = came;
}

/// Whether the pod has been resized, and requests less of something than before.
fn has_shrunk(before: &Pod, after: &Pod) -> bool {
    let now = requests::of(after);
    let mut before = requests::of(before).into_iter();
    before.any(|(resource, amount)| now.get(&resource).is_none_or(|now| *now < amount))
}

fn class_changed(
    cluster: &Cluster,
    key: &Key,
    before: Option<&Object>,
    after: Option<&Object>,
    wakes: &mut Wakes,
) {
    wakes.keys.extend(cluster.unbound_by_class.of(key).cloned());
    let is_default = |o: Option<&Object>| o.and_then(Object::as_class).is_some_and(|c| class::is_default(c));
    if is_default(before) || is_default(after) {
        // Claims that name no class may be given this one.
        wakes.keys.extend(cluster.unbound_by_class.of(&Key::class("")).cloned());
    }
    let claims = wakes.keys.clone();
    wakes.keys.extend(claims.iter().flat_map(|claim| cluster.pods_by_claim.of(claim)).cloned());
}
