//! How far a simulation has come, for a thread that watches it.
//!
//! The simulation runs on one thread and on a clock of its own, so whoever wants to show that it lives has to look
//! from another: these are the numbers that it may look at. Never decides whether they are shown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The numbers. Each is right by itself; together they may be a moment apart.
#[derive(Debug, Default)]
pub struct Progress {
    loaded: AtomicU64,
    writes: AtomicU64,
    millis: AtomicU64,
}

impl Progress {
    /// Takes note of one more object that was loaded.
    pub(super) fn load(&self) {
        self.loaded.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes note of how much was written and how much virtual time has passed.
    pub(super) fn move_to(&self, writes: u64, passed: Duration) {
        self.writes.store(writes, Ordering::Relaxed);
        self.millis.store(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many objects were loaded.
    #[must_use]
    pub fn loaded(&self) -> u64 {
        self.loaded.load(Ordering::Relaxed)
    }

    /// How many writes the API server has taken since all was loaded.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// How much virtual time has passed.
    #[must_use]
    pub fn virtual_time(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }
}
