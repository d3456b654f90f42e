//! The pages that kube-scheduler posts to: `/filter`, `/prioritize`, `/preempt` and `/bind`; and `/healthz` and `/readyz`.
//!
//! Decides only what a question means and how an answer reads. What is asked is bounded: a body has a size and a time in
//! which to arrive, so many are read at once, and so many pods are being bound at once, fewer than there are connections, so
//! that filters never wait for pods whose volumes take long. Answers to the HTTP half of an extender, as kube-scheduler's
//! `HTTPExtender` expects it: 200 with the reason in `Error`, anything else for what is no answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::patience::Patience;
use super::wire::{
    Args, BindingArgs, BindingResult, FilterResult, HostPriority, MetaPod, NodeList, PreemptionArgs,
    PreemptionResult, Victims,
};
use super::{Asker, Unanswered};
use crate::act::serve::Limits;
use crate::binder::extender::{Candidates, Judgement};
use crate::cluster::Key;
use crate::objects::{Node, Pod, name};

/// How large a question about nodes may be: 5,000 whole nodes of 12 KiB.
pub const LARGEST: usize = 64 << 20;
/// How large a request to bind may be: four names.
pub const LARGEST_BINDING: usize = 64 << 10;
/// How many questions about nodes are held at once; kube-scheduler asks one at a time.
const READERS: usize = 4;
/// How many pods are bound at once.
pub const BINDINGS: usize = 512;
/// How long a question may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How many changes an answer may wait for.
const CHANGES: usize = 16;

/// What kube-scheduler and those who look after the extender may take.
pub const LIMITS: Limits =
    Limits { connections: BINDINGS + 64, silence: Duration::from_secs(120), drain: Duration::from_secs(5) };

