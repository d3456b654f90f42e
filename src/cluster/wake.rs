//! Who ought to look again when an object changes.
//!
//! Upstream looks at everything again every fifteen seconds; here each change names the few keys whose decision
//! may depend on it, so nothing polls and nothing is resynced. A key named too often costs a little time, a key
//! not named is a bug: every rule says which question of [`crate::decide`] it serves.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Assumption, Cluster, Key, Kind, Object};
use crate::objects::{Claim, Class, Node, Pod, Volume, claim, class, pod, uid, volume};

/// What a change wakes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wakes {
    /// The keys that ought to be synced again.
    pub keys: Vec<Key>,
    /// What has changed, if anything has: a pod that found no node before may find one now. Which pods those are depends
    /// on what refused them, and is no question of keys.
    pub change: Option<Change>,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The object before; `None` when it is new.
    pub before: Option<Object>,
    /// The object after; `None` when it is gone.
    pub after: Option<Object>,
    /// The reports of storage of which less is promised since.
    pub relieved: BTreeSet<Key>,
    /// Where a pod that is gone was about to run.
    pub released: Option<Assumption>,
}

/// What a change of `key` wakes; the cluster is as after the change, and so are its promises.
pub(super) fn wakes(cluster: &Cluster, key: &Key, change: Change) -> Wakes {
    let mut wakes = Wakes::default();
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
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
            let (before, after) = (before.and_then(Object::as_class), after.and_then(Object::as_class));
            class_changed(cluster, key, before.map(AsRef::as_ref), after.map(AsRef::as_ref), &mut wakes);
        }
        Kind::Node => {
            let (before, after) = (before.and_then(Object::as_node), after.and_then(Object::as_node));
            // Its heartbeats change nothing that a volume is bound for.
            let seen = |node: &Arc<Node>| (node.metadata.labels.clone(), node.spec.clone());
            if before.map(seen) != after.map(seen) {
                wakes.keys.extend(bound_for(cluster, key.name()));
            }
        }
        Kind::CsiNode => wakes.keys.extend(bound_for(cluster, key.name())),
        Kind::CsiDriver | Kind::Capacity => {}
    }
    wakes.change = Some(change);
    wakes
}

/// The pods whose volumes are being bound for a node: that may be impossible there now.
fn bound_for<'a>(cluster: &'a Cluster, node: &'a str) -> impl Iterator<Item = Key> + use<'a> {
    let there = cluster.assumptions().filter(move |(_, assumption)| *assumption.node == *node);
    there.map(|(pod, _)| pod.clone())
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
}

fn class_changed(
    cluster: &Cluster,
    key: &Key,
    before: Option<&Class>,
    after: Option<&Class>,
    wakes: &mut Wakes,
) {
    wakes.keys.extend(cluster.unbound_by_class.of(key).cloned());
    // Who binds the claims, and who makes their volumes, says what their pods wait for.
    let seen = |class: &Class| (class.volume_binding_mode.clone(), class.provisioner.clone());
    if before.map(seen) != after.map(seen) {
        let pods = cluster.unbound_by_class.of(key).flat_map(|claim| cluster.pods_by_claim.of(claim));
        wakes.keys.extend(pods.cloned());
    }
    let is_default = |class: Option<&Class>| class.is_some_and(class::is_default);
    if is_default(before) || is_default(after) {
        // Claims that name no class may be given this one.
        wakes.keys.extend(cluster.unbound_by_class.of(&Key::class("")).cloned());
    }
}
