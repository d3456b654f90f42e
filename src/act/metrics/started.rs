//! Since when volumes are being provisioned and deleted, and by whom.
//!
//! An operation begins when it is first started and ends when the volume is bound or gone, however often it fails in
//! between; each failure counts. Which failures upstream reports is followed here: a volume object that could not be
//! created or deleted although its storage was is none. Answers to upstream's `OperationStartTimeCache` and the
//! calls of `RecordMetric`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::census::NO_PLUGIN;
use super::sent::{Answer, Sent};
use crate::act::Outcome;
use crate::cluster::{Cluster, Key};
use crate::decide::controller::provision::{self, Provisioner};
use crate::decide::controller::reclaim::{self, Deleter};
use crate::decide::{Action, Operation, Plan, Settings};
use crate::objects::{claim, translation, volume};

/// An operation that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) plugin: String,
    pub(super) operation: &'static str,
    since: Instant,
    /// Whether the failure of its current run has been counted.
    counted: bool,
}

/// The operations that have begun and not ended, by what they are about.
#[derive(Debug, Default)]
pub(super) struct Started(BTreeMap<Key, Begun>);

impl Started {
    /// An operation runs, with this plan. Returns whose failure that is, if it is one.
    pub(super) fn run(
        &mut self,
        cluster: &Cluster,
        settings: &Settings,
        operation: &Operation,
        plan: &Plan,
        now: Instant,
    ) -> Option<Begun> {
        let key = operation.key();
        // Of what is gone already nobody hears the end.
        cluster.known(key)?;
        let plugin = match operation {
            Operation::Provision(claim) => provisioner(cluster, settings, claim),
            Operation::Delete(volume) => deleter_name(cluster, settings, volume),
            Operation::Recycle(_) => return None,
        };
        let counted = is_failure(operation, plan);
        let first = || Begun { plugin, operation: operation.name(), since: now, counted };
        let begun = self.0.entry(key.clone()).or_insert_with(first);
        begun.counted = counted;
        counted.then(|| begun.clone())
    }

    /// A run of an operation has ended. Returns whose failure that is, if it is one that has not been counted.
    pub(super) fn ran(&mut self, operation: &Operation, outcome: &Outcome) -> Option<Begun> {
        outcome.error.as_ref()?;
        let only_the_object = match operation {
            Operation::Provision(_) => "create",
            Operation::Delete(_) => "delete",
            Operation::Recycle(_) => return None,
        };
        let is_last = |sent: &Sent| sent.verb == only_the_object && !matches!(sent.answer, Answer::Taken(_));
        if outcome.sent.last().is_some_and(is_last) {
            return None;
        }
        let begun = self.0.get(operation.key())?;
        (!begun.counted).then(|| begun.clone())
    }

    /// What has begun about an object, because the last step of it has failed.
    pub(super) fn get(&self, key: &Key) -> Option<&Begun> {
        self.0.get(key)
    }

    /// Ends what has begun about an object; returns how long it took.
    pub(super) fn end(&mut self, key: &Key, now: Instant) -> Option<(Begun, Duration)> {
        let begun = self.0.remove(key)?;
        let took = now.saturating_duration_since(begun.since);
        Some((begun, took))
    }
}

/// Whether a plan says that the operation has failed.
fn is_failure(operation: &Operation, plan: &Plan) -> bool {
    match operation {
        Operation::Provision(_) | Operation::Delete(_) => plan.actions.contains(&Action::BackOff),
        Operation::Recycle(_) => false,
    }
}

/// Who makes the volume of a claim. Answers to `getProvisionerName`.
fn provisioner(cluster: &Cluster, settings: &Settings, key: &Key) -> String {
    let class = cluster.claim(key).and_then(|found| cluster.class(claim::class(found)));
    match class.map(|class| provision::provisioner(settings, &class.provisioner)) {
        Some(Provisioner::External(name)) => name,
        Some(Provisioner::Plugin(plugin)) => plugin.name.to_owned(),
        Some(Provisioner::Missing) | None => NO_PLUGIN.to_owned(),
    }
}

/// Who deletes a volume. An external program goes by what the volume's class says, not by what the volume does, so
/// that the number of names stays small. Answers to `getProvisionerNameFromVolume`.
fn deleter_name(cluster: &Cluster, settings: &Settings, key: &Key) -> String {
    let name = cluster.volume(key).and_then(|found| match reclaim::deleter(settings, found) {
        Deleter::Plugin(plugin) => Some(plugin.name.to_owned()),
        Deleter::External => {
            let class = cluster.class(volume::class(found))?;
            Some(
                translation::driver_among(settings.drivers, &class.provisioner)
                    .unwrap_or(&class.provisioner)
                    .to_owned(),
            )
        }
        Deleter::Missing(_) => None,
    });
    name.unwrap_or_else(|| NO_PLUGIN.to_owned())
}
