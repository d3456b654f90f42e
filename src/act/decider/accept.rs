//! What becomes of a plan: its writes are assumed, and what the API server has to do is made a job.
//!
//! A plan about an object that is being written follows that write, one at a time; what is ahead of it otherwise makes it
//! be decided again. Nothing is sent here. Answers to the scheduler's assume, and to upstream's `scheduleOperation`.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::{Decider, Job, Running, UnderWay};
use crate::act::operations::Start;
use crate::cluster::{Binding, Key, Kind, Object};
use crate::decide::binder::hints::news::News;
use crate::decide::controller::operation;
use crate::decide::{Action, Operation, Plan, Reads};

/// What is ahead of a plan.
enum Ahead {
    Nothing,
    /// One job that is being performed: the plan follows it.
    Job(u64),
    /// More than that: this target tells when to decide again.
    Several(Key),
}

impl Decider {
    /// Takes a plan over: assumes its writes, and makes a job of what the API server has to do.
    pub(super) fn accept(
        &mut self,
        key: &Key,
        plan: Plan,
        mut operation: Option<Running>,
        now: Instant,
    ) -> Option<Job> {
        if let Some(running) = &mut operation {
            running.failed |= plan.actions.contains(&Action::BackOff);
        }
        let mut targets: BTreeSet<Key> = plan.writes().map(|write| write.target().clone()).collect();
        targets.extend(reserved(&plan.actions));
        let ahead = match self.ahead(&targets, operation.as_ref()) {
            Ahead::Nothing => None,
            Ahead::Job(id) => Some(id),
            Ahead::Several(target) => {
                self.blocked.entry(target).or_default().insert(key.clone());
                self.finish_operation(operation.as_ref(), true, now);
                return None;
            }
        };
        tracing::debug!(%key, reason = %plan.reason, actions = plan.actions.len(), "decided");
        self.metrics.run(
            &self.cluster,
            &self.settings,
            operation.as_ref().map(|running| &running.operation),
            &plan,
            now,
        );
        if key.kind() == Kind::Pod {
            self.metrics.scheduled(&self.cluster, key, &plan, now);
        }
        if plan.reason.is_failure() {
            self.queue.retry(key, now);
        }
        if operation.is_none() {
            self.reasons.insert(key.clone(), plan.reason.clone());
        }
        let remote = plan
            .actions
            .iter()
            .any(|action| matches!(action, Action::Write(_) | Action::Read(_) | Action::Ask(_)));
        let objects = self.objects(&plan.actions);
        self.assume(plan.after.into_values());
        for action in &plan.actions {
            self.take_note(action, now);
        }
        let (actions, after) = split(plan.actions);
        if !remote {
            self.finish_operation(operation.as_ref(), true, now);
            let events = actions.into_iter().filter_map(|action| match action {
                Action::Emit(event) => Some(event),
                _ => None,
            });
            self.events.extend(events);
            return self.follow_up(after, now);
        }
        let job = Job { id: self.next_id + 1, key: key.clone(), reason: plan.reason, actions, objects };
        self.begin(job, UnderWay { key: key.clone(), targets, after, operation }, ahead)
    }

    /// Takes note of a job that begins now, or when the one ahead of it has ended.
    fn begin(&mut self, job: Job, under_way: UnderWay, ahead: Option<u64>) -> Option<Job> {
        self.next_id = job.id;
        self.counts.jobs += 1;
        for target in under_way.targets.iter().chain([&job.key]) {
            self.busy.insert(target.clone(), job.id);
        }
        self.under_way.insert(job.id, under_way);
        match ahead {
            None => Some(job),
            Some(ahead) => {
                self.followers.insert(ahead, job);
                None
            }
        }
    }

    /// What has to end before a plan with these targets can be carried out.
    fn ahead(&self, targets: &BTreeSet<Key>, operation: Option<&Running>) -> Ahead {
        let mut busy = targets.iter().filter_map(|target| Some((target, *self.busy.get(target)?)));
        let Some((target, id)) = busy.next() else { return Ahead::Nothing };
        let others = busy.any(|(_, other)| other != id);
        let runs = !self.followers.values().any(|job| job.id == id);
        let has_follower = self.followers.contains_key(&id);
        if others || !runs || has_follower || operation.is_some() {
            return Ahead::Several(target.clone());
        }
        Ahead::Job(id)
    }

