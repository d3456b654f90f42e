//! Not more than the API server can take.
//!
//! Every request of the loop but lists and watches passes here. Where the server is well, none waits; where it is not,
//! [`limit`] says how many may be under way, and a pause that the server asks for (`Retry-After`) holds for all. A request that
//! the server has not looked at (429) is sent again after that, a few times. A rate can be set on top. Decides nothing about
//! what is sent; who stops waiting leaves nothing behind. Leases do not come here. Answers to client-go's `flowcontrol`, and
//! to how its `rest.Request` treats 429.

pub mod limit;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::Metrics;
use limit::{Answer, Limit, MOST};

/// How often a request may be sent that the server has not looked at.
const ATTEMPTS: u32 = 10;
/// How long to leave a server alone that has too much to do and does not say how long. Answers to client-go, which waits a
/// second.
const PAUSE: Duration = Duration::from_secs(1);

/// A rate that is not to be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests a second.
    pub qps: f64,
    /// How many may come at once.
    pub burst: u32,
}

/// How fast requests are sent. Cheap to clone; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Pace(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    room: Arc<Semaphore>,
    state: Mutex<State>,
    rate: Option<Rate>,
    metrics: Metrics,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    /// How many permits there are, those that are taken included.
    permits: usize,
    under_way: usize,
    /// When the next request would be sent if they came evenly.
    even: Instant,
}

/// A request that is under way. Dropped without an answer, it had none.
struct Sent {
    inner: Arc<Inner>,
    at: Instant,
    permit: Option<OwnedSemaphorePermit>,
    answered: bool,
}

impl Pace {
    /// Holds nothing up, and counts nothing.
    #[must_use]
    pub fn off() -> Self {
        Pace(None)
    }

    /// As fast as the server can, and not faster than the rate if there is one.
    #[must_use]
    pub fn adaptive(rate: Option<Rate>, metrics: Metrics) -> Self {
        let now = Instant::now();
        let state = State { limit: Limit::new(now), permits: MOST, under_way: 0, even: now };
        metrics.paced(MOST, 0);
        let (room, state) = (Arc::new(Semaphore::new(MOST)), Mutex::new(state));
        Pace(Some(Arc::new(Inner { room, state, rate, metrics })))
    }

    /// How many requests may be under way now.
    #[must_use]
    pub fn allowed(&self) -> usize {
        self.0.as_ref().map_or(usize::MAX, |inner| inner.lock().limit.allowed())
    }

    /// A client whose requests keep to this pace.
    #[must_use]
    pub fn guard(&self, client: Client) -> Client {
        let Some(inner) = self.0.clone() else { return client };
        let namespace = client.default_namespace().to_owned();
        let paced = tower::service_fn(move |request: Request<Body>| {
            let (client, inner) = (client.clone(), inner.clone());
            async move {
                if is_counted(&request) {
                    inner.send(&client, request).await
                } else {
                    client.send(request).await
                }
            }
        });
        Client::new(paced, namespace)
    }
}

/// Lists and watches are few, last long, and have pauses of their own.
fn is_counted(request: &Request<Body>) -> bool {
    let operation = request.extensions().get::<&'static str>().copied().unwrap_or_default();
    request.method() != Method::GET || !(operation.starts_with("list") || operation.starts_with("watch"))
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What is kept here is true after each line that changes it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(self: &Arc<Self>, client: &Client, request: Request<Body>) -> kube::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let mut attempt = 1;
        loop {
            let mut again = Request::new(Body::from(body.clone()));
            (*again.method_mut(), *again.uri_mut()) = (head.method.clone(), head.uri.clone());
            (*again.headers_mut(), *again.extensions_mut()) = (head.headers.clone(), head.extensions.clone());
            let sent = self.clone().turn().await;
            let answer = client.send(again).await;
            let meaning = meaning(&answer);
            sent.answered(meaning);
            if !matches!(meaning, Answer::TooMany(_)) || attempt == ATTEMPTS {
                return answer;
            }
            attempt += 1;
        }
    }

    /// Waits until a request may be sent.
    async fn turn(self: Arc<Self>) -> Sent {
        let start = Instant::now();
        // The semaphore is never closed.
        let permit = self.room.clone().acquire_owned().await.ok();
        if let Some(rate) = self.rate {
            let at = self.lock().place(rate, Instant::now());
            sleep_until(at).await;
        }
        loop {
            let paused = self.lock().limit.paused();
            match paused.filter(|until| *until > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => break,
            }
        }
        let at = Instant::now();
        if at > start {
            self.metrics.waited(at.duration_since(start));
        }
        let mut state = self.lock();
        state.under_way += 1;
        let under_way = state.under_way;
        state.limit.sent(under_way);
        self.metrics.paced(state.limit.allowed(), under_way);
        drop(state);
        Sent { inner: self, at, permit, answered: false }
    }

    /// Takes note of an answer, and makes as much room as there should be.
    fn answered(&self, answer: Answer, sent: Instant, permit: Option<OwnedSemaphorePermit>) {
        let mut state = self.lock();
        let under_way = state.under_way;
        state.limit.answered(answer, sent, Instant::now(), under_way);
        state.under_way = under_way.saturating_sub(1);
        let allowed = state.limit.allowed();
        if state.permits < allowed {
            self.room.add_permits(allowed - state.permits);
            state.permits = allowed;
        } else if state.permits > allowed {
            state.permits -= self.room.forget_permits(state.permits - allowed);
            // What is taken at the moment goes as it comes back.
            if state.permits > allowed
                && let Some(permit) = permit
            {
                permit.forget();
                state.permits -= 1;
            }
        }
        self.metrics.paced(allowed, state.under_way);
    }
}

impl State {
    /// When one more request may be sent at this rate. Answers to a bucket of `burst` tokens.
    fn place(&mut self, rate: Rate, now: Instant) -> Instant {
        let between = Duration::from_secs_f64(1.0 / rate.qps);
        let even = self.even.max(now);
        self.even = even + between;
        let ahead = between * rate.burst.saturating_sub(1);
        even.checked_sub(ahead).map_or(now, |at| at.max(now))
    }
}

impl Sent {
    fn answered(mut self, answer: Answer) {
        self.answered = true;
        self.inner.answered(answer, self.at, self.permit.take());
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.answered {
            self.inner.answered(Answer::Trouble, self.at, self.permit.take());
        }
    }
}

/// What an answer says of how the server is.
fn meaning(answer: &kube::Result<Response<Body>>) -> Answer {
    match answer {
        Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS => {
            let seconds =
                response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            Answer::TooMany(Some(seconds.map_or(PAUSE, Duration::from_secs)))
        }
        Ok(response) if response.status().is_server_error() => Answer::Trouble,
        Ok(_) => Answer::Done,
        // One that was not sent says nothing.
        Err(kube::Error::Service(error)) if error.is::<super::lease::lead::NotLeading>() => Answer::Done,
        Err(_) => Answer::Trouble,
    }
}
