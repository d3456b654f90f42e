//! Leader election on a Lease: of several processes, one writes.
//!
//! Takes turns with candidates of client-go's `tools/leaderelection` on one Lease: the same fields, and the same rule that
//! nobody looks at another's clock. A lease has expired when its record has not changed for its duration by the clock of
//! the one who looks. [`candidate`] decides, [`elect`] talks to the API server, [`lead`] is what the rest of the program asks
//! before it writes.
//!
//! Stricter than client-go in three things. Who sees another's name in the record stops at once, not at its deadline. Nobody
//! leads for longer than the lease lasts, counted from when its last renewal was sent, even where the deadline would let it.
//! And a lease that is deleted is its holder's until it would have expired: candidates do not race to make it anew.
//!
//! Written here, because no crate for kube 5 passes this module's tests: `kube-leader-election` 0.44 and `kube-lease-manager`
//! 0.13 compare `renewTime` with the local clock and write without a precondition, so that two candidates can both be told
//! that they have it, and leave deadlines to the caller; the lease of `kubert` 0.25 compares clocks too, does not make a
//! lease that is missing and has no deadline; `kube-coordinate` 2.0.0-rc.0 goes by the observer's clock, but releases
//! nothing, tries to renew once in each deadline and is for kube 2.

pub mod candidate;
pub mod elect;
pub mod lead;

use std::time::Duration;

pub use elect::{Elector, Ended};
pub use lead::{Lead, Loss};

/// By how much of itself a pause between two tries may be longer. Answers to client-go's `JitterFactor`.
const JITTER: f64 = 1.2;

/// How long a lease lasts, and how hard it is held on to. Answers to `LeaderElectionConfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long others wait after the last sign of the leader.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How long everybody waits between two tries.
    pub retry_period: Duration,
}

/// Durations that make no sense together, in the words of the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Senseless(String);

impl Default for Terms {
    fn default() -> Self {
        Terms {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Terms {
    /// Looks whether the durations make sense together. Answers to `NewLeaderElector`.
    ///
    /// # Errors
    /// Which of them do not, and what would.
    pub fn check(&self) -> Result<(), Senseless> {
        let Terms { lease_duration: lease, renew_deadline: renew, retry_period: retry } = self;
        let longest = retry.mul_f64(JITTER);
        let problem = if lease.as_secs() == 0 || lease.subsec_nanos() != 0 {
            format!("--leader-elect-lease-duration {lease:?}: has to be whole seconds, at least 1s")
        } else if i32::try_from(lease.as_secs()).is_err() {
            format!("--leader-elect-lease-duration {lease:?}: is more than a Lease can hold")
        } else if retry.is_zero() {
            "--leader-elect-retry-period 0s: has to be longer than that".to_owned()
        } else if lease <= renew {
            format!(
                "--leader-elect-lease-duration {lease:?}: has to be longer than --leader-elect-renew-deadline {renew:?}"
            )
        } else if *renew <= longest {
            format!(
                "--leader-elect-renew-deadline {renew:?}: has to be longer than {JITTER} times --leader-elect-retry-period {retry:?}"
            )
        } else {
            return Ok(());
        };
        Err(Senseless(problem))
    }

    /// How long the leader may write after it sent the last renewal that was taken: the pause until the next try, and the
    /// deadline; never longer than the lease.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.lease_duration.min(self.retry_period + self.renew_deadline)
    }

    /// How long one request may take, so that one that hangs leaves time for another. Answers to `NewFromKubeconfig`.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1)).min(self.renew_deadline)
    }
}

/// Who wants which lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// What no other candidate is called.
    pub identity: String,
    /// For how long, and how hard.
    pub terms: Terms,
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(15, 10, 2, None)]
    #[case(3, 2, 1, None)]
    #[case(
        10,
        10,
        2,
        Some("--leader-elect-lease-duration 10s: has to be longer than --leader-elect-renew-deadline 10s")
    )]
    #[case(
        15,
        12,
        10,
        Some(
            "--leader-elect-renew-deadline 12s: has to be longer than 1.2 times --leader-elect-retry-period 10s"
        )
    )]
    #[case(15, 10, 0, Some("--leader-elect-retry-period 0s: has to be longer than that"))]
    #[case(0, 10, 2, Some("--leader-elect-lease-duration 0ns: has to be whole seconds, at least 1s"))]
    #[case(1 << 40, 10, 2, Some("--leader-elect-lease-duration 1099511627776s: is more than a Lease can hold"))]
    fn terms_that_client_go_would_refuse_are_refused(
        #[case] lease: u64,
        #[case] renew: u64,
        #[case] retry: u64,
        #[case] refused: Option<&str>,
    ) {
        let [lease_duration, renew_deadline, retry_period] = [lease, renew, retry].map(Duration::from_secs);
        let checked = Terms { lease_duration, renew_deadline, retry_period }.check();
        assert_eq!(checked.err().map(|error| error.to_string()).as_deref(), refused);
    }

    #[test]
    fn nobody_leads_longer_than_others_wait() {
        assert_eq!(Terms::default().grace(), Duration::from_secs(12));
        let tight = Terms { renew_deadline: Duration::from_secs(14), ..Terms::default() };
        assert_eq!(tight.grace(), Duration::from_secs(15));
    }
}