    /// The objects that are written, or that events are about, as they are before the plan.
    fn objects(&self, actions: &[Action]) -> BTreeMap<Key, Object> {
        let keys = actions.iter().filter_map(|action| match action {
            Action::Write(write) => Some(write.target()),
            Action::Emit(event) => Some(&event.regarding),
            _ => None,
        });
        keys.filter_map(|key| Some((key.clone(), self.cluster.object(key)?.clone()))).collect()
    }

    /// Does what of an action takes effect here, before the API server knows of it.
    fn take_note(&mut self, action: &Action, now: Instant) {
        match action {
            Action::Assume(pod, assumption) => {
                self.cluster.set_assumption(pod, Some(assumption.clone()));
                self.deadlines.start(pod, now, self.settings.bind_timeout);
                self.tell(News::of_assumption(&self.cluster, pod, assumption));
            }
            Action::Offer(volume) => self.queue.push_offer(volume),
            Action::Write(_)
            | Action::Ask(_)
            | Action::BackOff
            | Action::Emit(_)
            | Action::Enqueue(_)
            | Action::Start(_)
            | Action::Forget(_)
            | Action::Park(..)
            | Action::Read(_) => {}
        }
    }

    /// Assumes anew what the writes will leave, once for each object that they write.
    pub(super) fn assume_anew(&mut self, actions: &[Action]) {
        let mut after: BTreeMap<&Key, Object> = BTreeMap::new();
        for action in actions {
            let Action::Write(write) = action else { continue };
            let target = write.target();
            let before = after.get(target).or_else(|| self.cluster.object(target));
            if let Some(object) = write.created().or_else(|| write.apply(before?)) {
                after.insert(target, object);
            }
        }
        self.assume(after.into_values());
    }

    /// Lays what writes will leave over what is known.
    fn assume(&mut self, objects: impl Iterator<Item = Object>) {
        for object in objects {
            let wakes = self.cluster.assume(object);
            self.wake_again(&wakes);
        }
    }

    /// Does what follows a plan whose writes are made.
    pub(super) fn follow_up(&mut self, after: Vec<Action>, now: Instant) -> Option<Job> {
        let mut job = None;
        for action in after {
            match action {
                Action::Enqueue(other) => self.enqueue_again(&other),
                Action::Start(operation) => job = job.or(self.start(operation, now)),
                Action::Forget(pod) => self.let_go(&pod),
                Action::Park(pod, refusals) => self.parked.park(&pod, refusals),
                Action::Write(_)
                | Action::Ask(_)
                | Action::BackOff
                | Action::Emit(_)
                | Action::Offer(_)
                | Action::Assume(..)
                | Action::Read(_) => {}
            }
        }
        job
    }

    fn start(&mut self, operation: Operation, now: Instant) -> Option<Job> {
        match self.operations.start(&operation, now) {
            Start::Running => None,
            Start::At(at) => {
                self.queue.push_at(operation.key(), at);
                None
            }
            Start::Now => {
                let key = operation.key().clone();
                let plan = operation::operate(&self.cluster, &self.settings, &operation, &Reads::default());
                self.accept(&key, plan, Some(Running { operation, failed: false }), now)
            }
        }
    }
}

/// The volumes that a pod is to have, also those that are reserved for it already: until all are, no claim is bound to one.
fn reserved(actions: &[Action]) -> impl Iterator<Item = Key> {
    let assumptions = actions.iter().filter_map(|action| match action {
        Action::Assume(_, assumption) => Some(assumption),
        _ => None,
    });
    assumptions.flat_map(|assumption| assumption.volumes.bindings.iter().map(Binding::volume_key))
}

/// What has to be done in order, and what may only be done when all of that is.
fn split(actions: Vec<Action>) -> (Vec<Action>, Vec<Action>) {
    actions.into_iter().partition(|action| match action {
        Action::Write(_) | Action::Ask(_) | Action::Emit(_) | Action::Read(_) | Action::Assume(..) => true,
        Action::Enqueue(_)
        | Action::Offer(_)
        | Action::Start(_)
        | Action::Forget(_)
        | Action::Park(..)
        | Action::BackOff => false,
    })
}
