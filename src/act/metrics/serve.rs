//! `/metrics`, `/healthz` and `/readyz` over HTTP.
//!
//! Decides nothing, and nothing that a client does can hold the loop up or pile up: a page is made of what is in
//! memory, there are at most [`CONNECTIONS`] at once, and each lasts at most [`LIFETIME`] while it is read from and
//! twice that while it is written to. Answers to kube-controller-manager's endpoints of these names.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use super::Metrics;

/// How many clients are served at once; further ones wait to be accepted.
pub const CONNECTIONS: usize = 64;
/// How long a connection may last. Prometheus opens a new one when one has ended.
pub const LIFETIME: Duration = Duration::from_secs(120);
/// How long connections may take to end after the server is told to stop.
const DRAIN: Duration = Duration::from_secs(2);
/// What Prometheus wants its text format to be called.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves until `stop`, and a moment longer to those that are being answered.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    metrics: Metrics,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (told, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let listener = Bounded { listener, permits: Arc::new(Semaphore::new(CONNECTIONS)) };
    let server = axum::serve(listener, router(metrics)).with_graceful_shutdown(async move {
        stop.await;
        drop(told);
    });
    let late = async {
        // The sender is only ever dropped.
        let _ = (&mut stopped).await;
        sleep(DRAIN).await;
    };
    tokio::select! {
        ended = server => ended,
        () = late => Ok(()),
    }
}

/// The pages.
pub fn router(metrics: Metrics) -> Router {
    Router::new()
        .route("/metrics", get(text))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(metrics)
}

async fn text(State(metrics): State<Metrics>) -> Response {
    match metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(metrics): State<Metrics>) -> (StatusCode, &'static str) {
    if metrics.is_ready() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not every kind of object has been listed yet")
    }
}

/// A listener with a limited number of connections.
struct Bounded {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let (reads, writes) = (Box::pin(sleep(LIFETIME)), Box::pin(sleep(2 * LIFETIME)));
        (Connection { stream, reads, writes, _permit: permit }, address)
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends after its time: nothing more is read from it, so that the server closes it when it has
/// answered; a client that does not take the answer is cut off.
struct Connection {
    stream: TcpStream,
    reads: Pin<Box<Sleep>>,
    writes: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn late(&mut self, context: &mut Context<'_>) -> std::io::Result<()> {
        match self.writes.as_mut().poll(context) {
            Poll::Ready(()) => Err(std::io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.reads.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.late(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.late(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.late(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until the server has closed the connection.
    async fn closed(stream: &TcpStream) {
        loop {
            stream.readable().await.unwrap();
            match stream.try_read(&mut [0; 64]) {
                Ok(0) => return,
                Ok(_) => panic!("nothing was asked"),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_left_after_a_while_and_holds_nobody_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(serve(Metrics::off(), listener, async {
            let _ = stopped.await;
        }));
        let silent = TcpStream::connect(address).await.unwrap();
        let start = tokio::time::Instant::now();
        closed(&silent).await;
        assert!(start.elapsed() >= LIFETIME);

        let silent = TcpStream::connect(address).await.unwrap();
        drop(stop);
        let start = tokio::time::Instant::now();
        server.await.unwrap().unwrap();
        assert!(start.elapsed() <= DRAIN + Duration::from_millis(10));
        drop(silent);
    }
}
