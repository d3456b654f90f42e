//! The keys that are to be looked at: now, or later.
//!
//! First come, first served within a kind; a volume goes before the claims that may want it, a claim before the
//! pods that use it, and what is urgent before all. Volumes are offered to waiting claims when no volume is left to look
//! at, so that the best of them is found. A key is looked at once, however often it is queued. Answers to upstream's work queues and their rate limiter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::{Key, Kind};

/// How long a key waits after failing once; each further failure doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// How long a key waits at most. A pod fails when its volumes could not be bound or it could not be placed, and waits no
/// longer than upstream's do; one that waits for something to change has not failed, and is looked at when that happens.
fn longest_backoff(kind: Kind) -> Duration {
    match kind {
        Kind::Pod => Duration::from_secs(10),
        Kind::Node
        | Kind::CsiNode
        | Kind::CsiDriver
        | Kind::Capacity
        | Kind::Class
        | Kind::Volume
        | Kind::Claim => Duration::from_secs(60),
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Decide about the key.
    Sync(Key),
    /// Offer the volume to the waiting claim that it fits best.
    Offer(Key),
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    urgent: VecDeque<Key>,
    /// The free volumes that may be offered to a waiting claim.
    offers: VecDeque<Key>,
    ready: BTreeMap<Kind, VecDeque<Key>>,
    /// The keys that are to be looked at. A key that stands in the lists above and not here has been.
    queued: BTreeSet<Key>,
    /// Those of them that are to be looked at for what this program did itself alone.
    own: BTreeSet<Key>,
    later: BTreeSet<(Instant, Key)>,
    failures: BTreeMap<Key, u32>,
    /// The keys that wait after a failure.
    backing_off: BTreeSet<Key>,
    /// When each key that has failed has its next turn: there is one, however often it fails meanwhile.
    retries: BTreeMap<Key, Instant>,
}

impl Queue {
    /// Queues a key behind the others of its kind.
    pub fn push(&mut self, key: &Key) {
        self.own.remove(key);
        self.line_up(key);
    }

    /// The same for what this program did itself: that is no news to a key that has failed, or fails before its turn.
    pub fn push_own(&mut self, key: &Key) {
        if !self.backs_off(key) && self.line_up(key) {
            self.own.insert(key.clone());
        }
    }

    /// Says whether the key did not stand there yet.
    fn line_up(&mut self, key: &Key) -> bool {
        let is_new = self.queued.insert(key.clone());
        if is_new {
            self.ready.entry(key.kind()).or_default().push_back(key.clone());
        }
        is_new
    }

    /// Queues a key before all others.
    pub fn push_front(&mut self, key: &Key) {
        self.own.remove(key);
        self.queued.insert(key.clone());
        self.urgent.push_front(key.clone());
    }

    /// Queues a free volume to be offered to a waiting claim.
    pub fn push_offer(&mut self, volume: &Key) {
        self.offers.push_back(volume.clone());
    }

    /// Queues a key when `at` has come.
    pub fn push_at(&mut self, key: &Key, at: Instant) {
        self.later.insert((at, key.clone()));
    }

    /// Queues a key after a pause that grows with each failure in a row; returns the pause.
    pub fn retry(&mut self, key: &Key, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let longest = longest_backoff(key.kind());
        let pause = FIRST_BACKOFF.saturating_mul(1 << (*failures).min(16)).min(longest);
        *failures = failures.saturating_add(1);
        self.backing_off.insert(key.clone());
        if self.own.remove(key) {
            self.queued.remove(key);
        }
        if self.retries.get(key).is_none_or(|at| *at > now + pause) {
            self.retries.insert(key.clone(), now + pause);
            self.push_at(key, now + pause);
        }
        pause
    }

    /// Whether a key waits after a failure.
    #[must_use]
    pub fn backs_off(&self, key: &Key) -> bool {
        self.backing_off.contains(key)
    }

    /// Forgets the failures of a key.
    pub fn succeeded(&mut self, key: &Key) {
        self.failures.remove(key);
    }

    /// What is to be done next.
    pub fn pop(&mut self, now: Instant) -> Option<Turn> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((at, key)) = self.later.pop_first()
        {
            if self.retries.get(&key) == Some(&at) {
                self.retries.remove(&key);
            }
            self.push(&key);
        }
        loop {
            if self.urgent.is_empty()
                && self.nothing_before_offers()
                && let Some(volume) = self.offers.pop_front()
            {
                return Some(Turn::Offer(volume));
            }
            let in_turn = || self.ready.values_mut().find_map(VecDeque::pop_front);
            let key = self.urgent.pop_front().or_else(in_turn)?;
            if self.queued.remove(&key) {
                self.backing_off.remove(&key);
                self.own.remove(&key);
                return Some(Turn::Sync(key));
            }
        }
    }

    fn nothing_before_offers(&self) -> bool {
        self.ready.range(..=Kind::Volume).all(|(_, keys)| keys.is_empty())
    }

    /// When the next key that waits is due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// The number of keys that are ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queued.len()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.offers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut Queue) -> Vec<Turn> {
        let now = Instant::now();
        std::iter::from_fn(|| queue.pop(now)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_fails_has_no_turn_for_what_the_program_did_itself() {
        let (mut queue, key) = (Queue::default(), Key::volume("v"));
        queue.push_own(&key);
        queue.retry(&key, Instant::now());
        queue.push_own(&key);
        assert_eq!(drain(&mut queue), []);
        queue.push(&key);
        assert_eq!(drain(&mut queue), [Turn::Sync(key.clone())], "something else has changed");
        queue.push_own(&key);
        queue.push(&key);
        queue.retry(&key, Instant::now());
        assert_eq!(drain(&mut queue), [Turn::Sync(key)], "something else changed before it failed");
    }

    #[tokio::test(start_paused = true)]
    async fn the_urgent_goes_first_then_volumes_then_offers_then_claims_and_each_key_once() {
        let mut queue = Queue::default();
        let (claim, first, second) = (Key::claim("a", "c"), Key::volume("v2"), Key::volume("v1"));
        let urgent = Key::claim("a", "d");
        queue.push_offer(&second);
        for key in [&claim, &urgent, &first, &second, &claim, &first] {
            queue.push(key);
        }
        queue.push_front(&urgent);
        assert_eq!(queue.len(), 4);
        let sync = |key: &Key| Turn::Sync(key.clone());
        let expected =
            [sync(&urgent), sync(&first), sync(&second), Turn::Offer(second.clone()), sync(&claim)];
        assert_eq!(drain(&mut queue), expected);
        assert!(queue.is_empty());
        queue.push(&urgent);
        queue.push(&claim);
        assert_eq!(
            drain(&mut queue),
            [sync(&urgent), sync(&claim)],
            "what was looked at can be queued again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_a_minute_and_start_again_after_a_success() {
        let mut queue = Queue::default();
        let (key, now) = (Key::volume("v"), Instant::now());
        let pauses: Vec<u128> = (0..15).map(|_| queue.retry(&key, now).as_millis()).collect();
        assert_eq!(pauses[..4], [10, 20, 40, 80]);
        assert_eq!(pauses[14], 60_000);
        assert_eq!(queue.due(), Some(now + Duration::from_millis(10)));
        assert_eq!(queue.pop(now), None);
        assert!(queue.backs_off(&key));
        assert_eq!(queue.pop(now + Duration::from_millis(10)), Some(Turn::Sync(key.clone())));
        assert!(!queue.backs_off(&key));
        queue.succeeded(&key);
        assert_eq!(queue.retry(&key, now), Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_fails_pauses_for_no_longer_than_ten_seconds() {
        let (mut queue, key, now) = (Queue::default(), Key::pod("a", "p"), Instant::now());
        let pauses: Vec<u128> = (0..12).map(|_| queue.retry(&key, now).as_millis()).collect();
        assert_eq!(pauses[..2], [10, 20]);
        assert_eq!(pauses[8..], [2560, 5120, 10_000, 10_000]);
        // What is news to the pod does not wait for the pause to end.
        queue.push(&key);
        assert_eq!(queue.pop(now), Some(Turn::Sync(key)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_fails_again_and_again_waits_for_one_turn() {
        let (mut queue, key, start) = (Queue::default(), Key::claim("a", "c"), Instant::now());
        for seconds in 0..20 {
            queue.retry(&key, start + Duration::from_secs(seconds));
        }
        let mut turns = 0;
        while let Some(due) = queue.due() {
            assert_eq!(queue.pop(due), Some(Turn::Sync(key.clone())));
            turns += 1;
        }
        assert_eq!(turns, 1);
    }
}
