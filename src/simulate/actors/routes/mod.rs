//! Which keys a change of an object makes due, kind by kind.
//!
//! A change wakes only what could be decided differently because of it, found through indexes; a status that a
//! controller writes about itself never wakes each of its pods again. Nothing is decided here: a key woken for nothing
//! costs one empty plan.

mod workloads;

use super::call::{Kind, Name};
use super::family::ordinal;
use super::key::Key;
use super::kubelet::is_unready;
use super::protection::{CLAIM_FINALIZER, CLASS_FINALIZER, VOLUME_FINALIZER, attributes_of_claim};
use super::provisioner::{SELECTED_NODE, class_of, driver_of};
use super::world::{Store, Watched, World, annotation, has_finalizer, node_of, phase};
use crate::objects;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttributesClass,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

type Keys = BTreeSet<Key>;

/// The finalizers by which an owner waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// See [`FOREGROUND`].
pub const ORPHAN: &str = "orphan";

fn waits_for_dependents(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && (has_finalizer(meta, FOREGROUND) || has_finalizer(meta, ORPHAN))
}

/// What the coming, changing or going of an object means for its owners, its dependents and its namespace.
pub fn kinship(kind: Kind, name: &Name, meta: &ObjectMeta, world: &World, keys: &mut Keys) {
    for owner in meta.owner_references.iter().flatten() {
        if world.family.is_gone(&owner.uid) {
            keys.insert(Key::Dependent(kind, name.clone()));
        }
        let Some(kind) = Kind::WATCHED.into_iter().find(|k| k.name() == owner.kind) else { continue };
        let at = name.beside(owner.name.clone());
        if world.meta(kind, &at).is_some_and(waits_for_dependents) {
            keys.insert(Key::Owner(kind, at));
        }
    }
    if waits_for_dependents(meta) {
        keys.insert(Key::Owner(kind, name.clone()));
    }
    let namespace = world.namespaces.get(&Name::new("", name.namespace.clone()));
    if namespace.is_some_and(|n| n.metadata.deletion_timestamp.is_some()) {
        keys.insert(Key::Namespace(name.namespace.clone()));
    }
}

/// Where the World keeps the objects of a kind.
macro_rules! stored {
    ($kind:ident, $field:ident) => {
        const KIND: Kind = Kind::$kind;
        fn store(world: &World) -> &Store<Self> {
            &world.$field
        }
        fn store_mut(world: &mut World) -> &mut Store<Self> {
            &mut world.$field
        }
    };
}

use stored;

/// Wakes the `StatefulSet` replica that a claim is named after: `TEMPLATE-SET-N`.
fn wake_replica_of_claim(claim: &Name, world: &World, keys: &mut Keys) {
    let (Some((rest, _)), Some(number)) = (claim.name.rsplit_once('-'), ordinal(&claim.name)) else { return };
    for (at, _) in rest.match_indices('-') {
        let set = claim.beside(&rest[at + 1..]);
        if world.stateful_sets.contains_key(&set) {
            keys.insert(Key::StatefulSet(set.clone()));
            keys.insert(Key::Replica(set, number));
        }
    }
}

/// Records (or forgets) that an object uses a `VolumeAttributesClass`.
fn use_attributes(world: &mut World, class: String, user: (Kind, Name), present: bool) {
    if present {
        world.users_of_attributes.insert(class, user);
    } else {
        world.users_of_attributes.remove(&class, &user);
    }
}

/// Wakes a `VolumeAttributesClass` that is on its way out when it may have lost a user.
fn wake_attributes(class: String, world: &World, keys: &mut Keys) {
    let class = Name::new("", class);
    if world.attributes_classes.get(&class).is_some_and(|c| c.metadata.deletion_timestamp.is_some()) {
        keys.insert(Key::ClassProtection(class));
    }
}

fn attributes_of_volume(volume: &objects::Volume) -> Option<String> {
    volume.spec.as_ref()?.volume_attributes_class_name.clone().filter(|class| !class.is_empty())
}

impl Watched for VolumeAttributesClass {
    stored!(AttributesClass, attributes_classes);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(_old: Option<&Self>, new: Option<&Self>, _world: &World, keys: &mut Keys) {
        let Some(new) = new else { return };
        if new.metadata.deletion_timestamp.is_some() == has_finalizer(&new.metadata, CLASS_FINALIZER) {
            keys.insert(Key::ClassProtection(Name::of(&new.metadata)));
        }
    }
}

impl Watched for PersistentVolumeClaim {
    stored!(Claim, claims);

    fn index(&self, world: &mut World, present: bool) {
        let name = Name::of(&self.metadata);
        let spec = self.spec.as_ref();
        let volume = spec.and_then(|s| s.volume_name.clone()).unwrap_or_default();
        let class = class_of(self).to_owned();
        let node = annotation(&self.metadata, SELECTED_NODE).to_owned();
        let unbound = volume.is_empty();
        let mark = |relation: &mut super::relation::Relation<String, Name>, at: String, belongs: bool| {
            if !belongs || at.is_empty() {
            } else if present {
                relation.insert(at, name.clone());
            } else {
                relation.remove(&at, &name);
            }
        };
        mark(&mut world.claims_of_volume, volume, true);
        mark(&mut world.claims_of_class, class, unbound);
        mark(&mut world.claims_waiting_on_node, node, unbound);
        for class in attributes_of_claim(self) {
            use_attributes(world, class, (Kind::Claim, Name::of(&self.metadata)), present);
        }
    }

