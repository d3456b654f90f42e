//! Two controllers on a real API server: two of ours, and ours beside upstream's.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_plane::ControlPlane;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use pvbind::act;
use pvbind::decide::binder::Pods;
use pvbind::simulate::actors::{self, Roles};
use serde_json::json;
use tokio::sync::watch;

use crate::burst::burst;
use crate::history::History;
use crate::verdict::{Verdict, judge};

const CLAIMS: u64 = 300;
/// How long nothing may change before all counts as quiet: several resyncs of upstream's.
const QUIET: Duration = Duration::from_secs(5);
/// How long they may go on after the burst.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a program may take until it does its work.
const START: Duration = Duration::from_secs(60);

/// Who binds.
#[derive(Clone, Copy, Debug)]
enum Controller {
    Upstream,
    Ours,
}

fn start(plane: &mut ControlPlane, number: usize, controller: Controller) {
    match controller {
        Controller::Upstream => {
            let controllers = ["persistentvolume-binder-controller"];
            let further = [
                "--pvclaimbinder-sync-period=1s",
                "--enable-hostpath-provisioner=true",
                "--kube-api-qps=-1",
                "--kube-api-burst=-1",
            ];
            plane.start_controller_manager_as(&format!("binder-{number}"), &controllers, &further);
        }
        Controller::Ours => {
            let admin = plane.argument("admin.conf");
            let arguments = [
                "controller",
                "--leader-elect=false",
                "--enable-hostpath-provisioner",
                "--kubeconfig",
                &admin,
                "--metrics-addr=off",
            ];
            let arguments = arguments.map(str::to_owned);
            let program = env!("CARGO_BIN_EXE_pvbind").as_ref();
            let _output = plane.run(&format!("binder-{number}"), program, &arguments);
        }
    }
}

/// Volumes are scrubbed by pods, which somebody has to place somewhere.
async fn place_pods(plane: &mut ControlPlane, client: &Client) {
    let node = json!({
        "metadata": {"name": "n1"},
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    let node = serde_json::from_value(node).expect("a node");
    Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await.expect("a node is created");
    let admin = plane.argument("admin.conf");
    let configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {"kubeconfig": admin, "qps": 1000, "burst": 1000},
    });
    plane.start_scheduler(&configuration.to_string());
}

/// Waits until somebody has looked at a volume.
async fn wait_until_at_work(client: &Client) {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let probe = json!({
        "metadata": {"name": "probe"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "probe", "nfs": {"server": "nowhere", "path": "/"}},
    });
    let probe = serde_json::from_value(probe).expect("a volume");
    volumes.create(&PostParams::default(), &probe).await.expect("a volume is created");
    let start = Instant::now();
    let mut deleted = false;
    while let Some(probe) = volumes.get_opt("probe").await.expect("volumes can be asked for") {
        let phase = probe.status.and_then(|status| status.phase);
        if phase.as_deref() == Some("Available") && !deleted {
            volumes.delete("probe", &DeleteParams::default()).await.expect("the volume is deleted");
            deleted = true;
        }
        assert!(start.elapsed() < START, "nobody looks at a volume");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How many requests that write claims and volumes the API server has had, by code; created ones are not counted.
async fn requests(client: &Client) -> BTreeMap<String, u64> {
    let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
    let text = client.request_text(request).await.expect("there are metrics");
    let mut requests = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let is = |label: &str, values: &[&str]| {
            values.iter().any(|value| line.contains(&format!("{label}=\"{value}\"")))
        };
        let about = is("resource", &["persistentvolumes", "persistentvolumeclaims"]);
        if about && is("verb", &["PATCH", "PUT"]) {
            let code = line.split("code=\"").nth(1).and_then(|rest| rest.get(..3)).expect("a code");
            let count: f64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count");
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count is whole")]
            let count = count as u64;
            *requests.entry(code.to_owned()).or_default() += count;
        }
    }
    requests
}

/// What became of the burst, and what was asked of the API server.
struct Outcome {
    verdict: Verdict,
    requests: u64,
    conflicts: u64,
    /// From the end of the burst until the last change.
    after: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { changes, bound, .. } = self.verdict;
        let Outcome { requests, conflicts, after, .. } = self;
        write!(f, "{bound} bound by {changes} changes, {requests} requests with {conflicts} conflicts, ")?;
        write!(f, "quiet after {} ms", after.as_millis())
    }
}

/// Runs the burst under these controllers, on a control plane of their own.
async fn under(assets: PathBuf, controllers: &[Controller]) -> Outcome {
    let mut plane = ControlPlane::start(assets).await;
    let others = ["persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"];
    plane.start_controller_manager_as("others", &others, &["--kube-api-qps=-1", "--kube-api-burst=-1"]);
    let client = plane.client().await;
    place_pods(&mut plane, &client).await;
    for (number, controller) in controllers.iter().enumerate() {
        start(&mut plane, number, *controller);
        wait_until_at_work(&client).await;
    }
    let (stop, stopped) = watch::channel(false);
    let roles = Roles {
        workloads: false,
        kubelet: true,
        protection: false,
        provisioner: false,
        garbage: false,
        namespaces: false,
    };
    let kinds = act::run::kinds(&act::Roles { controller: true, scheduler: Some(Pods::All) });
    let shared = act::watch::watch(&client, &kinds).boxed();
    let cast = actors::run(client.clone(), shared, roles, Arc::new(jiff::Timestamp::now), stopped);
    let cast = tokio::spawn(cast);
    let history = History::listen(&client);
    let before = requests(&client).await;
    burst(&client, CLAIMS).await;
    let after = history.quiet(QUIET, LIMIT).await;
    let mut requests = requests(&client).await;
    for (code, count) in before {
        *requests.entry(code).or_default() -= count;
    }
    stop.send(true).expect("the stand-ins run");
    cast.await.expect("no stand-in panics").expect("no watch ends");
    let outcome = Outcome {
        verdict: judge(&history.end()),
        requests: requests.values().sum(),
        conflicts: requests.get("409").copied().unwrap_or_default(),
        after,
    };
    println!("{controllers:?}: {outcome}");
    outcome
}

/// The folder with the programs; without one nothing is tested here, and that is said.
fn assets() -> Option<PathBuf> {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let assets = control_plane::assets(&programs);
    if assets.is_none() {
        let needed = programs.join(", ");
        control_plane::not_run(&format!(
            "KUBEBUILDER_ASSETS names no folder with {needed}; two controllers at once were only tested on the fake"
        ));
    }
    assets
}

/// All is right under one of ours, and under the two; these need no more than three times as many requests.
async fn no_fight(two: [Controller; 2]) {
    let Some(assets) = assets() else { return };
    let alone = under(assets.clone(), &[Controller::Ours]).await;
    assert_eq!(alone.verdict.wrong, Vec::<String>::new());
    let both = under(assets, &two).await;
    assert_eq!(both.verdict.wrong, Vec::<String>::new(), "{two:?}");
    assert!(both.verdict.changes <= 2 * alone.verdict.changes, "{two:?}: {both}; one of ours: {alone}");
    assert!(both.requests <= 3 * alone.requests, "{two:?}: {both}; one of ours: {alone}");
}

#[tokio::test]
async fn two_of_ours_do_not_fight() {
    no_fight([Controller::Ours, Controller::Ours]).await;
}

#[tokio::test]
async fn ours_and_upstreams_do_not_fight() {
    no_fight([Controller::Upstream, Controller::Ours]).await;
}
