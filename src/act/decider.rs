//! The one owner of the cluster: what is looked at next, and what becomes of a plan.
//!
//! It assumes the writes of a plan before they are sent, so the next decision cannot pick the same volume; lets
//! nobody decide about an object that has a job under way; and after a failure drops the rest of the plan, takes
//! the assumed state back and has the key decided again. A decision about an object that is being written follows
//! that write, on what it will leave, one at a time. It never waits and never talks to the API server.
//! Answers to upstream's worker loops and `scheduleOperation`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::deadlines::Deadlines;
use super::error::Error;
use super::execute::Outcome;
use super::metrics::Metrics;
use super::operations::{Operations, Start};
use super::parked::Parked;
use super::queue::{Queue, Turn};
use crate::cluster::{Assumption, Binding, Cluster, Key, Kind, Object, Wakes};
use crate::decide::binder::hints::news::News;
use crate::decide::controller::{self, operation};
use crate::decide::{self, Action, Event, Operation, Plan, Reads, Reason, Settings, binder};
use crate::objects::{pod, volume};

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

/// What is ahead of a plan.
enum Ahead {
    Nothing,
    /// One job that is being performed: the plan follows it.
    Job(u64),
    /// More than that: this target tells when to decide again.
    Several(Key),
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

    /// A number that grows whenever a watch shows something that may help a pod: anything but another pod.
    #[must_use]
    pub fn shown(&self) -> u64 {
        self.shown
    }

    /// A watch shows an object.
    pub fn show(&mut self, object: Object) {
        self.shown += u64::from(object.kind() != Kind::Pod);
        let key = self.metrics.awaits(&object);
        let wakes = self.cluster.show(object);
        if let Some(key) = key {
            self.metrics.see(&self.cluster, &key);
        }
        self.wake(&wakes);
    }

    /// A watch shows an object as it was when it went.
    pub fn went(&mut self, object: &Object) {
        let wakes = self.cluster.went(object);
        self.forget(&object.key(), &wakes);
    }

    /// A list lacks an object that was known.
    pub fn gone(&mut self, key: &Key) {
        let wakes = self.cluster.gone(key);
        self.forget(key, &wakes);
    }

    /// Forgets what was going on about an object, if it is gone.
    fn forget(&mut self, key: &Key, wakes: &Wakes) {
        self.shown += u64::from(key.kind() != Kind::Pod);
        if self.cluster.known(key).is_some() {
            self.wake(wakes);
            return;
        }
        self.metrics.see(&self.cluster, key);
        self.reasons.remove(key);
        self.parked.wake(key);
        self.held.remove(key);
        self.deadlines.end(key);
        self.queue.succeeded(key);
        self.wake(wakes);
        self.offer_again(key);
    }

    /// A watch has listed all objects of a kind: those that are not among `listed` are gone.
    pub fn listed(&mut self, kind: Kind, listed: &BTreeSet<Key>) {
        let gone: Vec<Key> =
            self.cluster.known_keys(kind).filter(|key| !listed.contains(*key)).cloned().collect();
        for key in gone {
            self.gone(&key);
        }
    }

    /// Has a key decided about.
    pub fn enqueue(&mut self, key: &Key) {
        self.parked.wake(key);
        if self.decides_about(key.kind()) {
            self.queue.push(key);
        }
    }

    /// The same because of what this program did itself: that is no news to a key which backs off.
    fn enqueue_again(&mut self, key: &Key) {
        if !self.queue.backs_off(key) {
            self.parked.wake(key);
            if self.decides_about(key.kind()) {
                self.queue.push_own(key);
            }
        }
    }

    /// Whether objects of this kind are decided about.
    #[must_use]
    pub fn decides_about(&self, kind: Kind) -> bool {
        match kind {
            Kind::Claim | Kind::Volume => self.roles.controller,
            Kind::Pod => self.roles.scheduler.is_some(),
            Kind::Class | Kind::Node | Kind::CsiNode | Kind::CsiDriver | Kind::Capacity => false,
        }
    }

