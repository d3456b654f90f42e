//! The API server of a case, and everything that was asked of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::middleware::{self, Next};
use axum::response::Response;
use fake_apiserver::{Admission, Call, Change, FakeApiServer, Fault, Ids, Options, Status};
use kube::Client;
use pvbind::cluster::{Key, Kind, Object};
use serde_json::Value;
use tokio::sync::watch::Receiver;

use crate::record::ApiError;

/// One request about one object, or one that creates an object. Lists and watches are not kept.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    pub body: Value,
    /// The code of the answer.
    pub code: u16,
}

/// More requests than any case needs. A case that makes more never settles: it gets no more answers, so that its
/// virtual time runs out.
const MOST: usize = 200;

type Wire = Arc<Mutex<Vec<Request>>>;

/// The server. Objects are stored as they were recorded, but for their versions, which are the server's own.
pub struct Server {
    fake: FakeApiServer,
    wire: Wire,
    /// The versions that the recorded claims were given when they were put in.
    claim_versions: BTreeSet<String>,
    hidden: Vec<Key>,
}

impl Server {
    pub fn new() -> Self {
        let options = Options { admission: Admission::Raw, ids: Ids::Seeded(1), ..Options::default() };
        let fake = FakeApiServer::new(options);
        Server { fake, wire: Wire::default(), claim_versions: BTreeSet::new(), hidden: Vec::new() }
    }

    /// Lets the first requests that match go wrong.
    pub fn fail(&self, errors: Vec<ApiError>) {
        let errors = Mutex::new(errors);
        self.fake.set_faults(Some(Arc::new(move |call: &Call| {
            let mut errors = errors.lock().expect("no panic");
            let matches = |error: &ApiError| error.verb == call.verb && error.resource == call.resource;
            let ApiError { error, .. } = errors.iter().position(matches).map(|index| errors.remove(index))?;
            let (code, reason) = error
                .api_status
                .map_or((500, "InternalError".to_owned()), |status| (status.code, status.reason));
            Some(Fault::Status(Box::new(Status::new(code, &reason, &error.text))))
        })));
    }

    /// A client whose requests are kept.
    pub fn client(&self) -> Client {
        let router = self.fake.router().layer(middleware::from_fn_with_state(self.wire.clone(), keep));
        Client::new(router, "default")
    }

    /// Stores an object as it is; watches see it.
    pub fn put(&mut self, object: &Object) {
        let stored = self.fake.apply_as_is(json(object)).expect("an object");
        self.remember_version(&stored);
    }

    /// Stores an object that only a GET finds.
    pub fn hide(&mut self, object: &Object) {
        let stored = self.fake.hide(json(object)).expect("an object");
        self.remember_version(&stored);
        self.hidden.push(object.key());
    }

    fn remember_version(&mut self, stored: &Value) {
        if stored["kind"] == "PersistentVolumeClaim" {
            let version =
                stored["metadata"]["resourceVersion"].as_str().expect("a stored object has a version");
            self.claim_versions.insert(version.to_owned());
        }
    }

    fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.fake.get(key.kind().as_str(), key.namespace(), key.name())
    }

    /// Makes a request that the program knows nothing of.
    fn request(&self, method: &str, path: &str, body: &str) {
        let (code, answer) = self.fake.request(method, path, "application/merge-patch+json", body.as_bytes());
        assert_eq!(code, 200, "{method} {path}: {}", String::from_utf8_lossy(&answer));
    }

    /// Removes an object of which no watch hears.
    pub fn forget(&self, key: &Key) {
        assert!(self.fake.forget(key.kind().as_str(), key.namespace(), key.name()), "{key} was there");
    }

    /// Deletes an object; watches see it. The server of the records knows no finalizers: here whoever they wait for
    /// is done at once.
    pub fn delete(&self, key: &Key) {
        let path = match key.kind() {
            Kind::Volume => format!("/api/v1/persistentvolumes/{}", key.name()),
            _ => format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", key.namespace(), key.name()),
        };
        self.request("DELETE", &path, "");
        if self.get(key).is_some() {
            self.request("PATCH", &path, r#"{"metadata": {"finalizers": null}}"#);
        }
        assert!(self.get(key).is_none(), "{key} is still there");
    }

    /// Follows how far the store has come.
    pub fn changes(&self) -> Receiver<Change> {
        self.fake.changes()
    }

    /// The claims and volumes, the hidden ones too.
    pub fn objects(&self) -> BTreeMap<Key, Object> {
        let hidden = self.hidden.iter().filter_map(|key| self.get(key));
        let objects = self.fake.objects().into_iter().chain(hidden).filter_map(|value| object(&value));
        objects.map(|object| (object.key(), object)).collect()
    }

    /// Everything that was asked through clients, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.wire.lock().expect("no panic").clone()
    }
}

