//! The facts of upstream's `TestCSILimits`, restated, and what it leaves out.
//!
//! A volume of a pod is one word: `ebs-1` and `pd-1` are claims with volumes of two CSI drivers, `aws-1` is one of the
//! in-tree plugin that the first took over from, `host-1` one of a plugin that nobody did. `pending` waits for a volume
//! of a class, `missing` names one that is gone, `classless` has neither. `made` is a generic ephemeral volume, `in-pod-1`
//! an in-tree volume that stands in the pod, `secret` what is no volume to attach, `short` a CSI volume made for the pod.

use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;
use crate::cluster::Object;
use crate::objects::{Class, CsiNode, Volume};

const EBS: &str = "ebs.csi.aws.com";

/// How the node speaks of limits.
enum Limits {
    Of(i32),
    None,
    NoCsiNode,
}

fn show<T>(cluster: &mut Cluster, object: Value)
where
    T: serde::de::DeserializeOwned,
    Object: From<T>,
{
    cluster.show(Object::from(from_value::<T>(object).unwrap()));
}

fn volume(name: &str) -> Option<Value> {
    let csi = |driver: &str| json!({"csi": {"driver": driver, "volumeHandle": name}});
    let spec = match name.split_once('-')?.0 {
        "ebs" => csi(EBS),
        "pd" => csi("pd.csi.storage.gke.io"),
        "aws" => json!({"awsElasticBlockStore": {"volumeID": name}}),
        "host" => json!({"hostPath": {"path": "/tmp"}}),
        "in" => return None,
        other => panic!("no volume is called {other}-"),
    };
    Some(json!({"metadata": {"name": name}, "spec": spec}))
}

fn claim(name: &str) -> Value {
    let spec = match name {
        "pending" => json!({"storageClassName": "csi"}),
        "missing" => json!({"storageClassName": "csi", "volumeName": "missing-in-action"}),
        "classless" => json!({}),
        name if name.ends_with("-own") => json!({"storageClassName": "csi"}),
        name => json!({"volumeName": name}),
    };
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]);
    json!({"metadata": {"namespace": "default", "name": name, "ownerReferences": owner}, "spec": spec})
}

fn source(word: &str) -> Value {
    match word {
        "made" => json!({"name": "own", "ephemeral": {}}),
        "secret" => json!({"name": "s", "secret": {"secretName": "s"}}),
        "short" => json!({"name": "s", "csi": {"driver": EBS}}),
        word => match word.strip_prefix("in-pod-") {
            Some(id) => json!({"name": "i", "awsElasticBlockStore": {"volumeID": id}}),
            None => json!({"name": "v", "persistentVolumeClaim": {"claimName": word}}),
        },
    }
}

fn pod(name: &str, node: &str, words: &str) -> Pod {
    let volumes: Vec<Value> = words.split_whitespace().map(source).collect();
    let pod = json!({
        "metadata": {"namespace": "default", "name": name, "uid": "u"},
        "spec": {"nodeName": node, "containers": [], "volumes": volumes},
    });
    from_value(pod).unwrap()
}