    fn wake(&mut self, wakes: &Wakes) {
        for key in &wakes.keys {
            self.enqueue(key);
        }
        self.tell_parked(wakes);
    }

    /// The same because of what this program did itself: that writes are assumed or taken back is no news to a key which
    /// backs off. Two keys whose writes are both refused would wake each other, and one itself, without end.
    fn wake_again(&mut self, wakes: &Wakes) {
        for key in &wakes.keys {
            self.enqueue_again(key);
        }
        self.tell_parked(wakes);
    }

    fn tell_parked(&mut self, wakes: &Wakes) {
        let Some(change) = wakes.change.as_ref().filter(|_| !self.parked.is_empty()) else { return };
        self.tell(News::of_change(&self.cluster, change));
        if let Some(assumption) = &change.released {
            self.tell_sharing(assumption);
        }
    }

    /// What was reserved for a claim that others use too, they may give back now.
    fn tell_sharing(&mut self, assumption: &Assumption) {
        let claims = assumption.volumes.bindings.iter().map(Binding::claim_key);
        let sharing = claims.flat_map(|claim| {
            let users = self.cluster.pods_using(&claim).map(|(pod, _)| pod.clone());
            users.filter(|pod| self.parked.contains(pod)).collect::<Vec<_>>()
        });
        for pod in sharing.collect::<Vec<_>>() {
            self.enqueue(&pod);
        }
    }

    /// Has those pods looked at again that wait for such news.
    fn tell(&mut self, news: impl IntoIterator<Item = News>) {
        for news in news {
            for pod in self.parked.helped(&self.cluster, &self.settings, &news) {
                self.enqueue(&pod);
            }
        }
    }

    /// Decides until there is a job to hand out, or nothing is left to decide about.
    pub fn next(&mut self, now: Instant) -> Option<Job> {
        while let Some(pod) = self.deadlines.reached(now) {
            self.cluster.set_overdue(&pod);
            self.enqueue(&pod);
        }
        loop {
            let key = match self.queue.pop(now)? {
                Turn::Sync(key) => key,
                Turn::Offer(volume) => match self.offer(&volume) {
                    Some(claim) => claim,
                    None => continue,
                },
            };
            if let Some(busy) = self.waits_for(&key) {
                self.blocked.entry(busy).or_default().insert(key);
                continue;
            }
            if self.waits_for_pod(&key) {
                self.held.insert(key);
                continue;
            }
            if let Some(job) = self.turn(&key, now) {
                return Some(job);
            }
        }
    }

    /// The object whose job has to end before this key is decided about: its own; for a volume its claim's; for a pod that has
    /// no place yet those of its claims and their volumes. A volume is taken from a claim for good, and a pod is on its node
    /// for good, so both rest on what the claim is, never on what is assumed of it.
    fn waits_for(&self, key: &Key) -> Option<Key> {
        if self.busy.is_empty() {
            return None;
        }
        let mut rests_on = vec![key.clone()];
        if let Some(reference) = self.cluster.volume(key).and_then(|volume| volume::claim_ref(volume)) {
            let (namespace, name) = volume::referred(reference);
            rests_on.push(Key::claim(namespace, name));
        }
        // One that has a place waits for its volumes, and looks at nothing that is assumed.
        let looks_for_one = self.cluster.pod(key).filter(|_| self.cluster.assumption(key).is_none());
        for used in looks_for_one.into_iter().flat_map(|found| pod::claims(found)) {
            let claim = Key::claim(key.namespace(), &used.claim);
            rests_on.extend(self.cluster.volumes_for(&claim).map(|(volume, _)| volume.clone()));
            rests_on.push(claim);
        }
        rests_on.into_iter().find(|key| self.busy.contains_key(key))
    }

    /// Whether the claim is not to be bound before one of its pods has been decided about.
    fn waits_for_pod(&self, claim: &Key) -> bool {
        let pods = self.roles.scheduler.as_ref();
        claim.kind() == Kind::Claim
            && pods.is_some_and(|pods| binder::together::waits(&self.cluster, pods, claim))
    }

