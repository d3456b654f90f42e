//! `pvbind extender` under a real kube-scheduler, with the configuration and the permissions that are shipped.
//!
//! Runs where the environment variable `KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kube-scheduler, and
//! says so where it does not.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long anything may take before the test gives up; it only matters when something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

fn shipped(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/extender").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let told = object.to_string();
    let object = serde_json::from_value(object).unwrap_or_else(|error| panic!("{told}: {error}"));
    api.create(&PostParams::default(), &object).await.unwrap_or_else(|error| panic!("{told}: {error}"));
}

/// Creates what the extender's permissions consist of.
async fn permit(client: &Client) {
    for document in shipped("rbac.yaml").split("---\n") {
        let object: Value = serde_saphyr::from_str(document).expect("a manifest");
        let path = match object["kind"].as_str().expect("a kind") {
            "ServiceAccount" => "/api/v1/namespaces/kube-system/serviceaccounts",
            "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            other => panic!("no permission is a {other}"),
        };
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).expect("a request");
        client.request::<Value>(request).await.expect("it is created");
    }
}

async fn create_nodes(client: &Client) {
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    for name in ["n1", "n2", "n3"] {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        create::<Node>(Api::all(client.clone()), node).await;
    }
    let class = |name: &str, provisioner: &str| {
        json!({
            "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
        })
    };
    for (name, provisioner) in [
        ("local", "kubernetes.io/no-provisioner"),
        ("other", "kubernetes.io/no-provisioner"),
        ("made", "made.example.test"),
    ] {
        create::<StorageClass>(Api::all(client.clone()), class(name, provisioner)).await;
    }
}

fn volume(name: &str, class: &str, size: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/srv/volume"}, "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    })
}

fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    })
}

/// Creates a pod, with a claim of its name unless it has no class.
async fn create_pod(client: &Client, name: &str, class: &str, size: &str) {
    let mut volumes = json!([]);
    if !class.is_empty() {
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
        create(claims, claim(name, class, size)).await;
        volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
    }
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": false, "volumes": volumes,
            "containers": [{"name": "c", "image": "none"}],
        },
    });
    create::<Pod>(Api::default_namespaced(client.clone()), pod).await;
}

/// Waits until an object is as it should be; returns it.
async fn wait<K>(api: Api<K>, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + DeserializeOwned + 'static,
{
    let condition = |object: Option<&K>| object.is_some_and(&is);
    let met = tokio::time::timeout(PATIENCE, await_condition(api, name, condition)).await;
    let met = met.unwrap_or_else(|_| panic!("{name}: {what} takes too long"));
    met.expect("the watch works").expect("the object is there")
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Waits until a pod is placed; says where.
async fn placed(client: &Client, name: &str) -> String {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = wait(pods, name, "being placed", |pod| node_of(pod).is_some()).await;
    node_of(&pod).unwrap_or_default().to_owned()
}

/// The volume of a pod's claim, which is bound.
async fn volume_of(client: &Client, name: &str) -> String {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = claims.get(name).await.expect("the claim is there");
    let phase = claim.status.and_then(|status| status.phase);
    assert_eq!(phase.as_deref(), Some("Bound"), "claim {name}");
    claim.spec.and_then(|spec| spec.volume_name).expect("a bound claim names its volume")
}

/// Waits until kube-scheduler says of a pod why it is nowhere.
async fn why_not(client: &Client, pod: &str) -> String {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let params = ListParams::default().fields(&format!("involvedObject.name={pod},reason=FailedScheduling"));
    let message = async {
        loop {
            let list = events.list(&params).await.expect("events can be listed");
            // One that sees the pod before its claim says so, and looks again.
            let mut messages = list.items.into_iter().filter_map(|event| event.message);
            if let Some(message) = messages.find(|message| !message.contains("not found")) {
                return message;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, message).await.unwrap_or_else(|_| panic!("nothing is said of pod {pod}"))
}

/// Does what a provisioner would for the claim of a pod: makes a volume for the node that was selected.
async fn provision(client: &Client, name: &str) -> String {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let selected = |claim: &PersistentVolumeClaim| {
        claim.metadata.annotations.as_ref()?.get("volume.kubernetes.io/selected-node").cloned()
    };
    let claim = wait(claims, name, "a node being selected", |claim| selected(claim).is_some()).await;
    let node = selected(&claim).expect("a node is selected");
    let mut made = volume("made", "made", "3Gi", &node);
    made["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": "default", "name": name, "uid": claim.metadata.uid,
    });
    create::<PersistentVolume>(Api::all(client.clone()), made).await;
    node
}

/// Pods that fill all nodes, and one that is worth more and whose volume is on the second.
async fn evict_for_a_volume(client: &Client) {
    for (name, value) in [("low", 1), ("high", 1000)] {
        create::<PriorityClass>(
            Api::all(client.clone()),
            json!({"metadata": {"name": name}, "value": value}),
        )
        .await;
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let sized = |name: &str, priority: &str, cpus: &str, volumes: Value| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "automountServiceAccountToken": false, "priorityClassName": priority, "volumes": volumes,
                "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": cpus}}}],
            },
        })
    };
    for node in ["n1", "n2", "n3"] {
        let mut filler = sized(&format!("on-{node}"), "low", "7", json!([]));
        filler["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        create(pods.clone(), filler).await;
        assert_eq!(placed(client, &format!("on-{node}")).await, node);
    }
    create::<PersistentVolume>(Api::all(client.clone()), volume("v5", "other", "2Gi", "n2")).await;
    create::<PersistentVolumeClaim>(Api::default_namespaced(client.clone()), claim("vip", "other", "2Gi"))
        .await;
    let uses = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "vip"}}]);
    create(pods.clone(), sized("vip", "high", "7", uses)).await;
    let going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    wait(pods.clone(), "on-n2", "being evicted", going).await;
    // No kubelet ends it.
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("on-n2", &now).await.expect("it ends");
    assert_eq!(placed(client, "vip").await, "n2");
    assert_eq!(volume_of(client, "vip").await, "v5");
    for spared in ["on-n1", "on-n3"] {
        let pod = pods.get(spared).await.expect("it is there");
        assert!(!going(&pod), "{spared} was evicted for nothing");
    }
}

