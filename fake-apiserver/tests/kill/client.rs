//! The least of an HTTP client: blocking, over one connection, and gone with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a request; nothing when no whole answer comes.
    pub fn send(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        self.ask(method, path, body).ok()?;
        let (code, length) = self.head()?;
        let mut answer = vec![0; length?];
        self.stream.read_exact(&mut answer).ok()?;
        Some((code, serde_json::from_slice(&answer).ok()?))
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> std::io::Result<()> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if method == "PATCH" { "merge-patch+json" } else { "json" };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/{kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes())
    }

    /// The code of an answer, and how long its body is if that is known.
    fn head(&mut self) -> Option<(u16, Option<usize>)> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        let code = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = None;
        loop {
            let mut header = String::new();
            self.stream.read_line(&mut header).ok().filter(|read| *read > 0)?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                return Some((code, length));
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().ok();
            }
        }
    }
}

/// The lines of a watch, until it ends.
pub fn watch(address: &str, path: &str) -> Option<impl Iterator<Item = String> + use<>> {
    let mut client = Client::connect(address).ok()?;
    client.ask("GET", path, &Value::Null).ok()?;
    client.head()?;
    let chunks = std::iter::from_fn(move || {
        let mut size = String::new();
        client.stream.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
        let mut chunk = vec![0; size + 2];
        client.stream.read_exact(&mut chunk).ok()?;
        chunk.truncate(size);
        Some(String::from_utf8_lossy(&chunk).into_owned())
    });
    // A frame of a watch holds whole lines.
    Some(chunks.flat_map(|chunk| chunk.lines().map(str::to_owned).collect::<Vec<_>>()))
}
