//! What the actors know of the cluster: the newest version of every object, with the indexes that planning asks.
//!
//! The World decides nothing and never talks to a server. It is shown objects (from watches and from the answers to our
//! own writes, in any order) and keeps the newest by `resourceVersion`; showing one tells which [`Key`]s have to be
//! decided again. All questions are answered from indexes, so planning a key costs what that key's own objects cost.

use super::call::{Kind, Name, Target};
use super::family::Family;
use super::key::Key;
use super::relation::Relation;
use super::routes;
use crate::objects;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttributesClass,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The newest version of each object of one kind.
pub type Store<T> = BTreeMap<Name, Arc<T>>;

/// A kind of object that the World holds.
pub trait Watched: kube::Resource<DynamicType = ()> + Clone + Send + Sync + Sized + 'static {
    /// Its kind.
    const KIND: Kind;
    /// Where the World keeps it.
    fn store(world: &World) -> &Store<Self>;
    /// Where the World keeps it, to change.
    fn store_mut(world: &mut World) -> &mut Store<Self>;
    /// Adds it to (or takes it from) the indexes of its kind.
    fn index(&self, world: &mut World, present: bool);
    /// Called once when the object is first seen.
    fn arrive(&self, _world: &mut World) {}
    /// Which keys have to be decided again when `old` becomes `new`.
    fn wake(old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut BTreeSet<Key>);
}

/// Everything that is known of the cluster.
#[derive(Debug, Default)]
pub struct World {
    pub(super) namespaces: Store<Namespace>,
    pub(super) nodes: Store<Node>,
    pub(super) pods: Store<Pod>,
    pub(super) claims: Store<PersistentVolumeClaim>,
    pub(super) volumes: Store<objects::Volume>,
    pub(super) classes: Store<StorageClass>,
    pub(super) attributes_classes: Store<VolumeAttributesClass>,
    pub(super) csi_nodes: Store<CSINode>,
    pub(super) csi_drivers: Store<CSIDriver>,
    pub(super) capacities: Store<CSIStorageCapacity>,
    pub(super) stateful_sets: Store<StatefulSet>,
    pub(super) deployments: Store<Deployment>,
    pub(super) replica_sets: Store<ReplicaSet>,
    pub(super) daemon_sets: Store<DaemonSet>,
    pub(super) jobs: Store<Job>,
    pub(super) family: Family,
    pub(super) pods_of_claim: Relation<Name, Name>,
    pub(super) pods_on_node: Relation<String, Name>,
    pub(super) claims_of_volume: Relation<String, Name>,
    pub(super) claims_of_class: Relation<String, Name>,
    pub(super) claims_waiting_on_node: Relation<String, Name>,
    pub(super) users_of_attributes: Relation<String, (Kind, Name)>,
    pub(super) capacities_of_class: Relation<String, Name>,
}

fn version(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_ref()?.parse().ok()
}

/// Whether `new` may take the place of `old`: versions that can't be compared are taken as they come.
fn newer(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    match (version(old), version(new)) {
        (Some(old), Some(new)) => new > old,
        _ => true,
    }
}

impl World {
    /// Takes in one version of an object; an older one than is known changes nothing.
    pub fn show<T: Watched>(&mut self, new: &Arc<T>, keys: &mut BTreeSet<Key>) {
        let name = Name::of(new.meta());
        let old = T::store(self).get(&name).cloned();
        if old.as_ref().is_some_and(|old| !newer(old.meta(), new.meta())) {
            return;
        }
        if let Some(old) = &old {
            old.index(self, false);
            self.family.forget(T::KIND, &name, old.meta());
            if old.meta().uid != new.meta().uid {
                self.bury::<T>(old, keys);
            }
        }
        T::store_mut(self).insert(name.clone(), Arc::clone(new));
        new.index(self, true);
        if old.as_ref().is_none_or(|old| old.meta().uid != new.meta().uid) {
            new.arrive(self);
        }
        self.family.learn(T::KIND, &name, new.meta());
        routes::kinship(T::KIND, &name, new.meta(), self, keys);
        T::wake(old.as_deref(), Some(new), self, keys);
    }

    /// Takes in that an object is gone, unless a newer version of it is known already.
    pub fn hide<T: Watched>(&mut self, last: &T, keys: &mut BTreeSet<Key>) {
        let name = Name::of(last.meta());
        let Some(old) = T::store(self).get(&name).cloned() else { return };
        if newer(last.meta(), old.meta()) && version(last.meta()).is_some() && version(old.meta()).is_some() {
            return;
        }
        T::store_mut(self).remove(&name);
        old.index(self, false);
        self.family.forget(T::KIND, &name, old.meta());
        self.bury::<T>(&old, keys);
        routes::kinship(T::KIND, &name, old.meta(), self, keys);
        T::wake(Some(&old), None, self, keys);
    }

    /// Forgets every object of a kind that a complete list did not hold.
    pub fn retain<T: Watched>(&mut self, listed: &BTreeSet<Name>, keys: &mut BTreeSet<Key>) {
        let lost: Vec<_> =
            T::store(self).iter().filter(|(n, _)| !listed.contains(*n)).map(|(_, o)| o.clone()).collect();
        for object in lost {
            self.hide::<T>(&object, keys);
        }
    }

