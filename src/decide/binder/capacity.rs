//! Whether there is room for the volumes that are to be made.
//!
//! Strictly, the claims of one pod, and all that is promised already ([`crate::cluster::debits`]), are counted together
//! against what a driver reports, and each alone against the largest volume that it makes; see *Differences from
//! upstream*. Otherwise each is compared alone with the whole, as upstream does. Either way what is reported is an
//! estimate unless it stands for one pool, and the driver has the last word. Answers to upstream's `hasEnoughCapacity`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::claims::PodClaims;
use crate::cluster::{Cluster, Key};
use crate::decide::Settings;
use crate::objects::quantity::Amount;
use crate::objects::{Capacity, Claim, Node, capacity};

/// How room is counted for one pod; the same for all nodes.
#[derive(Clone, Debug, Default)]
pub struct Count {
    strict: bool,
    /// What is promised to the pod's own claims, by report: it is theirs to take.
    own: BTreeMap<Key, Amount>,
}

/// The room at one node, claim by claim.
#[derive(Debug)]
pub struct Room<'a> {
    cluster: &'a Cluster,
    node: &'a Node,
    count: &'a Count,
    taken: BTreeMap<Key, Amount>,
}

impl Count {
    /// Counts for the pod that has these claims.
    #[must_use]
    pub fn of(cluster: &Cluster, settings: &Settings, claims: &PodClaims) -> Self {
        let mut own: BTreeMap<Key, Amount> = BTreeMap::new();
        let promised = claims.delayed.iter().filter_map(|(key, _)| cluster.debits().of(key));
        for (report, size) in promised {
            let sum = own.entry(report.clone()).or_default();
            *sum = *sum + size;
        }
        Count { strict: settings.strict_capacity, own }
    }

    /// What of a report is promised to others.
    #[must_use]
    pub fn promised(&self, cluster: &Cluster, report: &Key) -> Amount {
        if !self.strict {
            return Amount::ZERO;
        }
        cluster.debits().on(report) - self.own.get(report).copied().unwrap_or_default()
    }
}

impl<'a> Room<'a> {
    /// The room at a node.
    #[must_use]
    pub fn new(cluster: &'a Cluster, node: &'a Node, count: &'a Count) -> Self {
        Room { cluster, node, count, taken: BTreeMap::new() }
    }

    /// What of a report is promised to others, or taken by the pod's claims so far.
    #[must_use]
    pub fn promised(&self, report: &Key) -> Amount {
        self.count.promised(self.cluster, report) + self.taken.get(report).copied().unwrap_or_default()
    }

    /// Takes room for one claim of a class whose driver reports its capacity; says where, or `None` when there is not
    /// enough. A claim that requests nothing takes nothing anywhere.
    pub fn take(&mut self, class: &str, claim: &Claim) -> Option<Option<Arc<Capacity>>> {
        let Some(size) = capacity::taken_by(claim) else { return Some(None) };
        let mut reports = self.cluster.capacities_for(class, self.node);
        let holds =
            |(key, report): &(&Key, &Arc<Capacity>)| capacity::holds(report, size, self.promised(key));
        let (key, report) = reports.find(holds)?;
        if self.count.strict {
            let taken = self.taken.entry(key.clone()).or_default();
            *taken = *taken + size;
        }
        Some(Some(report.clone()))
    }
}
