//! What we know of the cluster: the objects that watches showed, what our own writes are about to make of them,
//! and the indexes that make decisions cheap.
//!
//! [`Cluster`] is the only state that decisions read. It never decides, never waits and never talks to anybody:
//! the same sequence of calls gives the same state. It answers to upstream's informers together with the
//! controller's own cache (`storeObjectUpdate`) and the scheduler's assume cache.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod debits;
pub mod key;
mod object;
pub mod pod_volumes;
mod relation;
pub mod reports;
pub mod store;
pub mod usage;
pub mod volumes;
pub mod waiting;
pub mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::objects::{Claim, Class, CsiDriver, CsiNode, Node, Pod, Volume, claim, namespace, pod, volume};

pub use key::{Key, Kind};
pub use object::Object;
pub use pod_volumes::{Binding, PodVolumes, Provision};
use relation::Relation;
pub use store::OutOfSync;
pub use wake::{Change, Wakes};

/// Where a pod is about to run, while its volumes are being bound. It lives in memory only: after a restart
/// the reservations on volumes and claims lead to the same node again.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumption {
    /// The node that was chosen.
    pub node: Arc<str>,
    /// What the pod's claims get there.
    pub volumes: PodVolumes,
    /// Whether the time for binding the volumes is over; only who has a clock can say so.
    pub overdue: bool,
}

impl Assumption {
    /// A node that has just been chosen.
    #[must_use]
    pub fn of(node: &str, volumes: PodVolumes) -> Self {
        Assumption { node: node.into(), volumes, overdue: false }
    }
}

/// Everything that decisions look at.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    store: store::Store,
    free_volumes: volumes::FreeVolumes,
    waiting_claims: waiting::WaitingClaims,
    volumes_by_claim: Relation,
    claims_by_volume: Relation,
    pods_by_claim: Relation,
    unbound_by_class: Relation,
    usage: usage::NodeUsage,
    assumptions: BTreeMap<Key, Assumption>,
    with_affinity: BTreeSet<Key>,
    reports: reports::Reports,
    debits: debits::Debits,
}