/// Starts a command of this crate; the first line that it prints comes back.
fn start_pvbind(plane: &mut ControlPlane, arguments: &[&str]) -> String {
    let all = arguments.iter().map(|argument| (*argument).to_owned());
    let all: Vec<String> = all.chain(["--metrics-addr=off".to_owned()]).collect();
    let output =
        plane.run(&format!("pvbind-{}", arguments[0]), Path::new(env!("CARGO_BIN_EXE_pvbind")), &all);
    let mut line = String::new();
    if arguments[0] == "extender" {
        // A line is short, and the program closes its output if it fails.
        BufReader::new(output.take(1024)).read_line(&mut line).expect("its output is text");
    }
    line.trim().to_owned()
}

/// Starts the programs of this crate, and kube-scheduler with the shipped configuration.
fn start(plane: &mut ControlPlane) -> String {
    let [admin, mine] = ["admin.conf", "extender.conf"].map(|file| plane.argument(file));
    start_pvbind(plane, &["controller", "--kubeconfig", &admin]);
    let [certificate, key, clients] =
        ["extender.crt", "extender.key", "ca.crt"].map(|file| plane.argument(&format!("pki/pvbind/{file}")));
    let extender = [
        "extender",
        "--kubeconfig",
        &mine,
        "--listen=127.0.0.1:0",
        "--tls-cert-file",
        &certificate,
        "--tls-private-key-file",
        &key,
        "--client-ca-file",
        &clients,
    ];
    let url = start_pvbind(plane, &extender);
    let configuration = shipped("kube-scheduler.yaml")
        .replace("https://127.0.0.1:8888", &url)
        .replace("/etc/kubernetes", plane.path("").to_str().expect("a plain path").trim_end_matches('/'));
    plane.start_scheduler(&configuration);
    configuration
}

#[tokio::test]
async fn kube_scheduler_places_pods_where_the_extender_finds_and_binds_their_volumes() {
    let Some(assets) = control_plane::assets(&["etcd", "kube-apiserver", "kube-scheduler"]) else {
        return control_plane::not_run(
            "KUBEBUILDER_ASSETS names no folder with etcd, kube-apiserver and kube-scheduler; nothing was tested against a \
             real kube-scheduler",
        );
    };
    let mut plane = ControlPlane::start(assets).await;
    let client = plane.client().await;
    permit(&client).await;
    create_nodes(&client).await;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for (name, size, node) in [("v1", "10Gi", "n1"), ("v2", "20Gi", "n2"), ("v3", "80Gi", "n3")] {
        create(volumes.clone(), volume(name, "local", size, node)).await;
    }
    let configuration = start(&mut plane);

    create_pod(&client, "plain", "", "").await;
    placed(&client, "plain").await;
    // Each has a choice, and the volume that wastes least is chosen.
    for (pod, size, node, volume) in [("larger", "15Gi", "n2", "v2"), ("smaller", "5Gi", "n1", "v1")] {
        create_pod(&client, pod, "local", size).await;
        assert_eq!(placed(&client, pod).await, node, "pod {pod}");
        assert_eq!(volume_of(&client, pod).await, volume, "pod {pod}");
    }
    create_pod(&client, "provisioned", "made", "3Gi").await;
    let node = provision(&client, "provisioned").await;
    assert_eq!(placed(&client, "provisioned").await, node);
    assert_eq!(volume_of(&client, "provisioned").await, "made");

    create_pod(&client, "huge", "local", "500Gi").await;
    let why = why_not(&client, "huge").await;
    assert!(why.contains("3 node(s) didn't find available persistent volumes to bind"), "{why}");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let huge = pods.get("huge").await.expect("the pod is there");
    assert_eq!(node_of(&huge), None, "no node has a volume for it");
    create(volumes.clone(), volume("v4", "local", "500Gi", "n3")).await;
    assert_eq!(placed(&client, "huge").await, "n3", "what was missing is there");

    evict_for_a_volume(&client).await;

    // The same with whole nodes instead of their names.
    plane.end("kube-scheduler");
    let whole = configuration.replace("nodeCacheCapable: true", "nodeCacheCapable: false");
    assert_ne!(whole, configuration);
    plane.start_scheduler(&whole);
    create_pod(&client, "last", "local", "60Gi").await;
    assert_eq!(placed(&client, "last").await, "n3");
    assert_eq!(volume_of(&client, "last").await, "v3");
}
