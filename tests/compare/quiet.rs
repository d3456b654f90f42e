//! Waiting until nothing moves: the end of a world.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{CLAIM, CLASS, Cluster, EVENT, POD, VOLUME, named, text};

/// How often is looked.
const STEP: Duration = Duration::from_millis(250);
/// How long a world may go on moving.
const LIMIT: Duration = Duration::from_secs(90);

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub pods: Vec<Value>,
    pub classes: Vec<Value>,
    pub events: Vec<Value>,
}

impl Snapshot {
    async fn take(cluster: &Cluster) -> Self {
        let (claims, volumes, pods, classes, events) = tokio::join!(
            cluster.list(CLAIM),
            cluster.list(VOLUME),
            cluster.list(POD),
            cluster.list(CLASS),
            cluster.list(EVENT),
        );
        Snapshot { claims, volumes, pods, classes, events }
    }

    /// The objects, with their kinds.
    pub fn objects(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let claims = self.claims.iter().map(|object| (CLAIM.name, object));
        let volumes = self.volumes.iter().map(|object| (VOLUME.name, object));
        let pods = self.pods.iter().map(|object| (POD.name, object));
        let classes = self.classes.iter().map(|object| (CLASS.name, object));
        claims.chain(volumes).chain(pods).chain(classes)
    }

    /// What changes when something moves. Events that are only repeated do not.
    fn mark(&self, sets: &[Value]) -> BTreeSet<String> {
        let objects = self.objects().map(|(_, object)| object).chain(sets);
        let versions = objects.map(|object| {
            format!("{} {}", text(object, "/metadata/uid"), text(object, "/metadata/resourceVersion"))
        });
        let events = self.events.iter().map(|event| {
            let uid = text(event, "/involvedObject/uid");
            format!("{} {} {}", uid, text(event, "/reason"), text(event, "/message"))
        });
        versions.chain(events).collect()
    }
}

/// Who was there at any time: uid, and whose it is.
pub type Census = BTreeMap<String, String>;

fn count(census: &mut Census, snapshot: &Snapshot) {
    for (kind, object) in snapshot.objects() {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let whose = if namespace.is_empty() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {namespace}/{name}")
        };
        census.insert(text(object, "/metadata/uid").to_owned(), whose);
    }
}

/// Waits until nothing has moved for so long.
///
/// # Errors
/// When it moves on and on.
pub async fn settle(cluster: &Cluster, quiet: Duration, census: &mut Census) -> Result<Snapshot, String> {
    let start = Instant::now();
    let (mut last, mut seen) = (start, BTreeSet::new());
    loop {
        let snapshot = Snapshot::take(cluster).await;
        count(census, &snapshot);
        // Pods may still have to be made.
        let sets = cluster.list(named("StatefulSet")).await;
        let mark = snapshot.mark(&sets);
        if mark != seen {
            (last, seen) = (Instant::now(), mark);
        }
        if last.elapsed() > quiet {
            return Ok(snapshot);
        }
        if start.elapsed() > LIMIT {
            return Err(format!("things still move after {} s", LIMIT.as_secs()));
        }
        tokio::time::sleep(STEP).await;
    }
}
