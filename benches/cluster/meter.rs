//! What a run cost: when things were bound, what the API server counted, what processes used.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long everything may take to be bound.
const PATIENCE: Duration = Duration::from_secs(600);

/// When each claim was bound, or each pod placed, as a watch saw it.
pub struct Seen {
    done: tokio::sync::watch::Receiver<BTreeMap<String, Instant>>,
    watch: JoinHandle<()>,
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

fn is_placed(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

impl Seen {
    /// Watches from now on.
    pub fn watch(client: &Client, pods: bool) -> Self {
        let config = watcher::Config::default();
        let names: std::pin::Pin<Box<dyn Stream<Item = String> + Send>> = if pods {
            let objects = watcher(Api::<Pod>::default_namespaced(client.clone()), config).applied_objects();
            let placed = objects.try_filter(|pod| std::future::ready(is_placed(pod)));
            Box::pin(placed.filter_map(async |pod| pod.ok()?.metadata.name))
        } else {
            let objects = watcher(Api::<PersistentVolumeClaim>::default_namespaced(client.clone()), config);
            let bound = objects.applied_objects().try_filter(|claim| std::future::ready(is_bound(claim)));
            Box::pin(bound.filter_map(async |claim| claim.ok()?.metadata.name))
        };
        let (known, done) = tokio::sync::watch::channel(BTreeMap::new());
        let watch = tokio::spawn(names.for_each(move |name| {
            known.send_modify(|all: &mut BTreeMap<String, Instant>| {
                all.entry(name).or_insert_with(Instant::now);
            });
            std::future::ready(())
        }));
        Seen { done, watch }
    }

    /// Waits until so many are done; when each was, the first one first.
    pub async fn wait(&self, count: usize) -> BTreeMap<String, Instant> {
        let mut done = self.done.clone();
        let all = tokio::time::timeout(PATIENCE, done.wait_for(|done| done.len() >= count)).await;
        let seen = self.done.borrow().len();
        all.unwrap_or_else(|_| panic!("{seen} of {count} are bound in {PATIENCE:?}"))
            .expect("it watches")
            .clone()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// What the API server has been asked to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// Writes that it took, without events and leases.
    pub taken: u64,
    /// Writes that it refused since the object had changed.
    pub conflicts: u64,
}

impl Writes {
    pub async fn so_far(client: &Client) -> Self {
        let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
        let text = client.request_text(request).await.expect("it has metrics");
        let mut writes = Writes::default();
        for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
            let has = |label: &str, values: &[&str]| {
                values.iter().any(|value| line.contains(&format!("{label}=\"{value}\"")))
            };
            let kinds = ["persistentvolumes", "persistentvolumeclaims", "pods"];
            if !has("verb", &["POST", "PUT", "PATCH", "DELETE"]) || !has("resource", &kinds) {
                continue;
            }
            let count: f64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count");
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it counts requests")]
            let count = count as u64;
            if has("code", &["409"]) {
                writes.conflicts += count;
            } else if has("code", &["200", "201"]) {
                writes.taken += count;
            }
        }
        writes
    }
}

/// What processes have used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The most memory that was resident, in MiB.
    pub memory: f64,
    /// Processor time.
    pub cpu: Duration,
}

impl Usage {
    /// Of these processes together.
    pub fn of(processes: &[u32]) -> Self {
        processes.iter().fold(Usage::default(), |sum, process| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
            let peak: f64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
            // Behind the name, which may hold anything: the state, and ten fields before the two times.
            let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
            let ticks: u64 = fields[11..13].iter().map(|time| time.parse::<u64>().expect("ticks")).sum();
            Usage { memory: sum.memory + peak / 1024.0, cpu: sum.cpu + Duration::from_millis(ticks * 10) }
        })
    }
}