/// Keeps a request and the code of its answer.
async fn keep(State(wire): State<Wire>, request: axum::extract::Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a request in memory is whole");
    let place = Request::parse(parts.method.as_str(), parts.uri.path(), &body).map(|request| {
        let mut wire = wire.lock().expect("no panic");
        wire.push(request);
        wire.len() - 1
    });
    if place.is_some_and(|place| place >= MOST) {
        std::future::pending::<()>().await;
    }
    let answer = next.run(axum::extract::Request::from_parts(parts, Body::from(body))).await;
    if let Some(place) = place {
        wire.lock().expect("no panic")[place].code = answer.status().as_u16();
    }
    answer
}

impl Request {
    fn parse(method: &str, path: &str, body: &[u8]) -> Option<Self> {
        let mut parts = path.trim_start_matches('/').split('/');
        // `api/VERSION/…` or `apis/GROUP/VERSION/…`, then perhaps `namespaces/NAME`.
        let in_group = parts.next()? == "apis";
        parts.nth(usize::from(in_group))?;
        let mut rest: Vec<&str> = parts.collect();
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            rest.drain(..2);
        }
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        if method == "GET" && part(1).is_empty() {
            return None;
        }
        Some(Request {
            method: method.to_owned(),
            resource: part(0),
            name: part(1),
            subresource: part(2),
            body: serde_json::from_slice(body).unwrap_or_default(),
            code: 0,
        })
    }

    pub fn is_of_claim_or_volume(&self) -> bool {
        matches!(self.resource.as_str(), "persistentvolumeclaims" | "persistentvolumes")
    }

    /// The event that the request posts, as `TYPE REASON MESSAGE`.
    pub fn event(&self) -> Option<String> {
        let text = |field: &str| self.body[field].as_str().unwrap_or_default().to_owned();
        (self.method == "POST" && self.resource == "events")
            .then(|| format!("{} {} {}", text("type"), text("reason"), text("note")))
    }

    /// The request as upstream's trace has it: (verb, resource, subresource, name).
    pub fn call(&self) -> Option<(String, String, String, String)> {
        let verb = match self.method.as_str() {
            "GET" => "get",
            "POST" => "create",
            // We send of an object what differs, upstream all of it.
            "PATCH" => "update",
            "DELETE" => "delete",
            other => other,
        };
        let name = if self.name.is_empty() {
            self.body["metadata"]["name"].as_str().unwrap_or_default()
        } else {
            &self.name
        };
        let call = (verb.to_owned(), self.resource.clone(), self.subresource.clone(), name.to_owned());
        self.is_of_claim_or_volume().then_some(call)
    }

    /// The volume that the request has created.
    pub fn created(&self) -> Option<Value> {
        (self.method == "POST" && self.resource == "persistentvolumes" && self.code < 300)
            .then(|| self.body.clone())
    }

    /// The write of a claim or volume: (resource, subresource, name, patch).
    pub fn write(&self, server: &Server) -> Option<(String, String, String, Value)> {
        if self.method != "PATCH" || !self.is_of_claim_or_volume() {
            return None;
        }
        let mut body = self.body.clone();
        // A reference names the version of the claim that was decided on. What is version 1 in the records has
        // another name at this server.
        if let Some(version) = body.pointer_mut("/spec/claimRef/resourceVersion")
            && version.as_str().is_some_and(|version| server.claim_versions.contains(version))
        {
            *version = Value::from("1");
        }
        Some((self.resource.clone(), self.subresource.clone(), self.name.clone(), body))
    }
}

fn json(object: &Object) -> Value {
    let value = match object {
        Object::Claim(claim) => serde_json::to_value(&**claim),
        Object::Volume(volume) => serde_json::to_value(&**volume),
        Object::Class(class) => serde_json::to_value(&**class),
        Object::Pod(pod) => serde_json::to_value(&**pod),
        Object::Node(node) => serde_json::to_value(&**node),
        other => panic!("no record has {}", other.key()),
    };
    value.expect("an API object serialises")
}

/// A claim or volume of the server; `None` for objects of other kinds.
fn object(value: &Value) -> Option<Object> {
    let value = value.clone();
    match value["kind"].as_str() {
        Some("PersistentVolumeClaim") => {
            Some(Object::Claim(Arc::new(serde_json::from_value(value).expect("a claim"))))
        }
        Some("PersistentVolume") => {
            Some(Object::Volume(Arc::new(serde_json::from_value(value).expect("a volume"))))
        }
        _ => None,
    }
}
