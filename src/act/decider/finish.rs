//! How a job ended: its answers are shown and what was assumed is taken away, or the rest of the plan is dropped and decided
//! again.
//!
//! A plan that followed a job which failed is taken back with it. Nothing is sent here. Answers to upstream's ends of
//! worker loops and of goroutines of operations.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{Decider, Happened, Job, Running, UnderWay};
use crate::act::{Error, execute::Outcome};
use crate::cluster::Key;
use crate::decide::binder::hints::news::News;
use crate::decide::controller::operation;
use crate::decide::{Action, Plan};

impl Decider {
    /// Lets the job that waited for this one begin, on the objects that this one left; or, if this one failed, takes
    /// it back and has it decided again.
    fn begin_follower(&mut self, id: u64, outcome: &Outcome) -> Option<Job> {
        let mut job = self.followers.remove(&id)?;
        if outcome.error.is_some() {
            self.take_back(&job);
            return None;
        }
        self.assume_anew(&job.actions);
        for (key, object) in &mut job.objects {
            if let Some(answer) = outcome.answers.get(key) {
                *object = answer.clone();
            }
        }
        Some(job)
    }

    fn take_back(&mut self, job: &Job) {
        let Some(UnderWay { key, targets, .. }) = self.under_way.remove(&job.id) else { return };
        self.let_go(&key);
        for target in &targets {
            let wakes = self.cluster.restore(target);
            self.wake_again(&wakes);
        }
        self.set_free(&key, &targets, job.id);
        self.enqueue(&key);
    }

    /// Lets decisions be made again about what a job was writing, unless another job writes it by now.
    fn set_free(&mut self, key: &Key, targets: &BTreeSet<Key>, id: u64) {
        for target in targets.iter().chain([key]) {
            if self.busy.get(target) == Some(&id) {
                self.busy.remove(target);
                for waiting in self.blocked.remove(target).into_iter().flatten() {
                    self.enqueue_again(&waiting);
                }
            }
        }
    }

    /// Takes note that a pod is not about to run any more: it runs, or there is room for others again where it was to.
    pub(super) fn let_go(&mut self, pod: &Key) {
        self.deadlines.end(pod);
        let Some(assumption) = self.cluster.assumption(pod).cloned() else { return };
        self.cluster.set_assumption(pod, None);
        self.tell(News::of_release(&self.cluster, pod, &assumption));
        self.tell_sharing(&assumption);
    }

    /// Takes note that an operation has ended. One that failed is looked at again when its pause is over.
    pub(super) fn finish_operation(&mut self, operation: Option<&Running>, succeeded: bool, now: Instant) {
        if let Some(Running { operation, failed }) = operation
            && let Some(again) = self.operations.finish(operation, succeeded && !failed, now)
        {
            self.queue.push_at(operation.key(), again);
        }
    }

    /// The next step of an operation whose last one has been performed; `None` when that was the last.
    fn next_step(&mut self, running: &Running, outcome: &mut Outcome) -> Option<Plan> {
        let Running { operation, .. } = running;
        if let Some(Error::Unsaved { volume, message }) = &outcome.error {
            return Some(operation::unsaved(&self.settings, operation, volume, message));
        }
        if outcome.error.is_some() {
            return None;
        }
        if let Some((call, answer)) = outcome.answer.take() {
            return Some(operation::answered(&self.cluster, operation, &call, answer));
        }
        let reads = std::mem::take(&mut outcome.reads);
        if reads.is_empty() {
            return None;
        }
        // What was read may be newer than what the watches have shown.
        for object in reads.values().flatten().filter(|object| object.key() == *operation.key()) {
            let wakes = self.cluster.answer(object.clone());
            self.wake(&wakes);
        }
        Some(operation::operate(&self.cluster, &self.settings, operation, &reads))
    }

    /// Takes note of how a job ended; returns the jobs that may begin now.
    pub fn finish(&mut self, id: u64, outcome: Outcome, now: Instant) -> Vec<Job> {
        let Some(UnderWay { key, targets, after, operation }) = self.under_way.remove(&id) else {
            return Vec::new();
        };
        if outcome.error.is_some() {
            let pause = self.queue.retry(&key, now);
            tracing::debug!(%key, ?pause, "backs off");
        }
        for target in &targets {
            let answer = outcome.answers.get(target).cloned();
            let wakes = self.cluster.confirm(target, answer);
            self.metrics.see(&self.cluster, target);
            self.wake_again(&wakes);
        }
        let follower = self.begin_follower(id, &outcome);
        self.set_free(&key, &targets, id);
        let next = self.conclude(&key, after, operation, outcome, now);
        follower.into_iter().chain(next).collect()
    }

    /// What follows from a job for its key.
    fn conclude(
        &mut self,
        key: &Key,
        after: Vec<Action>,
        operation: Option<Running>,
        mut outcome: Outcome,
        now: Instant,
    ) -> Option<Job> {
        self.metrics.ran(operation.as_ref().map(|running| &running.operation), &outcome);
        if let Some(error) = &outcome.error {
            self.counts.failures += 1;
            self.counts.conflicts += u64::from(error.is_conflict());
            self.metrics.attempt_failed(&self.cluster, key);
            self.let_go(key);
            self.note(key, Happened::Failed(error.clone()));
            tracing::debug!(%key, %error, "the rest of the plan is dropped");
        }
        let step = operation.as_ref().and_then(|running| self.next_step(running, &mut outcome));
        if let Some(plan) = step {
            return self.accept(key, plan, operation, now);
        }
        self.finish_operation(operation.as_ref(), outcome.error.is_none(), now);
        if outcome.error.is_some() {
            return None;
        }
        // A pod whose volumes are only about to be bound has not succeeded yet: where that fails time and again, the
        // pauses in between have to grow.
        if self.cluster.assumption(key).is_none() {
            self.queue.succeeded(key);
        }
        if !outcome.reads.is_empty() {
            self.reads.insert(key.clone(), outcome.reads);
            self.queue.push_front(key);
        }
        self.follow_up(after, now)
    }
}