    fn wake(old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut Keys) {
        let Some(either) = new.or(old) else { return };
        let name = Name::of(&either.metadata);
        let replaced = old.is_some_and(|old| new.is_none_or(|new| new.metadata.uid != old.metadata.uid));
        for pod in world.pods_of_claim(&name) {
            let pod_name = Name::of(&pod.metadata);
            if replaced {
                keys.insert(Key::Ephemeral(pod_name.clone()));
            }
            if phase(pod) == "Pending" && !node_of(pod).is_empty() {
                keys.insert(Key::Kubelet(pod_name));
            }
        }
        wake_replica_of_claim(&name, world, keys);
        for class in old.map(attributes_of_claim).unwrap_or_default() {
            wake_attributes(class, world, keys);
        }
        let Some(new) = new else { return };
        let leaving = new.metadata.deletion_timestamp.is_some();
        if leaving == has_finalizer(&new.metadata, CLAIM_FINALIZER) {
            keys.insert(Key::ClaimProtection(name.clone()));
        }
        let unbound = new.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or("").is_empty();
        if unbound && !leaving && !driver_of(new).is_empty() {
            keys.insert(Key::Provision(name));
        }
    }
}

impl Watched for objects::Volume {
    stored!(Volume, volumes);

    fn index(&self, world: &mut World, present: bool) {
        if let Some(class) = attributes_of_volume(self) {
            use_attributes(world, class, (Kind::Volume, Name::of(&self.metadata)), present);
        }
    }

    fn wake(old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut Keys) {
        let Some(either) = new.or(old) else { return };
        let name = Name::of(&either.metadata);
        if let Some(class) = old.and_then(attributes_of_volume) {
            wake_attributes(class, world, keys);
        }
        if old.is_none() || new.is_none() {
            for claim in world.claims_of_volume.of(&name.name) {
                keys.extend(world.pods_of_claim.of(claim).cloned().map(Key::Kubelet));
            }
        }
        let Some(new) = new else {
            let claim = either.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
            keys.extend(claim.map(|c| {
                Key::Provision(Name::new(
                    c.namespace.clone().unwrap_or_default(),
                    c.name.clone().unwrap_or_default(),
                ))
            }));
            return;
        };
        let leaving = new.metadata.deletion_timestamp.is_some();
        if leaving == has_finalizer(&new.metadata, VOLUME_FINALIZER) {
            keys.insert(Key::VolumeProtection(name.clone()));
        }
        if new.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Released") {
            keys.insert(Key::Reclaim(name));
        }
    }
}

impl Watched for Node {
    stored!(Node, nodes);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut Keys) {
        keys.extend(new.filter(|node| is_unready(node)).map(|node| Key::Node(Name::of(&node.metadata))));
        let same = matches!((old, new), (Some(a), Some(b)) if a.spec == b.spec && a.metadata.labels == b.metadata.labels);
        let Some(name) = new.or(old).and_then(|n| n.metadata.name.clone()) else { return };
        if same {
            return;
        }
        keys.extend(world.daemon_sets.keys().map(|set| Key::Daemon(set.clone(), name.clone())));
        keys.extend(world.pods_on_node.of(&name).cloned().map(Key::Kubelet));
        keys.extend(world.claims_waiting_on_node.of(&name).cloned().map(Key::Provision));
    }
}

impl Watched for StorageClass {
    stored!(StorageClass, classes);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(_old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut Keys) {
        let Some(name) = new.and_then(|n| n.metadata.name.as_ref()) else { return };
        keys.extend(world.claims_of_class.of(name).cloned().map(Key::Provision));
    }
}

impl Watched for CSIStorageCapacity {
    stored!(Capacity, capacities);

    fn index(&self, world: &mut World, present: bool) {
        let name = Name::of(&self.metadata);
        if present {
            world.capacities_of_class.insert(self.storage_class_name.clone(), name);
        } else {
            world.capacities_of_class.remove(&self.storage_class_name, &name);
        }
    }

    // More room wakes nobody here: a claim without room lost its selected node, and the scheduler chooses anew.
    fn wake(_old: Option<&Self>, _new: Option<&Self>, _world: &World, _keys: &mut Keys) {}
}

/// Kinds that are only looked up: a change of one wakes nothing.
macro_rules! only_looked_up {
    ($type:ty, $kind:ident, $field:ident) => {
        impl Watched for $type {
            stored!($kind, $field);
            fn index(&self, _world: &mut World, _present: bool) {}
            fn wake(_old: Option<&Self>, _new: Option<&Self>, _world: &World, _keys: &mut Keys) {}
        }
    };
}
only_looked_up!(CSINode, CsiNode, csi_nodes);
only_looked_up!(CSIDriver, CsiDriver, csi_drivers);

impl Watched for Namespace {
    stored!(Namespace, namespaces);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(_old: Option<&Self>, new: Option<&Self>, _world: &World, keys: &mut Keys) {
        if let Some(new) = new.filter(|n| n.metadata.deletion_timestamp.is_some()) {
            keys.extend(new.metadata.name.clone().map(Key::Namespace));
        }
    }
}
