//! Decides what a request says: path, query, content type and body, percent-decoded but not judged. Never
//! knows which kinds exist. Answers to `k8s.io/apiserver/pkg/endpoints/request`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::auth::User;
use crate::decode::yaml;
use crate::protobuf::{self, Unreadable};
use crate::status::{Result, Status};

/// One request, however it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    /// What the client would like to get, as it says it.
    pub(crate) accept: String,
    /// The hash of the document that the client has.
    pub(crate) none_match: String,
    pub(crate) user: Arc<User>,
    pub(crate) body: Bytes,
    /// What the client calls itself.
    pub(crate) user_agent: String,
}

impl Request {
    pub(crate) fn new(method: &str, path_and_query: &str, content_type: &str, body: Bytes) -> Self {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        // Parameters such as `charset=utf-8` change nothing.
        let content_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: Query::parse(query),
            content_type,
            accept: String::new(),
            none_match: String::new(),
            user: User::trusted(),
            body,
            user_agent: String::new(),
        }
    }

    /// The same request by a client of that name.
    pub(crate) fn by(mut self, user_agent: &str) -> Self {
        user_agent.clone_into(&mut self.user_agent);
        self
    }

    /// The same request with an `Accept` header.
    pub(crate) fn accepting(mut self, accept: &str) -> Self {
        accept.clone_into(&mut self.accept);
        self
    }

    /// The refusal of a time limit that is none; watches have another one.
    pub(crate) fn wrong_timeout(&self) -> Option<Box<Status>> {
        let given = self.query.get("timeout");
        if given.is_empty() || is_duration(given) || self.query.flag("watch") {
            return None;
        }
        let shown = Value::from(given);
        let why = format!("invalid timeout specified in the request URL - time: invalid duration {shown}");
        Some(Status::bad_request(why))
    }

    /// What a watch asks whose URL says that it is one, as URLs once did.
    pub(crate) fn older_watch(&self) -> Option<Self> {
        if self.method != "GET" || !self.path.contains("/watch/") {
            return None;
        }
        let steps: Vec<&str> = self.path.split('/').filter(|step| !step.is_empty()).collect();
        let (root, rest) = match steps[..] {
            ["api", _, "watch", ref rest @ ..] => (&steps[..2], rest),
            ["apis", _, _, "watch", ref rest @ ..] => (&steps[..3], rest),
            _ => return None,
        };
        let (collection, name) = match *rest {
            ["namespaces", _, _] | [_] => (rest, None),
            ["namespaces", _, _, name] | [_, name] => (&rest[..rest.len() - 1], Some(name)),
            _ => return None,
        };
        let mut request = self.clone();
        request.path = format!("/{}", [root, collection].concat().join("/"));
        request.query.0.insert(0, ("watch".to_owned(), "true".to_owned()));
        if let Some(name) = name {
            let named = format!("metadata.name={}", percent_decode(name, false));
            request.query.0.insert(0, ("fieldSelector".to_owned(), named));
        }
        Some(request)
    }

    /// The body as JSON; `what` is what it should be.
    pub(crate) fn json(&self, what: &str) -> Result<Value> {
        self.decode()?.map_err(|why| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {what}): {why}"
            ))
        })
    }

    /// What the body says, in the format that its type names, or why it says nothing.
    pub(crate) fn decode(&self) -> Result<std::result::Result<Value, String>> {
        match self.content_type.as_str() {
            "" | "application/json" => Ok(self.decode_json()),
            "application/yaml" => Ok(self.decode_yaml()),
            "application/vnd.kubernetes.protobuf" => match protobuf::read(&self.body) {
                Ok(value) => Ok(Ok(value)),
                Err(Unreadable::UnknownKind) => Err(unknown_format()),
                Err(Unreadable::Malformed(why)) => Ok(Err(why)),
            },
            _ => Err(unknown_format()),
        }
    }

    fn decode_json(&self) -> std::result::Result<Value, String> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let reason =
                if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
            format!("couldn't get version/kind; json parse error: {reason} ({})", self.excerpt())
        })
    }

    fn decode_yaml(&self) -> std::result::Result<Value, String> {
        let read = yaml::read(&self.body);
        read.map(|(value, _)| value).map_err(|error| format!("{error} ({})", self.excerpt()))
    }

    /// The beginning of the body, for messages.
    fn excerpt(&self) -> String {
        let shown = String::from_utf8_lossy(&self.body[..self.body.len().min(200)]);
        if shown.is_empty() { "<empty>".to_owned() } else { shown.into_owned() }
    }
}

