//! A cluster as a test of an operator uses it.
use std::time::Duration;

use fake_cluster::FakeCluster;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
";

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_object_is_as_it_should_be() {
    let cluster = FakeCluster::builder().yaml(CLAIM).build().unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    let bind = async {
        let volume = json!({"spec": {"volumeName": "v1"}});
        claims.patch("data", &PatchParams::default(), &Patch::Merge(volume)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let bound = json!({"status": {"phase": "Bound"}});
        claims.patch_status("data", &PatchParams::default(), &Patch::Merge(bound)).await.unwrap();
    };
    let (volume, ()) = tokio::join!(cluster.await_bound("default", "data"), bind);
    assert_eq!(volume.unwrap(), "v1");
    let (code, _) =
        cluster.server().request("DELETE", "/api/v1/namespaces/default/persistentvolumeclaims/data", "", b"");
    assert_eq!(code, 200);
    cluster.wait_gone(("PersistentVolumeClaim", "default", "data"), Duration::ZERO).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_in_vain_says_what_there_was_instead() {
    let cluster = FakeCluster::builder().yaml(CLAIM).build().unwrap();
    let refused = cluster.await_bound("default", "data").await.unwrap_err().to_string();
    assert!(
        refused.starts_with("waited 30s for PersistentVolumeClaim default/data to be Bound: it is {"),
        "{refused}"
    );
    assert!(refused.contains("\"phase\": \"Pending\""), "{refused}");
    let refused = cluster.await_bound("default", "date").await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "waited 30s for PersistentVolumeClaim default/date to be Bound: there is none; there are default/data"
    );
    let refused = cluster.await_scheduled("default", "p").await.unwrap_err().to_string();
    assert_eq!(refused, "waited 30s for Pod default/p to be scheduled: there is none; nor any other Pod");
}

#[test]
fn what_cannot_be_seeded_is_named() {
    let refused = |text: &str| FakeCluster::builder().yaml(text).build().unwrap_err().to_string();
    let message = refused("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}}");
    assert!(
        message.starts_with("seed 1: PersistentVolumeClaim a: PersistentVolumeClaim \"a\" is invalid: "),
        "{message}"
    );
    let message = refused("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {answer: no}}");
    assert_eq!(
        message,
        "seed 1: ConfigMap a: ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal bool into Go \
         struct field ConfigMap.data of type string"
    );
    assert!(refused("a: [").starts_with("seed 1: "), "it is no YAML");
    let message = FakeCluster::builder().file("/nowhere.yaml").build().unwrap_err().to_string();
    assert!(message.starts_with("/nowhere.yaml: "), "{message}");
    let message = FakeCluster::builder().faults("rules: [{}]").build().unwrap_err().to_string();
    assert!(message.starts_with("faults: rules[0]: nothing goes wrong"), "{message}");
}

#[tokio::test]
async fn clients_have_names_and_things_go_wrong_for_one_of_them() {
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let cluster = FakeCluster::builder()
        .object(&map)
        .faults("rules: [{userAgents: [operator/*], verbs: [create], nth: 1, answer: {code: 503}}]")
        .build()
        .unwrap();
    let named = |name: &str| ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let other: Api<ConfigMap> = Api::default_namespaced(cluster.client_named("other/1"));
    other.create(&PostParams::default(), &named("b")).await.unwrap();
    let operator: Api<ConfigMap> = Api::default_namespaced(cluster.client_named("operator/1"));
    let refused = operator.create(&PostParams::default(), &named("c")).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 503));
    operator.create(&PostParams::default(), &named("c")).await.unwrap();
    cluster.journal().by("operator/*").writes().assert_count(2);
    cluster.journal().by("other/*").writes().code(201).assert_count(1);
    assert!(cluster.get("ConfigMap", "default", "a").is_some());
}
