//! What helps pods that volumes keep waiting.

use super::*;

fn migrated(plugins: &str) -> Value {
    let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": plugins, "a": "b"});
    json!({"metadata": {"name": "n", "annotations": annotations}, "spec": {"drivers": []}})
}

#[rstest]
#[case::new(Value::Null, migrated(""), true)]
#[case::gone(migrated("kubernetes.io/gce-pd"), Value::Null, true)]
#[case::migrated(migrated(""), migrated("kubernetes.io/gce-pd"), true)]
#[case::same(migrated(""), laid(migrated(""), &json!({"metadata": {"annotations": {"a": "c"}}})), false)]
fn plugins_that_are_migrated(#[case] before: Value, #[case] after: Value, #[case] helped: bool) {
    let change = (Kind::CsiNode, before, after);
    assert_eq!(is_helped(&Refusal::Reach, &json!({}), &change), helped);
    assert!(!is_helped(&Refusal::Reach, &json!({"nodeSelector": {"a": "c"}}), &change), "not there anyway");
    assert!(!is_helped(&no_volume(), &json!({}), &change), "free volumes are matched as they are");
}

fn volume(over: &Value) -> Value {
    let volume = json!({
        "metadata": {"name": "v"},
        "spec": {"storageClassName": "c", "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"},
    });
    laid(volume, over)
}

#[rstest]
#[case::new(Value::Null, volume(&json!({})), true)]
#[case::free_by_now(volume(&json!({"status": {"phase": "Released"}})), volume(&json!({})), true)]
#[case::larger(volume(&json!({"spec": {"capacity": {"storage": "1Mi"}}})), volume(&json!({})), true)]
#[case::labelled(volume(&json!({})), volume(&json!({"metadata": {"labels": {"a": "b"}}})), true)]
#[case::same(volume(&json!({})), volume(&json!({"metadata": {"annotations": {"a": "b"}}})), false)]
#[case::too_small(Value::Null, volume(&json!({"spec": {"capacity": {"storage": "1Mi"}}})), false)]
#[case::other_class(Value::Null, volume(&json!({"spec": {"storageClassName": "d"}})), false)]
#[case::not_free(Value::Null, volume(&json!({"status": {"phase": "Pending"}})), false)]
#[case::taken(volume(&json!({})), volume(&json!({"spec": {"claimRef": {"name": "y"}}})), false)]
#[case::gone(volume(&json!({})), Value::Null, false)]
fn volumes_that_become_free(#[case] before: Value, #[case] after: Value, #[case] helped: bool) {
    let change = (Kind::Volume, before, after);
    assert_eq!(is_helped(&no_volume(), &json!({}), &change), helped);
    // A claim that takes it needs no new storage.
    assert_eq!(is_helped(&no_space(), &json!({}), &change), helped);
    assert!(!is_helped(&Refusal::Reach, &json!({}), &change), "a bound volume leads to the pod by key");
}

fn class(name: &str, zones: &Value) -> Value {
    let terms = json!([{"matchLabelExpressions": [{"key": "zone", "values": zones}]}]);
    json!({"metadata": {"name": name}, "provisioner": "made.example.com", "allowedTopologies": terms})
}

#[rstest]
#[case::other_zones(class("c", &json!(["a"])), class("c", &json!(["b"])), true)]
#[case::same(class("c", &json!(["a"])), laid(class("c", &json!(["a"])), &json!({"metadata": {"labels": {"a": "b"}}})), false)]
#[case::unrelated(class("d", &json!(["a"])), class("d", &json!(["b"])), false)]
fn classes_that_allow_others(#[case] before: Value, #[case] after: Value, #[case] helped: bool) {
    let change = (Kind::Class, before, after);
    assert_eq!(is_helped(&no_volume(), &json!({}), &change), helped);
    assert!(!is_helped(&Refusal::Reach, &json!({}), &change));
}

fn report(capacity: &str, over: &Value) -> Value {
    let report = json!({
        "metadata": {"namespace": "ns", "name": "r"}, "storageClassName": "c", "nodeTopology": {}, "capacity": capacity,
    });
    laid(report, over)
}

#[rstest]
#[case::new(Value::Null, report("1Gi", &json!({})), true)]
#[case::grown(report("1Mi", &json!({})), report("1Gi", &json!({})), true)]
#[case::grown_too_little(report("1Mi", &json!({})), report("2Mi", &json!({})), false)]
#[case::shrunk(report("9Gi", &json!({})), report("2Gi", &json!({})), false)]
#[case::other_class(Value::Null, report("1Gi", &json!({"storageClassName": "d"})), false)]
#[case::largest_too_small(Value::Null, report("1Gi", &json!({"maximumVolumeSize": "1Mi"})), false)]
#[case::no_node(Value::Null, report("1Gi", &json!({"nodeTopology": {"matchLabels": {"a": "b"}}})), false)]
#[case::gone(report("1Gi", &json!({})), Value::Null, false)]
fn storage_that_grows(#[case] before: Value, #[case] after: Value, #[case] helped: bool) {
    let change = (Kind::Capacity, before, after);
    assert_eq!(is_helped(&no_space(), &json!({}), &change), helped);
    assert!(!is_helped(&no_space(), &json!({"nodeSelector": {"a": "c"}}), &change), "no node would do");
    assert!(!is_helped(&no_volume(), &json!({}), &change));
}