    fn bury<T: Watched>(&mut self, object: &T, keys: &mut BTreeSet<Key>) {
        if let Some(uid) = &object.meta().uid {
            keys.extend(self.family.bury(uid).into_iter().map(|(kind, name)| Key::Dependent(kind, name)));
        }
    }

    /// The metadata of an object of any kind.
    #[must_use]
    pub fn meta(&self, kind: Kind, name: &Name) -> Option<&ObjectMeta> {
        fn of<'a, T: Watched>(world: &'a World, name: &Name) -> Option<&'a ObjectMeta> {
            T::store(world).get(name).map(|o| o.meta())
        }
        match kind {
            Kind::Namespace => of::<Namespace>(self, name),
            Kind::Node => of::<Node>(self, name),
            Kind::Pod => of::<Pod>(self, name),
            Kind::Claim => of::<PersistentVolumeClaim>(self, name),
            Kind::Volume => of::<objects::Volume>(self, name),
            Kind::StorageClass => of::<StorageClass>(self, name),
            Kind::AttributesClass => of::<VolumeAttributesClass>(self, name),
            Kind::CsiNode => of::<CSINode>(self, name),
            Kind::CsiDriver => of::<CSIDriver>(self, name),
            Kind::Capacity => of::<CSIStorageCapacity>(self, name),
            Kind::StatefulSet => of::<StatefulSet>(self, name),
            Kind::Deployment => of::<Deployment>(self, name),
            Kind::ReplicaSet => of::<ReplicaSet>(self, name),
            Kind::DaemonSet => of::<DaemonSet>(self, name),
            Kind::Job => of::<Job>(self, name),
            Kind::Event => None,
        }
    }

    /// Every object in a namespace.
    pub fn content_of<'a>(&'a self, namespace: &str) -> impl Iterator<Item = (Kind, &'a ObjectMeta)> {
        fn of<'a, T: Watched>(world: &'a World, namespace: &str) -> Vec<(Kind, &'a ObjectMeta)> {
            let all = T::store(world).range(Name::new(namespace, "")..);
            all.take_while(|(name, _)| name.namespace == namespace)
                .map(|(_, o)| (T::KIND, o.meta()))
                .collect()
        }
        let owners = [
            of::<StatefulSet>(self, namespace),
            of::<Deployment>(self, namespace),
            of::<DaemonSet>(self, namespace),
            of::<ReplicaSet>(self, namespace),
            of::<Job>(self, namespace),
        ];
        let owned = [of::<Pod>(self, namespace), of::<PersistentVolumeClaim>(self, namespace)];
        owners.into_iter().chain(owned).chain([of::<CSIStorageCapacity>(self, namespace)]).flatten()
    }

    /// The version of an object that a call would be about.
    #[must_use]
    pub fn target(&self, kind: Kind, name: &Name) -> Option<Target> {
        self.meta(kind, name).map(|meta| Target::of(kind, meta))
    }

    /// The pods that name a claim, directly or through an ephemeral volume.
    pub fn pods_of_claim(&self, claim: &Name) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods_of_claim.of(claim).filter_map(|name| self.pods.get(name))
    }

    /// A node by its name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(&Name::new("", name))
    }
}

/// The claim that a pod's volume stands on, if it stands on one.
#[must_use]
pub fn claim_of(pod: &Name, volume: &Volume) -> Option<Name> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(pod.beside(source.claim_name.clone())),
        (None, Some(_)) => Some(pod.beside(format!("{}-{}", pod.name, volume.name))),
        (None, None) => None,
    }
}

/// Every claim that a pod stands on, each with the volume that names it.
pub fn claims_of(pod: &Pod) -> impl Iterator<Item = (&Volume, Name)> {
    let name = Name::of(&pod.metadata);
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
        .filter_map(move |volume| Some((volume, claim_of(&name, volume)?)))
}

/// Whether the pod is the claim's controller, as it has to be for an ephemeral volume.
#[must_use]
pub fn is_for_pod(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    controller(&claim.metadata).is_some_and(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref())
}

/// The owner that controls an object.
#[must_use]
pub fn controller(
    meta: &ObjectMeta,
) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// An annotation, empty when it is not set.
#[must_use]
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> &'a str {
    meta.annotations.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

/// Whether an object carries a finalizer.
#[must_use]
pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|f| f == finalizer)
}

/// The finalizers of an object but for one.
#[must_use]
pub fn finalizers_without(meta: &ObjectMeta, finalizer: &str) -> Vec<String> {
    meta.finalizers.iter().flatten().filter(|f| *f != finalizer).cloned().collect()
}

/// The phase of a pod; a pod that says nothing is Pending.
#[must_use]
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).filter(|p| !p.is_empty()).unwrap_or("Pending")
}

/// Whether a pod runs and is ready, and is not going away.
#[must_use]
pub fn is_healthy(pod: &Pod) -> bool {
    let ready = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && phase(pod) == "Running"
        && ready.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// The node that a pod was placed on, empty when it was not.
#[must_use]
pub fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or("")
}