    /// Has the claims looked at that waited for a pod to be decided about.
    fn let_claims_go(&mut self, pod: &Key) {
        let claims = self.cluster.pod(pod).into_iter().flat_map(|found| pod::claims(found));
        let claims = claims.map(|used| Key::claim(pod.namespace(), &used.claim));
        let held: Vec<Key> = claims.filter(|claim| self.held.contains(claim)).collect();
        for claim in held {
            self.held.remove(&claim);
            self.enqueue(&claim);
        }
    }

    /// Decides about one key.
    pub fn turn(&mut self, key: &Key, now: Instant) -> Option<Job> {
        self.counts.syncs += 1;
        self.parked.wake(key);
        let reads = self.reads.remove(key).unwrap_or_default();
        let plan = match (key.kind(), &self.roles.scheduler) {
            (Kind::Pod, Some(pods)) => binder::schedule(&self.cluster, &self.settings, pods, key),
            _ => decide::sync(&self.cluster, &self.settings, key, &reads),
        };
        let writes_nothing = plan.writes().next().is_none();
        let job = self.accept(key, plan, None, now);
        self.let_claims_go(key);
        self.note(key, Happened::Decided);
        if writes_nothing {
            self.settle(key);
        }
        self.offer_again(key);
        job
    }

    /// The claim to which a free volume is offered: it is decided about at once, unless it backs off.
    fn offer(&mut self, volume: &Key) -> Option<Key> {
        let found = self.cluster.volume(volume)?;
        let claim = controller::claim::offer(&self.cluster, &self.settings, found)?.clone();
        self.offered.entry(claim.clone()).or_default().insert(volume.clone());
        (!self.queue.backs_off(&claim)).then_some(claim)
    }

    /// Once a claim that was offered volumes waits no longer, each of them that it did not take looks for the next.
    fn offer_again(&mut self, claim: &Key) {
        let waits = |found| self.cluster.waiting_claims().contains(claim, found);
        if self.offered.contains_key(claim) && !self.cluster.claim(claim).is_some_and(|found| waits(found)) {
            for volume in self.offered.remove(claim).into_iter().flatten() {
                self.queue.push_offer(&volume);
            }
        }
    }

