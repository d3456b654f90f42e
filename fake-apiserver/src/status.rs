//! Decides how a refusal looks: the `Status` object with its code, reason, message, details and causes,
//! worded as kube-apiserver words it because clients match on the text. Never decides whether to refuse.
//! Answers to `k8s.io/apimachinery/pkg/api/errors` and `.../util/validation/field`.

use std::fmt;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// What the server says instead of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; empty where the real server gives none.
    pub reason: String,
    /// The sentence for people.
    pub message: String,
    /// What it is about: `name`, `group`, `kind`, `uid`, `causes`, `retryAfterSeconds`; absent where the real
    /// server gives none.
    pub details: Option<Value>,
    /// The token with which an expired list can be continued, inconsistently.
    pub continue_token: Option<String>,
    /// What was warned of before it came to this.
    pub(crate) warnings: Vec<String>,
}

/// The answer of everything that can be refused; boxed because the refusal is rare and large.
pub(crate) type Result<T> = std::result::Result<T, Box<Status>>;

impl Status {
    /// A refusal without details.
    #[must_use]
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Vec::new(),
        }
    }

    /// The same refusal of a request that was warned of this before.
    pub(crate) fn warned(mut self: Box<Self>, before: impl IntoIterator<Item = String>) -> Box<Self> {
        self.warnings.splice(0..0, before);
        self
    }

    fn with(mut self, details: Value) -> Box<Self> {
        self.details = Some(details);
        Box::new(self)
    }

    /// 404 for an object of a kind.
    #[must_use]
    pub fn not_found(group: &str, plural: &str, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" not found", qualified(group, plural));
        Self::new(404, "NotFound", message).with(details(group, plural, name))
    }

    pub(crate) fn no_such_resource() -> Box<Self> {
        Self::new(404, "NotFound", "the server could not find the requested resource").with(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Box<Self> {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with(json!({}))
    }

    /// 405 for a verb that a custom resource does not have.
    pub(crate) fn not_supported(group: &str, plural: &str, verb: &str) -> Box<Self> {
        let message =
            format!("{verb} is not supported on resources of kind \"{}\"", qualified(group, plural));
        Self::new(405, "MethodNotAllowed", message).with(details(group, plural, ""))
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" already exists", qualified(&kind.group, &kind.plural));
        Self::new(409, "AlreadyExists", message).with(details(&kind.group, &kind.plural, name))
    }

    /// 409 for a write from an older version of the object.
    #[must_use]
    pub fn modified(group: &str, plural: &str, name: &str) -> Box<Self> {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, plural, name, why)
    }

    /// 409 with an explanation of its own.
    #[must_use]
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Box<Self> {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, plural));
        Self::new(409, "Conflict", message).with(details(group, plural, name))
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Box<Self> {
        Box::new(Self::new(400, "BadRequest", message))
    }

    /// 500 without a reason, as Go errors that nobody translated come out.
    pub(crate) fn untranslated(message: impl Into<String>) -> Box<Self> {
        Box::new(Self::new(500, "", message))
    }

    /// 410: what was asked for is no longer remembered.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Box<Self> {
        Box::new(Self::new(410, "Expired", message))
    }

    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Box<Self> {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::new(504, "Timeout", message).with(json!({
            "causes": [{"message": "Too large resource version", "reason": "ResourceVersionTooLarge"}],
            "retryAfterSeconds": 1,
        }))
    }

    pub(crate) fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" is forbidden: {why}", qualified(group, plural));
        Self::new(403, "Forbidden", message).with(details(group, plural, name))
    }

    /// 422 with the fields that are wrong.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Box<Self> {
        let mut sentences: Vec<&str> = Vec::new();
        for cause in causes {
            // The list of causes keeps repetitions, the sentence does not.
            if !sentences.contains(&cause.sentence.as_str()) {
                sentences.push(&cause.sentence);
            }
        }
        let all =
            if let [one] = sentences[..] { one.to_owned() } else { format!("[{}]", sentences.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {all}", qualified(group, kind));
        let mut about = details(group, kind, name);
        about["causes"] = causes.iter().map(Cause::to_json).collect();
        Self::new(422, "Invalid", message).with(about)
    }

    /// 422 for an object of a kind. An event is judged, and named, as the older of its two kinds.
    pub(crate) fn invalid_object(kind: &Kind, name: &str, causes: &[Cause]) -> Box<Self> {
        let group = if kind.is_events_view() { "" } else { &kind.group };
        Self::invalid(group, &kind.kind, name, causes)
    }

    /// The answer to a delete after which the object is gone.
    pub(crate) fn deleted(kind: &Kind, name: &str, uid: &str) -> Value {
        let mut about = details(&kind.group, &kind.plural, name);
        about["uid"] = uid.into();
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": about})
    }

    /// The refusal as the `Status` object that goes over the wire.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        let metadata = match &self.continue_token {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        status.insert("metadata".into(), metadata);
        status.insert("status".into(), "Failure".into());
        status.insert("message".into(), self.message.as_str().into());
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.as_str().into());
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.clone());
        }
        status.insert("code".into(), self.code.into());
        Value::Object(status)
    }

    pub(crate) fn to_bytes(&self) -> Bytes {
        Bytes::from(self.to_json().to_string())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// `storageclasses.storage.k8s.io`, or `pods` in the core group.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(group: &str, kind: &str, name: &str) -> Value {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.into(), value.into());
        }
    }
    Value::Object(details)
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    field: String,
    reason: &'static str,
    message: String,
    sentence: String,
}

