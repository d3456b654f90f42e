//! What placing pods costs, in real time: many at once through the whole loop, binding one claim that has its volume, and
//! looking at every node for one pod.
//!
//! `cargo bench --bench scheduler [N…]` prints pods per second for N pods with a local volume each (500 and 5,000), on N / 10
//! nodes but at least 100, each with ten volumes, by the production loop with both roles on the API server in the same
//! process; then the time from the request that reserves a volume to the one that places its pod; then the time to filter 500
//! and 5,000 nodes with two volumes each for one pod. Growth is told against the first size: 1.0 is linear, 10.0 at ten times
//! the size is quadratic. A pod looks at every node, so ten times the pods on five times the nodes is 5.0 times linear if
//! nothing else were done. Conflicts of the loop with itself are printed, and there are none.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fake_apiserver::{Call, FakeApiServer, Ids, Options, Plugins};
use kube::Client;
use pvbind::act::{self, Roles, Stats};
use pvbind::binder::{Cluster, Cycle};
use pvbind::cluster::{Key, Object};
use pvbind::decide::binder::fit::Wanted;
use pvbind::decide::binder::{Pods, place};
use pvbind::decide::{Settings, plugin};
use pvbind::objects::{Claim, Class, Node, Pod, Volume};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How many pods a node can run in the first measurement, and how many volumes it has.
const PODS: usize = 20;
const VOLUMES: usize = 10;
/// How often one claim is bound, and one pod filtered.
const RUNS: usize = 300;
/// How long nothing may change until all that was loaded is settled.
const QUIET: Duration = Duration::from_millis(500);

/// The same as the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn node(index: usize) -> Value {
    let name = format!("node-{index:04}");
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": PODS.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn volume(node: usize, index: usize) -> Value {
    let pin =
        json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [format!("node-{node:04}")]});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("volume-{node:04}-{index}")},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": format!("/mnt/{index}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [pin]}]}},
        },
        "status": {"phase": "Available"},
    })
}

fn claim(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{index:05}"), "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    })
}

fn pod(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{index:05}"), "namespace": "default"},
        "spec": {
            "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "10m"}}}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{index:05}")}}],
        },
    })
}

/// When each volume was reserved, and each pod placed, in the order of the requests.
#[derive(Default)]
struct Seen {
    reserved: Vec<Instant>,
    placed: Vec<Instant>,
}

/// The loop with both roles, on a server in the same process.
struct Loop {
    server: FakeApiServer,
    seen: Arc<Mutex<Seen>>,
    stop: oneshot::Sender<()>,
    program: JoinHandle<Stats>,
}

impl Loop {
    fn start(objects: impl Iterator<Item = Value>) -> Self {
        let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
        let options = Options { ids: Ids::Seeded(1), plugins, watch_buffer: 1 << 20, ..Options::default() };
        let server = FakeApiServer::new(options);
        objects.for_each(|object| drop(server.import(object).expect("the server takes it")));
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let noted = seen.clone();
        server.set_faults(Some(Arc::new(move |call: &Call| {
            let mut seen = noted.lock().expect("nobody panics while noting");
            match (call.resource.as_str(), call.verb, call.subresource.as_str()) {
                ("persistentvolumes", "patch", "") => seen.reserved.push(Instant::now()),
                ("pods", "create", "binding") => seen.placed.push(Instant::now()),
                _ => {}
            }
            None
        })));
        let (stop, stopped) = oneshot::channel();
        let client = Client::new(server.router(), "default");
        let roles = Roles { controller: true, scheduler: Some(Pods::All) };
        let settings = Settings { plugins: plugin::PROVISIONING, ..Settings::default() };
        let options = act::Options { settings, roles, ..act::Options::controller() };
        let program = tokio::spawn(async move {
            let stop = async {
                // A sender that is gone means stop as well.
                let _ = stopped.await;
            };
            act::run(client, options, stop).await.expect("the loop ends well").0
        });
        Loop { server, seen, stop, program }
    }

    async fn settle(&self) {
        let mut changes = self.server.changes();
        while tokio::time::timeout(QUIET, changes.changed()).await.is_ok() {}
    }

    async fn stop(self) -> Stats {
        self.stop.send(()).expect("it listens");
        self.program.await.expect("it does not panic")
    }
}

/// How many nodes there are for so many pods.
fn nodes_for(pods: usize) -> usize {
    (pods / VOLUMES).max(100)
}

/// Places so many pods at once; returns the seconds from the first pod to the last placing, and what the loop did.
async fn place_many(pods: usize) -> (f64, Stats) {
    let nodes = nodes_for(pods);
    let volumes = (0..nodes).flat_map(|node| (0..VOLUMES).map(move |index| volume(node, index)));
    let claims = (0..pods).map(claim);
    let objects = std::iter::once(class()).chain((0..nodes).map(node)).chain(volumes).chain(claims);
    let program = Loop::start(objects);
    program.settle().await;
    let begin = Instant::now();
    (0..pods).for_each(|index| drop(program.server.import(pod(index)).expect("the server takes it")));
    program.settle().await;
    let placed = program.seen.lock().expect("nobody notes any more").placed.clone();
    let objects = program.server.objects();
    let on_nodes = objects.iter().filter(|object| object["spec"]["nodeName"].is_string()).count();
    assert_eq!((placed.len(), on_nodes), (pods, pods), "each is placed once");
    let last = placed.last().expect("pods were placed");
    (last.duration_since(begin).as_secs_f64(), program.stop().await)
}