    /// Takes a plan over: assumes its writes, and makes a job of what the API server has to do.
    fn accept(&mut self, key: &Key, plan: Plan, mut operation: Option<Running>, now: Instant) -> Option<Job> {
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
        self.next_id += 1;
        self.counts.jobs += 1;
        let id = self.next_id;
        for target in targets.iter().chain([key]) {
            self.busy.insert(target.clone(), id);
        }
        self.under_way.insert(id, UnderWay { key: key.clone(), targets, after, operation });
        let job = Job { id, key: key.clone(), reason: plan.reason, actions, objects };
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

    /// Takes note that a pod is not about to run any more: it runs, or there is room for others again where it was to.
    fn let_go(&mut self, pod: &Key) {
        self.deadlines.end(pod);
        let Some(assumption) = self.cluster.assumption(pod).cloned() else { return };
        self.cluster.set_assumption(pod, None);
        self.tell(News::of_release(&self.cluster, pod, &assumption));
        self.tell_sharing(&assumption);
    }

    /// Assumes anew what the writes will leave, once for each object that they write.
    fn assume_anew(&mut self, actions: &[Action]) {
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
    fn follow_up(&mut self, after: Vec<Action>, now: Instant) -> Option<Job> {
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

    /// Takes note that an operation has ended. One that failed is looked at again when its pause is over.
    fn finish_operation(&mut self, operation: Option<&Running>, succeeded: bool, now: Instant) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use std::collections::VecDeque;

    use crate::act::Error;
    use crate::objects::{Claim, Class, Node, Pod, Volume};

    fn volume(name: &str, mode: &str, reference: &serde_json::Value) -> Object {
        let volume = json!({
            "metadata": {"name": name, "resourceVersion": "1"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "claimRef": reference},
            "status": {"phase": "Available"},
        });
        Object::from(serde_json::from_value::<Volume>(volume).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn no_volume_is_taken_from_a_claim_for_what_is_only_assumed_of_the_claim() {
        let mut decider = Decider::new(Settings::default(), Roles::controller());
        let claim = json!({
            "metadata": {"namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let reserved = json!({"namespace": "default", "name": "c", "uid": "u"});
        decider.show(volume("reserved", "ReadWriteOnce", &reserved));
        decider.show(volume("fitting", "ReadWriteMany", &json!(null)));
        decider.show(Object::from(serde_json::from_value::<Claim>(claim).unwrap()));
        let now = Instant::now();
        let job = decider.next(now).unwrap();
        assert_eq!(job.key, Key::claim("default", "c"), "the claim is bound to the volume that fits");
        // The claim is bound elsewhere only when the API server says so: its job may still fail.
        assert!(decider.next(now).is_none());
        let error = Some(Error::Conflict { key: Key::volume("fitting") });
        assert!(decider.finish(job.id, Outcome { error, ..Outcome::default() }, now).is_empty());
        assert!(decider.next(now).is_none());

        let mut outcome = Outcome::default();
        let job = decider.next(decider.due().unwrap()).unwrap();
        for write in job.actions.iter().filter_map(|action| match action {
            Action::Write(write) => Some(write),
            _ => None,
        }) {
            let before = outcome.answers.get(write.target()).unwrap_or(&job.objects[write.target()]);
            let after = write.apply(before).unwrap();
            outcome.answers.insert(write.target().clone(), after);
        }
        assert!(decider.finish(job.id, outcome, now).is_empty());
        let job = decider.next(now).unwrap();
        let unbind = decide::Write::UnbindVolume { volume: Key::volume("reserved") };
        assert!(job.actions.contains(&Action::Write(unbind)), "{job:?}");
    }

    /// Somebody else has changed everything, and the watches have not told yet: until they do, or a pause is over, there is
    /// nothing to try again.
    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_not_tried_again_at_once() {
        for executors in [1, 64] {
            refused_for_ever(executors);
        }
    }

    fn refused_for_ever(executors: usize) {
        let mut decider = Decider::new(Settings::default(), Roles::controller());
        let volume = json!({
            "metadata": {"name": "v", "resourceVersion": "1"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Pending"},
        });
        // Another controller has bound it to the volume; of the volume that is not known yet.
        let claim = json!({
            "metadata": {"namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "v",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Pending"},
        });
        decider.show(Object::from(serde_json::from_value::<Claim>(claim).unwrap()));
        decider.show(Object::from(serde_json::from_value::<Volume>(volume).unwrap()));
        let (now, mut jobs, mut refused) = (Instant::now(), VecDeque::new(), Vec::new());
        loop {
            while jobs.len() < executors
                && let Some(job) = decider.next(now)
            {
                jobs.push_back(job);
            }
            let Some(job) = jobs.pop_front() else { break };
            let written = job.actions.iter().find_map(|action| match action {
                Action::Write(write) => Some(write.target().clone()),
                _ => None,
            });
            refused.extend(written.clone().map(|target| (job.key.clone(), target)));
            assert!(refused.len() < 10, "it goes on and on: {refused:?}");
            let error = written.map(|key| Error::Conflict { key });
            jobs.extend(decider.finish(job.id, Outcome { error, ..Outcome::default() }, now));
        }
        assert!(!refused.is_empty());
    }

    /// A scheduler that knows one node with room for so many pods, a volume, a claim that waits for a pod, and the pod.
    fn scheduler(pods: &str) -> (Decider, impl Fn(&str) -> Object) {
        let roles = Roles { controller: false, scheduler: Some(binder::Pods::All) };
        let mut decider = Decider::new(Settings::default(), roles);
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": pods}}});
        decider.show(Object::from(serde_json::from_value::<Node>(node).unwrap()));
        let class = json!({
            "metadata": {"name": "late"}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        decider.show(Object::from(serde_json::from_value::<Class>(class).unwrap()));
        let claim = json!({
            "metadata": {"namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1"},
            "spec": {"storageClassName": "late"},
        });
        decider.show(Object::from(serde_json::from_value::<Claim>(claim).unwrap()));
        let pod = json!({
            "metadata": {"namespace": "default", "name": "w"},
            "spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        });
        decider.show(Object::from(serde_json::from_value::<Pod>(pod).unwrap()));
        let offered = |version: &str| {
            let volume = json!({
                "metadata": {"name": "v", "resourceVersion": version},
                "spec": {"storageClassName": "late", "capacity": {"storage": "1Gi"}},
                "status": {"phase": "Available"},
            });
            Object::from(serde_json::from_value::<Volume>(volume).unwrap())
        };
        decider.show(offered("1"));
        (decider, offered)
    }

    fn reserves(job: &Job) -> bool {
        job.actions.iter().any(|action| matches!(action, Action::Write(_)))
    }

    #[tokio::test(start_paused = true)]
    async fn where_a_pod_is_not_to_run_after_all_another_one_may() {
        let (mut decider, _) = scheduler("1");
        let now = Instant::now();
        let job = decider.next(now).unwrap();
        assert!(reserves(&job), "{job:?}");
        let pod = json!({"metadata": {"namespace": "default", "name": "x"}, "spec": {"containers": []}});
        decider.show(Object::from(serde_json::from_value::<Pod>(pod).unwrap()));
        let refused = decider.next(now).unwrap();
        assert_eq!((refused.reason.code(), refused.key.name()), ("NodeDoesNotFit", "x"));
        decider.finish(refused.id, Outcome::default(), now);
        let error = Some(Error::Conflict { key: Key::volume("v") });
        decider.finish(job.id, Outcome { error, ..Outcome::default() }, now);
        let placed = decider.next(now).unwrap();
        assert_eq!(placed.key.name(), "x");
        let binds = |action: &Action| matches!(action, Action::Write(decide::Write::BindPod { .. }));
        assert!(placed.actions.iter().any(binds), "{placed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_binding_failed_is_placed_again_after_a_pause() {
        let (mut decider, offered) = scheduler("9");
        let now = Instant::now();
        let job = decider.next(now).unwrap();
        assert!(reserves(&job), "{job:?}");
        // Somebody took the reservation back before the claim was bound.
        let answers = BTreeMap::from([(Key::volume("v"), offered("3"))]);
        decider.finish(job.id, Outcome { answers, ..Outcome::default() }, now);
        assert!(decider.next(now).is_none());
        let job = decider.next(decider.due().unwrap()).unwrap();
        assert!(reserves(&job), "{job:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_went_while_it_was_read_stays_gone() {
        let settings = Settings { plugins: decide::plugin::PROVISIONING, ..Settings::default() };
        let mut decider = Decider::new(settings, Roles::controller());
        let reference = json!({"namespace": "default", "name": "gone", "uid": "u"});
        let volume = json!({
            "metadata": {"name": "v", "resourceVersion": "1"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "claimRef": reference, "hostPath": {"path": "/tmp/v"},
                "persistentVolumeReclaimPolicy": "Delete",
            },
            "status": {"phase": "Released"},
        });
        let volume = Object::from(serde_json::from_value::<Volume>(volume).unwrap());
        decider.show(volume.clone());
        let (key, now) = (volume.key(), Instant::now());
        // Before its storage is deleted, the volume is asked for once more.
        let job = decider.next(now).unwrap();
        assert!(job.actions.contains(&Action::Read(key.clone())), "{job:?}");
        decider.gone(&key);
        let reads = Reads::from([(key.clone(), Some(volume))]);
        decider.finish(job.id, Outcome { reads, ..Outcome::default() }, now);
        assert_eq!(decider.cluster().volume(&key), None);
    }
}
