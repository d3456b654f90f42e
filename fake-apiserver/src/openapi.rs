//! Decides what the server says of its API in the words of `OpenAPI`: an index, a document for each group and
//! version, and the older single document. Paths follow from the table of kinds, schemas are those of
//! `schema`. Only JSON is written: whoever wants protocol buffers alone is refused. Answers to
//! `k8s.io/kube-openapi/pkg/handler3` and `.../handler`.

mod paths;
mod published;
mod swagger;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, JSON, TEXT};
use crate::hash;
use crate::kinds::{Kind, Kinds};
use crate::negotiate::{self, Form};
use crate::request::Request;
use crate::schema;
use crate::status::{Result, Status};
use published::Edition;

/// A document and its hash.
struct Document {
    bytes: Bytes,
    hash: String,
}

impl Document {
    fn new(value: &Value) -> Arc<Self> {
        let bytes = Bytes::from(value.to_string());
        Arc::new(Self { hash: hash::of(&bytes), bytes })
    }
}

/// The documents of groups without custom kinds: they are the same in every server.
static BUILT_IN: LazyLock<Mutex<HashMap<String, Arc<Document>>>> = LazyLock::new(Mutex::default);

pub(crate) fn answer(kinds: &Kinds, request: &Request, segments: &[String]) -> Result<Answer> {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    // The newer documents are given whatever the method is.
    if !matches!(request.method.as_str(), "GET" | "HEAD") && parts.get(1) != Some(&"v3") {
        return Err(Status::method_not_allowed());
    }
    if negotiate::choose(&request.accept, |form, convert| form != Form::Protobuf && convert.is_none())
        .is_none()
    {
        let message = "only application/json is written: send Accept: application/json";
        return Err(Box::new(Status::new(406, "NotAcceptable", message)));
    }
    match &parts[..] {
        ["openapi", "v3"] => Ok(index(kinds)),
        ["openapi", "v3", path @ ..] => Ok(match document(kinds, &path.join("/")) {
            Some(document) => send(request, &document),
            None => Answer::no_page(),
        }),
        ["openapi", "v2"] => {
            let document = Document::new(&swagger::document(kinds));
            let answer = Answer::tagged(JSON, document.bytes.clone(), &request.none_match);
            Ok(answer.with_header("vary", "Accept-Encoding").with_header("vary", "Accept"))
        }
        _ => Ok(Answer::no_page()),
    }
}

/// Where each document is, with its hash, so that a client reads again only what has changed.
fn index(kinds: &Kinds) -> Answer {
    let mut paths = BTreeMap::new();
    let versions = versions(kinds);
    let names = versions.iter().map(|(group, version)| name(group, version));
    for name in names.chain(["version".to_owned()]) {
        if let Some(document) = document(kinds, &name) {
            let url = format!("/openapi/v3/{name}?hash={}", document.hash);
            paths.insert(name, json!({"serverRelativeURL": url}));
        }
    }
    let index = json!({"paths": paths}).to_string();
    let mut answer = Answer::text(200, index);
    answer.content_type = TEXT;
    answer
}

fn send(request: &Request, document: &Document) -> Answer {
    let wanted = request.query.get("hash");
    if !wanted.is_empty() && wanted != document.hash {
        let url = format!("{}?hash={}", request.path, document.hash);
        let mut answer = Answer::text(301, "").with_header("location", url);
        answer.content_type = JSON;
        return answer;
    }
    let kept = if wanted.is_empty() { "no-cache, private" } else { "public, immutable" };
    Answer::tagged(JSON, document.bytes.clone(), &request.none_match)
        .with_header("vary", "Accept")
        .with_header("cache-control", kept)
}

/// Every group and version that is served.
fn versions(kinds: &Kinds) -> Vec<(String, String)> {
    let mut versions: Vec<(String, String)> =
        kinds.all().iter().map(|kind| (kind.group.to_string(), kind.version.to_string())).collect();
    versions.sort();
    versions.dedup();
    versions
}

/// `api/v1` or `apis/apps/v1`.
fn name(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn document(kinds: &Kinds, name: &str) -> Option<Arc<Document>> {
    let parts: Vec<&str> = name.split('/').collect();
    let (group, version) = match parts[..] {
        ["api", version] => ("", version),
        ["apis", group, version] => (group, version),
        ["version"] => return Some(Document::new(&envelope(&paths::version(), &Map::new()))),
        _ => return None,
    };
    let of: Vec<&Kind> = kinds_of(kinds, group, version).collect();
    if of.is_empty() {
        return None;
    }
    let make = || {
        let (paths, schemas) = (paths::of(&of), components(&of, group, version, Edition::Three));
        let defined = of.iter().all(|kind| kind.definition.is_some());
        let document = if defined { envelope_of_definitions } else { envelope };
        Document::new(&document(&paths, &schemas))
    };
    if of.iter().any(|kind| kind.custom) {
        return Some(make());
    }
    let mut documents = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
    Some(documents.entry(name.to_owned()).or_insert_with(make).clone())
}

fn kinds_of<'a>(kinds: &'a Kinds, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Kind> {
    let all = kinds.all().iter().map(Arc::as_ref);
    all.filter(move |kind| kind.group == group && kind.version == version)
}

fn envelope(paths: &Map<String, Value>, schemas: &Map<String, Value>) -> Value {
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        },
    })
}

/// What is around the documents of groups that come from definitions.
fn envelope_of_definitions(paths: &Map<String, Value>, schemas: &Map<String, Value>) -> Value {
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}, "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The schemas of a document.
fn components(kinds: &[&Kind], group: &str, version: &str, edition: Edition) -> Map<String, Value> {
    let mut schemas = Map::new();
    if kinds.iter().any(|kind| kind.definition.is_none()) {
        schemas = schema::components(group, version);
    }
    for kind in kinds.iter().filter(|kind| kind.custom) {
        let (one, all) = (component_name(kind, ""), list_name(kind));
        let list = published::list(kind, &one, edition);
        let mut used = vec![OBJECT_META, LIST_META, DELETE_OPTIONS, PATCH, STATUS];
        used.extend(kind.has_subresource("scale").then_some(SCALE));
        for (name, component) in schema::with_references(&used) {
            schemas.entry(name).or_insert(component);
        }
        schemas.insert(one, published::object(kind, edition));
        schemas.insert(all, list);
    }
    schemas
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The name of the schema of a kind's lists.
fn list_name(kind: &Kind) -> String {
    if kind.definition.is_none() {
        return component_name(kind, "List");
    }
    format!("{}.{}.{}", reversed(&kind.group), kind.version, kind.list_kind())
}

fn reversed(group: &str) -> String {
    group.rsplit('.').collect::<Vec<&str>>().join(".")
}

/// The name of the schema of a kind, or of its list.
fn component_name(kind: &Kind, ending: &str) -> String {
    let name = format!("{}{ending}", kind.kind);
    if let Some(known) = schema::name_of(&kind.api_version(), &name) {
        return known.to_owned();
    }
    format!("{}.{}.{name}", reversed(&kind.group), kind.version)
}