/// Whether the pod `p` fits on a node with these pods.
fn fits(new: &str, existing: &[&str], provisioner: &str, limits: &Limits, attached: &[&str]) -> bool {
    let mut cluster = Cluster::new();
    let attached: Vec<Value> = attached
        .iter()
        .map(|handle| json!({"name": format!("kubernetes.io/csi/{EBS}^{handle}"), "devicePath": ""}))
        .collect();
    let node = json!({"metadata": {"name": "n"}, "status": {"volumesAttached": attached}});
    let node: Node = from_value(node).unwrap();
    let allocatable = match limits {
        Limits::Of(count) => json!({"count": count}),
        Limits::None | Limits::NoCsiNode => json!(null),
    };
    let drivers = [EBS, "pd.csi.storage.gke.io"]
        .map(|driver| json!({"name": driver, "nodeID": "n", "allocatable": allocatable}));
    if !matches!(limits, Limits::NoCsiNode) {
        let csi_node = json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}});
        show::<CsiNode>(&mut cluster, csi_node);
    }
    let class = json!({"metadata": {"name": "csi"}, "provisioner": provisioner});
    show::<Class>(&mut cluster, class);
    for word in existing.iter().chain([&new]).flat_map(|words| words.split_whitespace()) {
        if let Some(volume) = volume(word) {
            show::<Volume>(&mut cluster, volume);
        }
        show::<Claim>(&mut cluster, claim(word));
    }
    for owner in ["p", "e0", "e1", "e2"] {
        show::<Claim>(&mut cluster, claim(&format!("{owner}-own")));
    }
    for (index, words) in existing.iter().enumerate() {
        cluster.show(Object::from(pod(&format!("e{index}"), "n", words)));
    }
    let new = pod("p", "", new);
    Attachments::of(&cluster, "default", &new).fit(&cluster, &node).is_ok()
}

#[rstest]
#[case::fits("ebs-0", &["ebs-3", "ebs-1 ebs-2"], 4, true)]
#[case::is_one_too_many("ebs-0", &["ebs-3", "ebs-1 ebs-2"], 2, false)]
#[case::pending_counts("ebs-0", &["pending", "ebs-1 ebs-2"], 2, false)]
#[case::pending_counts_once("ebs-0", &["pending", "pending", "ebs-1 ebs-2"], 4, true)]
#[case::missing_counts_by_its_class("ebs-0", &["missing", "ebs-1 ebs-2"], 2, false)]
#[case::classless_does_not_count("ebs-0", &["ebs-3", "classless"], 2, true)]
#[case::drivers_count_apart("ebs-0", &["pd-1 pd-2", "ebs-1 ebs-2"], 2, false)]
#[case::of_the_other_driver("pd-1 pd-2", &["ebs-1 ebs-2", "ebs-3"], 2, true)]
#[case::in_tree_counts("aws-0", &["aws-1 aws-2"], 2, false)]
#[case::in_tree_pending_counts("pending", &["aws-1 aws-2"], 2, false)]
#[case::not_migrated_does_not_count("host-0", &["ebs-1 ebs-2"], 2, true)]
#[case::in_pod_counts("in-pod-a", &["aws-1 aws-2"], 2, false)]
#[case::in_tree_beside_csi("aws-0", &["ebs-1 ebs-2"], 2, false)]
#[case::in_pod_beside_both("in-pod-a", &["ebs-1 ebs-2", "aws-0"], 3, false)]
#[case::in_pod_of_the_same_name("in-pod-ebs-1", &["ebs-1 ebs-2", "aws-0"], 3, true)]
#[case::csi_beside_in_tree("ebs-0", &["aws-1 aws-2"], 2, false)]
#[case::ephemeral_alone("made", &[], 1, true)]
#[case::ephemeral_counts("made", &["ebs-3", "ebs-1 ebs-2"], 2, false)]
#[case::ephemeral_of_others_counts("ebs-0", &["ebs-3", "made"], 2, false)]
#[case::ephemeral_below_the_limit("ebs-0", &["ebs-3", "made", "ebs-1 ebs-2"], 5, true)]
#[case::ephemeral_at_the_limit("ebs-0", &["ebs-3", "made", "ebs-1 ebs-2"], 3, false)]
#[case::nothing_to_attach("secret", &["ebs-1 ebs-2"], 2, true)]
#[case::claims_among_other_volumes("secret ebs-0", &["ebs-1 ebs-2"], 2, false)]
#[case::in_pod_among_other_volumes("secret in-pod-a", &["aws-1 aws-2"], 2, false)]
#[case::made_for_the_pod("short", &["ebs-1 ebs-2", "short"], 2, true)]
#[case::already_there("ebs-1", &["ebs-1 ebs-2"], 2, true)]
#[case::already_there_and_one_more("ebs-1 ebs-0", &["ebs-1 ebs-2"], 2, false)]
#[case::twice_in_one_pod("ebs-0 ebs-0", &["ebs-1"], 2, true)]
#[case::nothing_fits("ebs-0", &[], 0, false)]
fn a_node_takes_so_many(
    #[case] new: &str,
    #[case] existing: &[&str],
    #[case] limit: i32,
    #[case] wanted: bool,
) {
    for provisioner in [EBS, "kubernetes.io/aws-ebs"] {
        assert_eq!(fits(new, existing, provisioner, &Limits::Of(limit), &[]), wanted, "{provisioner}");
    }
    for limits in [Limits::None, Limits::NoCsiNode] {
        assert!(fits(new, existing, EBS, &limits, &[]), "where nothing is limited everything fits");
    }
}

