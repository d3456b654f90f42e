//! Decides the form of an answer: code, content type, headers, and stored bytes wherever an object is shown
//! as it is stored. Never decides what to answer. Answers to
//! `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters`.

use bytes::Bytes;
use serde_json::Value;

use crate::hash;
use crate::kinds::Kind;
use crate::object::Object;
use crate::status::Status;
use crate::watch::WatchBody;

pub(crate) const JSON: &str = "application/json";
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub(crate) const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(crate) const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// What goes back.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content_type: &'static str,
    /// `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// Further headers, such as `ETag`.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Ready(Bytes),
    Watch(Box<WatchBody>),
}

impl Answer {
    fn new(code: u16, content_type: &'static str, body: Bytes) -> Self {
        Self {
            code,
            content_type,
            warnings: Vec::new(),
            retry_after: None,
            headers: Vec::new(),
            content: Content::Ready(body),
        }
    }

    /// A stored object, in the view that was asked for.
    pub(crate) fn object(code: u16, kind: &Kind, object: &Object) -> Self {
        if let Some(view) = kind.view_of(object) {
            return Self::new(code, JSON, Object::new(view, object.revision).bytes().clone());
        }
        Self::new(code, JSON, object.bytes().clone())
    }

    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::new(code, JSON, Bytes::from(value.to_string()))
    }

    pub(crate) fn bytes(body: Vec<u8>) -> Self {
        Self::new(200, JSON, body.into())
    }

    pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self::new(code, TEXT, text.into())
    }

    /// What Go's multiplexer says of a path that nobody serves.
    pub(crate) fn no_page() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// A document with its hash, or that the client has it already.
    pub(crate) fn tagged(content_type: &'static str, document: impl Into<Bytes>, none_match: &str) -> Self {
        let document = document.into();
        let tag = format!("\"{}\"", hash::of(&document));
        let (code, body) = if none_match == tag { (304, Bytes::new()) } else { (200, document) };
        Self::new(code, content_type, body).with_header("etag", tag)
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn watch(body: WatchBody) -> Self {
        Self {
            code: 200,
            content_type: JSON,
            warnings: Vec::new(),
            retry_after: None,
            headers: Vec::new(),
            content: Content::Watch(Box::new(body)),
        }
    }

    pub(crate) fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        for text in warnings {
            let quoted = format!("299 - \"{}\"", text.replace('"', "\\\""));
            // Nothing is said twice.
            if !self.warnings.contains(&quoted) {
                self.warnings.push(quoted);
            }
        }
        self
    }

    /// What is said before all that the answer says.
    pub(crate) fn warned_first(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        let later = std::mem::take(&mut self.warnings);
        self = self.with_warnings(warnings);
        let new: Vec<String> = later.into_iter().filter(|text| !self.warnings.contains(text)).collect();
        self.warnings.extend(new);
        self
    }
}

impl From<Box<Status>> for Answer {
    fn from(status: Box<Status>) -> Self {
        let mut answer = Self::new(status.code, JSON, status.to_bytes());
        answer.retry_after = status.details.and_then(|details| details["retryAfterSeconds"].as_u64());
        answer.with_warnings(status.warnings)
    }
}
