//! The loop: watch, decide, hand out, take back.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, Stream, StreamExt};
use kube::Client;
use tokio::time::Instant;

use super::clock::Clock;
use super::decider::{Counts, Decider, Job, Roles};
use super::error::Error;
use super::events::{self, EventSink};
use super::execute::{self, Executor, Outcome};
use super::extender::{Extender, Unanswered};
use super::lease::Lead;
use super::log::Told;
use super::metrics::Metrics;
use super::pace::Pace;
use super::plugin::Plugins;
use super::scrubbing::{self, Scrubbing};
use super::watch::{Change, watch};
use crate::cluster::{Cluster, Key, Kind};
use crate::decide::Settings;

/// How many changes are taken in before anything is decided: so that a flood of them holds no decision up for long.
const AT_ONCE: usize = 4096;

/// How the loop runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// What decisions may take for granted.
    pub settings: Settings,
    /// Whose decisions are made.
    pub roles: Roles,
    /// The in-tree plugins; the settings say what decisions have to know of them.
    pub plugins: Plugins,
    /// How many jobs may be under way at once.
    pub executors: usize,
    /// How many events may wait to be posted; further ones are dropped.
    pub event_queue: usize,
    /// How long jobs that are under way may take to end after the loop is told to stop.
    pub drain: Duration,
    /// Where operators see what is done.
    pub metrics: Metrics,
    /// Whether anything may be decided and written; watching goes on meanwhile.
    pub lead: Lead,
    /// How fast requests are sent.
    pub pace: Pace,
    /// What time it is.
    pub clock: Clock,
}

impl Options {
    /// The controller, with upstream's settings.
    #[must_use]
    pub fn controller() -> Self {
        Options {
            settings: Settings::default(),
            roles: Roles::controller(),
            plugins: Plugins::built_in(),
            executors: 64,
            event_queue: events::QUEUE,
            drain: Duration::from_secs(10),
            metrics: Metrics::off(),
            lead: Lead::always(),
            pace: Pace::off(),
            clock: Clock::machine(),
        }
    }
}

/// What a loop has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Decisions and what became of them.
    pub counts: Counts,
    /// Writes that the API server took.
    pub writes: u64,
    /// Events that were dropped.
    pub events_dropped: u64,
}

/// The kinds that the roles look at.
#[must_use]
pub fn kinds(roles: &Roles) -> Vec<Kind> {
    let mut kinds = vec![Kind::Class, Kind::Volume, Kind::Claim, Kind::Pod];
    if roles.scheduler.is_some() {
        kinds.extend([Kind::Node, Kind::CsiNode, Kind::CsiDriver, Kind::Capacity]);
    }
    kinds
}

