//! A client that lists and watches, as client-go's reflector does: it lists in one of three ways, watches from there, and lists
//! again when it is told that its version is too old.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use fake_apiserver::FakeApiServer;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::story::send;

/// How the first state is had.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// A list in pages of so many.
    Pages(usize),
    /// A list from the cache, as it may be.
    List,
    /// A watch that sends it first.
    Stream,
}

/// By namespace and name.
pub type Objects = BTreeMap<String, Value>;

pub struct Follower {
    path: &'static str,
    selector: &'static str,
    mode: Mode,
    objects: Objects,
    /// What a streaming list has shown before its end.
    coming: Option<Objects>,
    version: Option<String>,
    watch: Option<Body>,
    lists: usize,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.version.as_deref().unwrap_or_default();
        write!(
            f,
            "{}?{} in mode {:?} at {version} after {} lists",
            self.path, self.selector, self.mode, self.lists
        )
    }
}

fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn number(version: &str) -> u64 {
    version.parse().unwrap()
}

/// What a list shows, and its version. Items of a list have no type; what is kept has none either.
fn items(list: &Value) -> (Objects, String) {
    let items = list["items"].as_array().unwrap().iter().map(|item| (key(item), item.clone())).collect();
    (items, list["metadata"]["resourceVersion"].as_str().unwrap().to_owned())
}

/// A list that nothing goes wrong with.
pub async fn fresh(server: &FakeApiServer, path: &str) -> (Objects, String) {
    let (code, list) = send(server, "GET", path, &Value::Null).await.unwrap();
    assert_eq!(code, 200, "{list}");
    items(&list)
}

impl Follower {
    pub fn new(path: &'static str, selector: &'static str, mode: Mode) -> Self {
        Self {
            path,
            selector,
            mode,
            objects: Objects::new(),
            coming: None,
            version: None,
            watch: None,
            lists: 0,
        }
    }

    pub fn list_path(&self) -> String {
        format!("{}?{}", self.path, self.selector)
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// One attempt to know more; whatever goes wrong, the next one goes on from what is known.
    pub async fn look(&mut self, server: &FakeApiServer) {
        if self.watch.is_none() {
            if self.version.is_none() && !matches!(self.mode, Mode::Stream) {
                self.list(server).await;
                if self.version.is_none() {
                    return;
                }
            }
            self.open(server).await;
        }
        self.read().await;
    }

    /// Looks until it knows all that there is; nothing goes wrong any more.
    pub async fn catch_up(&mut self, server: &FakeApiServer) {
        for _ in 0..10 {
            self.look(server).await;
            if self.version.is_some() && self.watch.is_some() {
                return;
            }
        }
        panic!("{self:?} never gets a watch that lasts");
    }

    async fn list(&mut self, server: &FakeApiServer) {
        self.lists += 1;
        let (limit, version) = match self.mode {
            Mode::Pages(limit) => (format!("&limit={limit}"), ""),
            Mode::List | Mode::Stream => (String::new(), "&resourceVersion=0"),
        };
        let (mut found, mut token, mut first) = (Objects::new(), String::new(), true);
        loop {
            let path = match &*token {
                "" => format!("{}{limit}{version}", self.list_path()),
                token => format!("{}{limit}&continue={}", self.list_path(), token.replace('=', "%3D")),
            };
            let Some((200, page)) = send(server, "GET", &path, &Value::Null).await else { return };
            let (items, version) = items(&page);
            for (key, object) in items {
                assert!(found.insert(key, object).is_none(), "{self:?} is shown an object on two pages");
            }
            if first {
                self.version = None;
                first = false;
            }
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut token);
            if token.is_empty() {
                self.objects = found;
                self.version = Some(version);
                return;
            }
        }
    }

    async fn open(&mut self, server: &FakeApiServer) {
        let from = if let Some(version) = &self.version {
            format!("&resourceVersion={version}")
        } else {
            self.lists += 1;
            self.coming = Some(Objects::new());
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned()
        };
        let path = format!("{}&watch=true&allowWatchBookmarks=true{from}", self.list_path());
        let response =
            server.router().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        match response.status().as_u16() {
            200 => self.watch = Some(response.into_body()),
            410 => self.start_over(),
            _ => self.coming = None,
        }
    }

    fn start_over(&mut self) {
        (self.version, self.watch, self.coming) = (None, None, None);
    }

    /// Reads what there is. Time stands still but for those who wait, so a short patience is enough.
    async fn read(&mut self) {
        while let Some(watch) = &mut self.watch {
            let Ok(frame) = tokio::time::timeout(Duration::from_millis(1), watch.frame()).await else {
                return;
            };
            let Some(Ok(frame)) = frame else {
                // A streaming list that did not end is worth nothing.
                (self.watch, self.coming) = (None, None);
                return;
            };
            let lines = frame.into_data().unwrap();
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                self.take(&serde_json::from_slice(line).unwrap());
            }
        }
    }

    fn take(&mut self, event: &Value) {
        let mut object = event["object"].clone();
        let type_ = event["type"].as_str().unwrap();
        if type_ == "ERROR" {
            assert_eq!(object["code"], 410, "{self:?}: {object}");
            return self.start_over();
        }
        let version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        if type_ == "BOOKMARK" {
            if object["metadata"]["annotations"] == json!({"k8s.io/initial-events-end": "true"}) {
                self.objects = self.coming.take().unwrap();
            }
            assert!(
                self.version.as_ref().is_none_or(|last| number(last) <= number(&version)),
                "{self:?}: back to {version}"
            );
            self.version = Some(version);
            return;
        }
        for field in ["kind", "apiVersion"] {
            object.as_object_mut().unwrap().remove(field);
        }
        if self.coming.is_none() {
            let last = self.version.as_deref().unwrap_or("0");
            assert!(number(last) < number(&version), "{self:?}: {type_} {} at {version}", key(&object));
            self.version = Some(version);
        }
        let shown = format!("{self:?}: {type_} {}", key(&object));
        let objects = self.coming.as_mut().unwrap_or(&mut self.objects);
        match type_ {
            "ADDED" => assert!(objects.insert(key(&object), object).is_none(), "{shown}, which is known"),
            "MODIFIED" => {
                assert!(objects.insert(key(&object), object).is_some(), "{shown}, which is not known");
            }
            _ => assert!(objects.remove(&key(&object)).is_some(), "{shown}, which is not known"),
        }
    }
}
