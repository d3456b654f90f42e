//! Running for a lease, and holding on to it.
//!
//! Does what the [`Candidate`] says, at the API server: looks, waits, takes, renews, releases. A watch tells of changes as
//! they come, so that a lease that expires or is released is taken at that moment; looking again each period, as client-go
//! does, stands in for a watch that is not allowed or has stalled. Every request has a time limit, and none outlasts the
//! term. Answers to `acquire`, `renew` and `release` of client-go's `leaderelection`.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::candidate::{Candidate, Step};
use super::lead::Baton;
use super::{JITTER, Lead, Loss, Settings};
use crate::act::Metrics;

/// How an election ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop, and has the lease no more if it ever had it.
    Stopped,
    /// The lease was lost.
    Lost(Loss),
}

/// What this machine's clock says.
pub type Wall = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// See the [module's documentation](self).
pub struct Elector {
    api: Api<Lease>,
    candidate: Candidate,
    baton: Baton,
    metrics: Metrics,
    wall: Wall,
}

/// What went wrong with a try.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Answered(#[from] kube::Error),
    #[error("no answer in time")]
    Silence,
}

impl Trouble {
    /// Whether somebody else was faster, or the lease is gone: it helps to look.
    fn is_news(&self) -> bool {
        matches!(self, Trouble::Answered(kube::Error::Api(status)) if matches!(status.code, 404 | 409))
    }
}

/// What came of a try.
enum Tried {
    /// The lease is this candidate's; the request that said so was sent then.
    Has(Instant),
    /// It is somebody else's, at least until then.
    HasNot(Instant),
}

/// What ends a pause.
enum Woken {
    Stop,
    Due,
    News,
}

