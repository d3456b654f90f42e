//! `pvbind up`: a cluster of its own, in which claims bind and pods run, as a user starts it.

use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::DeleteParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;

use super::*;

const CLASS: &str = "fast";

/// A class whose volumes the stand-in for a provisioner makes, a claim and a pod that uses it.
fn manifests() -> serde_json::Value {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
        "provisioner": "csi.example.test", "volumeBindingMode": "WaitForFirstConsumer",
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [class, claim(), pod()]})
}

fn claim() -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "shop"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

fn pod() -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"},
        "spec": {
            "containers": [{"name": "c", "image": "none"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    })
}

/// A cluster, and an administrator of it.
struct Up {
    program: Program,
    client: Client,
    folder: TempDir,
}

impl Up {
    async fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("shop.json"), manifests().to_string()).expect("it is written");
        Up::start_in(folder, arguments).await
    }

    async fn start_in(folder: TempDir, arguments: &[&str]) -> Self {
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (shop, config) = (path("shop.json"), path("kubeconfig"));
        let own = ["up", "-f", &shop, "--write-kubeconfig", &config];
        let mut program = Program::start(&[&own[..], arguments].concat());
        // It waits for clients once it says where.
        let url = program.first_line();
        let config = Kubeconfig::read_from(Path::new(&config)).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let config = config.expect("a configuration");
        assert_eq!(config.cluster_url.to_string(), format!("{url}/"));
        Up { program, client: Client::try_from(config).expect("a client"), folder }
    }

    fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), "shop")
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "shop")
    }

    /// Waits until the pod runs.
    async fn runs(&self) {
        let runs =
            |pod: Option<&Pod>| pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some("Running");
        let waited =
            tokio::time::timeout(PATIENCE, kube::runtime::wait::await_condition(self.pods(), "p", runs));
        waited.await.expect("it runs").expect("the watch goes on");
    }
}

#[tokio::test]
async fn a_claim_binds_a_pod_runs_and_a_namespace_goes_with_all_that_it_has() {
    let up = Up::start(&["--tls"]).await;
    up.runs().await;
    let bound = up.claims().get("c").await.expect("the claim");
    let volume = bound.spec.and_then(|spec| spec.volume_name).expect("it is bound");
    let volumes: Api<PersistentVolume> = Api::all(up.client.clone());
    volumes.get(&volume).await.expect("the volume");
    let maps: Api<ConfigMap> = Api::namespaced(up.client.clone(), "shop");
    let trusted =
        maps.get("kube-root-ca.crt").await.expect("what pods have to trust").data.unwrap_or_default();
    assert!(trusted["ca.crt"].starts_with("-----BEGIN CERTIFICATE-----"), "{trusted:?}");
    // Kinds that no stand-in knows go with the namespace too.
    let own = json!({"metadata": {"name": "own"}, "data": {"a": "b"}});
    maps.create(&PostParams::default(), &serde_json::from_value(own).expect("a map")).await.expect("made");

    let namespaces: Api<Namespace> = Api::all(up.client.clone());
    namespaces.delete("shop", &DeleteParams::default()).await.expect("it is deleted");
    let gone = kube::runtime::wait::await_condition(namespaces, "shop", |namespace: Option<&Namespace>| {
        namespace.is_none()
    });
    tokio::time::timeout(PATIENCE, gone).await.expect("it goes").expect("the watch goes on");
    let left = maps.list(&ListParams::default()).await.expect("a list");
    assert_eq!(left.items, []);
    let gone = kube::runtime::wait::await_condition(volumes, &volume, |volume: Option<&PersistentVolume>| {
        volume.is_none()
    });
    tokio::time::timeout(PATIENCE, gone).await.expect("the volume goes").expect("the watch goes on");
    assert!(up.program.terminate().success());
}

#[tokio::test]
async fn parts_that_are_left_out_do_nothing() {
    let up = Up::start(&["--without", "scheduler,provisioner", "--token", "secret"]).await;
    // What it waits for is what the controller says of it: nobody places its pod.
    let waits = async {
        let events: Api<Event> = Api::namespaced(up.client.clone(), "shop");
        loop {
            let all = events.list(&ListParams::default()).await.expect("a list");
            if all.items.iter().any(|event| event.reason.as_deref() == Some("WaitForPodScheduled")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("it waits for its pod");
    // A scheduler of somebody else's places it; nobody makes the volume then.
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-1"}});
    up.pods()
        .create_subresource::<_, serde_json::Value>("binding", "p", &PostParams::default(), &binding)
        .await
        .expect("it is placed");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let claim = up.claims().get("c").await.expect("the claim");
    assert_eq!(claim.status.and_then(|status| status.phase).as_deref(), Some("Pending"));
    assert!(up.program.terminate().success());
}

#[tokio::test]
async fn a_cluster_that_is_kept_goes_on_with_what_its_manifests_have_become() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shop.json"), manifests().to_string()).expect("it is written");
    let data = folder.path().join("data").display().to_string();
    let up = Up::start_in(folder, &["--data-dir", &data]).await;
    up.runs().await;
    let before = up.claims().get("c").await.expect("the claim");
    let Up { program, folder, .. } = up;
    assert!(program.terminate().success());
    let up = Up::start_in(folder, &["--data-dir", &data]).await;
    up.runs().await;
    let after = up.claims().get("c").await.expect("the claim");
    assert_eq!((after.metadata.uid, after.spec), (before.metadata.uid, before.spec));
    let nodes: Api<Node> = Api::all(up.client.clone());
    assert_eq!(nodes.list(&ListParams::default()).await.expect("a list").items.len(), 1);
    assert!(up.program.terminate().success());
}

#[test]
fn a_part_that_there_is_not_is_named_with_those_that_there_are() {
    let refused = Command::new(env!("CARGO_BIN_EXE_pvbind"))
        .args(["up", "--without", "sheduler"])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("sheduler") && said.contains("possible values: controller, scheduler, workloads"),
        "{said}"
    );
}
