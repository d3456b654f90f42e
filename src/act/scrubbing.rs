//! What is told of scrubbing pods is told of their volumes too.
//!
//! While such a pod is there, the events about it are watched, and each is repeated on the volume: who looks at a volume
//! that is not scrubbed sees why, such as an image that cannot be pulled. Decides nothing, and stops for no error: a
//! watch that fails is tried again. Answers to the events that upstream's `recyclerclient` passes on.

use std::collections::BTreeMap;

use futures::stream::{BoxStream, SelectAll, StreamExt};
use k8s_openapi::api::core::v1::Event as Told;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::oneshot;

use crate::cluster::{Cluster, Key, Object};
use crate::decide::Event;
use crate::objects::{pod, uid};

/// An event about a scrubbing pod, and the volume that the pod scrubs.
pub type Passed = (Key, Told);

/// The pods that are followed.
#[derive(Default)]
pub struct Scrubbing {
    /// Dropping one of these ends the watch.
    followed: BTreeMap<Key, (String, oneshot::Sender<()>)>,
    told: SelectAll<BoxStream<'static, Passed>>,
}

impl Scrubbing {
    /// Nobody is followed yet.
    #[must_use]
    pub fn new() -> Self {
        Scrubbing::default()
    }

    /// Looks at an object that may be a scrubbing pod which has come or gone.
    pub fn see(&mut self, client: &Client, cluster: &Cluster, key: &Key) {
        let Some(volume) = pod::recycled_volume(key.namespace(), key.name()) else { return };
        let found = cluster.known(key).and_then(Object::as_pod).map(|pod| uid(&pod.metadata).to_owned());
        let followed = self.followed.get(key).map(|(uid, _)| uid);
        if followed == found.as_ref() {
            return;
        }
        self.followed.remove(key);
        let Some(uid) = found else { return };
        let (stop, stopped) = oneshot::channel();
        self.told.push(follow(client, key, Key::volume(volume), uid.clone()).take_until(stopped).boxed());
        self.followed.insert(key.clone(), (uid, stop));
    }

    /// All pods have been listed: looks at those that are followed.
    pub fn see_all(&mut self, client: &Client, cluster: &Cluster) {
        let followed: Vec<Key> = self.followed.keys().cloned().collect();
        for key in followed {
            self.see(client, cluster, &key);
        }
    }

    /// The next event that was told; waits for ever where nobody is followed.
    pub async fn next(&mut self) -> Passed {
        match self.told.next().await {
            Some(passed) => passed,
            None => std::future::pending().await,
        }
    }
}

/// The events about one pod.
fn follow(client: &Client, pod: &Key, volume: Key, uid: String) -> BoxStream<'static, Passed> {
    let api: Api<Told> = Api::namespaced(client.clone(), pod.namespace());
    let about = watcher::Config::default().fields(&format!("involvedObject.name={}", pod.name()));
    let events = watcher(api, about).default_backoff().filter_map(move |event| {
        let told = match event {
            Ok(watcher::Event::Apply(told) | watcher::Event::InitApply(told)) => Some(told),
            Ok(watcher::Event::Init | watcher::Event::InitDone | watcher::Event::Delete(_)) => None,
            Err(error) => {
                tracing::debug!(%volume, %error, "events about the scrubbing pod");
                None
            }
        };
        let told = told.filter(|told| told.involved_object.uid.as_deref() == Some(uid.as_str()));
        std::future::ready(told.map(|told| (volume.clone(), told)))
    });
    events.boxed()
}

/// The event as it is told of the volume.
#[must_use]
pub fn passed_on(volume: &Key, told: &Told) -> Event {
    let message = format!("Recycler pod: {}", told.message.as_deref().unwrap_or_default());
    if told.type_.as_deref() == Some("Warning") {
        Event::warning(volume, "RecyclerPod", message)
    } else {
        Event::normal(volume, "RecyclerPod", message)
    }
}
