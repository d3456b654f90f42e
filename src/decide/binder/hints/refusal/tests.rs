//! Who hears of what, and whom a change helps: every pair.

use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;
use crate::cluster::{Key, Kind, Object};
use crate::objects::{Capacity, Volume};

mod volumes;

fn no_volume() -> Refusal {
    Refusal::NoVolume { class: "c".to_owned() }
}

fn no_space() -> Refusal {
    Refusal::NoSpace { class: "c".to_owned() }
}

/// One of each kind of news, by its name; what is about a class is about the class `class`.
fn all_news(class: &str) -> Vec<(&'static str, News)> {
    let (node, class) = ("n".to_owned(), class.to_owned());
    let pod = Arc::new(Pod::default());
    let volume: Volume = from_value(json!({"spec": {"storageClassName": class}})).unwrap();
    let capacity = Capacity { storage_class_name: class.clone(), ..Capacity::default() };
    vec![
        ("NodeCount", News::NodeCount),
        ("Labels", News::Labels { node: node.clone() }),
        ("Taints", News::Taints { node: node.clone() }),
        ("Room", News::Room { node: node.clone() }),
        ("Migrated", News::Migrated { node: node.clone() }),
        ("Attachments", News::Attachments { node: node.clone() }),
        ("PodLeft", News::PodLeft { pod: pod.clone(), node: node.clone() }),
        ("PodCame", News::PodCame { pod: pod.clone(), node }),
        ("PodRelabelled", News::PodRelabelled { before: pod.clone(), after: pod }),
        ("Volume", News::Volume(Arc::new(volume))),
        ("Class", News::Class { class: class.clone() }),
        ("Capacity", News::Capacity { report: Arc::new(capacity), nodes: Vec::new() }),
        ("Unreported", News::Unreported { class }),
    ]
}

#[rstest]
#[case(Refusal::Taints, &["Taints"])]
#[case(Refusal::Labels, &["Labels"])]
#[case(Refusal::Ports, &["PodLeft"])]
#[case(Refusal::Resources, &["Room", "PodLeft"])]
#[case(Refusal::ClaimInUse, &["PodLeft"])]
#[case(Refusal::Disks, &["PodLeft"])]
#[case(Refusal::Attachments, &["Attachments", "PodLeft", "PodCame"])]
#[case(Refusal::Affinity, &["Labels", "PodLeft", "PodCame", "PodRelabelled"])]
#[case(Refusal::AntiAffinity, &["Labels", "PodLeft", "PodRelabelled"])]
#[case(Refusal::Reach, &["Labels", "Migrated"])]
#[case(no_volume(), &["Labels", "Volume", "Class"])]
#[case(no_space(), &["Labels", "Volume", "Capacity", "Unreported"])]
fn who_hears_of_what(#[case] refusal: Refusal, #[case] heard: &[&str]) {
    let hears = |class: &str| {
        let news = all_news(class).into_iter().filter(|(_, news)| refusal.hears(news));
        news.map(|(name, _)| name).collect::<Vec<_>>()
    };
    // More nodes, or fewer, are news to everybody.
    assert_eq!(hears("c"), [&["NodeCount"], heard].concat());
    let elsewhere = hears("d");
    assert!(elsewhere.iter().all(|name| !["Volume", "Class", "Capacity", "Unreported"].contains(name)));
}

/// Lays `over` over `value`, field by field.
fn laid(mut value: Value, over: &Value) -> Value {
    json_patch::merge(&mut value, over);
    value
}

fn node(over: &Value) -> Value {
    laid(json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9", "cpu": "2"}}}), over)
}

/// A pod on node `n` that is `app: other`, requests a cpu and has port 80 and claim `ns/x`.
fn other(over: &Value) -> Value {
    let container = json!({
        "name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80, "hostPort": 80}],
    });
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]);
    let other = json!({
        "metadata": {"namespace": "ns", "name": "other", "labels": {"app": "other"}},
        "spec": {"nodeName": "n", "containers": [container], "volumes": volumes},
    });
    laid(other, over)
}

