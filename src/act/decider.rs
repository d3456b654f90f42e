//! The one owner of the cluster: what is looked at next, and what becomes of a plan.
//!
//! It assumes the writes of a plan before they are sent, so the next decision cannot pick the same volume; lets
//! nobody decide about an object that has a job under way; and after a failure drops the rest of the plan, takes
//! the assumed state back and has the key decided again. A decision about an object that is being written follows
//! that write, on what it will leave, one at a time. It never waits and never talks to the API server.
//! Answers to upstream's worker loops and `scheduleOperation`.

mod accept;
mod finish;
mod news;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::deadlines::Deadlines;
use super::error::Error;
use super::metrics::Metrics;
use super::operations::Operations;
use super::parked::Parked;
use super::queue::Queue;
use crate::cluster::{Cluster, Key, Kind, Object};
use crate::decide::{Action, Event, Operation, Reads, Reason, Settings, binder};

/// Whose decisions are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The PersistentVolume controller's.
    pub controller: bool,
    /// The scheduler's, for the pods that [`binder::Pods`] says.
    pub scheduler: Option<binder::Pods>,
}

impl Roles {
    /// The controller alone.
    #[must_use]
    pub fn controller() -> Self {
        Roles { controller: true, scheduler: None }
    }
}

/// Part of a plan that has to be done at the API server.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its number, unique in this process.
    pub id: u64,
    /// The key that was decided about.
    pub key: Key,
    /// Why.
    pub reason: Reason,
    /// Writes, the events between them, and a read at the end.
    pub actions: Vec<Action>,
    /// The objects that the writes start from, as the API server last showed them.
    pub objects: BTreeMap<Key, Object>,
}

/// What has to be done when a job ends.
#[derive(Debug)]
struct UnderWay {
    key: Key,
    targets: BTreeSet<Key>,
    after: Vec<Action>,
    operation: Option<Running>,
}

/// An operation between its steps.
#[derive(Clone, Debug)]
struct Running {
    operation: Operation,
    /// Whether it has failed, whatever still has to be said about that.
    failed: bool,
}

/// Counts of what was decided and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decisions made.
    pub syncs: u64,
    /// Jobs handed out.
    pub jobs: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Jobs that failed because the object was newer than the decision.
    pub conflicts: u64,
}

/// See the [module's documentation](self).
#[derive(Debug)]
pub struct Decider {
    cluster: Cluster,
    settings: Settings,
    roles: Roles,
    queue: Queue,
    under_way: BTreeMap<u64, UnderWay>,
    busy: BTreeMap<Key, u64>,
    blocked: BTreeMap<Key, BTreeSet<Key>>,
    operations: Operations,
    reads: BTreeMap<Key, Reads>,
    parked: Parked,
    /// The claims that wait for one of their pods to be decided about.
    held: BTreeSet<Key>,
    deadlines: Deadlines,
    /// Jobs that begin when another one has ended, by the number of that one.
    followers: BTreeMap<u64, Job>,
    /// The volumes that were offered to a waiting claim, until it has one.
    offered: BTreeMap<Key, BTreeSet<Key>>,
    events: Vec<Event>,
    reasons: BTreeMap<Key, Reason>,
    /// What has happened to pods that somebody else wants to be placed.
    happened: Vec<(Key, Happened)>,
    /// How often the watches have shown something other than a pod.
    shown: u64,
    counts: Counts,
    metrics: Metrics,
    next_id: u64,
}

/// What has happened to a pod.
#[derive(Clone, Debug)]
pub enum Happened {
    /// It was decided about.
    Decided,
    /// What was decided could not be done, and is going to be tried again.
    Failed(Error),
}
impl Decider {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings, roles: Roles) -> Self {
        Decider {
            cluster: Cluster::new(),
            settings,
            roles,
            queue: Queue::default(),
            under_way: BTreeMap::new(),
            busy: BTreeMap::new(),
            blocked: BTreeMap::new(),
            operations: Operations::default(),
            reads: BTreeMap::new(),
            parked: Parked::default(),
            held: BTreeSet::new(),
            deadlines: Deadlines::default(),
            followers: BTreeMap::new(),
            offered: BTreeMap::new(),
            events: Vec::new(),
            reasons: BTreeMap::new(),
            happened: Vec::new(),
            shown: 0,
            counts: Counts::default(),
            metrics: Metrics::off(),
            next_id: 0,
        }
    }

    /// Records what it sees and does.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Decider { metrics, ..self }
    }

    /// The cluster as it is known.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Why the last decision about each key was what it was.
    #[must_use]
    pub fn reasons(&self) -> &BTreeMap<Key, Reason> {
        &self.reasons
    }

    /// What decisions may take for granted.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What was decided so far, in numbers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// When a key that waits is due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        [self.queue.due(), self.deadlines.due()].into_iter().flatten().min()
    }

    /// Whether nothing is queued, under way or waiting for its time.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_empty() && self.queue.due().is_none()
    }

    /// How many keys are to be decided about now.
    #[must_use]
    pub fn queue_depth(&self) -> usize {
        self.queue.len()
    }

    /// The events of plans that write nothing, since this was last asked.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// What has happened to pods, as far as pods are placed on request, since this was last asked.
    pub fn take_happened(&mut self) -> Vec<(Key, Happened)> {
        std::mem::take(&mut self.happened)
    }

    /// Has a pod placed on a node, if pods are placed on request.
    pub fn request(&mut self, pod: &Key, node: Arc<str>) {
        if let Some(binder::Pods::Requested(nodes)) = &mut self.roles.scheduler {
            nodes.insert(pod.clone(), Some(node));
            self.enqueue(pod);
        }
    }

    /// Takes a request back, and what was reserved for the pod with it.
    pub fn withdraw(&mut self, pod: &Key) {
        if let Some(binder::Pods::Requested(nodes)) = &mut self.roles.scheduler
            && let Some(node) = nodes.get_mut(pod)
        {
            *node = None;
            self.enqueue(pod);
        }
    }

    /// Forgets a pod that is requested no longer, once nothing is left to be given back.
    fn settle(&mut self, pod: &Key) {
        if let Some(binder::Pods::Requested(nodes)) = &mut self.roles.scheduler
            && nodes.get(pod).is_some_and(Option::is_none)
        {
            nodes.remove(pod);
        }
    }

    fn note(&mut self, pod: &Key, happened: Happened) {
        if pod.kind() == Kind::Pod && matches!(self.roles.scheduler, Some(binder::Pods::Requested(_))) {
            self.happened.push((pod.clone(), happened));
        }
    }
}

#[cfg(test)]
mod tests;
