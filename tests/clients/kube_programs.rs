//! kube-controller-manager binds claims on the bundled API server, and kube-scheduler places pods with theirs: as they are
//! shipped, with their leader election on, over protobuf as far as the server speaks it.

use std::path::Path;

use control_plane::Ending;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::stage::{Stage, create, eventually};

const BINDER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";

/// Starts one of the programs with what it needs to run beside others on this machine.
fn start(stage: &mut Stage, assets: &Path, name: &str, instance: &str, further: &[&str]) {
    let folder = stage.path(&format!("{instance}-serving"));
    let mut arguments = vec![
        format!("--kubeconfig={}", stage.kubeconfig()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", control_plane::free_port()),
        format!("--cert-dir={}", folder.to_str().expect("a plain path")),
    ];
    arguments.extend(further.iter().map(|argument| (*argument).to_owned()));
    stage.run(instance, &assets.join(name), &arguments);
}

fn start_binder(stage: &mut Stage, assets: &Path, instance: &str) {
    let further = [
        "--controllers=persistentvolume-binder-controller",
        "--use-service-account-credentials=false",
        "--pvclaimbinder-sync-period=1s",
        "--leader-elect=true",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    ];
    start(stage, assets, BINDER, instance, &further);
}

fn volume(name: &str, class: &str, source: &Value) -> Value {
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain",
        },
    });
    for (field, value) in source.as_object().expect("fields") {
        volume["spec"][field] = value.clone();
    }
    volume
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// Waits until a claim is bound; says to which volume. The volume says the same.
async fn bound(client: &Client, name: &str) -> String {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let claim = eventually(&format!("claim {name} is bound"), async || {
        let claim = claims.get(name).await.expect("the claim is there");
        let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        is_bound.then_some(claim)
    })
    .await;
    let capacity = claim.status.and_then(|status| status.capacity).expect("a bound claim has a size");
    assert_eq!(capacity["storage"].0, "2Gi", "a claim has the size of its volume");
    let volume = claim.spec.and_then(|spec| spec.volume_name).expect("a bound claim names its volume");
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let found = volumes.get(&volume).await.expect("the volume is there");
    let reference = found.spec.and_then(|spec| spec.claim_ref).expect("a bound volume names its claim");
    assert_eq!((reference.name.as_deref(), reference.uid), (Some(name), claim.metadata.uid));
    assert_eq!(found.status.and_then(|status| status.phase).as_deref(), Some("Bound"));
    volume
}

/// Waits until somebody else than before holds the lease of a program, or anybody; says who, and how often it has changed
/// hands.
async fn holder(client: &Client, name: &str, before: &str) -> (String, i32) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    eventually(&format!("somebody holds the lease of {name}"), async || {
        let spec = leases.get_opt(name).await.expect("leases can be read")?.spec?;
        let holder = spec.holder_identity.filter(|holder| !holder.is_empty() && holder != before)?;
        Some((holder, spec.lease_transitions.unwrap_or_default()))
    })
    .await
}

/// A node that pods can be placed on, and an account that they can have: nobody here makes either ready.
async fn create_node(client: &Client) {
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    create(&nodes, node).await;
    let ready = json!({"spec": {"taints": null}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(&ready)).await.expect("it is ready");
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    create(&accounts, json!({"metadata": {"name": "default"}})).await;
}

#[tokio::test]
async fn kube_controller_manager_binds_static_claims_and_hands_its_lease_on() {
    let Some(assets) = control_plane::assets(&[BINDER]) else {
        return control_plane::not_run(
            "KUBEBUILDER_ASSETS names no folder with kube-controller-manager; it was not tried on the bundled API server",
        );
    };
    let mut stage = Stage::start(&[]).await;
    let client = stage.client().await;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    // One pair is there before the program, the others come while it runs: it lists, and it watches.
    create(&claims, claim("early", "")).await;
    create(&volumes, volume("v-early", "", &json!({"hostPath": {"path": "/srv/early"}}))).await;
    start_binder(&mut stage, &assets, "first");
    assert_eq!(bound(&client, "early").await, "v-early");
    let (first, _) = holder(&client, BINDER, "").await;

    // The second waits, and goes on where the first, which is killed, has stopped.
    start_binder(&mut stage, &assets, "second");
    for number in 0..20 {
        create(&claims, claim(&format!("c{number}"), "static")).await;
        create(&volumes, volume(&format!("v{number}"), "static", &json!({"hostPath": {"path": "/srv"}})))
            .await;
    }
    for number in 0..20 {
        bound(&client, &format!("c{number}")).await;
    }
    stage.kill("first");
    let (_, transitions) = holder(&client, BINDER, &first).await;
    assert_eq!(transitions, 1);
    create(&volumes, volume("v-late", "late", &json!({"hostPath": {"path": "/srv/late"}}))).await;
    create(&claims, claim("late", "late")).await;
    assert_eq!(bound(&client, "late").await, "v-late");

    // A volume whose claim is gone is released, and a claim that is gone is not waited for.
    claims.delete("late", &kube::api::DeleteParams::default()).await.expect("it can be deleted");
    eventually("the protection of a claim is somebody else's", async || {
        let remove = json!({"metadata": {"finalizers": null}});
        claims.patch("late", &PatchParams::default(), &Patch::Merge(&remove)).await.ok()
    })
    .await;
    eventually("a volume is released", async || {
        let volume = volumes.get("v-late").await.expect("the volume is there");
        (volume.status?.phase? == "Released").then_some(())
    })
    .await;
}

#[tokio::test]
async fn kube_scheduler_places_a_pod_whose_claim_waits_for_it() {
    let Some(assets) = control_plane::assets(&[BINDER, SCHEDULER]) else {
        return control_plane::not_run(
            "KUBEBUILDER_ASSETS names no folder with kube-controller-manager and kube-scheduler; they were not tried together on \
             the bundled API server",
        );
    };
    let mut stage = Stage::start(&[]).await;
    let client = stage.client().await;
    start_binder(&mut stage, &assets, BINDER);
    start(&mut stage, &assets, SCHEDULER, SCHEDULER, &[]);
    create_node(&client).await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    let class = json!({
        "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    create(&classes, class).await;
    let local = json!({
        "local": {"path": "/srv/local"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]},
        ]}]}},
    });
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    create(&volumes, volume("v", "local", &local)).await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create(&claims, claim("waits", "local")).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "none"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "waits"}}],
        },
    });
    create(&pods, pod).await;
    let pod = eventually("the pod is placed", async || {
        let pod = pods.get("p").await.expect("the pod is there");
        pod.spec.as_ref()?.node_name.is_some().then_some(pod)
    })
    .await;
    assert_eq!(pod.spec.and_then(|spec| spec.node_name).as_deref(), Some("n1"));
    assert_eq!(pod.status.and_then(|status| status.nominated_node_name), None, "it is where it was to go");
    assert_eq!(bound(&client, "waits").await, "v");
    let (placing, _) = holder(&client, SCHEDULER, "").await;
    assert_ne!(placing, holder(&client, BINDER, "").await.0);
    // Whoever is asked to end lets go of the lease, or leaves it to run out; what it had done stays.
    let ending = stage.stop(SCHEDULER);
    assert!(matches!(ending, Ending::Exited(_)), "{ending:?}");
}