/// What becomes of a pod that waits: it has claim `ns/x` of class `c`, for which `made.example.com` makes volumes, and
/// requests 1Gi; `spec` is what else it asks for.
fn is_helped(refusal: &Refusal, spec: &Value, (kind, before, after): &(Kind, Value, Value)) -> bool {
    let mut cluster = Cluster::new();
    let class = json!({"metadata": {"name": "c"}, "provisioner": "made.example.com"});
    cluster.show(Object::written(Kind::Class, class));
    let claim = json!({
        "metadata": {"namespace": "ns", "name": "x"},
        "spec": {"storageClassName": "c", "resources": {"requests": {"storage": "1Gi"}}},
    });
    cluster.show(Object::written(Kind::Claim, claim));
    cluster.show(Object::written(Kind::Node, node(&json!({}))));
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]);
    let pod = json!({
        "metadata": {"namespace": "ns", "name": "waiting", "labels": {"app": "waiting"}},
        "spec": laid(json!({"containers": [], "volumes": volumes}), spec),
    });
    let pod: Pod = from_value(pod).unwrap();
    cluster.show(Object::from(pod.clone()));
    let [before, after] =
        [before, after].map(|value| (!value.is_null()).then(|| Object::written(*kind, value.clone())));
    if let Some(before) = &before {
        cluster.show(before.clone());
    }
    let wakes = match &after {
        Some(after) => cluster.show(after.clone()),
        None => cluster.gone(&before.as_ref().unwrap().key()),
    };
    let Some(change) = wakes.change else { return false };
    let (settings, key) = (Settings::default(), Key::pod("ns", "waiting"));
    let waiting = Waiting { cluster: &cluster, settings: &settings, key: &key, pod: &pod };
    let news = News::of_change(&cluster, &change);
    news.iter().any(|news| refusal.hears(news) && refusal.is_cured(news, waiting))
}

fn requests(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

fn cpus(cpu: &str) -> Value {
    node(&json!({"status": {"allocatable": {"cpu": cpu}}}))
}

#[rstest]
#[case::enough(requests("3"), cpus("2"), cpus("4"), true)]
#[case::too_little(requests("5"), cpus("2"), cpus("4"), false)]
#[case::less(requests("1"), cpus("4"), cpus("2"), false)]
#[case::another(requests("1"), cpus("2"), node(&json!({"status": {"allocatable": {"gpu": "1"}}})), true)]
#[case::heartbeat(requests("1"), cpus("2"), node(&json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})), false)]
#[case::label(requests("1"), cpus("2"), node(&json!({"metadata": {"labels": {"a": "b"}}})), false)]
fn nodes_that_offer_more(
    #[case] spec: Value,
    #[case] before: Value,
    #[case] after: Value,
    #[case] helped: bool,
) {
    assert_eq!(is_helped(&Refusal::Resources, &spec, &(Kind::Node, before, after)), helped);
}

fn ports(number: i32) -> Value {
    json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": number}]}]})
}

fn near(kind: &str, app: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"});
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

fn beside(app: &str) -> Value {
    json!({"affinity": near("podAffinity", app)})
}

fn away_from(app: &str) -> Value {
    json!({"affinity": near("podAntiAffinity", app)})
}

#[rstest]
#[case::room(Refusal::Resources, requests("2"), true)]
#[case::still_too_much(Refusal::Resources, requests("3"), false)]
#[case::not_wanted_there(Refusal::Resources, json!({"nodeSelector": {"a": "b"}}), false)]
#[case::port(Refusal::Ports, ports(80), true)]
#[case::claim(Refusal::ClaimInUse, json!({}), true)]
#[case::other_claim(Refusal::ClaimInUse, json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "y"}}]}), false)]
#[case::first_of_its_kind(Refusal::Affinity, beside("other"), true)]
#[case::near_to_another(Refusal::Affinity, beside("third"), false)]
#[case::in_the_way(Refusal::AntiAffinity, away_from("other"), true)]
#[case::not_in_the_way(Refusal::AntiAffinity, away_from("third"), false)]
fn pods_that_leave(#[case] refusal: Refusal, #[case] spec: Value, #[case] helped: bool) {
    let (ran, running) = (json!({"status": {"phase": "Succeeded"}}), json!({"status": {"phase": "Running"}}));
    let gone = (Kind::Pod, other(&running), Value::Null);
    assert_eq!(is_helped(&refusal, &spec, &gone), helped, "gone");
    let finished = (Kind::Pod, other(&running), other(&ran));
    assert_eq!(is_helped(&refusal, &spec, &finished), helped, "finished");
    let goes_on = (Kind::Pod, other(&json!({})), other(&running));
    assert!(!is_helped(&refusal, &spec, &goes_on), "runs");
}

#[test]
fn a_port_that_somebody_else_has_too_stays_taken() {
    let elsewhere = other(&json!({"spec": {"nodeName": "m"}}));
    assert!(!is_helped(&Refusal::Ports, &ports(80), &(Kind::Pod, elsewhere, Value::Null)));
}

#[test]
fn pods_that_do_not_want_others() {
    let alone = other(&json!({"spec": {"affinity": near("podAntiAffinity", "waiting")}}));
    assert!(is_helped(&Refusal::AntiAffinity, &json!({}), &(Kind::Pod, alone, Value::Null)));
    let alone = other(&json!({"spec": {"affinity": near("podAntiAffinity", "third")}}));
    assert!(!is_helped(&Refusal::AntiAffinity, &json!({}), &(Kind::Pod, alone, Value::Null)));
}

#[rstest]
#[case::wanted(Refusal::Affinity, beside("other"), true)]
#[case::not_wanted(Refusal::Affinity, beside("third"), false)]
#[case::room(Refusal::Resources, requests("1"), false)]
#[case::far(Refusal::AntiAffinity, away_from("other"), false)]
fn pods_that_come(#[case] refusal: Refusal, #[case] spec: Value, #[case] helped: bool) {
    let unplaced = other(&json!({"spec": {"nodeName": null}}));
    assert_eq!(is_helped(&refusal, &spec, &(Kind::Pod, unplaced.clone(), other(&json!({})))), helped);
    assert!(!is_helped(&refusal, &spec, &(Kind::Pod, Value::Null, unplaced)));
}

#[rstest]
#[case::near_by_now(Refusal::Affinity, beside("new"), true)]
#[case::near_no_longer(Refusal::Affinity, beside("other"), true)]
#[case::near_to_another(Refusal::Affinity, beside("third"), false)]
#[case::far_by_now(Refusal::AntiAffinity, away_from("other"), true)]
#[case::far_no_longer(Refusal::AntiAffinity, away_from("new"), false)]
fn pods_with_other_labels(#[case] refusal: Refusal, #[case] spec: Value, #[case] helped: bool) {
    let after = other(&json!({"metadata": {"labels": {"app": "new"}}}));
    assert_eq!(is_helped(&refusal, &spec, &(Kind::Pod, other(&json!({})), after)), helped);
}

#[test]
fn pods_that_shrink() {
    let small = other(&json!({"spec": {"containers": [{"name": "c"}]}}));
    let shrinks = (Kind::Pod, other(&json!({})), small.clone());
    assert!(is_helped(&Refusal::Resources, &requests("2"), &shrinks));
    assert!(!is_helped(&Refusal::Resources, &requests("3"), &shrinks));
    let grows = (Kind::Pod, small, other(&json!({})));
    assert!(!is_helped(&Refusal::Resources, &requests("1"), &grows));
}

fn tainted(key: &str) -> Value {
    node(&json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}))
}

