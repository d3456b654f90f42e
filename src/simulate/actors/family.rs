//! Who owns whom, by uid, and how the pods of each controller stand.
//!
//! The counts are kept up as pods change, so that a controller of ten thousand pods is decided without looking at ten
//! thousand pods. An owner counts as gone only when its deletion was seen: a dump may hold pods without their
//! `ReplicaSet`, and these must not be collected.

use super::call::{Kind, Name};
use super::relation::{Relation, Runs};
use super::world::{controller, is_healthy, phase};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

/// How the pods of one controller stand.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Names of pods that are neither finished nor going away, in order.
    pub active: BTreeSet<String>,
    /// Names of pods that run, are ready and not going away.
    pub healthy: BTreeSet<String>,
    /// Names of pods that are going away.
    pub leaving: BTreeSet<String>,
    /// Names of pods that finished well.
    pub succeeded: BTreeSet<String>,
    /// Names of pods that failed.
    pub failed: BTreeSet<String>,
    /// Names of active pods that have a node.
    pub placed: BTreeSet<String>,
    /// How many pods were ever seen: the number in the next generated name.
    pub seen: u64,
    /// Pods by the number at the end of their name.
    pub ordinals: BTreeMap<i64, String>,
    /// The numbers of the healthy pods.
    pub healthy_ordinals: Runs,
}

impl Tally {
    fn count(&mut self, name: &str, pod: &Pod, present: bool) {
        let leaving = pod.metadata.deletion_timestamp.is_some();
        let (succeeded, failed) = (phase(pod) == "Succeeded", phase(pod) == "Failed");
        let active = !leaving && !succeeded && !failed;
        let healthy = is_healthy(pod);
        let mark = |set: &mut BTreeSet<String>, belongs: bool| {
            if belongs && present {
                set.insert(name.to_owned());
            } else if belongs {
                set.remove(name);
            }
        };
        mark(&mut self.active, active);
        mark(&mut self.healthy, healthy);
        mark(&mut self.leaving, leaving);
        mark(&mut self.succeeded, succeeded);
        mark(&mut self.failed, failed);
        mark(&mut self.placed, active && !super::world::node_of(pod).is_empty());
        let Some(ordinal) = ordinal(name) else { return };
        if present {
            self.ordinals.insert(ordinal, name.to_owned());
        } else {
            self.ordinals.remove(&ordinal);
        }
        if present && healthy {
            self.healthy_ordinals.insert(ordinal);
        } else {
            self.healthy_ordinals.remove(ordinal);
        }
    }
}

/// The number at the end of a name: 3 for `web-3`; as upstream, a leading zero is no number of ours.
#[must_use]
pub fn ordinal(name: &str) -> Option<i64> {
    let (_, digits) = name.rsplit_once('-')?;
    let number: i32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(i64::from(number))
}

/// Owners, dependents, and the uids of the dead.
#[derive(Debug, Default)]
pub struct Family {
    dependents: Relation<String, (Kind, Name)>,
    tallies: BTreeMap<String, Tally>,
    daemons: Relation<(String, String), Name>,
    gone: BTreeSet<String>,
}

impl Family {
    /// Records an object's owners.
    pub fn learn(&mut self, kind: Kind, name: &Name, meta: &ObjectMeta) {
        for owner in meta.owner_references.iter().flatten() {
            self.dependents.insert(owner.uid.clone(), (kind, name.clone()));
        }
    }

    /// Forgets an object's owners.
    pub fn forget(&mut self, kind: Kind, name: &Name, meta: &ObjectMeta) {
        for owner in meta.owner_references.iter().flatten() {
            self.dependents.remove(&owner.uid, &(kind, name.clone()));
        }
    }

    /// Counts a pod for its controller, or takes it off.
    pub fn count(&mut self, pod: &Pod, present: bool) {
        let Some(owner) = controller(&pod.metadata) else { return };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let tally = self.tallies.entry(owner.uid.clone()).or_default();
        tally.count(name, pod, present);
        if owner.kind != Kind::DaemonSet.name() {
            return;
        }
        let at = (owner.uid.clone(), daemon_node(pod).to_owned());
        if present {
            self.daemons.insert(at, Name::of(&pod.metadata));
        } else {
            self.daemons.remove(&at, &Name::of(&pod.metadata));
        }
    }

    /// Counts a pod as one more that was seen, so that no generated name comes twice.
    pub fn greet(&mut self, pod: &Pod) {
        if let Some(owner) = controller(&pod.metadata) {
            self.tallies.entry(owner.uid.clone()).or_default().seen += 1;
        }
    }

    /// Records that the object of this uid is gone; its dependents have to be looked at.
    pub fn bury(&mut self, uid: &str) -> Vec<(Kind, Name)> {
        self.gone.insert(uid.to_owned());
        self.tallies.remove(uid);
        self.dependents(uid).cloned().collect()
    }

    /// Whether the deletion of this uid was seen.
    #[must_use]
    pub fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// The objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &(Kind, Name)> {
        self.dependents.of(&uid.to_owned())
    }

    /// How the pods of this controller stand.
    #[must_use]
    pub fn tally(&self, uid: Option<&String>) -> Option<&Tally> {
        self.tallies.get(uid?)
    }

    /// The pods of a `DaemonSet` that are on, or meant for, a node.
    pub fn daemons(&self, set: &str, node: &str) -> impl Iterator<Item = &Name> {
        self.daemons.of(&(set.to_owned(), node.to_owned()))
    }
}

/// The node that a daemon is on or meant for: upstream's `GetTargetNodeName`.
#[must_use]
pub fn daemon_node(pod: &Pod) -> &str {
    let node = super::world::node_of(pod);
    if !node.is_empty() {
        return node;
    }
    let required = pod
        .spec
        .as_ref()
        .and_then(|s| s.affinity.as_ref()?.node_affinity.as_ref())
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let fields = required.into_iter().flat_map(|r| &r.node_selector_terms);
    let mut fields = fields.flat_map(|term| term.match_fields.iter().flatten());
    fields
        .find(|field| field.key == "metadata.name" && field.operator == "In")
        .and_then(|field| field.values.as_ref()?.first())
        .map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn ordinals_are_plain_numbers() {
        let numbers = ["web-3", "web-03", "web", "web-+1", "web-99999999999", "a-b-0"].map(ordinal);
        assert_eq!(numbers, [Some(3), None, None, None, None, Some(0)]);
    }
}
