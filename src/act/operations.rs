//! Which operations run, and when a failed one may run again.
//!
//! At most one operation of a kind runs for an object; after a failure it waits half a second, then twice as long
//! each time, up to two minutes. Answers to upstream's `goroutinemap` with `exponentialbackoff`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::decide::Operation;

const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(122);

#[derive(Debug)]
struct State {
    running: bool,
    pause: Duration,
    not_before: Option<Instant>,
}

/// What may be done about an operation that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    /// It runs from now on.
    Now,
    /// It is running already.
    Running,
    /// It failed a moment ago and may run then.
    At(Instant),
}

/// The operations that run or back off.
#[derive(Debug, Default)]
pub struct Operations {
    states: BTreeMap<Operation, State>,
}

impl Operations {
    /// Starts an operation, if it may run.
    pub fn start(&mut self, operation: &Operation, now: Instant) -> Start {
        match self.states.get_mut(operation) {
            Some(State { running: true, .. }) => Start::Running,
            Some(State { not_before: Some(at), .. }) if *at > now => Start::At(*at),
            Some(state) => {
                state.running = true;
                Start::Now
            }
            None => {
                let state = State { running: true, pause: Duration::ZERO, not_before: None };
                self.states.insert(operation.clone(), state);
                Start::Now
            }
        }
    }

    /// Takes note that an operation has ended; says when one that failed may run again.
    pub fn finish(&mut self, operation: &Operation, succeeded: bool, now: Instant) -> Option<Instant> {
        if succeeded {
            self.states.remove(operation);
            return None;
        }
        let state = self.states.get_mut(operation)?;
        state.running = false;
        state.pause =
            if state.pause.is_zero() { FIRST_BACKOFF } else { (state.pause * 2).min(LONGEST_BACKOFF) };
        let again = now + state.pause;
        state.not_before = Some(again);
        Some(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Key;

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_with_growing_pauses_after_failures() {
        let (operation, mut now) = (Operation::Delete(Key::volume("v")), Instant::now());
        let mut operations = Operations::default();
        assert_eq!(operations.start(&operation, now), Start::Now);
        assert_eq!(operations.start(&operation, now), Start::Running);
        for seconds in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0] {
            operations.finish(&operation, false, now);
            let at = now + Duration::from_secs_f64(seconds);
            assert_eq!(operations.start(&operation, now), Start::At(at));
            now = at;
            assert_eq!(operations.start(&operation, now), Start::Now);
        }
        operations.finish(&operation, true, now);
        assert_eq!(operations.start(&operation, now), Start::Now);
    }
}