#[rstest]
#[case::uncordoned(node(&json!({"spec": {"unschedulable": true}})), node(&json!({"spec": {"unschedulable": false}})), true)]
#[case::cordoned(node(&json!({})), node(&json!({"spec": {"unschedulable": true}})), false)]
#[case::taint_taken_off(tainted("a"), node(&json!({})), true)]
#[case::other_taint(tainted("a"), tainted("b"), false)]
#[case::tainted(node(&json!({})), tainted("a"), false)]
#[case::label(node(&json!({})), node(&json!({"metadata": {"labels": {"a": "b"}}})), false)]
fn nodes_with_other_taints(#[case] before: Value, #[case] after: Value, #[case] helped: bool) {
    assert_eq!(is_helped(&Refusal::Taints, &json!({}), &(Kind::Node, before, after)), helped);
}

#[rstest]
#[case::wanted(Refusal::Labels, json!({"nodeSelector": {"a": "b"}}), true)]
#[case::another(Refusal::Labels, json!({"nodeSelector": {"a": "c"}}), false)]
#[case::reach(Refusal::Reach, json!({}), true)]
#[case::reach_from_where_it_may_not_be(Refusal::Reach, json!({"nodeSelector": {"a": "c"}}), false)]
#[case::volume(no_volume(), json!({}), true)]
#[case::space(no_space(), json!({}), true)]
#[case::near(Refusal::Affinity, beside("other"), true)]
#[case::far(Refusal::AntiAffinity, away_from("other"), true)]
#[case::room(Refusal::Resources, requests("1"), false)]
#[case::port(Refusal::Ports, ports(80), false)]
#[case::claim(Refusal::ClaimInUse, json!({}), false)]
#[case::taint(Refusal::Taints, json!({}), false)]
fn nodes_with_other_labels(#[case] refusal: Refusal, #[case] spec: Value, #[case] helped: bool) {
    let after = node(&json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(is_helped(&refusal, &spec, &(Kind::Node, node(&json!({})), after)), helped);
}

#[test]
fn nodes_that_come_and_go() {
    let another = json!({"metadata": {"name": "m"}});
    for refusal in [Refusal::Taints, Refusal::ClaimInUse, no_space()] {
        assert!(is_helped(&refusal, &json!({}), &(Kind::Node, Value::Null, another.clone())));
        assert!(is_helped(&refusal, &json!({}), &(Kind::Node, another.clone(), Value::Null)));
    }
}
