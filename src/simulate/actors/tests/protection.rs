//! How long what is in use is kept from going away.

use super::scene::{NOW, Scene, bound_volume, claim, key, node, pod};
use crate::simulate::actors::{Key, Kind, Name};
use rstest::rstest;
use serde_json::{Value, json};

fn ephemeral_pod(node: Option<&str>) -> Value {
    let mut pod = pod("d1", node, &[]);
    pod["metadata"]["uid"] = json!("u1");
    pod["spec"]["volumes"] = json!([{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
    pod
}

fn owned(uid: &str) -> Value {
    let mut claim = claim("d1-tmp", json!({}), "Bound");
    claim["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "d1", "uid": uid, "controller": true}]);
    claim
}

fn shut_down(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!(NOW);
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    pod
}

fn finished(mut pod: Value) -> Value {
    pod["status"]["phase"] = json!("Succeeded");
    pod
}

#[rstest]
#[case::placed_pod(claim("c1", json!({}), "Bound"), pod("d1", Some("n1"), &["c1"]), true)]
#[case::finished_pod(claim("c1", json!({}), "Bound"), finished(pod("d1", Some("n1"), &["c1"])), true)]
#[case::leaving_pod(claim("c1", json!({}), "Bound"), shut_down(pod("d1", Some("n1"), &["c1"])), true)]
#[case::pod_without_node(claim("c1", json!({}), "Bound"), pod("d1", None, &["c1"]), false)]
#[case::other_claim(claim("c1", json!({}), "Bound"), pod("d1", Some("n1"), &["c2"]), false)]
#[case::own_ephemeral(owned("u1"), ephemeral_pod(Some("n1")), true)]
#[case::foreign_ephemeral(owned("u2"), ephemeral_pod(Some("n1")), false)]
#[case::ephemeral_of_leaving_pod(owned("u1"), shut_down(ephemeral_pod(Some("n1"))), false)]
fn a_claim_is_held_by(#[case] claim: Value, #[case] pod: Value, #[case] held: bool) {
    let name = claim["metadata"]["name"].as_str().expect("a name").to_owned();
    let mut scene = Scene::of([pod, claim]);
    let look = Key::ClaimProtection(key(&name));
    assert!(scene.plan(&look).is_empty(), "nothing to do before it is deleted");
    scene.delete(Kind::Claim, &name);
    let expected =
        format!(r#"merge PersistentVolumeClaim default/{name} {{"metadata":{{"finalizers":[]}}}}"#);
    assert_eq!(scene.plan(&look), if held { vec![] } else { vec![expected] });
}

#[test]
fn a_deleted_claim_waits_for_its_pod() {
    let objects = [node("n1", json!({})), pod("d1", Some("n1"), &["c1"]), claim("c1", json!({}), "Bound")];
    let mut scene = Scene::of(objects);
    scene.delete(Kind::Claim, "c1");
    scene.play();
    assert!(scene.get(Kind::Claim, "c1").is_some());
    scene.delete(Kind::Pod, "d1");
    scene.play();
    assert!(scene.get(Kind::Claim, "c1").is_none());
}

#[test]
fn a_deleted_volume_waits_while_it_is_bound() {
    let mut scene = Scene::of([bound_volume("p1", "c1")]);
    scene.delete(Kind::Volume, "p1");
    scene.play();
    assert!(scene.get(Kind::Volume, "p1").is_some());
    scene.merge(Kind::Volume, "p1", &json!({"status": {"phase": "Released"}}));
    scene.play();
    assert_eq!(scene.log, [r#"merge PersistentVolume p1 {"metadata":{"finalizers":[]}}"#]);
    assert!(scene.get(Kind::Volume, "p1").is_none());
}

#[test]
fn a_missing_finalizer_is_put_on_beside_the_others() {
    let mut volume = bound_volume("p1", "c1");
    volume["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let scene = Scene::of([volume]);
    assert_eq!(
        scene.plan(&Key::VolumeProtection(Name::new("", "p1"))),
        [concat!(
            r#"merge PersistentVolume p1 {"metadata":{"finalizers":"#,
            r#"["example.com/hold","kubernetes.io/pv-protection"]}}"#
        )]
    );
}

#[test]
fn a_deleted_attributes_class_waits_for_its_users() {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "driverName": "drv.example.com",
        "metadata": {"name": "gold", "finalizers": ["kubernetes.io/vac-protection"]},
    });
    let asks = claim("c1", json!({"volumeAttributesClassName": "gold"}), "Bound");
    let mut volume = bound_volume("p1", "c1");
    volume["spec"]["volumeAttributesClassName"] = json!("gold");
    let mut scene = Scene::of([class, asks, volume]);
    scene.delete(Kind::AttributesClass, "gold");
    scene.play();
    scene.delete(Kind::Claim, "c1");
    scene.play();
    assert!(scene.get(Kind::AttributesClass, "gold").is_some(), "the volume still has it");
    scene.merge(Kind::Volume, "p1", &json!({"spec": {"volumeAttributesClassName": "silver"}}));
    scene.play();
    assert!(scene.get(Kind::AttributesClass, "gold").is_none());
}
