//! Decides how connections come in: plain or with TLS, HTTP/1.1 or HTTP/2, how many at once, how long their
//! headers may take, and how they end. Never looks into a request. Answers to
//! `k8s.io/apiserver/pkg/server/secure_serving.go`.

pub(crate) mod limits;
pub(crate) mod tls;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::http::Response;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::auth::User;
use crate::server::Server;
use limits::{Gate, Limits};
use tls::Tls;

/// How long to wait before the next connection is taken when the system has no more to give.
const PAUSE: Duration = Duration::from_millis(50);

/// How a server is reached.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// Who the server says it is; without it, it speaks plain HTTP.
    pub tls: Option<Tls>,
    /// How much is served at once.
    pub limits: Limits,
}

/// Serves until `shutdown` is ready. Watches that are still open end with it, other requests are given the
/// time that the limits name.
pub(crate) async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    serving: Serving,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let gate = Arc::new(Gate::new(server.clone(), serving.limits.clone()));
    let free = Arc::new(Semaphore::new(serving.limits.connections));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let next = async {
            let place = free.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = next => accepted,
            () = &mut shutdown => break,
        };
        // What has ended is forgotten here, so that there are never more of them than places.
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let (gate, tls, watcher) = (gate.clone(), serving.tls.clone(), graceful.watcher());
        connections.spawn(async move {
            connection(gate, stream, tls, watcher).await;
            drop(place);
        });
    }
    server.stop();
    drop(listener);
    // A graceful end waits for every response, and a watch's would take half an hour.
    server.lock().cut_watches();
    let _ = timeout(serving.limits.farewell, graceful.shutdown()).await;
    connections.shutdown().await;
    Ok(())
}

/// One connection from its beginning to its end. Whatever goes wrong with it ends it and nothing else.
async fn connection(gate: Arc<Gate>, stream: TcpStream, tls: Option<Tls>, watcher: Watcher) {
    // Events are small and must not wait for more of them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return requests(gate, stream, None, watcher).await };
    match timeout(gate.limits().header, tls.accept(stream)).await {
        Ok(Ok((stream, user))) => requests(gate, stream, user.map(Arc::new), watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn requests(
    gate: Arc<Gate>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    user: Option<Arc<User>>,
    watcher: Watcher,
) {
    let header = gate.limits().header;
    let service = service_fn(move |request: ::http::Request<Incoming>| {
        let (gate, user) = (gate.clone(), user.clone());
        async move {
            let mut request: Request = request.map(Body::new);
            if let Some(user) = user {
                request.extensions_mut().insert(user);
            }
            Ok::<Response<Body>, Infallible>(gate.answer(request).await)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error, "a connection ended");
    }
}