impl Cluster {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Cluster::default()
    }

    /// A watch, or the answer to a write, shows an object. An older version than the known one changes nothing.
    pub fn show(&mut self, object: Object) -> Wakes {
        self.change(&object.key(), |store, key| {
            store.show(key, object);
        })
    }

    /// A request has been answered with an object. Unlike what a watch shows, the answer may be older than the end of the
    /// object: one that is gone meanwhile does not come back.
    pub fn answer(&mut self, object: Object) -> Wakes {
        self.change(&object.key(), |store, key| store.answer(key, object))
    }

    /// A watch says that an object is gone.
    pub fn gone(&mut self, key: &Key) -> Wakes {
        self.change(key, store::Store::gone)
    }

    /// A watch shows an object as it was when it went. One that has been made anew since, and is known already, stays.
    pub fn went(&mut self, object: &Object) -> Wakes {
        self.change(&object.key(), |store, key| store.went(key, object.version()))
    }

    /// Lays what a planned write is about to make of an object over what is known of it.
    pub fn assume(&mut self, object: Object) -> Wakes {
        self.change(&object.key(), |store, key| store.assume(key, object))
    }

    /// Reserves an object for a write that is not sent at once: as [`Cluster::assume`], until the object is shown in
    /// another version.
    ///
    /// # Errors
    /// When the object is not known in the version that the reservation was made on.
    pub fn reserve(&mut self, object: Object) -> Result<Wakes, OutOfSync> {
        let mut result = Ok(());
        let wakes = self.change(&object.key(), |store, key| result = store.reserve(key, object));
        result.map(|()| wakes)
    }

    /// Takes a reservation of an object away again, unless it has been reserved anew in another version since.
    pub fn release(&mut self, object: &Object) -> Wakes {
        self.change(&object.key(), |store, _| store.release(object))
    }

    /// Takes the assumed state of an object away again.
    pub fn restore(&mut self, key: &Key) -> Wakes {
        self.change(key, store::Store::restore)
    }

    /// Takes the assumed state of an object away and, in the same step, the answer to the write over.
    pub fn confirm(&mut self, key: &Key, answer: Option<Object>) -> Wakes {
        self.change(key, |store, key| {
            if let Some(answer) = answer {
                store.answer(key, answer);
            }
            store.restore(key);
        })
    }

    /// Takes note of where a pod is about to run, or, with `None`, that it is not.
    pub fn set_assumption(&mut self, pod: &Key, assumption: Option<Assumption>) {
        let object = self.store.get(pod).cloned();
        if let Some(object) = &object {
            self.relate(pod, object, false);
        }
        match assumption {
            Some(assumption) => self.assumptions.insert(pod.clone(), assumption),
            None => self.assumptions.remove(pod),
        };
        if let Some(object) = &object {
            self.relate(pod, object, true);
        }
    }

    /// Takes note that the time for binding a pod's volumes is over.
    pub fn set_overdue(&mut self, pod: &Key) {
        if let Some(assumption) = self.assumptions.get_mut(pod) {
            assumption.overdue = true;
        }
    }

    /// Makes one change to the store, keeps the indexes true, and says who ought to look again.
    fn change(&mut self, key: &Key, change: impl FnOnce(&mut store::Store, &Key)) -> Wakes {
        let before = self.store.get(key).cloned();
        change(&mut self.store, key);
        let after = self.store.get(key).cloned();
        if before == after {
            return Wakes::default();
        }
        if let Some(before) = &before {
            self.relate(key, before, false);
        }
        let released = if after.is_none() { self.assumptions.remove(key) } else { None };
        if let Some(after) = &after {
            self.relate(key, after, true);
        }
        let relieved = self.keep_debits(key, before.as_ref(), after.as_ref());
        wake::wakes(self, key, Change { before, after, relieved, released })
    }

    /// Adds an object to the indexes, or takes it out.
    fn relate(&mut self, key: &Key, object: &Object, add: bool) {
        let set = |relation: &mut Relation, from: Key| {
            if add { relation.add(from, key) } else { relation.remove(from, key) }
        };
        match object {
            Object::Volume(o) => {
                if let Some(reference) = volume::claim_ref(o) {
                    let (namespace, name) = volume::referred(reference);
                    set(&mut self.volumes_by_claim, Key::claim(namespace, name));
                }
                if add { self.free_volumes.add(key, o) } else { self.free_volumes.remove(key, o) }
            }
            Object::Claim(o) => {
                if !claim::volume_name(o).is_empty() {
                    set(&mut self.claims_by_volume, Key::volume(claim::volume_name(o)));
                }
                if !claim::is_bind_completed(o) {
                    set(&mut self.unbound_by_class, Key::class(claim::class(o)));
                }
                if add { self.waiting_claims.add(key, o) } else { self.waiting_claims.remove(key, o) }
            }
            Object::Pod(o) => {
                for used in pod::claims(o) {
                    set(&mut self.pods_by_claim, Key::claim(namespace(&o.metadata), &used.claim));
                }
                if add && pod::speaks_of_others(o) {
                    self.with_affinity.insert(key.clone());
                } else if !add {
                    self.with_affinity.remove(key);
                }
                let node = self.node_of(key, o).map(str::to_owned);
                if let Some(node) = node.filter(|_| !pod::is_finished(o)) {
                    if add { self.usage.add(&node, key, o) } else { self.usage.remove(&node, key, o) }
                }
            }
            Object::Node(o) => {
                if add {
                    self.usage.appear(key.name(), o);
                } else {
                    self.usage.vanish(key.name());
                }
            }
            Object::Capacity(o) => {
                if add {
                    self.reports.add(key, o);
                } else {
                    self.reports.remove(key, o);
                }
            }
            Object::Class(_) | Object::CsiNode(_) | Object::CsiDriver(_) => {}
        }
    }

    /// The node that a pod is on or about to be on.
    #[must_use]
    pub fn node_of<'a>(&'a self, key: &Key, pod: &'a Pod) -> Option<&'a str> {
        let bound = pod::node_name(pod);
        if bound.is_empty() { self.assumptions.get(key).map(|a| &*a.node) } else { Some(bound) }
    }
}

/// Questions; each is answered as of the newest known version, with what is assumed on top.
impl Cluster {
    /// Any object.
    #[must_use]
    pub fn object(&self, key: &Key) -> Option<&Object> {
        self.store.get(key)
    }

    /// An object as the API server last showed it, without what is assumed.
    #[must_use]
    pub fn known(&self, key: &Key) -> Option<&Object> {
        self.store.known(key)
    }

