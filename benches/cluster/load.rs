//! Putting objects onto the API server, many at once.

use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::contest::{Contest, pod};

/// How many requests are under way at once: as many as our program has jobs.
pub const AT_ONCE: usize = 64;

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object).expect("an object of its kind");
    api.create(&PostParams::default(), &object).await.expect("it is created");
}

async fn create_all<K>(api: Api<K>, objects: impl Iterator<Item = Value>)
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    stream::iter(objects).for_each_concurrent(AT_ONCE, |object| create(&api, object)).await;
}

/// Everything that there is before claims.
pub async fn prepare(client: &Client, contest: Contest, claims: usize) {
    create::<StorageClass>(&Api::all(client.clone()), contest.class()).await;
    create_all::<Node>(Api::all(client.clone()), contest.nodes()).await;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    // As a controller has left them: its first look at them is not what is measured.
    let phased = contest.volumes(claims).map(|volume| (volume, "Available"));
    let phased = phased.chain(contest.released().map(|volume| (volume, "Released")));
    stream::iter(phased)
        .for_each_concurrent(AT_ONCE, |(volume, phase)| {
            let volumes = volumes.clone();
            async move {
                let name = volume["metadata"]["name"].as_str().expect("a name").to_owned();
                create(&volumes, volume).await;
                let phase = Patch::Merge(json!({"status": {"phase": phase}}));
                volumes.patch_status(&name, &PatchParams::default(), &phase).await.expect("it has a phase");
            }
        })
        .await;
}

/// Claims, with pods for them if the contest has some.
pub async fn ask(client: &Client, contest: Contest, which: std::ops::Range<usize>, scheduler: &str) {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    create_all(claims, which.clone().map(|index| contest.claim(index))).await;
    if contest.has_pods() {
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        create_all(pods, which.map(|index| pod(index, scheduler))).await;
    }
}

/// Patches each of these volumes four times, one after the other, each time the version that came back. Says how many
/// patches that were.
pub async fn patch_all(client: &Client, volumes: Vec<PersistentVolume>) -> usize {
    let api: Api<PersistentVolume> = Api::all(client.clone());
    let count = volumes.len() * 4;
    stream::iter(volumes)
        .for_each_concurrent(AT_ONCE, |mut volume| {
            let api = api.clone();
            async move {
                for round in 0..4 {
                    let name = volume.metadata.name.clone().expect("a name");
                    let patch = json!({"metadata": {
                        "resourceVersion": volume.metadata.resource_version,
                        "annotations": {"example.test/round": round.to_string()},
                    }});
                    let patch = Patch::Merge(patch);
                    volume = api.patch(&name, &PatchParams::default(), &patch).await.expect("it is patched");
                }
            }
        })
        .await;
    count
}
