//! Telling users what happened, without ever holding a decision up.
//!
//! Events go through a bounded queue to a task of its own, which posts them through `kube::runtime`'s recorder;
//! when the queue is full, events are dropped and counted. The same event about the same object is posted again
//! only after [`REPEAT_AFTER`], as upstream repeats it at each resync. Answers to upstream's event broadcaster
//! and its aggregation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event as Posting, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cluster::{Kind, Object};
use crate::decide::{Event, Severity};
use crate::objects::pod;

/// How long the same event about the same object is not posted again.
pub const REPEAT_AFTER: Duration = Duration::from_secs(15);
/// How many events may wait to be posted, unless something else is asked for.
pub const QUEUE: usize = 4096;
/// How many different events are remembered, so that a repeated one counts up instead of standing there twice.
const REMEMBERED: usize = 4096;
/// How long posting one event may take.
const POST_TIMEOUT: Duration = Duration::from_secs(10);

/// An event on its way.
#[derive(Debug)]
struct Told {
    event: Event,
    /// The object that it is about.
    reference: ObjectReference,
    reporter: Reporter,
}

/// Where events are sent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventSink {
    queue: mpsc::Sender<Told>,
    dropped: Arc<AtomicU64>,
}

impl EventSink {
    /// Sends an event about an object; never waits.
    pub fn send(&self, event: &Event, regarding: Option<&Object>) {
        let meta = regarding.map(Object::metadata);
        let api_version = match event.regarding.kind() {
            Kind::Claim | Kind::Volume | Kind::Pod | Kind::Node => "v1",
            Kind::Class | Kind::CsiNode | Kind::CsiDriver | Kind::Capacity => "storage.k8s.io/v1",
        };
        let namespace = event.regarding.namespace();
        let reference = ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(event.regarding.kind().as_str().to_owned()),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: Some(event.regarding.name().to_owned()),
            uid: meta.and_then(|m| m.uid.clone()),
            resource_version: meta.and_then(|m| m.resource_version.clone()),
            field_path: None,
        };
        let told = Told { event: event.clone(), reference, reporter: reporter(event, regarding) };
        if self.queue.try_send(told).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of events that were dropped because too many were waiting.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    kind: &'static str,
    namespace: String,
    name: String,
    uid: String,
    reason: &'static str,
    message: String,
}

/// An event that was posted.
#[derive(Clone)]
struct Posted {
    recorder: Recorder,
    /// The object as it was at the first post: the recorder tells a repeated event by it.
    reference: ObjectReference,
    at: Instant,
}

/// Posts the events that are sent to the sink.
pub struct Poster {
    client: Client,
    queue: mpsc::Receiver<Told>,
    posted: BTreeMap<Identity, Posted>,
    order: VecDeque<Identity>,
}

/// A sink in which [`QUEUE`] events may wait, and the poster that empties it.
#[must_use]
pub fn channel(client: Client) -> (EventSink, Poster) {
    channel_of(client, QUEUE)
}

/// A sink in which so many events may wait, and the poster that empties it.
#[must_use]
pub fn channel_of(client: Client, capacity: usize) -> (EventSink, Poster) {
    let (sender, queue) = mpsc::channel(capacity);
    let sink = EventSink { queue: sender, dropped: Arc::default() };
    (sink, Poster { client, queue, posted: BTreeMap::new(), order: VecDeque::new() })
}

impl Poster {
    /// Posts events until every sink is gone.
    pub async fn run(mut self) {
        while let Some(told) = self.queue.recv().await {
            self.post(told).await;
        }
    }

    async fn post(&mut self, Told { event, reference, reporter }: Told) {
        let identity = Identity {
            kind: event.regarding.kind().as_str(),
            namespace: event.regarding.namespace().to_owned(),
            name: event.regarding.name().to_owned(),
            uid: reference.uid.clone().unwrap_or_default(),
            reason: event.reason,
            message: event.message.clone(),
        };
        let now = Instant::now();
        let known = self.posted.get(&identity);
        if known.is_some_and(|posted| now.duration_since(posted.at) < REPEAT_AFTER) {
            return;
        }
        let posted = match known {
            Some(known) => Posted { at: now, ..known.clone() },
            None => Posted { recorder: Recorder::new(self.client.clone(), reporter), reference, at: now },
        };
        let posting = Posting {
            type_: match event.severity {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: event.reason.to_owned(),
            note: Some(event.message),
            action: action(event.reason).to_owned(),
            secondary: None,
        };
        match tokio::time::timeout(POST_TIMEOUT, posted.recorder.publish(&posting, &posted.reference)).await {
            Ok(Ok(())) => self.remember(identity, posted),
            Ok(Err(error)) => {
                // The first post of a series may have expired at the server: the next one starts a new series.
                self.posted.remove(&identity);
                tracing::warn!(regarding = %event.regarding, reason = event.reason, %error, "event not posted");
            }
            Err(_) => {
                tracing::warn!(regarding = %event.regarding, reason = event.reason, "event not posted in time");
            }
        }
    }

    fn remember(&mut self, identity: Identity, posted: Posted) {
        if self.posted.insert(identity.clone(), posted).is_none() {
            self.order.push_back(identity);
        }
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.posted.remove(&oldest);
        }
    }
}

/// Upstream's components, whose names users filter by; a scheduler goes by the name by which pods ask for it.
fn reporter(event: &Event, regarding: Option<&Object>) -> Reporter {
    let pod = regarding.and_then(Object::as_pod);
    let controller = match event.regarding.kind() {
        Kind::Pod => pod.map_or("default-scheduler", |pod| pod::scheduler_name(pod)),
        Kind::Claim
        | Kind::Volume
        | Kind::Class
        | Kind::Node
        | Kind::CsiNode
        | Kind::CsiDriver
        | Kind::Capacity => "persistentvolume-controller",
    };
    Reporter { controller: controller.to_owned(), instance: Some("pvbind".to_owned()) }
}

/// What was being done, as the events API wants to know.
fn action(reason: &str) -> &'static str {
    match reason {
        "Scheduled" => "Binding",
        "FailedScheduling" => "Scheduling",
        "ExternalProvisioning" | "ProvisioningFailed" => "Provisioning",
        "VolumeFailedDelete" | "VolumeFailedRecycle" | "VolumeRecycled" => "Reclaiming",
        _ => "Binding",
    }
}
