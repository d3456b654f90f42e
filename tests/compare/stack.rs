//! A control plane of real programs with one of the stacks that are compared on it.
//!
//! What is the same on all: etcd, kube-apiserver, kube-controller-manager with the controllers of workloads, protection and
//! garbage, stand-ins for kubelets and for the external provisioner. What differs: who binds volumes, and who places pods.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_plane::ControlPlane;
use futures::StreamExt;
use pvbind::act::watch;
use pvbind::cluster::Kind as Watched;
use pvbind::simulate::actors::{self, Roles};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch as flag;

use crate::cluster::{Cluster, POD, VOLUME, text};
use crate::empty::empty;
use crate::load::{Loader, World, rank};
use crate::normal::{Normal, normal};
use crate::quiet::{Census, Snapshot, settle};

/// Who binds, and who places.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// kube-controller-manager's persistentvolume-binder-controller, and kube-scheduler.
    Upstream,
    /// `pvbind controller`, and kube-scheduler.
    Controller,
    /// `pvbind controller` and `pvbind scheduler`.
    Scheduler,
}

/// How long nothing may move before all counts as quiet: longer than upstream's resync, and than a pod's pause.
const QUIET: Duration = Duration::from_secs(3);
/// The same before volumes get claims, and claims pods.
const PAUSE: Duration = Duration::from_millis(700);
/// How long a program may take until it does its work.
const START: Duration = Duration::from_secs(60);

/// What binds, by the name under which it runs.
const BINDER: &str = "binder";
/// What places pods.
const SCHEDULER: &str = "kube-scheduler";
/// What upstream's volume controller is told: to look again each second, and not to hold requests back.
const RESYNC: [&str; 4] = [
    "--pvclaimbinder-sync-period=1s",
    "--enable-hostpath-provisioner=true",
    "--kube-api-qps=-1",
    "--kube-api-burst=-1",
];
/// What all sides need beside.
const OTHERS: [&str; 8] = [
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "statefulset-controller",
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
];

fn scheduler_configuration(kubeconfig: &str) -> String {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 1000},
        "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2,
    })
    .to_string()
}

/// A control plane with one stack.
pub struct Stack {
    side: Side,
    plane: ControlPlane,
    pub cluster: Cluster,
    /// Who was there in the worlds before.
    before: Census,
}

/// The stand-ins, while a world runs.
struct Cast {
    stop: flag::Sender<bool>,
    task: tokio::task::JoinHandle<Result<(), actors::Error>>,
}

impl Cast {
    fn start(cluster: &Cluster) -> Self {
        let (stop, stopped) = flag::channel(false);
        let kinds = [
            Watched::Class,
            Watched::Volume,
            Watched::Claim,
            Watched::Pod,
            Watched::Node,
            Watched::CsiNode,
            Watched::CsiDriver,
            Watched::Capacity,
        ];
        let client = cluster.client.clone();
        let watches = watch::watch(&client, &kinds).boxed();
        let roles = Roles {
            workloads: false,
            kubelet: true,
            protection: false,
            provisioner: true,
            garbage: false,
            namespaces: false,
        };
        let now = Arc::new(jiff::Timestamp::now);
        let task = tokio::spawn(actors::run(client, watches, roles, now, stopped));
        Cast { stop, task }
    }

    async fn end(self) {
        self.stop.send(true).expect("the stand-ins run");
        self.task.await.expect("no stand-in panics").expect("no watch ends");
    }
}

impl Stack {
    pub async fn start(side: Side, assets: PathBuf) -> Self {
        let mut plane = ControlPlane::start(assets).await;
        let cluster = Cluster { client: plane.client().await };
        plane.start_controller_manager_as("others", &OTHERS, &["--kube-api-qps=-1", "--kube-api-burst=-1"]);
        let mut stack = Stack { side, plane, cluster, before: Census::new() };
        stack.start_programs().await;
        stack
    }

    fn start_pvbind(&mut self, name: &str, arguments: &[&str]) {
        let admin = self.plane.argument("admin.conf");
        let further = ["--kubeconfig", &admin, "--metrics-addr=off"];
        let all: Vec<String> = arguments.iter().chain(&further).map(ToString::to_string).collect();
        let _output = self.plane.run(name, env!("CARGO_BIN_EXE_pvbind").as_ref(), &all);
    }

