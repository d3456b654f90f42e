//! `/metrics`, `/healthz`, `/livez` and `/readyz` over HTTP.
//!
//! Decides nothing, and holds the loop never up: a page is made of what is in memory. Answers to
//! kube-controller-manager's endpoints of these names.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::net::TcpListener;

use super::Metrics;
use crate::act::serve::{self, Limits};

/// What those who scrape may take. Prometheus opens a new connection when one has ended.
pub const LIMITS: Limits =
    Limits { connections: 64, silence: Duration::from_secs(120), drain: Duration::from_secs(2) };
/// What Prometheus wants its text format to be called.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves until `stop`, and a moment longer to those that are being answered.
pub async fn serve(metrics: Metrics, listener: TcpListener, stop: impl Future<Output = ()>) {
    serve::serve(router(metrics), listener, None, LIMITS, stop).await;
}

/// The pages.
pub fn router(metrics: Metrics) -> Router {
    Router::new()
        .route("/metrics", get(text))
        .route("/healthz", get(alive))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .with_state(metrics)
}

async fn text(State(metrics): State<Metrics>) -> Response {
    match metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn alive(State(metrics): State<Metrics>) -> (StatusCode, &'static str) {
    if metrics.turns().await {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "the loop does not turn")
    }
}

async fn ready(State(metrics): State<Metrics>) -> (StatusCode, String) {
    match metrics.missing() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, missing),
    }
}
