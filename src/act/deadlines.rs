//! Until when pods' volumes have to be bound.
//!
//! A decision reads no clock: it is told that a pod is overdue. At most one entry for each pod that is being bound. Answers
//! to the time limit of upstream's `BindPodVolumes`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Key;

/// The time limits that run.
#[derive(Debug, Default)]
pub struct Deadlines {
    by_pod: BTreeMap<Key, Instant>,
    in_order: BTreeSet<(Instant, Key)>,
}

impl Deadlines {
    /// A pod's volumes begin to be bound.
    pub fn start(&mut self, pod: &Key, now: Instant, limit: Duration) {
        self.end(pod);
        // A limit beyond the end of time is none.
        if let Some(at) = now.checked_add(limit) {
            self.by_pod.insert(pod.clone(), at);
            self.in_order.insert((at, pod.clone()));
        }
    }

    /// A pod's volumes are bound, or it is not to run where they would have been.
    pub fn end(&mut self, pod: &Key) {
        if let Some(at) = self.by_pod.remove(pod) {
            self.in_order.remove(&(at, pod.clone()));
        }
    }

    /// When the next limit is reached.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// A pod whose limit has been reached; its time runs no longer.
    pub fn reached(&mut self, now: Instant) -> Option<Key> {
        let (_, pod) = self.in_order.first().filter(|(at, _)| *at <= now)?.clone();
        self.end(&pod);
        Some(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_pod_has_one_limit_and_the_first_is_due_first() {
        let (mut deadlines, now) = (Deadlines::default(), Instant::now());
        let (a, b, c) = (Key::pod("ns", "a"), Key::pod("ns", "b"), Key::pod("ns", "c"));
        let seconds = Duration::from_secs;
        deadlines.start(&a, now, seconds(9));
        deadlines.start(&b, now, seconds(5));
        deadlines.start(&c, now, Duration::MAX);
        deadlines.start(&a, now, seconds(7));
        assert_eq!(deadlines.due(), Some(now + seconds(5)));
        assert_eq!(deadlines.reached(now + seconds(4)), None);
        deadlines.end(&b);
        assert_eq!(deadlines.reached(now + seconds(7)), Some(a));
        assert_eq!((deadlines.due(), deadlines.reached(now + seconds(1_000_000))), (None, None));
    }
}
