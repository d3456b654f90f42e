//! What the log says of a job: which objects, why, what came of it.
//!
//! One line a job. Objects stand in fields of their own, by which logs are searched: `claim` and `pod` as namespace/name,
//! `volume` as its name, `uid` of the one that was decided about, `reason` as in `docs/reasons.md`. Decides nothing.

use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

use super::decider::Job;
use super::execute::Outcome;
use crate::cluster::{Key, Kind, Object};
use crate::decide::Action;

/// A job, as the log names it.
#[derive(Debug)]
pub struct Told {
    key: Key,
    claim: Option<String>,
    volume: Option<String>,
    pod: Option<String>,
    uid: Option<String>,
    reason: &'static str,
    message: String,
    begun: Instant,
}

impl Told {
    /// What there is to say of a job; nothing if nobody would read it.
    #[must_use]
    pub fn of(job: &Job) -> Option<Self> {
        if !tracing::enabled!(Level::INFO) {
            return None;
        }
        let written = job.actions.iter().filter_map(|action| match action {
            Action::Write(write) => Some(write.target()),
            _ => None,
        });
        let keys: Vec<&Key> = std::iter::once(&job.key).chain(written).collect();
        let named = |kind| keys.iter().find(|key| key.kind() == kind).map(|key| key.path());
        let uid = job.objects.get(&job.key).and_then(|object: &Object| object.metadata().uid.clone());
        Some(Told {
            key: job.key.clone(),
            claim: named(Kind::Claim),
            volume: named(Kind::Volume),
            pod: named(Kind::Pod),
            uid,
            reason: job.reason.code(),
            message: job.reason.to_string(),
            begun: Instant::now(),
        })
    }

    /// Says what came of it.
    pub fn ended(self, outcome: &Outcome) {
        let Told { key, claim, volume, pod, uid, reason, message, begun } = self;
        let (claim, volume, pod, uid) = (claim.as_deref(), volume.as_deref(), pod.as_deref(), uid.as_deref());
        let (writes, took) = (outcome.writes, millis(begun.elapsed()));
        match &outcome.error {
            None if writes == 0 => {
                tracing::debug!(%key, claim, volume, pod, uid, reason, took, "{message}");
            }
            None => tracing::info!(claim, volume, pod, uid, reason, writes, took, "{message}"),
            Some(error) if error.is_conflict() => {
                tracing::info!(claim, volume, pod, uid, reason, writes, %error, "conflict");
            }
            Some(error) => tracing::warn!(claim, volume, pod, uid, reason, writes, %error, "failed"),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
