//! What operators see of the loop: how much it did, how long that took, how much there is.
//!
//! The pure core records nothing. The decider and the loop tell a [`Metrics`] of what they saw and did, in a line
//! each; it decides what that counts as, never what is done, and never holds a decision up: no call waits for a
//! scrape or for another task. A [`Metrics`] that is off does nothing at all. When something counts is upstream's
//! `persistentvolume/metrics` and `pv_controller.go`; the names are in `families`.

mod census;
mod families;
mod health;
mod process;
mod scheduling;
mod sent;
pub mod serve;
mod started;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

pub use health::Pulse;
pub use sent::{Answer, Sent};

use super::decider::Job;
use super::execute::Outcome;
use super::lease::Lead;
use crate::cluster::{Cluster, Key, Kind, Object};
use crate::decide::{Action, Operation, Plan, Reason, Settings, Write};
use crate::objects::{claim, pod};
use census::Census;
use families::Families;
use health::Health;
use scheduling::Pods;
use started::{Begun, Started};

/// What is recorded, or nothing. Cheap to clone; clones record in the same place.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    families: Families,
    memory: Mutex<Memory>,
    /// Scrapes take turns.
    turn: Mutex<()>,
    health: Health,
}

/// What has to be remembered until something else happens.
#[derive(Debug, Default)]
struct Memory {
    census: Census,
    started: Started,
    /// Since when each claim has been seen unbound.
    unbound: BTreeMap<Key, Instant>,
    pods: Pods,
    /// The last version of each object that this process wrote.
    written: BTreeMap<Key, u64>,
}

/// What a job is about, as far as it counts as something when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matter {
    /// A claim that named no volume gets one.
    Binds(Key),
    /// A claim gets the default class, in the last of this many writes.
    AssignsClass {
        /// The number of writes.
        writes: usize,
    },
    /// A pod is placed.
    PlacesPod {
        /// The scheduler that the pod names.
        profile: String,
    },
    /// Anything else.
    Other,
}