/// Runs until `stop`, then lets the jobs that are under way end. Returns what was done, with the cluster as it
/// was last known.
///
/// # Errors
/// When this process led and leads no more: nothing is written from then on, and what was under way is left as it is.
/// Trouble with a watch is none: it is logged, and the watch tries again.
pub async fn run(
    client: Client,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(Stats, Cluster), Error> {
    let watches = watch(&client, &kinds(&options.roles));
    run_on(client, watches, options, stop).await
}

/// As [`run`], on watches of the roles' [`kinds`] that somebody else looks at as well.
///
/// # Errors
/// As [`run`].
pub async fn run_on(
    client: Client,
    watches: impl Stream<Item = Change> + Unpin,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(Stats, Cluster), Error> {
    run_answering(client, watches, options, Extender::nobody(), stop).await
}

/// As [`run`], for the pods that kube-scheduler asks to be placed, answering it meanwhile.
///
/// # Errors
/// As [`run`].
pub async fn run_extender(
    client: Client,
    options: Options,
    extender: Extender,
    stop: impl Future<Output = ()>,
) -> Result<(Stats, Cluster), Error> {
    let watches = watch(&client, &kinds(&options.roles));
    run_answering(client, watches, options, extender, stop).await
}

async fn run_answering(
    client: Client,
    watches: impl Stream<Item = Change> + Unpin,
    options: Options,
    extender: Extender,
    stop: impl Future<Output = ()>,
) -> Result<(Stats, Cluster), Error> {
    // What has waited for its turn is still not sent once the lease is lost.
    let client = options.pace.guard(options.lead.guard(client));
    let (sink, poster) = events::channel_of(client.clone(), options.event_queue);
    let mut work = Box::pin(decide_and_perform(client, watches, options, sink, extender, stop));
    let mut posting = Box::pin(poster.run());
    tokio::select! {
        biased;
        done = &mut work => {
            let done = done?;
            // The poster ends when the work has ended and dropped its sink.
            posting.await;
            Ok(done)
        }
        () = &mut posting => work.await,
    }
}

async fn decide_and_perform(
    client: Client,
    mut watches: impl Stream<Item = Change> + Unpin,
    options: Options,
    sink: EventSink,
    mut extender: Extender,
    stop: impl Future<Output = ()>,
) -> Result<(Stats, Cluster), Error> {
    let (metrics, lead) = (options.metrics, options.lead);
    let mut intake = Intake::new(&options.roles, &client, &metrics);
    let mut decider = Decider::new(options.settings, options.roles).with_metrics(metrics.clone());
    let (mut jobs, mut pulse) = (FuturesUnordered::new(), metrics.pulse());
    let mut stats = Stats::default();
    let executor = Executor {
        client,
        events: sink.clone(),
        plugins: options.plugins,
        clock: options.clock,
        lead: lead.clone(),
    };
    let perform = |job: Job| perform(executor.clone(), metrics.clone(), job);
    tokio::pin!(stop);
    loop {
        // A decision rests on all that has arrived, not on the first of it.
        for _ in 0..AT_ONCE {
            let Some(Some(change)) = watches.next().now_or_never() else { break };
            intake.take(&mut decider, change);
        }
        while decides(&intake, &lead).is_ok()
            && jobs.len() < options.executors
            && let Some(job) = decider.next(Instant::now())
        {
            jobs.push(perform(job));
        }
        if extender.see(&mut decider) {
            continue;
        }
        for event in decider.take_events() {
            sink.send(&event, decider.cluster().object(&event.regarding));
        }
        metrics.queue_depth(decider.queue_depth());
        let (due, decides_now) = (decider.due(), decides(&intake, &lead));
        tokio::select! {
            biased;
            loss = lead.lost() => return Err(Error::Lost(loss)),
            () = &mut stop => break,
            () = lead.begun(), if !lead.holds() => {}
            () = pulse.felt() => {}
            Some((id, outcome)) = jobs.next() => {
                stats.writes += outcome.writes;
                for job in decider.finish(id, outcome, Instant::now()) {
                    jobs.push(perform(job));
                }
            }
            asked = extender.next() => extender.answer(&mut decider, decides_now, asked),
            Some(change) = watches.next() => intake.take(&mut decider, change),
            (volume, told) = intake.scrubbing.next() => {
                let event = scrubbing::passed_on(&volume, &told);
                sink.send(&event, decider.cluster().object(&volume));
            }
            () = until(due), if decides_now.is_ok() && jobs.len() < options.executors => {}
        }
    }
    // Who waits for an answer hears at once that there will be none.
    drop(extender);
    drain(&mut decider, &mut stats, jobs, options.drain).await;
    stats.counts = decider.counts();
    stats.events_dropped = sink.dropped();
    Ok((stats, decider.cluster().clone()))
}

/// Whether decisions are made, or why not. Before every kind has been listed they would rest on half of the cluster; before
/// this process leads they are another's.
fn decides(intake: &Intake, lead: &Lead) -> Result<(), Unanswered> {
    if !intake.is_complete() {
        Err(Unanswered::Unlisted)
    } else if lead.holds() {
        Ok(())
    } else {
        Err(Unanswered::Standby)
    }
}

async fn perform(executor: Executor, metrics: Metrics, job: Job) -> (u64, Outcome) {
    let (id, matter, told) = (job.id, metrics.matter(&job), Told::of(&job));
    let outcome = execute::perform(&executor, job).await;
    if let Some(told) = told {
        told.ended(&outcome);
    }
    metrics.performed(&matter, &outcome);
    (id, outcome)
}

/// Where changes arrive, and who hears of them.
struct Intake {
    /// The kinds that have yet to be listed.
    unlisted: BTreeSet<Kind>,
    scrubbing: Scrubbing,
    client: Client,
    metrics: Metrics,
}

impl Intake {
    fn new(roles: &Roles, client: &Client, metrics: &Metrics) -> Self {
        let unlisted = kinds(roles).into_iter().collect();
        metrics.unlisted(&unlisted);
        Intake { unlisted, scrubbing: Scrubbing::new(), client: client.clone(), metrics: metrics.clone() }
    }

    /// Whether every kind has been listed.
    fn is_complete(&self) -> bool {
        self.unlisted.is_empty()
    }

    fn take(&mut self, decider: &mut Decider, change: Change) {
        let about = about(&change);
        match change {
            Change::Show(object) => decider.show(object),
            Change::Gone(object) => decider.went(&object),
            Change::Listed(kind, keys) => {
                decider.listed(kind, &keys);
                if self.unlisted.remove(&kind) {
                    self.metrics.unlisted(&self.unlisted);
                }
            }
            Change::Trouble(kind, error) => tracing::warn!(kind = kind.as_str(), %error, "watch"),
        }
        self.follow(decider, about);
    }

    /// The controller passes on what is told of the pods that scrub.
    fn follow(&mut self, decider: &Decider, about: About) {
        match about {
            About::Pod(pod) if decider.decides_about(Kind::Volume) => {
                self.scrubbing.see(&self.client, decider.cluster(), &pod);
            }
            About::AllPods => self.scrubbing.see_all(&self.client, decider.cluster()),
            About::Pod(_) | About::NoPod => {}
        }
    }
}

/// Which pods a change is about.
enum About {
    Pod(Key),
    AllPods,
    NoPod,
}

fn about(change: &Change) -> About {
    match change {
        Change::Show(object) | Change::Gone(object) if object.kind() == Kind::Pod => About::Pod(object.key()),
        Change::Listed(Kind::Pod, _) => About::AllPods,
        Change::Show(_) | Change::Gone(_) | Change::Listed(..) | Change::Trouble(..) => About::NoPod,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Lets the jobs that are under way end, but starts none that follow from them.
async fn drain(
    decider: &mut Decider,
    stats: &mut Stats,
    mut jobs: FuturesUnordered<impl Future<Output = (u64, Outcome)>>,
    limit: Duration,
) {
    let drained = tokio::time::timeout(limit, async {
        while let Some((id, outcome)) = jobs.next().await {
            stats.writes += outcome.writes;
            let _follows = decider.finish(id, outcome, Instant::now());
        }
    });
    if drained.await.is_err() {
        tracing::warn!(?limit, "jobs were still under way when the time to stop was over");
    }
}