/// Why a request gets no answer.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the body is no {what}: {error}")]
    Malformed { what: &'static str, error: serde_json::Error },
    #[error("neither Nodes nor NodeNames are there: there is nothing to say something about")]
    NoNodes,
    #[error("the body did not arrive whole: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
    #[error("the body did not arrive within {} s", ARRIVAL.as_secs())]
    Slow,
    #[error("the body is larger than {0} bytes; nodeCacheCapable: true sends the names of nodes only")]
    TooLarge(usize),
    #[error("{BINDINGS} pods are being bound already")]
    TooMany,
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    #[error("no answer: {0}")]
    Failed(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let code = match &self {
            Refusal::Malformed { .. } | Refusal::NoNodes | Refusal::Broken(_) => StatusCode::BAD_REQUEST,
            Refusal::Slow => StatusCode::REQUEST_TIMEOUT,
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Unanswered(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (code, format!("{self}\n")).into_response()
    }
}

#[derive(Clone)]
struct Desk {
    asker: Asker,
    readers: Arc<Semaphore>,
    bindings: Arc<Semaphore>,
    patience: Arc<Patience>,
}

impl Desk {
    /// Room for one more question about nodes.
    async fn reader(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        let permit = timeout(ARRIVAL, self.readers.acquire()).await.map_err(|_| Unanswered::Busy)?;
        // The semaphore is never closed.
        Ok(permit.map_err(|_| Unanswered::Stopping)?)
    }

    /// What is said of nodes. Where none is left, that may be because our watches have yet to show what kube-scheduler's
    /// have: so it is asked again when they show something, for as long as there is patience.
    async fn judge(&self, question: &Question) -> Result<Result<Judgement, String>, Refusal> {
        let mut changes = self.asker.changes();
        changes.borrow_and_update();
        let mut judged = self.asker.filter(question.clone()).await?;
        if !is_hopeless(&judged) {
            return Ok(judged);
        }
        let taken = self.patience.take();
        let until = Instant::now() + taken;
        for _ in 0..CHANGES {
            // A sender that is gone has nothing more to show.
            if !matches!(timeout_at(until, changes.changed()).await, Ok(Ok(()))) {
                break;
            }
            changes.borrow_and_update();
            judged = self.asker.filter(question.clone()).await?;
            if !is_hopeless(&judged) {
                break;
            }
        }
        self.patience.put_back(until.saturating_duration_since(Instant::now()).min(taken));
        Ok(judged)
    }
}

/// Whether there is an answer and it leaves no node.
fn is_hopeless(judged: &Result<Judgement, String>) -> bool {
    judged.as_ref().is_ok_and(|nodes| !nodes.is_empty() && nodes.iter().all(Result::is_err))
}

type Question = Arc<(Pod, Candidates)>;

/// The pages.
pub fn router(asker: Asker) -> Router {
    let (readers, bindings) = (Arc::new(Semaphore::new(READERS)), Arc::new(Semaphore::new(BINDINGS)));
    Router::new()
        .route("/filter", post(filter))
        .route("/prioritize", post(prioritize))
        .route("/preempt", post(preempt))
        .route("/bind", post(bind))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(Desk { asker, readers, bindings, patience: Arc::new(Patience::new()) })
}

async fn ready(State(desk): State<Desk>) -> Result<&'static str, Refusal> {
    Ok(desk.asker.ready().await.map(|()| "ok")?)
}

async fn filter(State(desk): State<Desk>, body: Body) -> Result<Response, Refusal> {
    let _reader = desk.reader().await?;
    let Asked { question, given } = Asked::read(body).await?;
    let judgement = match desk.judge(&question).await? {
        Ok(judgement) => judgement,
        Err(error) => return json(FilterResult { error, ..FilterResult::default() }).await,
    };
    let fits: Vec<bool> = judgement.iter().map(Result::is_ok).collect();
    let names = question.1.names();
    let failed: BTreeMap<String, String> =
        names.zip(judgement).filter_map(|(name, verdict)| Some((name.to_owned(), verdict.err()?))).collect();
    let mut result = FilterResult { failed_and_unresolvable_nodes: failed, ..FilterResult::default() };
    match given {
        Some(nodes) => result.nodes = Some(NodeList { items: Some(only(nodes, &fits)) }),
        None => result.node_names = Some(only(question.1.names().map(str::to_owned), &fits)),
    }
    json(result).await
}

/// Those that fit.
fn only<T>(all: impl IntoIterator<Item = T>, fits: &[bool]) -> Vec<T> {
    all.into_iter().zip(fits).filter_map(|(one, fits)| fits.then_some(one)).collect()
}

async fn prioritize(State(desk): State<Desk>, body: Body) -> Result<Response, Refusal> {
    let _reader = desk.reader().await?;
    let question = Asked::read(body).await?.question;
    let priorities = desk.asker.prioritize(question.clone()).await?;
    let host = |(host, score): (&str, u8)| HostPriority { host: host.to_owned(), score: score.into() };
    json(question.1.names().zip(priorities).map(host).collect::<Vec<_>>()).await
}

async fn preempt(State(desk): State<Desk>, body: Body) -> Result<Response, Refusal> {
    let _reader = desk.reader().await?;
    let args: PreemptionArgs = read("ExtenderPreemptionArgs", body, LARGEST).await?;
    let victims: BTreeMap<String, Victims<MetaPod>> = match args.node_name_to_meta_victims {
        Some(victims) => victims,
        None => args.node_name_to_victims.into_iter().flatten().map(|(node, v)| (node, v.into())).collect(),
    };
    let names = victims.keys().cloned().collect();
    // A pod whose claims are wrong gains nothing anywhere.
    let question = Arc::new((args.pod, Candidates::Named(names)));
    let verdicts = desk.judge(&question).await?.unwrap_or_default();
    let left =
        victims.into_iter().zip(verdicts).filter_map(|(node, verdict)| verdict.is_ok().then_some(node));
    json(PreemptionResult { node_name_to_meta_victims: left.collect() }).await
}

async fn bind(State(desk): State<Desk>, body: Body) -> Result<Response, Refusal> {
    let _binding = desk.bindings.try_acquire().map_err(|_| Refusal::TooMany)?;
    let args: BindingArgs = read("ExtenderBindingArgs", body, LARGEST_BINDING).await?;
    let pod = Key::pod(&args.pod_namespace, &args.pod_name);
    let bound = desk.asker.bind(pod, args.pod_uid, args.node.into()).await?;
    let error = bound.outcome().await?.err().unwrap_or_default();
    json(BindingResult { error }).await
}

/// A question about nodes, and the nodes as they were sent.
struct Asked {
    question: Question,
    given: Option<Vec<Box<RawValue>>>,
}

impl Asked {
    async fn read(body: Body) -> Result<Self, Refusal> {
        let args: Args = read("ExtenderArgs", body, LARGEST).await?;
        let (candidates, given) = match (args.nodes, args.node_names) {
            (Some(NodeList { items }), _) => {
                let items = items.unwrap_or_default();
                let (nodes, items) = off_the_loop(move || (heads(&items), items)).await?;
                (Candidates::Given(nodes?), Some(items))
            }
            (None, Some(names)) => (Candidates::Named(names), None),
            (None, None) => return Err(Refusal::NoNodes),
        };
        Ok(Asked { question: Arc::new((args.pod, candidates)), given })
    }
}

impl Candidates {
    fn names(&self) -> impl Iterator<Item = &str> {
        let (names, nodes) = match self {
            Candidates::Named(names) => (names.as_slice(), [].as_slice()),
            Candidates::Given(nodes) => ([].as_slice(), nodes.as_slice()),
        };
        names.iter().map(String::as_str).chain(nodes.iter().map(|node| name(&node.metadata)))
    }
}

/// Of each node what volumes depend on: its name and labels.
fn heads(items: &[Box<RawValue>]) -> Result<Vec<Node>, Refusal> {
    #[derive(serde::Deserialize)]
    struct Head {
        metadata: ObjectMeta,
    }
    let head = |item: &RawValue| {
        let head: Head = serde_json::from_str(item.get())?;
        Ok(Node { metadata: head.metadata, ..Node::default() })
    };
    let nodes: Result<_, serde_json::Error> = items.iter().map(|item| head(item)).collect();
    nodes.map_err(|error| Refusal::Malformed { what: "list of nodes", error })
}

/// Reads what was posted.
async fn read<T: DeserializeOwned + Send + 'static>(
    what: &'static str,
    body: Body,
    largest: usize,
) -> Result<T, Refusal> {
    let bytes = match timeout(ARRIVAL, Limited::new(body, largest).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Refusal::TooLarge(largest)),
        Ok(Err(error)) => return Err(Refusal::Broken(error)),
        Err(_) => return Err(Refusal::Slow),
    };
    let parsed = off_the_loop(move || serde_json::from_slice(&bytes)).await?;
    parsed.map_err(|error| Refusal::Malformed { what, error })
}

/// Does what may take long for thousands of nodes where no decision waits for it.
async fn off_the_loop<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Refusal::Failed(error.to_string()))
}

async fn json(answer: impl Serialize + Send + 'static) -> Result<Response, Refusal> {
    let bytes = off_the_loop(move || serde_json::to_vec(&answer)).await?;
    let bytes = bytes.map_err(|error| Refusal::Failed(error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/json")], bytes).into_response())
}
