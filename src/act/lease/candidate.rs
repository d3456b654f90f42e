//! What a candidate does next about a lease, from what it has seen of it and when.
//!
//! Pure: it neither waits nor asks, and is told the time. Of times in the record it makes no use but to copy them. Answers
//! to `tryAcquireOrRenew` and `release` of client-go's `leaderelection`.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::Settings;

/// The duration of a lease that was released. Answers to `release`.
const RELEASED: i32 = 1;

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Somebody else's; not before then.
    Wait(Instant),
    /// There is none: make this one.
    Create(Box<Lease>),
    /// It is free or this candidate's: put this in its place, at the version that was seen.
    Replace(Box<Lease>),
}

/// The lease as it was seen last.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    /// When its record was first seen as it is.
    at: Instant,
    /// Whether it has been deleted since.
    gone: bool,
}

/// One who wants the lease, or has it.
#[derive(Clone, Debug)]
pub struct Candidate {
    settings: Settings,
    seen: Option<Seen>,
}

/// The version of an object, for comparison; 0 when it has none that is a number.
fn version(lease: &Lease) -> u64 {
    lease.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

impl Candidate {
    /// Has seen nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Candidate { settings, seen: None }
    }

    /// Which lease, whose.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sees the lease. What is older than what was seen before, as a watch that lags shows it, is no news.
    pub fn see(&mut self, lease: Lease, now: Instant) {
        let at = match &self.seen {
            Some(seen) if version(&lease) != 0 && version(&lease) < version(&seen.lease) => return,
            // Only a record that changes is a sign of life: labels and the like are anybody's.
            Some(seen) if seen.lease.spec == lease.spec => seen.at,
            _ => now,
        };
        self.seen = Some(Seen { lease, at, gone: false });
    }

    /// Sees that there is no lease.
    pub fn see_none(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.gone = true;
        }
    }

    /// Sees that the lease, as it was last, is gone.
    pub fn see_gone(&mut self, lease: &Lease) {
        if self.seen.as_ref().is_some_and(|seen| version(lease) >= version(&seen.lease)) {
            self.see_none();
        }
    }

    /// Who has the lease, as far as is known; nobody once it is released.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| holder(&seen.lease))
    }

    /// Whether the record names this candidate. That alone is no right to write.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.holder() == self.settings.identity
    }

    /// When others may take the lease, unless its record changes before.
    fn expiry(seen: &Seen) -> Instant {
        let seconds = seen.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = u64::try_from(seconds.unwrap_or_default()).unwrap_or_default();
        seen.at + Duration::from_secs(seconds)
    }

    /// What to do now; `wall` is what this machine's clock says, for people who read the record.
    #[must_use]
    pub fn step(&self, now: Instant, wall: MicroTime) -> Step {
        let Some(seen) = &self.seen else { return Step::Create(Box::new(self.new_lease(wall))) };
        let (holder, expiry) = (holder(&seen.lease), Self::expiry(seen));
        if !holder.is_empty() && holder != self.settings.identity && now < expiry {
            return Step::Wait(expiry);
        }
        if seen.gone {
            return Step::Create(Box::new(self.new_lease(wall)));
        }
        let before = seen.lease.spec.clone().unwrap_or_default();
        let renews = holder == self.settings.identity;
        let transitions = before.lease_transitions.unwrap_or_default();
        let spec = LeaseSpec {
            acquire_time: if renews { before.acquire_time.clone() } else { Some(wall.clone()) },
            lease_transitions: Some(if renews { transitions } else { transitions.saturating_add(1) }),
            ..self.record(wall, before)
        };
        Step::Replace(Box::new(Lease { spec: Some(spec), ..seen.lease.clone() }))
    }

    /// The lease without a holder, if this candidate is its holder.
    #[must_use]
    pub fn release(&self, wall: MicroTime) -> Option<Lease> {
        let seen =
            self.seen.as_ref().filter(|seen| !seen.gone && self.is_named() && seen.lease.spec.is_some())?;
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(RELEASED),
            acquire_time: Some(wall.clone()),
            renew_time: Some(wall),
            ..seen.lease.spec.clone()?
        };
        Some(Lease { spec: Some(spec), ..seen.lease.clone() })
    }

    fn new_lease(&self, wall: MicroTime) -> Lease {
        let Settings { namespace, name, .. } = &self.settings;
        let metadata = ObjectMeta {
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let first = LeaseSpec {
            acquire_time: Some(wall.clone()),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(self.record(wall, first)) }
    }

    /// The record that names this candidate.
    fn record(&self, wall: MicroTime, before: LeaseSpec) -> LeaseSpec {
        // It has been checked that the duration fits.
        let seconds = i32::try_from(self.settings.terms.lease_duration.as_secs()).unwrap_or(i32::MAX);
        LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(wall),
            ..before
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::Terms;
    use super::*;

    fn candidate() -> Candidate {
        let [namespace, name, identity] = ["kube-system", "it", "me"].map(str::to_owned);
        Candidate::new(Settings { namespace, name, identity, terms: Terms::default() })
    }

    fn wall(second: i64) -> MicroTime {
        MicroTime(Timestamp::new(second, 0).unwrap())
    }

    /// A lease as others write it; `renewed` says how often.
    fn lease(version: u64, holder: &str, renewed: i64) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"namespace": "kube-system", "name": "it", "resourceVersion": version.to_string()},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": if holder.is_empty() { 1 } else { 15 },
                "leaseTransitions": 4, "acquireTime": wall(1_000_000), "renewTime": wall(renewed),
            },
        }))
        .unwrap()
    }

    fn spec(step: &Step) -> &LeaseSpec {
        match step {
            Step::Create(lease) | Step::Replace(lease) => lease.spec.as_ref().unwrap(),
            Step::Wait(_) => panic!("it waits"),
        }
    }

    const DURATION: Duration = Duration::from_secs(15);
    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn a_lease_that_is_missing_is_made() {
        let step = candidate().step(Instant::now(), wall(7));
        let spec = spec(&step);
        assert!(matches!(step, Step::Create(_)));
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("me"), Some(15)));
        assert_eq!((spec.lease_transitions, &spec.acquire_time), (Some(0), &Some(wall(7))));
    }

    #[test]
    fn anothers_lease_expires_when_its_record_has_not_changed_for_its_duration_whatever_times_it_holds() {
        let mut candidate = candidate();
        let start = Instant::now();
        // Renewed in the year 1970, or in 2286: nobody asks.
        for (version, renewed) in [(1, 0), (2, 9_999_999_999)] {
            candidate.see(lease(version, "other", renewed), start);
            assert_eq!(
                candidate.step(start + DURATION - MOMENT, wall(5_000_000)),
                Step::Wait(start + DURATION)
            );
        }
        let step = candidate.step(start + DURATION, wall(5));
        let spec = spec(&step);
        assert_eq!((spec.lease_transitions, &spec.acquire_time), (Some(5), &Some(wall(5))));
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
    }

    #[test]
    fn only_a_record_that_changes_is_a_sign_of_life() {
        let mut candidate = candidate();
        let start = Instant::now();
        candidate.see(lease(1, "other", 1), start);
        let mut labelled = lease(2, "other", 1);
        labelled.labels_mut().insert("a".to_owned(), "b".to_owned());
        candidate.see(labelled, start + DURATION / 2);
        candidate.see(lease(1, "other", 3), start + DURATION / 2);
        let step = candidate.step(start + DURATION, wall(1));
        let Step::Replace(lease) = step else { panic!("{step:?}") };
        assert_eq!(lease.resource_version().as_deref(), Some("2"), "and the newest version is replaced");
        assert_eq!(lease.labels()["a"], "b");
    }

    #[test]
    fn a_lease_that_was_released_is_taken_at_once() {
        let mut candidate = candidate();
        let now = Instant::now();
        candidate.see(lease(1, "", 1), now);
        assert_eq!(spec(&candidate.step(now, wall(2))).lease_transitions, Some(5));
    }

    #[test]
    fn what_names_this_candidate_is_renewed_and_stays_acquired_when_it_was() {
        let mut candidate = candidate();
        let now = Instant::now();
        candidate.see(lease(1, "me", 1), now);
        let step = candidate.step(now, wall(9));
        let spec = spec(&step);
        assert_eq!((spec.lease_transitions, &spec.acquire_time), (Some(4), &Some(wall(1_000_000))));
        assert_eq!(spec.renew_time, Some(wall(9)));
    }

    #[test]
    fn a_lease_that_is_deleted_stays_its_holders_until_it_would_have_expired() {
        let mut candidate = candidate();
        let start = Instant::now();
        candidate.see(lease(3, "other", 1), start);
        candidate.see_gone(&lease(2, "before", 1));
        assert!(matches!(candidate.step(start + DURATION, wall(1)), Step::Replace(_)), "an older one went");
        candidate.see_gone(&lease(4, "other", 1));
        assert_eq!(candidate.step(start, wall(1)), Step::Wait(start + DURATION));
        assert!(matches!(candidate.step(start + DURATION, wall(1)), Step::Create(_)));
        candidate.see(lease(5, "me", 1), start);
        candidate.see_none();
        assert!(matches!(candidate.step(start, wall(1)), Step::Create(_)), "its holder makes it anew");
    }

    #[test]
    fn only_its_holder_releases_a_lease() {
        let mut candidate = candidate();
        let now = Instant::now();
        assert_eq!(candidate.release(wall(1)), None);
        candidate.see(lease(1, "other", 1), now);
        assert_eq!(candidate.release(wall(1)), None);
        candidate.see(lease(2, "me", 1), now);
        let released = candidate.release(wall(6)).and_then(|lease| lease.spec).unwrap();
        assert_eq!(
            (released.holder_identity.as_deref(), released.lease_duration_seconds),
            (Some(""), Some(1))
        );
        assert_eq!((released.lease_transitions, released.renew_time), (Some(4), Some(wall(6))));
        candidate.see_none();
        assert_eq!(candidate.release(wall(1)), None);
    }
}