/// Binds one claim after the other; returns the times from reserving its volume to placing its pod.
async fn bind_one_by_one() -> Vec<Duration> {
    let nodes = RUNS / VOLUMES;
    let volumes = (0..nodes).flat_map(|node| (0..VOLUMES).map(move |index| volume(node, index)));
    let program = Loop::start(std::iter::once(class()).chain((0..nodes).map(node)).chain(volumes));
    program.settle().await;
    *program.seen.lock().expect("nobody panics while noting") = Seen::default();
    for index in 0..RUNS {
        let mut changes = program.server.changes();
        program.server.import(claim(index)).expect("the server takes it");
        program.server.import(pod(index)).expect("the server takes it");
        while program.seen.lock().expect("nobody panics while noting").placed.len() <= index {
            changes.changed().await.expect("the server is there");
        }
    }
    let seen = std::mem::take(&mut *program.seen.lock().expect("nobody notes any more"));
    let stats = program.stop().await;
    assert_eq!((seen.reserved.len(), stats.counts.conflicts), (RUNS, 0));
    let mut times: Vec<Duration> =
        seen.reserved.iter().zip(&seen.placed).map(|(reserved, placed)| *placed - *reserved).collect();
    times.sort_unstable();
    times
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a good object")
}

/// A cluster of so many nodes with two free volumes each, a claim and its pod.
fn cluster(nodes: usize) -> (Cluster, Vec<Node>, Pod) {
    let mut cluster = Cluster::new();
    cluster.show(Object::from(read::<Class>(class())));
    let nodes: Vec<Node> = (0..nodes).map(|index| read(node(index))).collect();
    for (index, node) in nodes.iter().enumerate() {
        cluster.show(Object::from(node.clone()));
        cluster.show(Object::from(read::<Volume>(volume(index, 0))));
        cluster.show(Object::from(read::<Volume>(volume(index, 1))));
    }
    cluster.show(Object::from(read::<Claim>(claim(0))));
    let pod: Pod = read(pod(0));
    cluster.show(Object::from(pod.clone()));
    (cluster, nodes, pod)
}

/// The middle of several runs.
fn median(mut run: impl FnMut() -> usize, expected: usize) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS / 10)
        .map(|_| {
            let begin = Instant::now();
            assert_eq!(run(), expected);
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Filters so many nodes for one pod: by the library, and as the scheduler of this crate looks at them.
fn filter(nodes: usize) -> (Duration, Duration) {
    let (cluster, listed, pod) = cluster(nodes);
    let settings = Settings::default();
    let library = median(
        || {
            let mut cycle = Cycle::pre_filter(&cluster, &pod).expect("its claim waits for it");
            let statuses = cycle.filter(&cluster, &settings, &listed);
            statuses.iter().filter(|status| status.is_ok()).count()
        },
        nodes,
    );
    let key = Key::pod("default", "pod-00000");
    let survey = median(
        || {
            let wanted = Wanted::of(&cluster, &key, &pod);
            place::survey(&cluster, &settings, &key, &wanted).map_or(0, |survey| survey.fitting.len())
        },
        nodes,
    );
    (library, survey)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![500, 5000] } else { sizes };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut first: Option<(usize, f64)> = None;
    for pods in sizes {
        let (seconds, stats) = runtime.block_on(place_many(pods));
        let (least, base) = *first.get_or_insert((pods, seconds));
        let growth = seconds / base / (pods as f64 / least as f64);
        println!(
            "{pods:>6} pods on {:>5} nodes: {:>7.0} pods/s, {growth:.2} times linear, {} conflicts, {} failures",
            nodes_for(pods),
            pods as f64 / seconds,
            stats.counts.conflicts,
            stats.counts.failures,
        );
    }
    let times = runtime.block_on(bind_one_by_one());
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "{RUNS:>6} claims bound one by one: {:.2} ms from reserving to placing in the middle, {:.2} ms at most",
        millis(times[times.len() / 2]),
        millis(times[times.len() - 1]),
    );
    let mut first: Option<(Duration, Duration)> = None;
    for nodes in [500_usize, 5000] {
        let (library, survey) = filter(nodes);
        let (of_library, of_survey) = *first.get_or_insert((library, survey));
        let growth =
            |time: Duration, base: Duration| time.as_secs_f64() / base.as_secs_f64() / (nodes as f64 / 500.0);
        println!(
            "{nodes:>6} nodes, {:>5} volumes, one pod: filter {:.2} ms, {:.2} times linear; all that the scheduler looks at {:.2} ms, {:.2} times linear",
            2 * nodes,
            millis(library),
            growth(library, of_library),
            millis(survey),
            growth(survey, of_survey),
        );
    }
}
