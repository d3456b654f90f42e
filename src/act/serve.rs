//! Serving HTTP, with or without TLS.
//!
//! Decides nothing about answers, and sees to it that nothing a client does can hold others up or pile up: there are so
//! many connections at once and no more, each has a time for the head of a request and a time to take an answer, and
//! all end soon after the server is told to stop. Answers to Go's `http.Server`, which Kubernetes' programs serve with.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::tls::Identity;

/// How long a client may take to agree on a connection's keys.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait when no connection can be accepted, for want of file descriptors perhaps.
const PAUSE: Duration = Duration::from_secs(1);

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many clients are served at once; further ones wait to be accepted.
    pub connections: usize,
    /// How long a client may be silent before the head of a request is complete, and how long it may take no byte of an
    /// answer. Longer than the 90 s for which Go's clients keep an idle connection: they let go first.
    pub silence: Duration,
    /// How long connections may take to end after the server is told to stop.
    pub drain: Duration,
}

/// Serves until `stop`, and a moment longer to those that are being answered.
pub async fn serve(
    router: Router,
    listener: TcpListener,
    identity: Option<Identity>,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let identity = identity.map(Arc::new);
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            stream = accept(&listener, &permits, limits.silence) => stream,
        };
        let (identity, router, stopped) = (identity.clone(), router.clone(), stopped.clone());
        connections.spawn(async move {
            let Some(identity) = identity else { return talk(stream, router, limits, stopped).await };
            let acceptor = TlsAcceptor::from(identity.config());
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => talk(stream, router, limits, stopped).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS connection"),
                Err(_) => tracing::debug!("no TLS connection within {HANDSHAKE:?}"),
            }
        });
    }
    drop(listener);
    // Connections that are gone have to know nothing.
    let _ = stopping.send(true);
    // Those that are left are cut off with the set.
    let _ = timeout(limits.drain, async { while connections.join_next().await.is_some() {} }).await;
}

/// Waits until there is room for a client, and for the client.
async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>, silence: Duration) -> Connection {
    // The semaphore is never closed.
    let permit = permits.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Connection { stream, silence, stalled: None, _permit: permit },
            // The client has left already.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection is accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Answers what comes over a connection until it ends.
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.silence)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn told(stopped: &mut watch::Receiver<bool>) {
    // A sender that is gone means stop as well.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// A connection that ends when its client takes nothing of an answer.
struct Connection {
    stream: TcpStream,
    silence: Duration,
    /// Until when what waits to be written has to be on its way.
    stalled: Option<Pin<Box<Sleep>>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Lets a write wait for its time and no longer. That time begins with the first write that has to wait, and is over
    /// when all is written, so that a client cannot draw an answer out byte by byte.
    fn patient<T>(
        &mut self,
        written: Poll<std::io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<T>> {
        if written.is_pending() {
            let silence = self.silence;
            let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(silence)));
            if stalled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
        }
        written
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.patient(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.patient(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        // It is asked for once all is written.
        self.stalled = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    const LIMITS: Limits =
        Limits { connections: 2, silence: Duration::from_secs(120), drain: Duration::from_secs(2) };

    /// Waits until the server has closed the connection.
    async fn closed(stream: &TcpStream) {
        loop {
            stream.readable().await.unwrap();
            match stream.try_read(&mut [0; 64]) {
                Ok(0) => return,
                Ok(_) => panic!("nothing was asked"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// A server of one page, and who stops it.
    async fn served(page: &'static str) -> (std::net::SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().route("/", get(move || async move { page }));
        let server = tokio::spawn(serve(router, listener, None, LIMITS, async {
            let _ = stopped.await;
        }));
        (address, stop, server)
    }

    async fn ask(address: std::net::SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.writable().await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";
        assert_eq!(stream.try_write(request).unwrap(), request.len());
        stream
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_left_after_a_while_and_holds_nobody_up() {
        let (address, stop, server) = served("").await;
        let silent = TcpStream::connect(address).await.unwrap();
        let start = Instant::now();
        closed(&silent).await;
        assert!(start.elapsed() >= LIMITS.silence);

        let silent = TcpStream::connect(address).await.unwrap();
        drop(stop);
        let start = Instant::now();
        server.await.unwrap();
        assert!(start.elapsed() <= LIMITS.drain + Duration::from_millis(10));
        drop(silent);
    }

    #[tokio::test(start_paused = true)]
    async fn further_clients_wait_until_there_is_room() {
        let (address, _stop, _server) = served("here").await;
        let silent = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let waiting = ask(address).await;
        let start = Instant::now();
        waiting.readable().await.unwrap();
        assert!(start.elapsed() >= LIMITS.silence, "two others had to be left first");
        let mut answer = [0; 256];
        let length = waiting.try_read(&mut answer).unwrap();
        assert!(answer[..length].ends_with(b"here"));
        drop(silent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_its_answer_is_left_after_a_while() {
        // More than any buffer on the way holds.
        let (address, stop, server) = served(Box::leak("x".repeat(64 << 20).into_boxed_str())).await;
        let deaf = ask(address).await;
        deaf.readable().await.unwrap();
        let start = Instant::now();
        sleep(LIMITS.silence + Duration::from_secs(1)).await;
        // What is on its way can still be read, and then the connection has ended.
        let (mut read, mut ended) = (0, false);
        while !ended {
            deaf.readable().await.unwrap();
            match deaf.try_read(&mut [0; 4096]) {
                Ok(0) => ended = true,
                Ok(length) => read += length,
                Err(error) => ended = error.kind() != ErrorKind::WouldBlock,
            }
        }
        assert!(read < 64 << 20, "{read} bytes");
        assert!(start.elapsed() < 2 * LIMITS.silence);
        drop(stop);
        server.await.unwrap();
    }
}
