//! The simulation: load, let everything run, wait until nothing moves, stage by stage.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{Admission, FakeApiServer, Ids};
use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::progress::Progress;
use super::report::Report;
use super::{actors, load, outcome, stage};
use crate::act::watch::Change;
use crate::act::{self, Roles};
use crate::cluster::Kind;
use crate::decide::{Settings, binder};
use crate::manifest::{Loaded, Stage};

/// How long nothing may move before everything counts as settled: longer than any pause after a failure.
const QUIET: Duration = Duration::from_secs(150);
/// How many events may wait in a watch; a simulated world is loaded at once.
const BUFFER: usize = 1 << 20;
/// How many changes may wait for the stand-ins.
const SHARED: usize = 1024;
/// When virtual time begins: 2024-01-01T00:00:00Z.
const EPOCH: i64 = 1_704_067_200;

/// What to simulate.
#[derive(Debug, Default)]
pub struct Input {
    /// The manifests.
    pub loaded: Loaded,
    /// What comes after, stage by stage.
    pub stages: Vec<Stage>,
    /// What decisions may take for granted.
    pub settings: Settings,
    /// How much virtual time may pass; `None` for one hour.
    pub limit: Option<Duration>,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused an object, as a real one would.
    #[error("{origin}: {object}: {message}")]
    Refused {
        /// Where it stands.
        origin: String,
        /// Its kind and name.
        object: String,
        /// The server's answer.
        message: String,
    },
    /// The simulation itself failed.
    #[error("the simulation failed: {0}")]
    Failed(String),
}

/// Simulates, on a clock of its own.
///
/// # Errors
/// When the API server refuses a manifest, or the simulation itself fails.
pub fn simulate(input: Input) -> Result<Report, Error> {
    simulate_watched(input, &Progress::default())
}

/// Simulates while somebody watches.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_watched(input: Input, progress: &Progress) -> Result<Report, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| Error::Failed(error.to_string()))?;
    runtime.block_on(run(input, progress))
}

/// A clock that begins at [`EPOCH`] and goes as tokio's does.
fn virtual_clock(start: Instant) -> actors::Clock {
    Arc::new(move || {
        let passed = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
        let millis = EPOCH.saturating_mul(1000).saturating_add(passed);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    })
}

/// The watches of the program, and what they show once more for the stand-ins, so that each object is decoded and held
/// once. The program waits for the stand-ins, who take in everything before they do anything, and wait for nobody.
pub(super) fn shared_watches(
    client: &Client,
    kinds: &[Kind],
) -> (BoxStream<'static, Change>, BoxStream<'static, Change>) {
    let (sender, receiver) = mpsc::channel(SHARED);
    let watches = act::watch::watch(client, kinds).then(move |change| {
        let sender = sender.clone();
        async move {
            // Stand-ins that are gone have to know nothing.
            let _ = sender.send(change.clone()).await;
            change
        }
    });
    let shared = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|change| (change, receiver))
    });
    (watches.boxed(), shared.boxed())
}

async fn run(input: Input, progress: &Progress) -> Result<Report, Error> {
    let Input { loaded: Loaded { documents, mut warnings }, stages, settings, limit } = input;
    let start = Instant::now();
    let now = virtual_clock(start);
    let server = FakeApiServer::new(fake_apiserver::Options {
        now: now.clone(),
        ids: Ids::Seeded(1),
        admission: Admission::Full,
        // A report shows objects as their writers meant them, and nobody in it applies.
        managed_fields: false,
        history: 50,
        watch_buffer: BUFFER,
        ..fake_apiserver::Options::default()
    });
    load::load(&server, documents, &mut warnings, progress)?;

    let client = Client::new(server.router(), "default");
    let (stop, stopped) = watch::channel(false);
    let roles = Roles { controller: true, scheduler: Some(binder::Pods::All) };
    let (plugins, clock) = (act::Plugins::pretended(), act::Clock::new(now.clone()));
    let options =
        act::Options { settings, roles, plugins, event_queue: BUFFER, clock, ..act::Options::controller() };
    let mut until = stopped.clone();
    let (watches, shared) = shared_watches(&client, &act::run::kinds(&options.roles));
    let program = tokio::spawn(act::run_on(client.clone(), watches, options, async move {
        // A channel whose sender is gone means stop as well.
        let _ = until.wait_for(|stop| *stop).await;
    }));
    let cast = tokio::spawn(actors::run(client, shared, actors::Roles::default(), now, stopped));

    let limit = limit.unwrap_or(Duration::from_secs(3600));
    let mut movement = Movement::new(limit, server.changes(), progress);
    let mut settled = movement.settle().await;
    for stage in stages {
        warnings.extend(stage.warnings);
        for step in stage.steps {
            if stage::perform(&server, step)? {
                settled &= movement.settle().await;
            }
        }
        settled &= movement.settle().await;
    }
    // Receivers that are gone have stopped already.
    let _ = stop.send(true);
    let program = program.await.map_err(|error| Error::Failed(error.to_string()))?;
    let (_, cluster) = program.map_err(|error| Error::Failed(error.to_string()))?;
    match cast.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(Error::Failed(error.to_string())),
        Err(error) => return Err(Error::Failed(error.to_string())),
    }
    let seconds = movement.busy.as_secs_f64();
    Ok(outcome::report(&server, &cluster, &settings, settled, seconds, warnings))
}

/// Whether anything moves at the server, events aside.
struct Movement<'p> {
    /// How much time may pass while something moves.
    limit: Duration,
    changes: watch::Receiver<fake_apiserver::Change>,
    /// How much time passed while something moved; the waiting for more is not counted.
    busy: Duration,
    /// The revision at which everything was loaded.
    loaded: u64,
    progress: &'p Progress,
}

impl<'p> Movement<'p> {
    fn new(
        limit: Duration,
        changes: watch::Receiver<fake_apiserver::Change>,
        progress: &'p Progress,
    ) -> Self {
        let loaded = changes.borrow().revision;
        Movement { limit, changes, busy: Duration::ZERO, loaded, progress }
    }

    /// Waits until nothing has moved for a while; says whether nothing moved beyond the time limit.
    async fn settle(&mut self) -> bool {
        let begin = Instant::now();
        let end = begin + self.limit.saturating_sub(self.busy);
        let mut seen = self.changes.borrow_and_update().non_event_revision;
        let mut last = begin;
        let settled = loop {
            match tokio::time::timeout_at(last + QUIET, self.changes.changed()).await {
                Err(_) | Ok(Err(_)) => break true,
                Ok(Ok(())) => {}
            }
            let now = Instant::now();
            let change = *self.changes.borrow_and_update();
            self.progress
                .move_to(change.revision.saturating_sub(self.loaded), self.busy + now.duration_since(begin));
            if change.non_event_revision != seen {
                if now > end {
                    last = end.max(begin);
                    break false;
                }
                seen = change.non_event_revision;
                last = now;
            }
        };
        self.busy += last.duration_since(begin);
        settled
    }
}
