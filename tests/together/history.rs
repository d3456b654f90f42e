//! Every version of every claim and volume, in the order in which the API server had them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{BoxStream, select};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// One thing that a watch told.
#[derive(Clone, Debug)]
pub struct Version {
    /// When, by the server's count.
    pub at: u64,
    /// Whether it is gone with this.
    pub gone: bool,
    pub object: Value,
}

impl Version {
    pub fn is_volume(&self) -> bool {
        self.object["spec"].get("capacity").is_some()
    }
}

#[derive(Default)]
struct Told {
    versions: Vec<Version>,
    last: Option<Instant>,
}

/// What is told, while it is told.
pub struct History {
    told: Arc<Mutex<Told>>,
    task: JoinHandle<()>,
}

fn versions<K>(client: &Client) -> BoxStream<'static, Vec<Version>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned + Send + 'static,
{
    let version = |object: &K, gone: bool| {
        let at = object.meta().resource_version.as_deref().and_then(|version| version.parse().ok());
        let object = serde_json::to_value(object).expect("an object");
        Version { at: at.expect("a version"), gone, object }
    };
    watcher(Api::<K>::all(client.clone()), watcher::Config::default())
        .map(move |event| match event.expect("the watch works") {
            Event::Init | Event::InitDone => Vec::new(),
            Event::InitApply(object) | Event::Apply(object) => vec![version(&object, false)],
            Event::Delete(object) => vec![version(&object, true)],
        })
        .boxed()
}

impl History {
    /// Begins to listen; nothing is there yet.
    pub fn listen(client: &Client) -> Self {
        let told: Arc<Mutex<Told>> = Arc::default();
        let mut all = select(versions::<PersistentVolume>(client), versions::<PersistentVolumeClaim>(client));
        let into = Arc::clone(&told);
        let task = tokio::spawn(async move {
            while let Some(versions) = all.next().await {
                let mut told = into.lock().expect("nobody panics here");
                if !versions.is_empty() {
                    told.last = Some(Instant::now());
                }
                told.versions.extend(versions);
            }
        });
        History { told, task }
    }

    /// Waits until nothing has changed for so long; says how long it took until the last change.
    pub async fn quiet(&self, quiet: Duration, limit: Duration) -> Duration {
        let start = Instant::now();
        loop {
            assert!(!self.task.is_finished(), "the watch has ended");
            let last = self.told.lock().expect("nobody panics here").last.unwrap_or(start).max(start);
            if last.elapsed() >= quiet {
                return last.duration_since(start);
            }
            assert!(start.elapsed() < limit + quiet, "things still change {limit:?} after the burst");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// All versions in their order.
    pub fn end(self) -> Vec<Version> {
        self.task.abort();
        let mut versions = self.told.lock().expect("nobody panics here").versions.clone();
        versions.sort_by_key(|version| version.at);
        versions
    }
}
