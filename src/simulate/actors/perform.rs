//! Does what a plan says: turns each [`Call`] into one request.
//!
//! It decides nothing. A refused call ends the plan; what the server answers to a write is handed back, so that the next
//! decision already knows it. An event that tells a state is written once, one that tells a happening is counted up.

use super::call::{Call, Kind, Name, Remark, Target};
use http::{Method, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The clock for what is written into objects.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// How much of an object's name goes into the names of its events.
const LONGEST_STEM: usize = 230;

/// An event that was written: its name and how often it was told.
#[derive(Debug)]
struct Told {
    name: Name,
    count: u64,
}

/// Sends calls.
pub struct Performer {
    client: kube::Client,
    now: Clock,
    told: BTreeMap<(String, &'static str, String), Told>,
    events: u64,
}

/// Why a call was refused.
#[derive(Debug)]
pub enum Refusal {
    /// The object changed, is there already or is gone: decide again.
    Stale,
    /// Anything else that the server or the transport said.
    Error(kube::Error),
}

/// What was to be changed is gone, or what was to be made is there: both are reasons to look again. A create that finds
/// nothing lacks its namespace, which is an error to tell.
fn refusal(error: kube::Error, creates: bool) -> Refusal {
    match &error {
        kube::Error::Api(status) if status.code == 409 || status.code == 404 && !creates => Refusal::Stale,
        _ => Refusal::Error(error),
    }
}

impl Performer {
    /// Sends through `client`, and writes the times of `now`.
    pub fn new(client: kube::Client, now: Clock) -> Self {
        Self { client, now, told: BTreeMap::new(), events: 0 }
    }

    /// The time, as objects spell it.
    #[must_use]
    pub fn now(&self) -> String {
        (self.now)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Performs one call; the answer is the object as it is now, if the server said.
    ///
    /// # Errors
    /// What the server refused.
    pub async fn perform(&mut self, call: Call) -> Result<Option<Value>, Refusal> {
        match call {
            Call::Create { object, otherwise } => self.create(object, otherwise).await.map(Some),
            Call::Merge { target, subresource, patch } => {
                self.merge(&target, subresource, patch).await.map(Some)
            }
            Call::Delete { target, grace_seconds } => self.delete(&target, grace_seconds).await,
            Call::Event(remark) => {
                self.tell(remark).await;
                Ok(None)
            }
        }
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        content: &str,
        body: &Value,
    ) -> Result<Value, Refusal> {
        let creates = method == Method::POST;
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(body.to_string().into_bytes());
        let request = request.map_err(|e| Refusal::Error(kube::Error::HttpError(e)))?;
        self.client.request::<Value>(request).await.map_err(|e| refusal(e, creates))
    }

    async fn create(&mut self, object: Value, otherwise: Option<Remark>) -> Result<Value, Refusal> {
        let kind = Kind::of(&object).unwrap_or(Kind::Event);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = kind.path(namespace, None);
        let answer = self.send(Method::POST, path, "application/json", &object).await;
        if let (Err(Refusal::Error(error)), Some(mut remark)) = (&answer, otherwise) {
            let why = match error {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            };
            remark.message.push_str(&why);
            self.tell(remark).await;
        }
        answer
    }

    async fn merge(
        &self,
        on: &Target,
        subresource: Option<&str>,
        mut patch: Value,
    ) -> Result<Value, Refusal> {
        patch["metadata"]["resourceVersion"] = json!(on.resource_version);
        patch["metadata"]["uid"] = json!(on.uid);
        if subresource == Some("finalize") {
            return self.finalize(on, patch).await;
        }
        let mut to = on.kind.path(&on.name.namespace, Some(&on.name.name));
        if let Some(subresource) = subresource {
            to = format!("{to}/{subresource}");
        }
        self.send(Method::PATCH, to, "application/merge-patch+json", &patch).await
    }

    /// The one subresource that a server lets nobody patch.
    async fn finalize(&self, on: &Target, mut whole: Value) -> Result<Value, Refusal> {
        whole["apiVersion"] = json!(on.kind.api_version());
        whole["kind"] = json!(on.kind.name());
        whole["metadata"]["name"] = json!(on.name.name);
        let to = format!("{}/finalize", on.kind.path("", Some(&on.name.name)));
        self.send(Method::PUT, to, "application/json", &whole).await
    }

    async fn delete(&self, on: &Target, grace_seconds: Option<u32>) -> Result<Option<Value>, Refusal> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": { "uid": on.uid },
        });
        if let Some(seconds) = grace_seconds {
            options["gracePeriodSeconds"] = json!(seconds);
        }
        let path = on.kind.path(&on.name.namespace, Some(&on.name.name));
        match self.send(Method::DELETE, path, "application/json", &options).await {
            Ok(answer) => Ok(Some(answer)),
            // Gone, or another object by now: what was to be deleted is no more.
            Err(Refusal::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an event; that it could not be written is no reason to do anything again.
    async fn tell(&mut self, remark: Remark) {
        let key = (remark.regarding.uid.clone(), remark.reason, remark.message.clone());
        let now = self.now();
        if let Some(told) = self.told.get_mut(&key) {
            if remark.once {
                return;
            }
            told.count += 1;
            let again = json!({ "count": told.count, "lastTimestamp": now });
            let path = Kind::Event.path(&told.name.namespace, Some(&told.name.name));
            drop(self.send(Method::PATCH, path, "application/merge-patch+json", &again).await);
            return;
        }
        self.events += 1;
        let on = &remark.regarding;
        let namespace = if on.name.namespace.is_empty() { "default" } else { &on.name.namespace };
        // A name has 253 letters at most, and the object may have used them all.
        let stem = on.name.name.get(..LONGEST_STEM).unwrap_or(&on.name.name);
        let name = Name::new(namespace, format!("{stem}.actor{:08x}", self.events));
        let mut involved = json!({
            "apiVersion": on.kind.api_version(), "kind": on.kind.name(), "name": on.name.name, "uid": on.uid,
            "resourceVersion": on.resource_version,
        });
        if !on.name.namespace.is_empty() {
            involved["namespace"] = json!(on.name.namespace);
        }
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "namespace": name.namespace, "name": name.name },
            "involvedObject": involved, "reason": remark.reason, "message": remark.message, "count": 1,
            "type": if remark.warning { "Warning" } else { "Normal" },
            "firstTimestamp": now, "lastTimestamp": now, "source": { "component": remark.source },
            "reportingComponent": remark.source, "reportingInstance": "",
        });
        let path = Kind::Event.path(&name.namespace, None);
        if self.send(Method::POST, path, "application/json", &event).await.is_ok() {
            self.told.insert(key, Told { name, count: 1 });
        }
    }
}