    /// The keys of all objects of a kind that the API server has shown.
    pub fn known_keys(&self, kind: Kind) -> impl Iterator<Item = &Key> {
        self.store.known_keys(kind)
    }

    /// A claim.
    #[must_use]
    pub fn claim(&self, key: &Key) -> Option<&Arc<Claim>> {
        self.store.get(key)?.as_claim()
    }

    /// A volume.
    #[must_use]
    pub fn volume(&self, key: &Key) -> Option<&Arc<Volume>> {
        self.store.get(key)?.as_volume()
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, key: &Key) -> Option<&Arc<Pod>> {
        self.store.get(key)?.as_pod()
    }

    /// A class by name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&Arc<Class>> {
        self.store.get(&Key::class(name))?.as_class()
    }

    /// A node by name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.store.get(&Key::node(name))?.as_node()
    }

    /// The `CSINode` of a node.
    #[must_use]
    pub fn csi_node(&self, name: &str) -> Option<&Arc<CsiNode>> {
        self.store.get(&Key::new(Kind::CsiNode, "", name))?.as_csi_node()
    }

    /// A `CSIDriver` by name.
    #[must_use]
    pub fn csi_driver(&self, name: &str) -> Option<&Arc<CsiDriver>> {
        self.store.get(&Key::new(Kind::CsiDriver, "", name))?.as_csi_driver()
    }

    /// All classes, by name.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<Class>> {
        self.store.of_kind(Kind::Class).filter_map(Object::as_class)
    }

    /// All volumes, by name.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.store.of_kind(Kind::Volume).filter_map(Object::as_volume)
    }

    /// All claims, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.store.of_kind(Kind::Claim).filter_map(Object::as_claim)
    }

    /// All pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.store.of_kind(Kind::Pod).filter_map(Object::as_pod)
    }

    /// All pods with their keys, by namespace and name.
    pub fn keyed_pods(&self) -> impl Iterator<Item = (&Key, &Arc<Pod>)> {
        self.store.keyed(Kind::Pod).filter_map(|(key, object)| Some((key, object.as_pod()?)))
    }

    /// The pods that want to be near other pods, or away from them.
    pub fn pods_with_affinity(&self) -> impl Iterator<Item = (&Key, &Arc<Pod>)> {
        self.with_affinity.iter().filter_map(|key| Some((key, self.pod(key)?)))
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.store.of_kind(Kind::Node).filter_map(Object::as_node)
    }

    /// What volumes that are being made take of what is reported.
    #[must_use]
    pub fn debits(&self) -> &debits::Debits {
        &self.debits
    }

    /// The volumes that are nobody's.
    #[must_use]
    pub fn free_volumes(&self) -> &volumes::FreeVolumes {
        &self.free_volumes
    }

    /// The claims that wait for any volume.
    #[must_use]
    pub fn waiting_claims(&self) -> &waiting::WaitingClaims {
        &self.waiting_claims
    }

    /// The volumes whose `claimRef` names a claim, whatever uid it has, by name.
    pub fn volumes_for(&self, claim: &Key) -> impl Iterator<Item = (&Key, &Arc<Volume>)> {
        self.volumes_by_claim.of(claim).filter_map(|key| Some((key, self.volume(key)?)))
    }

    /// The pods that use a claim, by name.
    pub fn pods_using(&self, claim: &Key) -> impl Iterator<Item = (&Key, &Arc<Pod>)> {
        self.pods_by_claim.of(claim).filter_map(|key| Some((key, self.pod(key)?)))
    }

    /// What is in use on a node; `None` when nothing is.
    #[must_use]
    pub fn in_use(&self, node: &str) -> Option<&usage::InUse> {
        self.usage.of(node)?.in_use.as_ref()
    }

    /// What a node offers to pods, and what of it they use.
    #[must_use]
    pub fn room(&self, node: &str) -> Option<&usage::Room> {
        self.usage.of(node)
    }

    /// Where a pod is about to run.
    #[must_use]
    pub fn assumption(&self, pod: &Key) -> Option<&Assumption> {
        self.assumptions.get(pod)
    }

    /// Every pod that is about to run somewhere.
    pub fn assumptions(&self) -> impl Iterator<Item = (&Key, &Assumption)> {
        self.assumptions.iter()
    }

    /// The default class, if there is one.
    #[must_use]
    pub fn default_class(&self) -> Option<&Class> {
        crate::objects::class::default_of(self.classes().map(AsRef::as_ref))
    }
}