    /// Starts those who bind and place, and waits until they do.
    async fn start_programs(&mut self) {
        match self.side {
            Side::Upstream => {
                let controllers = ["persistentvolume-binder-controller"];
                self.plane.start_controller_manager_as(BINDER, &controllers, &RESYNC);
            }
            Side::Controller | Side::Scheduler => {
                self.start_pvbind(
                    BINDER,
                    &["controller", "--leader-elect=false", "--enable-hostpath-provisioner"],
                );
            }
        }
        match self.side {
            Side::Upstream | Side::Controller => {
                let configuration = scheduler_configuration(&self.plane.argument("admin.conf"));
                self.plane.start_scheduler(&configuration);
            }
            Side::Scheduler => {
                self.start_pvbind(
                    SCHEDULER,
                    &["scheduler", "--leader-elect=false", "--scheduler-name=default-scheduler"],
                );
            }
        }
        self.wait_until_at_work().await;
    }

    fn end_programs(&mut self) {
        for name in [BINDER, SCHEDULER] {
            self.plane.end(name);
        }
    }

    /// Waits until somebody has looked at a volume, and somebody at a pod.
    async fn wait_until_at_work(&mut self) {
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "probe"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "storageClassName": "probe", "nfs": {"server": "nowhere", "path": "/"}},
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "default"},
            "spec": {"nodeSelector": {"no": "node"}, "containers": [{"name": "c", "image": "none"}]},
        });
        self.cluster.create(VOLUME, &volume).await.expect("a volume is created");
        self.cluster.create(POD, &pod).await.expect("a pod is created");
        let start = Instant::now();
        loop {
            let volume = self.cluster.get(VOLUME, "", "probe").await.expect("the volume is there");
            let pod = self.cluster.get(POD, "default", "probe").await.expect("the pod is there");
            let looked = pod.pointer("/status/conditions/0").is_some();
            if text(&volume, "/status/phase") == "Available" && looked {
                break;
            }
            assert!(start.elapsed() < START, "{:?}: nobody looks at a volume or a pod", self.side);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for (kind, namespace) in [(VOLUME, ""), (POD, "default")] {
            let probe = self.cluster.get(kind, namespace, "probe").await.expect("the probe is there");
            self.before.insert(text(&probe, "/metadata/uid").to_owned(), "a probe".to_owned());
            self.cluster.delete(kind, namespace, "probe", Some(0)).await.expect("the probe goes");
        }
        while self.cluster.get(VOLUME, "", "probe").await.is_some() {
            assert!(start.elapsed() < START, "{:?}: nobody lets a volume go", self.side);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Runs a world to its end; the cluster is empty before and after.
    pub async fn run(&mut self, world: &World) -> Result<Normal, String> {
        let mut census = Census::new();
        let done = self.play(world, &mut census).await;
        empty(&self.cluster).await;
        let result = done.map(|snapshot| normal(&snapshot, &census, &self.before));
        self.before.append(&mut census);
        result
    }

    async fn play(&mut self, world: &World, census: &mut Census) -> Result<Snapshot, String> {
        let mut loader = Loader::new(&self.cluster);
        if world.is_dump() {
            self.end_programs();
            let put = self.load(world, &mut loader, census).await;
            self.start_programs().await;
            put?;
        } else {
            self.load(world, &mut loader, census).await?;
        }
        let cast = Cast::start(&self.cluster);
        let end = self.go_on(world, &mut loader, census).await;
        cast.end().await;
        end
    }

    /// What comes once all is loaded.
    async fn go_on(
        &self,
        world: &World,
        loader: &mut Loader,
        census: &mut Census,
    ) -> Result<Snapshot, String> {
        let quiet = world.quiet.unwrap_or(QUIET);
        let mut end = settle(&self.cluster, quiet, census).await?;
        let Some(stage) = &world.then else { return Ok(end) };
        for step in &stage.steps {
            if loader.step(step).await? {
                settle(&self.cluster, quiet, census).await?;
            }
        }
        end = settle(&self.cluster, quiet, census).await?;
        Ok(end)
    }

    async fn load(&self, world: &World, loader: &mut Loader, census: &mut Census) -> Result<(), String> {
        let mut group = None;
        for object in &world.objects {
            let next = rank(object, world.is_linked());
            if !world.is_dump() && group.is_some_and(|group| group != next && next >= 2) {
                settle(&self.cluster, PAUSE, census).await?;
            }
            group = Some(next);
            loader.put(object).await?;
        }
        Ok(())
    }
}