impl Matter {
    fn of_pod(job: &Job) -> Self {
        let places = |action: &Action| matches!(action, Action::Write(Write::BindPod { .. }));
        let pod = job.objects.get(&job.key).and_then(Object::as_pod);
        match pod.filter(|_| job.actions.iter().any(places)) {
            Some(pod) => Matter::PlacesPod { profile: pod::scheduler_name(pod).to_owned() },
            None => Matter::Other,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is true after each line that changes it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn failed(&self, begun: &Begun) {
        self.count_error(&begun.plugin, begun.operation);
    }

    fn count_error(&self, plugin: &str, operation: &str) {
        let labels = [if plugin.is_empty() { census::NO_PLUGIN } else { plugin }, operation];
        self.families.operation_errors.with_label_values(&labels).inc();
        self.families.operation_errors_before_1_36.with_label_values(&labels).inc();
    }

    /// Ends what has begun about an object, well.
    fn succeeded(&self, memory: &mut Memory, key: &Key) {
        if let Some((begun, took)) = memory.started.end(key, Instant::now()) {
            let labels = [begun.plugin.as_str(), begun.operation];
            self.families.operation_seconds.with_label_values(&labels).observe(took.as_secs_f64());
        }
    }

    fn see_claim(&self, memory: &mut Memory, key: &Key, phase: &str) {
        match phase {
            claim::BOUND => {
                if let Some(since) = memory.unbound.remove(key) {
                    self.families.bind_seconds.observe(since.elapsed().as_secs_f64());
                }
            }
            // It had a volume once.
            claim::LOST => {
                memory.unbound.remove(key);
            }
            _ => {
                memory.unbound.entry(key.clone()).or_insert_with(Instant::now);
            }
        }
    }

    fn gone(&self, memory: &mut Memory, key: &Key) {
        memory.unbound.remove(key);
        memory.written.remove(key);
        match key.kind() {
            Kind::Volume => self.succeeded(memory, key),
            // A claim that goes before it is bound was not provisioned in any time.
            Kind::Claim => drop(memory.started.end(key, Instant::now())),
            Kind::Pod => memory.pods.gone(key),
            Kind::Class | Kind::Node | Kind::CsiNode | Kind::CsiDriver | Kind::Capacity => {}
        }
    }

    fn sent(&self, memory: &mut Memory, sent: &Sent) {
        let labels = [sent.verb, sent.key.kind().as_str(), sent.answer.name()];
        self.families.writes.with_label_values(&labels).inc();
        match sent.answer {
            Answer::Taken(0) | Answer::Refused | Answer::Unanswered => {}
            Answer::Taken(version) => {
                memory.written.insert(sent.key.clone(), version);
            }
            Answer::Conflict => {
                self.families.conflicts.inc();
                if memory.written.get(&sent.key).is_some_and(|written| *written > sent.from) {
                    self.families.self_conflicts.inc();
                }
            }
        }
    }
}

impl Metrics {
    /// Records from now on.
    ///
    /// # Errors
    /// When a metric has an impossible name: never, in a program that has passed its tests.
    pub fn new() -> Result<Self, prometheus::Error> {
        let families = Families::new()?;
        Ok(Metrics(Some(Arc::new(Inner {
            families,
            health: Health::new(),
            memory: Mutex::default(),
            turn: Mutex::default(),
        }))))
    }

    /// Records nothing.
    #[must_use]
    pub fn off() -> Self {
        Metrics(None)
    }

    /// The key of an object that is about to be shown, if anything is recorded.
    #[must_use]
    pub fn awaits(&self, object: &Object) -> Option<Key> {
        self.0.is_some().then(|| object.key())
    }

    /// The API server may have shown more of an object, or that it is gone.
    pub fn see(&self, cluster: &Cluster, key: &Key) {
        let Some(inner) = &self.0 else { return };
        let memory = &mut *lock(&inner.memory);
        let known = cluster.known(key);
        memory.census.see(key, known);
        match known {
            Some(Object::Claim(found)) => inner.see_claim(memory, key, claim::phase(found)),
            Some(_) => {}
            None => inner.gone(memory, key),
        }
    }

    /// A plan is carried out; if it is an operation's, that runs.
    pub fn run(
        &self,
        cluster: &Cluster,
        settings: &Settings,
        operation: Option<&Operation>,
        plan: &Plan,
        now: Instant,
    ) {
        let (Some(inner), Some(operation)) = (&self.0, operation) else { return };
        if let Some(begun) = lock(&inner.memory).started.run(cluster, settings, operation, plan, now) {
            inner.failed(&begun);
        }
    }

    /// A job has ended; if it was an operation's, that has run.
    pub fn ran(&self, operation: Option<&Operation>, outcome: &Outcome) {
        let (Some(inner), Some(operation)) = (&self.0, operation) else { return };
        if let Some(begun) = lock(&inner.memory).started.ran(operation, outcome) {
            inner.failed(&begun);
        }
    }

    /// A pod has been decided about.
    pub fn scheduled(&self, cluster: &Cluster, key: &Key, plan: &Plan, now: Instant) {
        let (Some(inner), Some(pod)) = (&self.0, cluster.pod(key)) else { return };
        lock(&inner.memory).pods.decided(&inner.families.scheduling, key, pod, plan, now);
    }

    /// A job for an object has failed; if that is a pod, so has an attempt to place it.
    pub fn attempt_failed(&self, cluster: &Cluster, key: &Key) {
        let (Some(inner), Some(pod)) = (&self.0, cluster.pod(key)) else { return };
        inner.families.scheduling.attempt("error", pod::scheduler_name(pod));
        if cluster.assumption(key).is_some() {
            inner.families.scheduling.stage_error("bind");
        }
    }

    /// What a job is about, before it is performed.
    #[must_use]
    pub fn matter(&self, job: &Job) -> Matter {
        if self.0.is_none() {
            return Matter::Other;
        }
        let before = job.objects.get(&job.key).and_then(Object::as_claim);
        match (&job.reason, before) {
            (Reason::Bound { .. }, Some(before)) if claim::volume_name(before).is_empty() => {
                Matter::Binds(job.key.clone())
            }
            (Reason::DefaultClass { .. }, _) => {
                let writes = job.actions.iter().filter(|action| matches!(action, Action::Write(_)));
                Matter::AssignsClass { writes: writes.count() }
            }
            (Reason::Pod(_), _) => Matter::of_pod(job),
            _ => Matter::Other,
        }
    }

    /// A job has been performed.
    pub fn performed(&self, matter: &Matter, outcome: &Outcome) {
        let Some(inner) = &self.0 else { return };
        let memory = &mut *lock(&inner.memory);
        for sent in &outcome.sent {
            inner.sent(memory, sent);
        }
        let failed = outcome.error.is_some();
        match matter {
            Matter::Binds(claim) if failed => {
                if let Some(begun) = memory.started.get(claim) {
                    inner.failed(begun);
                }
            }
            Matter::Binds(claim) => inner.succeeded(memory, claim),
            Matter::AssignsClass { writes } => {
                if !failed || outcome.sent.len() == *writes {
                    inner.families.retroactive.inc();
                    inner.families.retroactive_errors.inc_by(u64::from(failed));
                }
            }
            Matter::PlacesPod { profile } if !failed => {
                inner.families.scheduling.attempt("scheduled", profile);
            }
            Matter::PlacesPod { .. } | Matter::Other => {}
        }
    }

    /// So many objects are to be decided about now.
    pub fn queue_depth(&self, depth: usize) {
        if let Some(inner) = &self.0 {
            inner.families.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        }
    }

    /// So many requests may be under way, and so many are.
    pub fn paced(&self, limit: usize, in_flight: usize) {
        if let Some(inner) = &self.0 {
            inner.families.process.api_limit.set(i64::try_from(limit).unwrap_or(i64::MAX));
            inner.families.process.api_in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
        }
    }

    /// A request was held back for so long.
    pub fn waited(&self, time: Duration) {
        if let Some(inner) = &self.0 {
            inner.families.process.api_wait_seconds.observe(time.as_secs_f64());
        }
    }

    /// This process leads, or does not.
    pub fn leads(&self, lease: &str, leads: bool) {
        if let Some(inner) = &self.0 {
            inner.families.process.leads.with_label_values(&[lease]).set(i64::from(leads));
        }
    }

    /// A renewal had to look at the lease first.
    pub fn leads_slowly(&self, lease: &str) {
        if let Some(inner) = &self.0 {
            inner.families.process.leads_slowly.with_label_values(&[lease]).inc();
        }
    }

    /// These kinds have yet to be listed; decisions are made once there are none.
    pub fn unlisted(&self, kinds: &BTreeSet<Kind>) {
        if let Some(inner) = &self.0 {
            inner.health.set_unlisted(kinds);
        }
    }

    /// From now on the process is ready only while it leads.
    pub fn ready_while(&self, lead: Lead) {
        if let Some(inner) = &self.0 {
            inner.health.ready_while(lead);
        }
    }

    /// What the loop answers with when it is asked whether it turns.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.0.as_ref().map_or_else(Pulse::off, |inner| inner.health.pulse())
    }

    /// Whether the loop turns.
    pub async fn turns(&self) -> bool {
        match &self.0 {
            Some(inner) => inner.health.turns().await,
            None => true,
        }
    }

    /// What keeps the process from working; nothing if it does.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        self.0.as_ref().and_then(|inner| inner.health.missing())
    }

    /// Whether an operation about this object has begun and not ended. Answers to `OperationStartTimeCache.Has`.
    #[must_use]
    pub fn has_begun(&self, key: &Key) -> bool {
        self.0.as_ref().is_some_and(|inner| lock(&inner.memory).started.get(key).is_some())
    }

    /// Counts one failure of an operation. Answers to `RecordVolumeOperationErrorMetric`.
    pub fn operation_error(&self, plugin: &str, operation: &str) {
        if let Some(inner) = &self.0 {
            inner.count_error(plugin, operation);
        }
    }

    /// Everything in Prometheus' text format; nothing when nothing is recorded.
    ///
    /// # Errors
    /// When a metric cannot be written as text: never, in a program that has passed its tests.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let Some(inner) = &self.0 else { return Ok(String::new()) };
        let _turn = lock(&inner.turn);
        let (counts, waiting) = {
            let memory = lock(&inner.memory);
            (memory.census.counts(), memory.pods.waiting())
        };
        inner.families.scheduling.pending(waiting);
        inner.families.text(&counts)
    }
}
