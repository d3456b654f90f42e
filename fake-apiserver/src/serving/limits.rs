//! Decides how much of what is asked is done at once, how long a request may take, and what those are told
//! who come at the wrong time; counts what was asked on the way. Watches take no place: they last. Answers to
//! `k8s.io/apiserver/pkg/server/filters`: `maxinflight.go`, `priority-and-fairness.go` and `timeout.go`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::body::Body;
use axum::extract::Request;
use tokio::sync::Semaphore;

use crate::answer::TEXT;
use crate::http;
use crate::metrics::Asked;
use crate::server::Server;
use crate::status::Status;

/// How much a server does at once, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many requests that only read are served at once; the next one gets 429.
    pub reading: usize,
    /// The same for requests that write.
    pub writing: usize,
    /// How many connections are held at once; the next one waits.
    pub connections: usize,
    /// How long the header of a request, or a handshake, may take.
    pub header: Duration,
    /// How long a request may take that is no watch.
    pub request: Duration,
    /// How long requests have to end once the server is told to.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reading: 400,
            writing: 200,
            connections: 10_000,
            header: Duration::from_secs(32),
            request: Duration::from_secs(60),
            farewell: Duration::from_secs(10),
        }
    }
}

/// Where requests of connections come through.
pub(super) struct Gate {
    server: Arc<Server>,
    limits: Limits,
    reading: Semaphore,
    writing: Semaphore,
}

impl Gate {
    pub(super) fn new(server: Arc<Server>, limits: Limits) -> Self {
        let (reading, writing) = (Semaphore::new(limits.reading), Semaphore::new(limits.writing));
        Self { server, limits, reading, writing }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Lets a request in, if there is place, and waits for its answer, not for ever.
    pub(super) async fn answer(&self, request: Request) -> Response<Body> {
        let asked = Asked::of(&self.server, request.method(), request.uri());
        let begun = Instant::now();
        let response = if asked.is_watch() {
            http::respond(self.server.clone(), request).await
        } else {
            self.within_limits(request).await
        };
        self.server.metrics.count(&asked, response.status().as_u16(), begun.elapsed());
        response
    }

    async fn within_limits(&self, request: Request) -> Response<Body> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let (places, kind) = if reads { (&self.reading, "readOnly") } else { (&self.writing, "mutating") };
        let Ok(_place) = places.try_acquire() else { return too_many() };
        let _busy = self.server.metrics.busy(kind);
        let answer = http::respond(self.server.clone(), request);
        match tokio::time::timeout(self.limits.request, answer).await {
            Ok(response) => response,
            Err(_) => http::response(took_too_long().into()),
        }
    }
}

/// What upstream writes, in plain text, for everybody the same.
fn too_many() -> Response<Body> {
    let mut response = Response::new(Body::from("Too many requests, please try again later.\n"));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn took_too_long() -> Box<Status> {
    let message = "Timeout: request did not complete within the allotted timeout";
    let mut status = Status::new(504, "Timeout", message);
    status.details = Some(serde_json::json!({}));
    Box::new(status)
}
