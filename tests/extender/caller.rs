//! Somebody who posts to an extender, over TCP or TLS, as kube-scheduler does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pvbind::act::extender::{Asker, pages};
use pvbind::act::serve::{Limits, serve};
use pvbind::act::tls::Identity;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// How long an answer may take; it only matters when something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves an extender's pages until the test ends.
pub async fn served(asker: Asker, identity: Option<Identity>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let limits: Limits = pages::LIMITS;
    tokio::spawn(serve(pages::router(asker), listener, identity, limits, std::future::pending()));
    address
}

/// Whom to post to, and how.
#[derive(Clone)]
pub struct Caller {
    pub address: SocketAddr,
    pub tls: Option<Arc<ClientConfig>>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Caller {
    /// Sends a request; what goes wrong on the way is text.
    pub async fn send(&self, method: &str, path: &str, body: &str) -> Result<Answer, String> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let caller = self.clone();
        let talk = move || caller.talk(request.as_bytes()).map_err(|error| error.to_string());
        let text = tokio::task::spawn_blocking(talk).await.expect("it does not panic")?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {text:?}"))?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Ok(Answer { status, body: body.to_owned() })
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &body.to_string()).await.expect("an answer")
    }

    fn talk(&self, request: &[u8]) -> std::io::Result<String> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        match &self.tls {
            None => exchange(stream, request, &mut text)?,
            Some(config) => {
                let name = ServerName::from(self.address.ip());
                let connection =
                    ClientConnection::new(config.clone(), name).map_err(std::io::Error::other)?;
                exchange(StreamOwned::new(connection, stream), request, &mut text)?;
            }
        }
        Ok(text)
    }
}

fn exchange(mut stream: impl Read + Write, request: &[u8], text: &mut String) -> std::io::Result<()> {
    // A server that has read enough answers and closes.
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    match stream.read_to_string(text) {
        Ok(_) => Ok(()),
        Err(_) if !text.is_empty() => Ok(()),
        Err(error) => Err(sent.err().unwrap_or(error)),
    }
}
