//! What a decision consists of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cluster::{Assumption, Key, Object};
use crate::decide::binder::hints::refusal::Refusal;
use crate::decide::binder::storage::Scoring;
use crate::decide::plugin::{self, Call, Plugin};
use crate::decide::{Event, Reason, Write};
use crate::objects::translation::{self, Drivers};

/// What decisions may take for granted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own, by its name")]
pub struct Settings {
    /// Whether `volumeAttributesClassName` takes part in matching (locked on since Kubernetes 1.36).
    pub volume_attributes_class: bool,
    /// Whether volumes are provisioned for claims.
    pub provisioning: bool,
    /// The in-tree plugins that are there.
    pub plugins: &'static [Plugin],
    /// Which in-tree plugins are served by CSI drivers.
    pub drivers: Drivers,
    /// Whether a reserved volume that differs from what its claim asks for is refused, not only warned about.
    pub strict: bool,
    /// Whether volumes that are to be made are counted together against what drivers report, not each alone.
    pub strict_capacity: bool,
    /// How long binding the volumes of a pod may take before the pod is scheduled anew.
    pub bind_timeout: Duration,
    /// What the volumes on a node say for the node.
    pub scoring: Scoring,
}

/// Upstream's limit for binding the volumes of a pod.
pub const BIND_TIMEOUT: Duration = Duration::from_secs(600);

impl Default for Settings {
    fn default() -> Self {
        Settings {
            volume_attributes_class: true,
            provisioning: true,
            plugins: plugin::BUILT_IN,
            drivers: translation::DRIVERS,
            strict: false,
            strict_capacity: true,
            bind_timeout: BIND_TIMEOUT,
            scoring: Scoring::default(),
        }
    }
}

/// Answers of the API server to [`Action::Read`]; `None` where there is no such object.
pub type Reads = BTreeMap<Key, Option<Object>>;

/// What to do about one object, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Why.
    pub reason: Reason,
    /// What, in this order. The first action that fails drops the rest.
    pub actions: Vec<Action>,
    /// What the writes will leave of each object.
    pub after: BTreeMap<Key, Object>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// One API write.
    Write(Write),
    /// Ask a plugin; always the last action of an operation's step.
    Ask(Call),
    /// Tell users; follows the write that makes it true.
    Emit(Event),
    /// Let another key be looked at.
    Enqueue(Key),
    /// Offer this volume, which is free or is becoming so, to the waiting claim that it fits best; without waiting
    /// for the plan's writes.
    Offer(Key),
    /// Start something that takes long; at most one per object runs, and failures back off.
    Start(Operation),
    /// Take note that a pod is about to run on a node, and what is reserved for it there.
    Assume(Key, Assumption),
    /// Take note that it is not.
    Forget(Key),
    /// Leave the pod alone until something changes that may help it; what refuses it tells what that may be.
    Park(Key, BTreeSet<Refusal>),
    /// Ask the API server for an object, then decide again with the answer. Only other reads come after it.
    Read(Key),
    /// Take note that the operation has failed: it may begin again after a pause.
    BackOff,
}

/// Something that takes long and is done beside the syncs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Have a volume made for the claim.
    Provision(Key),
    /// Delete the released volume and its storage.
    Delete(Key),
    /// Scrub the released volume and offer it again.
    Recycle(Key),
}

impl Operation {
    /// The object that the operation is about.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Operation::Provision(key) | Operation::Delete(key) | Operation::Recycle(key) => key,
        }
    }

    /// The operation's name in logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Provision(_) => "provision",
            Operation::Delete(_) => "delete",
            Operation::Recycle(_) => "recycle",
        }
    }
}

impl Plan {
    /// Nothing to do.
    #[must_use]
    pub fn nothing(reason: Reason) -> Self {
        Plan { reason, actions: Vec::new(), after: BTreeMap::new() }
    }

    /// Does what the write says to `before`, adds it to the plan unless it would change nothing, and returns the
    /// object as it will be.
    pub fn write(&mut self, before: &Object, write: Write) -> Object {
        match write.apply(before) {
            Some(after) => {
                self.after.insert(write.target().clone(), after.clone());
                self.actions.push(Action::Write(write));
                after
            }
            None => before.clone(),
        }
    }

    /// Adds a write that creates or deletes an object.
    pub fn push(&mut self, write: Write) {
        self.after.extend(write.created().map(|object| (write.target().clone(), object)));
        self.actions.push(Action::Write(write));
    }

    /// Adds an event.
    pub fn emit(&mut self, event: Event) {
        self.actions.push(Action::Emit(event));
    }

    /// The writes of the plan.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        self.actions.iter().filter_map(|action| match action {
            Action::Write(write) => Some(write),
            Action::Ask(_)
            | Action::BackOff
            | Action::Emit(_)
            | Action::Enqueue(_)
            | Action::Offer(_)
            | Action::Start(_)
            | Action::Assume(..)
            | Action::Forget(_)
            | Action::Park(..)
            | Action::Read(_) => None,
        })
    }
}