/// Whether a text is a length of time as Go writes it: `1m30s`, `-1.5h`, `0`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let number =
            rest.len() - rest.trim_start_matches(|one: char| one.is_ascii_digit() || one == '.').len();
        let (digits, unit) = rest.split_at(number);
        let fits = digits.bytes().filter(|byte| *byte == b'.').count() <= 1 && digits != ".";
        let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
        let found = units.into_iter().find(|one| {
            let after = unit.strip_prefix(one).and_then(|after| after.chars().next());
            unit.starts_with(one) && after.is_none_or(|next| next.is_ascii_digit() || next == '.')
        });
        let Some(found) = found.filter(|_| fits && !digits.is_empty()) else { return false };
        rest = &unit[found.len()..];
        any = true;
    }
    any
}

pub(crate) fn unknown_format() -> Box<Status> {
    let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {types}");
    Box::new(Status::new(415, "UnsupportedMediaType", message))
}

/// The parameters of a URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (percent_decode(name, true), percent_decode(value, true))
                })
                .collect(),
        )
    }

    /// The first value of a parameter, or "".
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }

    /// All of them, in their order.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(one, _)| one == name)
    }

    /// A flag: `watch`, `watch=` and `watch=` anything else set it, but for `0` and `false`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.has(name) && !matches!(self.get(name).to_ascii_lowercase().as_str(), "0" | "false")
    }

    /// A number, refused in Go's words when it is none.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>> {
        if !self.has(name) {
            return Ok(None);
        }
        let text = self.get(name);
        let error = |_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", Value::from(text)))
        };
        text.parse().map(Some).map_err(error)
    }
}

/// Undoes percent-encoding; what is not properly encoded stays as it is.
pub(crate) fn percent_decode(text: &str, plus_is_space: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[at], digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 3;
                continue;
            }
            (b'+', ..) if plus_is_space => plain.push(b' '),
            (other, ..) => plain.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_decoded_once() {
        let request =
            Request::new("GET", "/api?a=b%20c&d=e+f&g&a=2", "application/json; charset=utf-8", Bytes::new());
        assert_eq!(request.query.get("a"), "b c");
        assert_eq!(request.query.get("d"), "e f");
        assert!(request.query.flag("g") && !request.query.flag("h"));
        assert_eq!(request.query.all("a").count(), 2);
        assert_eq!(request.content_type, "application/json");
        assert_eq!(percent_decode("%zz%4", false), "%zz%4");
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        for good in ["0", "10s", "1m30s", "1.5h", "-1ms", "+3us"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["", "-", "s", "1", "1x", "1.2.3s", ".s", "1s2", "1 s"] {
            assert!(!is_duration(bad), "{bad}");
        }
    }

    #[test]
    fn older_urls_of_watches_are_understood() {
        let older = |path: &str| Request::new("GET", path, "", Bytes::new()).older_watch();
        let found = older("/api/v1/watch/namespaces/n/pods/a?timeoutSeconds=1").unwrap();
        assert_eq!(found.path, "/api/v1/namespaces/n/pods");
        assert_eq!(found.query.get("fieldSelector"), "metadata.name=a");
        assert!(found.query.flag("watch") && found.query.get("timeoutSeconds") == "1");
        let found = older("/apis/apps/v1/watch/deployments").unwrap();
        assert_eq!(
            (found.path.as_str(), found.query.get("fieldSelector")),
            ("/apis/apps/v1/deployments", "")
        );
        assert_eq!(older("/api/v1/watch/namespaces/n").unwrap().path, "/api/v1/namespaces");
        for none in ["/api/v1/pods", "/api/v1/watch", "/api/v1/watch/namespaces/n/pods/a/status"] {
            assert!(older(none).is_none(), "{none}");
        }
    }
}