/// A plugin that upstream does not count even where it is migrated.
#[test]
fn azure_files_are_not_counted() {
    for provisioner in ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"] {
        assert!(fits("pending", &["ebs-0"], provisioner, &Limits::Of(0), &[]));
    }
}

#[rstest]
#[case::still_attached("ebs-0", &["ebs-8", "ebs-9"], &[], 2, false)]
#[case::below_the_limit("ebs-0", &["ebs-8"], &[], 2, true)]
#[case::of_a_pod_that_is_there("ebs-0", &["ebs-1"], &["ebs-1"], 2, true)]
#[case::its_own("ebs-0", &["ebs-0", "ebs-1"], &[], 2, true)]
fn what_is_attached_counts_though_no_pod_uses_it(
    #[case] new: &str,
    #[case] attached: &[&str],
    #[case] existing: &[&str],
    #[case] limit: i32,
    #[case] wanted: bool,
) {
    assert_eq!(fits(new, existing, EBS, &Limits::Of(limit), attached), wanted);
}

#[test]
fn pods_that_are_about_to_run_count_until_they_do_not() {
    let mut cluster = Cluster::new();
    let node: Node = from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let driver = json!({"name": EBS, "nodeID": "n", "allocatable": {"count": 1}});
    let csi_node = json!({"metadata": {"name": "n"}, "spec": {"drivers": [driver]}});
    show::<CsiNode>(&mut cluster, csi_node);
    for name in ["ebs-0", "ebs-1"] {
        show::<Volume>(&mut cluster, volume(name).unwrap());
        show::<Claim>(&mut cluster, claim(name));
    }
    let (first, second) = (pod("first", "", "ebs-0"), pod("second", "", "ebs-1"));
    let key = Key::pod("default", "first");
    cluster.show(Object::from(first));
    cluster.set_assumption(
        &key,
        Some(crate::cluster::Assumption::of("n", crate::cluster::PodVolumes::default())),
    );
    let refused = Attachments::of(&cluster, "default", &second).fit(&cluster, &node).unwrap_err();
    assert_eq!(refused, Unfit::TooManyVolumes { driver: EBS, limit: 1, there: 1, new: 1 });
    assert_eq!(refused.why(), "node(s) exceed max volume count");
    let fix =
        "driver ebs.csi.aws.com attaches at most 1 volumes to node n; 1 are there, and the pod needs 1 more";
    assert_eq!(refused.fix("n").as_deref(), Some(fix));
    cluster.set_assumption(&key, None);
    assert_eq!(Attachments::of(&cluster, "default", &second).fit(&cluster, &node), Ok(()));
}

#[test]
fn a_volume_that_is_detached_makes_room() {
    let node = |version: &str, attached: &[&str]| {
        let attached: Vec<Value> =
            attached.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
        let node = json!({
            "metadata": {"name": "n", "resourceVersion": version},
            "status": {"volumesAttached": attached},
        });
        Object::from(from_value::<Node>(node).unwrap())
    };
    let mut cluster = Cluster::new();
    cluster.show(node("1", &["a", "b"]));
    assert!(!cluster.show(node("2", &["a", "b", "c"])).may_help_pods);
    assert!(cluster.show(node("3", &["a", "c"])).may_help_pods);
}
