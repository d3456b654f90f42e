//! What is asked of either server: claims are created, patched, watched and listed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use serde_json::json;
use tokio::sync::Barrier;
use tokio::time::timeout;

use crate::wire::{Connection, JSON, MERGE, Place};

/// How many requests are under way at once.
pub const AT_ONCE: usize = 64;
/// How many connections write while somebody lists.
const BESIDE: usize = 8;
/// How often the list is asked for.
const LISTS: usize = 9;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where the claims of a namespace are.
fn claims(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
}

/// A claim as people write them.
pub fn claim(name: &str) -> Bytes {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    claim.to_string().into()
}

/// A patch that changes an annotation.
pub fn patch(round: usize) -> Bytes {
    json!({"metadata": {"annotations": {"example.test/round": round.to_string()}}}).to_string().into()
}

fn per_second(count: usize, start: Instant) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "nobody makes so many requests")]
    let count = count as f64;
    count / start.elapsed().as_secs_f64()
}

/// Gives each number to the next connection that is free; how many requests that was in a second.
async fn spread(connections: &mut [Connection], count: usize, request: impl Fn(usize) -> Wanted) -> f64 {
    let (next, request, start) = (AtomicUsize::new(0), &request, Instant::now());
    let workers = connections.iter_mut().map(async |connection| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let (method, path, kind, body) = request(number);
            connection.ask(method, &path, kind, body).await;
        }
    });
    timeout(PATIENCE, join_all(workers)).await.expect("it answers in time");
    per_second(count, start)
}

/// Method, path, type and body of a request.
type Wanted = (&'static str, String, &'static str, Bytes);

/// Makes a namespace.
pub async fn namespace(place: &Place, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
    let mut connection = place.connect().await.expect("it listens");
    connection.ask("POST", "/api/v1/namespaces", JSON, body.into()).await;
}

/// Creates so many claims.
pub async fn create(connections: &mut [Connection], namespace: &str, count: usize) -> f64 {
    let path = claims(namespace);
    spread(connections, count, |number| ("POST", path.clone(), JSON, claim(&format!("claim-{number}")))).await
}

/// Patches each of so many claims.
pub async fn patch_all(connections: &mut [Connection], namespace: &str, count: usize) -> f64 {
    let path = claims(namespace);
    spread(connections, count, |number| ("PATCH", format!("{path}/claim-{number}"), MERGE, patch(number)))
        .await
}

/// What writing under the eyes of many came to.
pub struct Watched {
    /// Writes in a second.
    pub writes: f64,
    /// Events in a second, over all watchers, until the last one had the last.
    pub events: f64,
    /// How many watches the server ended, since they had not kept up.
    pub cut: usize,
}

/// Creates so many claims in an empty namespace while so many watch it.
pub async fn watched(
    place: &Place,
    connections: &mut [Connection],
    watchers: usize,
    count: usize,
) -> Watched {
    namespace(place, "watched").await;
    let path = format!("{}?watch=true", claims("watched"));
    let open = Arc::new(Barrier::new(watchers + 1));
    let mut watching = Vec::new();
    for connection in place.connections(watchers).await {
        let (path, open) = (path.clone(), open.clone());
        watching.push(tokio::spawn(async move {
            let (told, heard) = tokio::sync::oneshot::channel();
            let watch = connection.watch(&path, || told.send(()).expect("it is heard"), count);
            let ready = async {
                heard.await.expect("it is told");
                open.wait().await;
            };
            tokio::join!(watch, ready).0
        }));
    }
    timeout(PATIENCE, open.wait()).await.expect("all watches open");
    let start = Instant::now();
    let writes = create(connections, "watched", count).await;
    let (mut events, mut cut) = (0, 0);
    for watcher in watching {
        let seen = timeout(PATIENCE, watcher).await.expect("it ends").expect("it does not panic");
        events += seen;
        cut += usize::from(seen < count);
    }
    Watched { writes, events: per_second(events, start), cut }
}

/// What listing while others write came to.
pub struct Listed {
    /// The middle one of the times that a whole list took.
    pub list: Duration,
    /// Writes in a second meanwhile.
    pub writes: f64,
}

/// Lists so many claims of a namespace while they are patched.
pub async fn listed(place: &Place, connections: &mut [Connection], count: usize) -> Listed {
    namespace(place, "listed").await;
    create(connections, "listed", count).await;
    let mut reader = place.connect().await.expect("it listens");
    let (path, done) = (claims("listed"), AtomicBool::new(false));
    let (start, patched) = (Instant::now(), AtomicUsize::new(0));
    let lists = async {
        let mut times = Vec::new();
        for _ in 0..LISTS {
            let start = Instant::now();
            assert!(reader.ask("GET", &path, JSON, Bytes::new()).await > count * 100, "the list is whole");
            times.push(start.elapsed());
        }
        done.store(true, Ordering::Relaxed);
        times.sort_unstable();
        times[LISTS / 2]
    };
    let writes = join_all(connections[..BESIDE].iter_mut().map(async |connection| {
        while !done.load(Ordering::Relaxed) {
            let number = patched.fetch_add(1, Ordering::Relaxed);
            let path = format!("{path}/claim-{}", number % count);
            connection.ask("PATCH", &path, MERGE, patch(number)).await;
        }
    }));
    let (list, _) =
        timeout(PATIENCE, futures::future::join(lists, writes)).await.expect("it answers in time");
    Listed { list, writes: per_second(patched.into_inner(), start) }
}
