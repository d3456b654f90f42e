//! What users are told of a pod whose volumes keep it from a node, and of what would cure it.

use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};

use crate::cluster::{Cluster, Key, Object};
use crate::decide::Settings;
use crate::decide::binder::{Pods, schedule};
use crate::objects::{Capacity, Claim, Class, CsiDriver, Node, Pod, Volume};

fn show<T>(cluster: &mut Cluster, object: Value)
where
    T: DeserializeOwned,
    Object: From<T>,
{
    cluster.show(Object::from(from_value::<T>(object).unwrap()));
}

/// A pod with claims `a` and `b` of class `w`, and node `n1` in zone `z1`.
fn world(class: &Value) -> Cluster {
    let mut cluster = Cluster::new();
    let status = json!({"allocatable": {"pods": "10"}});
    let labels = json!({"host": "n1", "zone": "z1"});
    show::<Node>(&mut cluster, json!({"metadata": {"name": "n1", "labels": labels}, "status": status}));
    show::<CsiDriver>(&mut cluster, json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}}));
    let mut of_class = json!({
        "metadata": {"name": "w"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer",
    });
    for (field, value) in class.as_object().into_iter().flatten() {
        of_class[field] = value.clone();
    }
    show::<Class>(&mut cluster, of_class);
    for name in ["a", "b"] {
        show::<Claim>(&mut cluster, claim(name, &json!({})));
    }
    let source = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let spec = json!({"containers": [], "volumes": [source("a"), source("b")]});
    show::<Pod>(&mut cluster, json!({"metadata": {"namespace": "default", "name": "p"}, "spec": spec}));
    cluster
}

fn claim(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": name, "annotations": annotations},
        "spec": {"storageClassName": "w", "resources": {"requests": {"storage": "60Gi"}}},
    })
}

fn report(cluster: &mut Cluster, name: &str, extra: &Value) {
    let mut report = json!({
        "metadata": {"namespace": "d", "name": name, "resourceVersion": "7"}, "storageClassName": "w",
        "nodeTopology": {"matchLabels": {"host": "n1"}},
    });
    for (field, value) in extra.as_object().into_iter().flatten() {
        report[field] = value.clone();
    }
    show::<Capacity>(cluster, report);
}

/// Why the pod is not on the node, after upstream's words, and what would cure it.
fn told(cluster: &Cluster) -> (String, String) {
    let plan = schedule(cluster, &Settings::default(), &Pods::All, &Key::pod("default", "p"));
    let text = plan.reason.to_string();
    let detail = text.splitn(3, ": ").nth(2).unwrap_or_default().to_owned();
    (detail, plan.reason.fix().unwrap_or_default())
}

const NO_REPORT: &str = "claim default/a requests 60Gi, and no CSIStorageCapacity of class w is for node n1";

#[rstest]
#[case::nothing_reported(&[], NO_REPORT, "let the driver of class w publish a CSIStorageCapacity for node n1")]
#[case::too_little(
    &[json!({"capacity": "50Gi"})],
    "claim default/a requests 60Gi, and CSIStorageCapacity d/r0 (version 7) reports 50Gi: 50Gi are free",
    "free 10Gi at node n1, or request 50Gi or less for claim default/a"
)]
#[case::both_together(
    &[json!({"capacity": "100Gi"})],
    "claim default/b requests 60Gi, and CSIStorageCapacity d/r0 (version 7) reports 100Gi, of which 60Gi are for other claims of the pod: 40Gi are free",
    "free 20Gi at node n1, or request 40Gi or less for claim default/b"
)]
#[case::too_large(
    &[json!({"capacity": "1000Gi", "maximumVolumeSize": "50Gi"})],
    "claim default/a requests 60Gi, and CSIStorageCapacity d/r0 (version 7) reports 1000Gi, in volumes of 50Gi at most: 50Gi are free",
    "let the driver make volumes of 60Gi at node n1, or request 50Gi or less for claim default/a"
)]
#[case::nearest_of_two(
    &[json!({"capacity": "10Gi"}), json!({"capacity": "20Gi"})],
    "claim default/a requests 60Gi, and CSIStorageCapacity d/r1 (version 7) reports 20Gi: 20Gi are free",
    "free 40Gi at node n1, or request 20Gi or less for claim default/a"
)]
#[case::says_nothing(
    &[json!({})],
    "claim default/a requests 60Gi, and CSIStorageCapacity d/r0 (version 7) reports nothing",
    "free 60Gi at node n1"
)]
fn missing_room_is_told_in_numbers(#[case] reports: &[Value], #[case] why: &str, #[case] fix: &str) {
    let mut cluster = world(&json!({}));
    for (index, extra) in reports.iter().enumerate() {
        report(&mut cluster, &format!("r{index}"), extra);
    }
    assert_eq!(told(&cluster), (why.to_owned(), fix.to_owned()));
}