impl Elector {
    /// Runs for a lease; the [`Lead`] says whether it has it. The client should be nobody else's: a queue of other requests
    /// must not come before a renewal.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> (Self, Lead) {
        let (baton, lead) = Lead::standby();
        let api = Api::namespaced(client, &settings.namespace);
        let (candidate, metrics) = (Candidate::new(settings), Metrics::off());
        (Elector { api, candidate, baton, metrics, wall: Arc::new(Timestamp::now) }, lead)
    }

    /// Says in the metrics whether it leads.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Elector { metrics, ..self }
    }

    /// Writes what this clock says into the record.
    #[must_use]
    pub fn with_wall(self, wall: Wall) -> Self {
        Elector { wall, ..self }
    }

    /// Runs until the lease is lost, or until it is told to stop; then the lease is released. A term that is over when it
    /// is told to stop counts as lost.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Ended {
        let name = self.candidate.settings().name.clone();
        self.metrics.leads(&name, false);
        tokio::pin!(stop);
        let mut watch = self.watch();
        let Some(sent) = self.acquire(&mut watch, stop.as_mut()).await else { return Ended::Stopped };
        tracing::info!(lease = %self, identity = self.identity(), "leads");
        self.metrics.leads(&name, true);
        let ended = self.renew(sent, &mut watch, stop).await;
        self.metrics.leads(&name, false);
        match &ended {
            Ended::Lost(loss) => {
                self.baton.end(loss.clone());
                tracing::error!(lease = %self, identity = self.identity(), reason = %loss, "leads no more");
            }
            Ended::Stopped => self.release().await,
        }
        ended
    }

    fn identity(&self) -> &str {
        &self.candidate.settings().identity
    }

    fn wall(&self) -> MicroTime {
        MicroTime((self.wall)())
    }

    /// Changes of the lease, and no others.
    fn watch(&self) -> BoxStream<'static, watcher::Result<Event<Lease>>> {
        let one =
            watcher::Config::default().fields(&format!("metadata.name={}", self.candidate.settings().name));
        watcher(self.api.clone(), one).default_backoff().boxed()
    }

    /// Waits until the lease is had; returns when the request was sent that got it, `None` when it is told to stop.
    async fn acquire(
        &mut self,
        watch: &mut BoxStream<'static, watcher::Result<Event<Lease>>>,
        mut stop: impl Future<Output = ()> + Unpin,
    ) -> Option<Instant> {
        let terms = self.candidate.settings().terms;
        let mut known = String::new();
        loop {
            let again = Instant::now() + jittered(terms.retry_period);
            let deadline = Instant::now() + terms.renew_deadline;
            let looked = tokio::select! {
                biased;
                () = &mut stop => return None,
                looked = self.look(deadline) => looked,
            };
            // This is not broken off: the lease may be had by then.
            let tried = match looked {
                Ok(()) => self.take(deadline).await,
                Err(trouble) => Err(trouble),
            };
            let due = match tried {
                Ok(Tried::Has(sent)) => return Some(sent),
                Ok(Tried::HasNot(expiry)) => expiry.min(again),
                Err(trouble) if trouble.is_news() => Instant::now() + jittered(Duration::from_millis(50)),
                Err(error) => {
                    tracing::warn!(lease = %self, %error, "cannot be had");
                    again
                }
            };
            if self.candidate.holder() != known {
                self.candidate.holder().clone_into(&mut known);
                tracing::info!(lease = %self, holder = known, "stands by");
            }
            loop {
                match self.pause(watch, due, &mut stop).await {
                    Woken::Stop => return None,
                    Woken::Due => break,
                    Woken::News => {}
                }
                if !matches!(self.candidate.step(Instant::now(), self.wall()), Step::Wait(_)) {
                    break;
                }
            }
        }
    }

    /// Holds on to the lease.
    async fn renew(
        &mut self,
        sent: Instant,
        watch: &mut BoxStream<'static, watcher::Result<Event<Lease>>>,
        mut stop: impl Future<Output = ()> + Unpin,
    ) -> Ended {
        let terms = self.candidate.settings().terms;
        let (mut end, mut due) = (sent + terms.grace(), sent + terms.retry_period);
        self.baton.extend(end);
        loop {
            match self.pause(watch, due.min(end), &mut stop).await {
                Woken::Stop if Instant::now() < end => return Ended::Stopped,
                // The lease may be another's by now: there is nothing to release.
                Woken::Stop => return Ended::Lost(Loss::Deadline),
                Woken::Due => {}
                Woken::News if self.candidate.is_named() && !self.is_gone() => continue,
                // Somebody has deleted or changed it: that cannot wait.
                Woken::News => {}
            }
            if Instant::now() >= end {
                return Ended::Lost(Loss::Deadline);
            }
            // One try comes shortly before the end, so that it is not missed by a whole period.
            let last = end - terms.retry_period / 4;
            due = Instant::now() + terms.retry_period;
            due = if Instant::now() < last { due.min(last) } else { due };
            match self.try_again(end).await {
                Ok(Tried::Has(sent)) => {
                    (end, due) = (sent + terms.grace(), sent + terms.retry_period);
                    self.baton.extend(end);
                }
                Ok(Tried::HasNot(_)) => {
                    return Ended::Lost(Loss::Taken(self.candidate.holder().to_owned()));
                }
                Err(error) => {
                    let left = end.saturating_duration_since(Instant::now());
                    tracing::warn!(lease = %self, %error, ?left, "not renewed");
                }
            }
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self.candidate.step(Instant::now(), self.wall()), Step::Create(_))
    }

    /// Waits for the first of: being told to stop, the time, a change of the lease.
    async fn pause(
        &mut self,
        watch: &mut BoxStream<'static, watcher::Result<Event<Lease>>>,
        due: Instant,
        mut stop: impl Future<Output = ()> + Unpin,
    ) -> Woken {
        loop {
            let event = tokio::select! {
                biased;
                () = &mut stop => return Woken::Stop,
                () = sleep_until(due) => return Woken::Due,
                Some(event) = watch.next() => event,
            };
            match event {
                Ok(Event::Apply(lease) | Event::InitApply(lease)) => {
                    self.candidate.see(lease, Instant::now());
                    return Woken::News;
                }
                Ok(Event::Delete(lease)) => {
                    self.candidate.see_gone(&lease);
                    return Woken::News;
                }
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => tracing::debug!(lease = %self, %error, "is not watched"),
            }
        }
    }

    /// Renews what was seen last; where that is not what there is, looks and tries once more.
    async fn try_again(&mut self, deadline: Instant) -> Result<Tried, Trouble> {
        match self.take(deadline).await {
            Err(trouble) if trouble.is_news() => {
                self.metrics.leads_slowly(&self.candidate.settings().name);
                self.look(deadline).await?;
                self.take(deadline).await
            }
            tried => tried,
        }
    }

    /// Asks how the lease is.
    async fn look(&mut self, deadline: Instant) -> Result<(), Trouble> {
        let found = self.api.get_opt(&self.candidate.settings().name);
        match self.limited(deadline, found).await? {
            Some(lease) => self.candidate.see(lease, Instant::now()),
            None => self.candidate.see_none(),
        }
        Ok(())
    }

    /// Takes or renews the lease, if it is free or this candidate's.
    async fn take(&mut self, deadline: Instant) -> Result<Tried, Trouble> {
        let sent = Instant::now();
        let (post, name) = (PostParams::default(), &self.candidate.settings().name);
        let taken = match self.candidate.step(sent, self.wall()) {
            Step::Wait(expiry) => return Ok(Tried::HasNot(expiry)),
            Step::Create(lease) => self.limited(deadline, self.api.create(&post, &lease)).await?,
            Step::Replace(lease) => self.limited(deadline, self.api.replace(name, &post, &lease)).await?,
        };
        self.candidate.see(taken, Instant::now());
        Ok(Tried::Has(sent))
    }

    /// Gives the lease up, so that the next one need not wait for it to expire.
    async fn release(&mut self) {
        let deadline = Instant::now() + self.candidate.settings().terms.renew_deadline;
        // Nobody here writes from now on.
        self.baton.end(Loss::Unattended);
        let released = match self.send_release(deadline).await {
            Err(trouble) if trouble.is_news() => {
                let looked = self.look(deadline).await;
                if looked.is_ok() { self.send_release(deadline).await } else { looked }
            }
            released => released,
        };
        match released {
            Ok(()) => tracing::info!(lease = %self, "released"),
            Err(error) => tracing::warn!(lease = %self, %error, "not released"),
        }
    }

    async fn send_release(&mut self, deadline: Instant) -> Result<(), Trouble> {
        let Some(lease) = self.candidate.release(self.wall()) else { return Ok(()) };
        let (post, name) = (PostParams::default(), &self.candidate.settings().name);
        let released = self.limited(deadline, self.api.replace(name, &post, &lease)).await?;
        self.candidate.see(released, Instant::now());
        Ok(())
    }

    /// Gives a request its time.
    async fn limited<T>(
        &self,
        deadline: Instant,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Trouble> {
        let limit = Instant::now() + self.candidate.settings().terms.request_timeout();
        timeout_at(limit.min(deadline), request).await.map_err(|_| Trouble::Silence)?.map_err(Trouble::from)
    }
}

impl std::fmt::Display for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { namespace, name, .. } = self.candidate.settings();
        write!(f, "{namespace}/{name}")
    }
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector").field("candidate", &self.candidate).finish_non_exhaustive()
    }
}

/// A pause with something on top, so that candidates do not march in step. Answers to `wait.JitterUntil`.
fn jittered(pause: Duration) -> Duration {
    // What the standard library seeds its hash maps with is chance enough.
    let chance = RandomState::new().hash_one(());
    let share = f64::from(u32::try_from(chance >> 32).unwrap_or_default()) / f64::from(u32::MAX);
    pause + pause.mul_f64(share * JITTER)
}

/// A name that no other candidate has: the machine's, and some chance. Answers to `hostname + "_" + uuid`.
#[must_use]
pub fn identity(host: &str) -> String {
    let [first, second] = [0, 1].map(|part: u8| RandomState::new().hash_one(part));
    format!("{host}_{first:016x}{second:016x}")
}
