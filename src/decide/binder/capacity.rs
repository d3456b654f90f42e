//! Whether there is room for the volumes that are to be made.
//!
//! Unlike upstream, which compares each claim alone with the whole of a reported capacity, the claims of one pod
//! and those that other pods wait for are counted together; see *Differences from upstream*. Answers to
//! upstream's `hasEnoughCapacity`, `capacitySufficient` and `nodeHasAccess`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{Cluster, Key};
use crate::objects::quantity::Amount;
use crate::objects::{Capacity, Claim, Node, claim, name, namespace, topology};

/// What claims that are being provisioned will take from each reported capacity.
#[derive(Clone, Debug, Default)]
pub struct Debits(BTreeMap<Key, Amount>);

/// The room at one node, claim by claim.
pub struct Room<'a> {
    cluster: &'a Cluster,
    node: &'a Node,
    debits: &'a Debits,
    taken: BTreeMap<Key, Amount>,
}

fn capacity_key(capacity: &Capacity) -> Key {
    Key::new(crate::cluster::Kind::Capacity, namespace(&capacity.metadata), name(&capacity.metadata))
}

/// Whether the node can use storage from where the capacity is. One without a topology is used by nobody.
fn is_accessible(capacity: &Capacity, node: &Node) -> bool {
    let selector = capacity.node_topology.as_ref();
    selector.is_some_and(|s| topology::selector_matches(s, node.metadata.labels.as_ref()) == Some(true))
}

fn parse(quantity: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity>) -> Option<Amount> {
    Amount::parse(&quantity?.0)
}

/// Whether the class's volumes are made by a driver that reports its capacity.
#[must_use]
pub fn is_tracked(cluster: &Cluster, provisioner: &str) -> bool {
    cluster.csi_driver(provisioner).is_some_and(|driver| driver.spec.storage_capacity == Some(true))
}

impl Debits {
    /// What the claims that are being provisioned take, other than those of the pod itself. Each is booked where
    /// its pod is about to run, on the first capacity that its node can use and that has room for it.
    #[must_use]
    pub fn of(cluster: &Cluster, pod: &Key) -> Self {
        let mut debits = Debits::default();
        if cluster.capacities().next().is_none() {
            return debits;
        }
        for (other, assumption) in cluster.assumptions() {
            if other == pod {
                continue;
            }
            let Some(node) = cluster.node(&assumption.node) else { continue };
            for provision in &assumption.volumes.provisions {
                let key = provision.claim_key();
                let Some(claim) = cluster.claim(&key).filter(|claim| !claim::is_fully_bound(claim)) else {
                    continue;
                };
                let class_name = claim::class(claim);
                if !cluster.class(class_name).is_some_and(|class| is_tracked(cluster, &class.provisioner)) {
                    continue;
                }
                let booked = {
                    let mut room = Room::new(cluster, node, &debits);
                    room.take(class_name, claim);
                    room.taken
                };
                for (capacity, amount) in booked {
                    let sum = debits.0.entry(capacity).or_default();
                    *sum = *sum + amount;
                }
            }
        }
        debits
    }
}

impl<'a> Room<'a> {
    /// The room at a node, less what is booked.
    #[must_use]
    pub fn new(cluster: &'a Cluster, node: &'a Node, debits: &'a Debits) -> Self {
        Room { cluster, node, debits, taken: BTreeMap::new() }
    }

    /// Takes room for one claim of a class whose driver reports its capacity; says where, or `None` when there is not
    /// enough. A claim that requests nothing takes nothing anywhere.
    pub fn take(&mut self, class: &str, claim: &Claim) -> Option<Option<Arc<Capacity>>> {
        let Some(requested) = claim::requested_if_any(claim) else { return Some(None) };
        let size = Amount::units(requested.value());
        let usable = self.cluster.capacities().find(|capacity| {
            capacity.storage_class_name == class
                && is_accessible(capacity, self.node)
                && self.holds(capacity, size)
        });
        let capacity = usable?;
        let taken = self.taken.entry(capacity_key(capacity)).or_default();
        *taken = *taken + size;
        Some(Some(capacity.clone()))
    }

    /// Whether one more volume of this size fits: alone under the largest size that a volume may have, and
    /// together with what is booked under the whole.
    fn holds(&self, capacity: &Capacity, size: Amount) -> bool {
        let whole = parse(capacity.capacity.as_ref());
        let largest = parse(capacity.maximum_volume_size.as_ref());
        let key = capacity_key(capacity);
        let booked = |map: &BTreeMap<Key, Amount>| map.get(&key).copied().unwrap_or_default();
        let booked = booked(&self.debits.0) + booked(&self.taken);
        let fits_alone = largest.or(whole).is_some_and(|limit| size <= limit);
        // A report of the largest size alone says nothing of the whole.
        fits_alone && (booked == Amount::ZERO || whole.is_none_or(|whole| booked + size <= whole))
    }
}
