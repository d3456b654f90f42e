//! Whose turn it is: the next key that may be decided about, and the decision.
//!
//! A key whose objects are being written waits for that write, a claim for the pods that it is to be bound together with.
//! What becomes of the plan is for the sibling that accepts it. Answers to upstream's worker loops.

use tokio::time::Instant;

use super::{Decider, Happened, Job};
use crate::act::queue::Turn;
use crate::cluster::{Key, Kind};
use crate::decide::controller;
use crate::decide::{self, binder};
use crate::objects::{pod, volume};

impl Decider {
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
    pub(super) fn offer_again(&mut self, claim: &Key) {
        let waits = |found| self.cluster.waiting_claims().contains(claim, found);
        if self.offered.contains_key(claim) && !self.cluster.claim(claim).is_some_and(|found| waits(found)) {
            for volume in self.offered.remove(claim).into_iter().flatten() {
                self.queue.push_offer(&volume);
            }
        }
    }
}
