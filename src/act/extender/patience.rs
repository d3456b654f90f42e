//! How long an answer may be held back for what is about to be shown.
//!
//! kube-scheduler asks again about a pod as soon as its own watches show something new. It may be a little ahead of ours, and
//! what is refused then it may not ask again for minutes. So a refusal waits for a change, but kube-scheduler asks about one pod
//! at a time: where many pods are refused, the waiting is only a small part of the time. Answers to no upstream piece: there
//! plugin and queue share their watches.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long one answer may be held back.
const LONGEST: Duration = Duration::from_millis(300);
/// Which part of the time may be spent like that: one in so many.
const SHARE: u32 = 10;
/// How much of it may be saved up.
const MOST: Duration = Duration::from_secs(2);

/// The time that may be spent on holding answers back.
#[derive(Debug)]
pub(super) struct Patience(Mutex<(Instant, Duration)>);

impl Patience {
    /// As much as can be saved up.
    pub(super) fn new() -> Self {
        Patience(Mutex::new((Instant::now(), MOST)))
    }

    /// Takes out what one answer may use.
    pub(super) fn take(&self) -> Duration {
        self.change(|saved| {
            let taken = LONGEST.min(saved);
            (saved.saturating_sub(taken), taken)
        })
    }

    /// Puts back what was not used.
    pub(super) fn put_back(&self, unused: Duration) {
        self.change(|saved| ((saved + unused).min(MOST), Duration::ZERO));
    }

    fn change(&self, change: impl FnOnce(Duration) -> (Duration, Duration)) -> Duration {
        // A pair of numbers is never half changed.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, saved) = *state;
        let (left, result) = change((saved + since.elapsed() / SHARE).min(MOST));
        *state = (Instant::now(), left);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_spent_is_earned_by_time() {
        let patience = Patience::new();
        let granted: Duration = (0..100).map(|_| patience.take()).sum();
        assert_eq!(granted, MOST);
        assert_eq!(patience.take(), Duration::ZERO);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(patience.take(), Duration::from_millis(100));
        patience.put_back(Duration::from_millis(60));
        assert_eq!(patience.take(), Duration::from_millis(60));
        tokio::time::advance(Duration::from_secs(1000)).await;
        assert_eq!(patience.take(), LONGEST);
        let granted: Duration = (0..100).map(|_| patience.take()).sum();
        assert_eq!(granted + LONGEST, MOST);
    }
}