fn driver(name: &str, tracks: bool) -> Value {
    json!({"metadata": {"name": name}, "spec": {"storageCapacity": tracks}})
}

#[rstest]
#[case::tells_no_longer(driver("made.example.com", true), driver("made.example.com", false), true)]
#[case::gone(driver("made.example.com", true), Value::Null, true)]
#[case::tells(driver("made.example.com", false), driver("made.example.com", true), false)]
#[case::new(Value::Null, driver("made.example.com", false), false)]
#[case::unrelated(driver("other.example.com", true), driver("other.example.com", false), false)]
fn drivers_that_tell_no_longer(#[case] before: Value, #[case] after: Value, #[case] helped: bool) {
    let change = (Kind::CsiDriver, before, after);
    assert_eq!(is_helped(&no_space(), &json!({}), &change), helped);
    assert!(!is_helped(&no_volume(), &json!({}), &change));
}

fn attaching(count: i32) -> Value {
    let drivers = json!([{"name": "d", "nodeID": "n", "allocatable": {"count": count}}]);
    json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
}

fn attached(volumes: &[&str]) -> Value {
    let volumes: Vec<_> = volumes.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
    node(&json!({"status": {"volumesAttached": volumes}}))
}

#[rstest]
#[case::more(Kind::CsiNode, attaching(1), attaching(2), true)]
#[case::fewer(Kind::CsiNode, attaching(2), attaching(1), false)]
#[case::no_limit(Kind::CsiNode, attaching(1), json!({"metadata": {"name": "n"}, "spec": {"drivers": []}}), true)]
#[case::gone(Kind::CsiNode, attaching(1), Value::Null, true)]
#[case::detached(Kind::Node, attached(&["a", "b"]), attached(&["b"]), true)]
#[case::attached(Kind::Node, attached(&["b"]), attached(&["a", "b"]), false)]
#[case::pod_comes(Kind::Pod, other(&json!({"spec": {"nodeName": null}})), other(&json!({})), true)]
#[case::pod_leaves(Kind::Pod, other(&json!({})), Value::Null, true)]
fn nodes_that_attach_more(
    #[case] kind: Kind,
    #[case] before: Value,
    #[case] after: Value,
    #[case] helped: bool,
) {
    let change = (kind, before, after);
    assert_eq!(is_helped(&Refusal::Attachments, &json!({}), &change), helped);
    assert!(!is_helped(&Refusal::Attachments, &json!({"nodeSelector": {"a": "c"}}), &change));
}

#[test]
fn disks_that_become_free() {
    let disk = json!({"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]});
    let holder = other(&json!({"spec": disk}));
    assert!(is_helped(&Refusal::Disks, &disk, &(Kind::Pod, holder.clone(), Value::Null)));
    let elsewhere = json!({"nodeSelector": {"a": "c"}});
    assert!(!is_helped(&Refusal::Disks, &laid(disk, &elsewhere), &(Kind::Pod, holder, Value::Null)));
}

/// Another claim is promised all that a driver reports, until it is deleted.
#[rstest]
#[case::strictly(true, "1Gi", true)]
#[case::too_little_all_the_same(true, "1Mi", false)]
#[case::not_strictly(false, "1Gi", true)]
fn storage_that_is_promised_no_longer(#[case] strict: bool, #[case] reported: &str, #[case] helped: bool) {
    let mut cluster = Cluster::new();
    let class = json!({"metadata": {"name": "c"}, "provisioner": "made.example.com"});
    let claim = |name: &str, annotations: Value| {
        json!({
            "metadata": {"namespace": "ns", "name": name, "annotations": annotations},
            "spec": {"storageClassName": "c", "resources": {"requests": {"storage": "1Gi"}}},
        })
    };
    let selected = json!({"volume.kubernetes.io/selected-node": "n"});
    for (kind, value) in [
        (Kind::Class, class),
        (Kind::CsiDriver, driver("made.example.com", true)),
        (Kind::Node, node(&json!({}))),
        (Kind::Capacity, report(reported, &json!({}))),
        (Kind::Claim, claim("x", json!({}))),
        (Kind::Claim, claim("y", selected)),
    ] {
        cluster.show(Object::written(kind, value));
    }
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]);
    let pod: Pod = from_value(json!({"spec": {"containers": [], "volumes": volumes}})).unwrap();
    let (settings, key) =
        (Settings { strict_capacity: strict, ..Settings::default() }, Key::pod("ns", "waiting"));
    let grown = cluster.capacities_for("c", cluster.node("n").unwrap()).next().unwrap().1.clone();
    let grown = News::Capacity { report: grown, nodes: vec!["n".to_owned()] };
    let is_cured = |cluster: &Cluster, news: &News| {
        let waiting = Waiting { cluster, settings: &settings, key: &key, pod: &pod };
        no_space().hears(news) && no_space().is_cured(news, waiting)
    };
    assert_eq!(is_cured(&cluster, &grown), !strict, "it is promised to the other claim");
    let change = cluster.gone(&Key::claim("ns", "y")).change.unwrap();
    let news = News::of_change(&cluster, &change);
    assert_eq!(news.iter().any(|news| is_cured(&cluster, news)), helped);
}