#[test]
fn room_that_is_promised_names_those_to_whom() {
    let mut cluster = world(&json!({}));
    report(&mut cluster, "r", &json!({"capacity": "200Gi"}));
    let selected = json!({"volume.kubernetes.io/selected-node": "n1"});
    for name in ["other", "another"] {
        show::<Claim>(&mut cluster, claim(name, &selected));
    }
    let why = "claim default/b requests 60Gi, and CSIStorageCapacity d/r (version 7) reports 200Gi, \
               of which 120Gi are promised to default/other, default/another, \
               of which 60Gi are for other claims of the pod: 20Gi are free";
    assert_eq!(told(&cluster).0, why);
}

#[rstest]
#[case::nobody_makes_any(
    json!({"provisioner": "kubernetes.io/no-provisioner"}),
    "claim default/a finds no free volume that node n1 reaches, and class \"w\" has no provisioner",
    "create a volume with spec.storageClassName \"w\" for claim default/a that node n1 reaches"
)]
#[case::made_elsewhere(
    json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["z2", "z3"]}]}]}),
    "a volume of class \"w\" for claim default/a needs a node with label zone=z2 or z3, and node n1 has zone=z1",
    "add a node with label zone=z2 or z3"
)]
fn where_no_volume_is_to_be_had(#[case] class: Value, #[case] why: &str, #[case] fix: &str) {
    assert_eq!(told(&world(&class)), (why.to_owned(), fix.to_owned()));
}

#[test]
fn a_claim_for_which_another_node_is_selected_names_it() {
    let mut cluster = world(&json!({}));
    show::<Node>(&mut cluster, json!({"metadata": {"name": "n2"}, "spec": {"unschedulable": true}}));
    show::<Claim>(&mut cluster, claim("b", &json!({"volume.kubernetes.io/selected-node": "n2"})));
    let why = "node n2 is selected for claim default/b";
    assert_eq!(told(&cluster), (why.to_owned(), "make room for the pod on node n2".to_owned()));
}

fn bound(cluster: &mut Cluster, labels: &Value, terms: &Value) {
    for name in ["a", "b"] {
        let mut claim = claim(name, &json!({"pv.kubernetes.io/bind-completed": "yes"}));
        claim["spec"]["volumeName"] = json!(format!("v{name}"));
        show::<Claim>(cluster, claim);
    }
    show::<Volume>(cluster, json!({"metadata": {"name": "va"}}));
    let affinity = json!({"required": {"nodeSelectorTerms": terms}});
    let meta = json!({"name": "vb", "labels": labels});
    show::<Volume>(cluster, json!({"metadata": meta, "spec": {"nodeAffinity": affinity}}));
}

#[test]
fn a_volume_out_of_reach_names_the_label_that_differs() {
    let mut cluster = world(&json!({}));
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z2"]}]});
    bound(&mut cluster, &json!({}), &json!([term]));
    let why = "volume vb of claim default/b needs a node with label zone=z2, and node n1 has zone=z1";
    assert_eq!(
        told(&cluster),
        (why.to_owned(), "add a node with label zone=z2 on which the pod fits".to_owned())
    );
    bound(&mut cluster, &json!({}), &json!([]));
    let why = "volume vb of claim default/b can be reached from no node, whatever its labels";
    assert_eq!(told(&cluster), (why.to_owned(), "see spec.nodeAffinity of volume vb".to_owned()));
}

#[test]
fn a_volume_that_is_gone_is_named_with_its_claim() {
    let mut cluster = world(&json!({}));
    bound(&mut cluster, &json!({}), &json!([]));
    cluster.gone(&Key::volume("va"));
    let why = "claim default/a is bound to volume va, which does not exist";
    assert_eq!(told(&cluster), (why.to_owned(), "recreate claim default/a".to_owned()));
}

#[test]
fn a_zone_in_the_labels_of_a_volume_is_told_like_its_affinity() {
    let mut cluster = world(&json!({}));
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]});
    let label = "topology.kubernetes.io/zone";
    bound(&mut cluster, &json!({label: "z1__z2"}), &json!([term]));
    let labels = json!({"host": "n1", "zone": "z1", label: "z9"});
    let status = json!({"allocatable": {"pods": "10"}});
    show::<Node>(&mut cluster, json!({"metadata": {"name": "n1", "labels": labels}, "status": status}));
    let why = format!(
        "volume vb of claim default/b needs a node with label {label}=z1 or z2, and node n1 has {label}=z9"
    );
    assert_eq!(told(&cluster).0, why);
}