impl Cause {
    fn new(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        let field = field.into();
        let sentence = format!("{field}: {message}");
        Self { field, reason, message, sentence }
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self::new(field, "FieldValueRequired", message)
    }

    /// `value` is shown as JSON, which is how the real server shows strings and numbers.
    pub(crate) fn invalid(field: impl Into<String>, value: impl Into<Value>, why: &str) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {}: {why}", value.into()))
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {why}"))
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
        let why = format!("Unsupported value: {}: supported values: {}", value.into(), supported.join(", "));
        Self::new(field, "FieldValueNotSupported", why)
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {}", value.into()))
    }

    /// A reference to something that is not there.
    pub(crate) fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, "FieldValueNotFound", format!("Not found: {}", value.into()))
    }

    /// The value is of another type than its schema wants.
    pub(crate) fn type_invalid(field: impl Into<String>, value: impl Into<Value>, why: &str) -> Self {
        Self::new(field, "FieldValueTypeInvalid", format!("Invalid value: {}: {why}", value.into()))
    }

    /// A value that is too large to be shown is wrong.
    pub(crate) fn invalid_whole(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {why}"))
    }

    pub(crate) fn too_many(field: impl Into<String>, count: usize, most: i64) -> Self {
        let why = format!("Too many: {count}: must have at most {most} items");
        Self::new(field, "FieldValueTooMany", why)
    }

    /// Whether rules over several fields can't be asked after this.
    pub(crate) fn blocks_rules(&self) -> bool {
        const BLOCKING: &[&str] = &[
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        BLOCKING.contains(&self.reason)
    }

    /// The same, below another field.
    pub(crate) fn within(self, field: &str) -> Self {
        let field = if self.field == "<nil>" { field.to_owned() } else { format!("{field}.{}", self.field) };
        Self::new(field, self.reason, self.message)
    }

    /// Adds why to a cause that says only what.
    pub(crate) fn explain(&mut self, why: &str) {
        for text in [&mut self.message, &mut self.sentence] {
            text.push_str(": ");
            text.push_str(why);
        }
    }

    /// The sentence alone, for errors that nobody translates.
    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }

    pub(crate) fn too_long(field: impl Into<String>, bytes: usize) -> Self {
        Self::new(field, "FieldValueTooLong", format!("Too long: may not be more than {bytes} bytes"))
    }

    fn to_json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_found_names_the_group_only_outside_core() {
        let status = Status::not_found("storage.k8s.io", "storageclasses", "sc1").to_json();
        assert_eq!(status["message"], "storageclasses.storage.k8s.io \"sc1\" not found");
        assert_eq!(
            status["details"],
            json!({"name": "sc1", "group": "storage.k8s.io", "kind": "storageclasses"})
        );
        let status = Status::not_found("", "pods", "a").to_json();
        assert_eq!(status["details"], json!({"name": "a", "kind": "pods"}));
    }

    #[test]
    fn repeated_causes_are_listed_twice_and_said_once() {
        let cause = Cause::forbidden("metadata.finalizers", "no");
        let status = Status::invalid("", "ConfigMap", "a", &[cause.clone(), cause]).to_json();
        assert_eq!(status["message"], "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no");
        assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(2));
    }
}
