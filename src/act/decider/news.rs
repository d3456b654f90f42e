//! What the decider is told: what the watches show, and which keys are decided about, or looked at again, because of it.
//!
//! What this program did itself is no news to a key that backs off. Answers to upstream's event handlers of informers and
//! to the scheduler's queueing hints.

use std::collections::BTreeSet;

use super::Decider;
use crate::cluster::{Assumption, Binding, Key, Kind, Object, Wakes};
use crate::decide::binder::hints::news::News;

impl Decider {
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
    pub(super) fn enqueue_again(&mut self, key: &Key) {
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

    pub(super) fn wake(&mut self, wakes: &Wakes) {
        for key in &wakes.keys {
            self.enqueue(key);
        }
        self.tell_parked(wakes);
    }

    /// The same because of what this program did itself: that writes are assumed or taken back is no news to a key which
    /// backs off. Two keys whose writes are both refused would wake each other, and one itself, without end.
    pub(super) fn wake_again(&mut self, wakes: &Wakes) {
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
    pub(super) fn tell_sharing(&mut self, assumption: &Assumption) {
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
    pub(super) fn tell(&mut self, news: impl IntoIterator<Item = News>) {
        for news in news {
            for pod in self.parked.helped(&self.cluster, &self.settings, &news) {
                self.enqueue(&pod);
            }
        }
    }
}
