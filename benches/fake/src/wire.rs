//! Connections of our own, one request at a time on each: so that both servers are asked in the same way, and the client
//! costs as little as it can on a machine that it shares with them.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// What patches are sent as.
pub const MERGE: &str = "application/merge-patch+json";
/// What objects are sent as.
pub const JSON: &str = "application/json";

/// Where a server is, and how it is to be believed.
#[derive(Clone)]
pub struct Place {
    address: String,
    tls: TlsConnector,
    token: &'static str,
}

impl Place {
    /// A server on an address of this machine that shows a certificate of this authority, and takes this token.
    pub fn new(address: &str, authority: &str, token: &'static str) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate");
        roots.add(authority).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Place { address: address.to_owned(), tls: TlsConnector::from(Arc::new(config)), token }
    }

    /// A connection, if somebody listens.
    pub async fn connect(&self) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Connection { sender, token: self.token })
    }

    /// So many connections.
    pub async fn connections(&self, count: usize) -> Vec<Connection> {
        let all = futures::stream::iter(0..count).map(|_| self.connect()).buffer_unordered(16);
        all.map(|one| one.expect("it takes connections")).collect().await
    }
}

/// One connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    token: &'static str,
}

impl Connection {
    /// The answer's body as it comes in.
    async fn open(&mut self, method: &str, path: &str, kind: &str, body: Bytes) -> (StatusCode, Incoming) {
        self.sender.ready().await.expect("it is connected");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, kind)
            .header(header::ACCEPT, JSON)
            .body(Full::new(body))
            .expect("a request");
        let answer = self.sender.send_request(request).await.expect("an answer");
        (answer.status(), answer.into_body())
    }

    /// Whether the server says that it is ready.
    pub async fn is_ready(&mut self) -> bool {
        self.open("GET", "/readyz", JSON, Bytes::new()).await.0.is_success()
    }

    /// Sends a request that has to succeed, and says how long the answer is.
    pub async fn ask(&mut self, method: &str, path: &str, kind: &str, body: Bytes) -> usize {
        let (code, mut answer) = self.open(method, path, kind, body).await;
        let (mut length, mut start) = (0, Vec::new());
        while let Some(frame) = answer.frame().await {
            if let Some(data) = frame.expect("the whole answer").data_ref() {
                length += data.len();
                if !code.is_success() {
                    start.extend_from_slice(data);
                }
            }
        }
        assert!(code.is_success(), "{method} {path}: {code} {}", String::from_utf8_lossy(&start));
        length
    }

    /// Watches until so many events have come, or the server ends the watch. Says how many came.
    pub async fn watch(mut self, path: &str, opened: impl FnOnce(), events: usize) -> usize {
        let (code, mut answer) = self.open("GET", path, JSON, Bytes::new()).await;
        assert!(code.is_success(), "{path}: {code}");
        opened();
        let mut seen = 0;
        while seen < events {
            let Some(Ok(frame)) = answer.frame().await else { break };
            // Each event is one line.
            seen += frame.data_ref().map_or(0, |data| data.split(|byte| *byte == b'\n').count() - 1);
        }
        seen
    }
}
