//! What `pvbind simulate` costs, and whether that grows with the world or faster.
//!
//! A world of N claims, N pods and two thirds of N volumes on 100 nodes: a third of the claims takes a volume that is
//! there already, a third takes a local volume that is pinned to a node once a pod wants it, and a third has its volume
//! made. `cargo bench --bench simulate [N…]` prints the CPU seconds of each size and how they relate to linear growth
//! from the first: 1.0 is linear, 10.0 at ten times the size is quadratic.

use std::time::{Duration, Instant};

use pvbind::manifest::{Document, Loaded, Origin};
use pvbind::simulate::{Input, simulate};
use serde_json::{Value, json};

const NODES: usize = 100;

/// The same as the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How much time this thread has spent on a CPU, where the system tells; the simulation runs on one thread.
fn cpu_time(start: Instant) -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = spent.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

fn node(index: usize) -> Value {
    let name = format!("node-{index:03}");
    let room = json!({"cpu": "1000", "memory": "1Ti", "pods": "10000"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn class(name: &str, provisioner: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn volume(index: usize, class: &str, node: Option<usize>) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("volume-{index:06}")},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
        },
    });
    match node {
        None => {
            volume["spec"]["csi"] = json!({"driver": "csi.example.com", "volumeHandle": index.to_string()});
        }
        Some(node) => {
            let node = format!("node-{node:03}");
            let pin = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
            volume["spec"]["local"] = json!({"path": format!("/mnt/{index}")});
            volume["spec"]["nodeAffinity"] =
                json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [pin]}]}});
        }
    }
    volume
}

fn claim(index: usize, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{index:06}"), "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "5Gi"}},
        },
    })
}

fn pod(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{index:06}"), "namespace": "default"},
        "spec": {
            "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "10m"}}}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{index:06}")}}],
        },
    })
}

fn world(size: usize) -> Loaded {
    let mut objects: Vec<Value> = (0..NODES).map(node).collect();
    objects.push(class("local", "kubernetes.io/no-provisioner"));
    objects.push(class("dynamic", "csi.example.com"));
    for index in 0..size {
        let class = ["static", "local", "dynamic"][index % 3];
        match class {
            "static" => objects.push(volume(index, class, None)),
            "local" => objects.push(volume(index, class, Some(index / 3 % NODES))),
            _ => {}
        }
        objects.extend([claim(index, class), pod(index)]);
    }
    let documents = objects.into_iter().map(|object| Document { origin: Origin::default(), object });
    Loaded { documents: documents.collect(), warnings: Vec::new() }
}

fn main() {
    // Cargo hands over its own flags as well.
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1000, 2000, 5000, 10_000] } else { sizes };
    let mut first: Option<(usize, f64)> = None;
    for size in sizes {
        let input = Input { loaded: world(size), ..Input::default() };
        let start = Instant::now();
        let before = cpu_time(start);
        let report = simulate(input).expect("the world is sound");
        let seconds = cpu_time(start).saturating_sub(before).as_secs_f64();
        let bound = report.claims.iter().filter(|claim| claim.phase == "Bound").count();
        let placed = report.pods.iter().filter(|pod| !pod.node.is_empty()).count();
        assert!(
            report.is_good() && bound == size && placed == size,
            "{bound} bound, {placed} placed of {size}"
        );
        let (least, base) = *first.get_or_insert((size, seconds));
        #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
        let growth = seconds / base / (size as f64 / least as f64);
        println!("{size:>6} claims, volumes and pods: {seconds:>7.2} s of CPU, {growth:.2} times linear");
    }
}
