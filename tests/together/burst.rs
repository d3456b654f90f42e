//! Claims and volumes of all kinds, in no order, some of which go again while others come.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// How many things are done at once.
const AT_ONCE: usize = 24;
/// How long a claim that goes may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something that is done to the cluster.
#[derive(Clone)]
enum Deed {
    Volume(Value),
    Claim(Value),
    /// The claim comes, goes after so many milliseconds, and comes again if so wanted.
    Passing(Value, u64, bool),
}

fn volume(name: &str, class: &str, size: u64, policy: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "capacity": {"storage": format!("{size}Gi")},
            "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": format!("/tmp/pvbind-together/{name}")},
        },
    })
}

fn claim(name: &str, class: &str, size: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": format!("{size}Gi")}},
        },
    })
}

/// What is done for one claim of the burst: ten kinds take turns.
fn deeds(i: u64) -> Vec<Deed> {
    let (c, v) = (format!("c{i}"), format!("v{i}"));
    let size = 1 + i % 7;
    let pause = 20 + i * 37 % 400;
    let mut reserved = volume(&v, "", size, "Retain");
    reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": c});
    let mut naming = claim(&c, "", size);
    naming["spec"]["volumeName"] = json!(v);
    let own = format!("own-{i}");
    match i % 10 {
        0..=2 => vec![Deed::Volume(volume(&v, "", size, "Retain")), Deed::Claim(claim(&c, "", size))],
        3 => {
            // Of a class of its own: any other claim might be quicker.
            naming["spec"]["storageClassName"] = json!(own);
            vec![Deed::Volume(volume(&v, &own, size, "Retain")), Deed::Claim(naming)]
        }
        4 => vec![Deed::Volume(reserved), Deed::Claim(claim(&c, "", size))],
        5 => vec![Deed::Volume(reserved), Deed::Claim(naming)],
        6 if i % 20 == 6 => {
            vec![Deed::Volume(volume(&v, &own, 1, "Retain")), Deed::Claim(claim(&c, &own, 50))]
        }
        6 => vec![Deed::Volume(volume(&v, "silver", 5, "Retain")), Deed::Claim(claim(&c, "gold", 1))],
        7 => vec![
            Deed::Volume(volume(&v, &own, size, "Delete")),
            Deed::Passing(claim(&c, &own, size), pause, false),
        ],
        8 => vec![
            Deed::Volume(volume(&v, &own, size, "Retain")),
            Deed::Volume(volume(&format!("{v}-too"), &own, size, "Retain")),
            Deed::Passing(claim(&c, &own, size), pause, true),
        ],
        _ => vec![
            Deed::Volume(volume(&v, &own, size, "Recycle")),
            Deed::Passing(claim(&c, &own, size), pause, true),
        ],
    }
}

/// All deeds, shuffled: the same each time.
fn shuffled(claims: u64) -> Vec<Deed> {
    let mut deeds: Vec<Deed> = (0..claims).flat_map(deeds).collect();
    let mut seed: u64 = 1;
    for last in (1..deeds.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bound = u64::try_from(last + 1).expect("few deeds");
        let other = usize::try_from((seed >> 33) % bound).expect("few deeds");
        deeds.swap(last, other);
    }
    deeds
}

async fn create_claim(api: &Api<PersistentVolumeClaim>, object: &Value) {
    let claim = serde_json::from_value(object.clone()).expect("a claim");
    api.create(&PostParams::default(), &claim).await.unwrap_or_else(|error| panic!("{object}: {error}"));
}

async fn pass(api: &Api<PersistentVolumeClaim>, object: &Value, pause: u64, again: bool) {
    create_claim(api, object).await;
    tokio::time::sleep(Duration::from_millis(pause)).await;
    let name = object["metadata"]["name"].as_str().expect("a name");
    api.delete(name, &DeleteParams::default()).await.expect("the claim is deleted");
    let gone = async {
        while api.get_opt(name).await.expect("the claim can be asked for").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("claim {name} does not go"));
    if again {
        create_claim(api, object).await;
    }
}

/// Does all of it; comes back when all is done.
pub async fn burst(client: &Client, claims: u64) {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let (volumes, api) = (&volumes, &api);
    stream::iter(shuffled(claims))
        .for_each_concurrent(AT_ONCE, |deed| async move {
            match deed {
                Deed::Volume(object) => {
                    let volume = serde_json::from_value(object.clone()).expect("a volume");
                    let created = volumes.create(&PostParams::default(), &volume).await;
                    created.unwrap_or_else(|error| panic!("{object}: {error}"));
                }
                Deed::Claim(object) => create_claim(api, &object).await,
                Deed::Passing(object, pause, again) => pass(api, &object, pause, again).await,
            }
        })
        .await;
}
