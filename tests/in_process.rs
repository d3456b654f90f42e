//! The controller and the scheduler as a library, in the tests of people who have neither: on a cluster of `fake-cluster`, in one
//! process and in virtual time. `docs/test-your-operator.md` tells them how.

use std::time::Duration;

use fake_cluster::FakeCluster;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, DeleteParams, PostParams};
use pvbind::act::error::Error;
use pvbind::act::{Options, Roles, Stats, run};
use pvbind::cluster::Cluster;
use pvbind::decide::binder::Pods;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(600);

/// A program that runs beside a test, until it is told to stop.
struct Beside {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(Stats, Cluster), Error>>,
}

impl Beside {
    fn start(cluster: &FakeCluster, roles: Roles) -> Self {
        let (stop, stopped) = oneshot::channel();
        let options = Options { roles, ..Options::controller() };
        let task = tokio::spawn(run(cluster.client_named("pvbind"), options, async { drop(stopped.await) }));
        Beside { stop, task }
    }

    /// What it has done.
    async fn stop(self) -> Stats {
        drop(self.stop);
        let ended = tokio::time::timeout(PATIENCE, self.task).await.expect("it ends in time");
        ended.expect("it does not panic").expect("it led all the time").0
    }
}

fn volume(name: &str, more: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 5Gi}}
  accessModes: [ReadWriteOnce]
  local: {{path: /srv}}
  {more}
---"
    )
}

fn claim(name: &str, class: &str) -> PersistentVolumeClaim {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    serde_json::from_value(claim).expect("a claim")
}

fn on(node: &str) -> String {
    let host = format!("{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}");
    format!("nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{host}]}}]}}}}")
}

#[tokio::test(start_paused = true)]
async fn claims_bind_and_their_volumes_are_released_whatever_goes_wrong() {
    let volumes: String = (0..10).map(|number| volume(&format!("v{number}"), &on("n1"))).collect();
    let cluster = FakeCluster::builder()
        .yaml(volumes)
        .object(&claim("early", ""))
        .faults(
            "
seed: 3
rules:
- {userAgents: [pvbind], verbs: [patch], every: 4, answer: {code: 409}}
- {userAgents: [pvbind], verbs: [patch], every: 7, lose: answer}
- {userAgents: [pvbind], verbs: [watch], first: 4, cut: {afterEvents: 2}}
",
        )
        .build()
        .expect("a cluster");
    let controller = Beside::start(&cluster, Roles::controller());
    let early = cluster.await_bound("default", "early").await.expect("it is bound");

    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client_named("operator"));
    let mut taken = vec![early.clone()];
    for number in 1..10 {
        let name = format!("c{number}");
        claims.create(&PostParams::default(), &claim(&name, "")).await.expect("it is created");
        taken.push(cluster.await_bound("default", &name).await.expect("it is bound"));
    }
    taken.sort();
    assert_eq!(taken, (0..10).map(|number| format!("v{number}")).collect::<Vec<_>>(), "one each");
    claims.delete("early", &DeleteParams::default()).await.expect("it goes");
    cluster.await_phase(("PersistentVolume", "", &early), "Released").await.expect("nobody has it");

    let stats = controller.stop().await;
    assert!(stats.writes >= 40, "{stats:?}");
    cluster.journal().by("pvbind").code(409).assert_some();
    cluster.journal().by("operator").writes().assert_count(10);
    // Nobody is there who would bind another one.
    claims.create(&PostParams::default(), &claim("late", "")).await.expect("it is created");
    let waited = cluster.await_bound("default", "late").await.expect_err("nothing runs");
    assert!(waited.to_string().contains("\"phase\": \"Pending\""), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn pods_go_where_their_claims_can_be_bound() {
    let node = |name: &str| {
        format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}
status: {{allocatable: {{pods: '10'}}}}
---"
        )
    };
    let cluster = FakeCluster::builder()
        .yaml(node("n1") + &node("n2"))
        .yaml(volume("v", &format!("storageClassName: local\n  {}", on("n2"))))
        .yaml(
            "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
",
        )
        .object(&claim("data", "local"))
        .build()
        .expect("a cluster");
    let both = Beside::start(&cluster, Roles { controller: true, scheduler: Some(Pods::All) });
    assert_eq!(cluster.await_scheduled("default", "p").await.expect("it is placed"), "n2");
    assert_eq!(cluster.await_bound("default", "data").await.expect("it is bound"), "v");
    both.stop().await;
}
