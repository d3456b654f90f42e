//! Random objects as JSON. What is absent is null, which Kubernetes reads the same.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

/// One of the values; those that stand there more than once are likelier.
fn one<const N: usize>(values: [Value; N]) -> impl Strategy<Value = Value> + Clone {
    select(Vec::from(values))
}

fn class() -> impl Strategy<Value = Value> {
    one([json!(null), json!(""), json!("now"), json!("now"), json!("late"), json!("odd"), json!("local")])
}

fn size() -> impl Strategy<Value = Value> {
    one([
        json!({"storage": "1Gi"}),
        json!({"storage": "1024Mi"}),
        json!({"storage": "2Gi"}),
        json!({"storage": "2Gi"}),
        json!({"storage": "1500M"}),
        json!({"storage": "0"}),
        json!({"storage": "much"}),
        json!(null),
    ])
}

fn access_modes() -> impl Strategy<Value = Value> {
    let (once, many, read) = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany");
    one([
        json!([once]),
        json!([once]),
        json!([many]),
        json!([once, read]),
        json!([once, many]),
        json!([read, once, many, once]),
        json!(null),
    ])
}

fn volume_mode() -> impl Strategy<Value = Value> {
    one([json!(null), json!("Filesystem"), json!("Filesystem"), json!("Block")])
}

fn deleted() -> impl Strategy<Value = Value> {
    prop_oneof![9 => Just(json!(null)), 1 => Just(json!("2026-01-02T03:04:05Z"))]
}

fn labels() -> impl Strategy<Value = Value> {
    one([json!(null), json!({"disk": "ssd"}), json!({"disk": "hdd"})])
}

fn attributes_class() -> impl Strategy<Value = Value> {
    prop_oneof![8 => Just(json!(null)), 1 => Just(json!("gold"))]
}

fn affinity() -> impl Strategy<Value = Value> {
    let term = |key: &str, operator: &str, values: Value| {
        json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": operator, "values": values}]},
        ]}})
    };
    one([
        json!(null),
        json!(null),
        json!(null),
        term("zone", "In", json!(["a"])),
        term("zone", "In", json!(["a", "b"])),
        term("zone", "NotIn", json!(["a"])),
        term("kubernetes.io/hostname", "In", json!(["n0"])),
        json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
        ]}}),
    ])
}

/// A volume's reference to a claim: none, by name, to the claim, to one before it of the same name, and to one in
/// another namespace.
fn reference() -> impl Strategy<Value = Value> {
    let to = |namespace: &str, index: usize, uid: Value| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": namespace, "name": format!("c{index}"), "uid": uid,
        })
    };
    prop_oneof![
        5 => Just(json!(null)),
        2 => (0usize..6).prop_map(move |i| to("default", i, json!(null))),
        2 => (0usize..6).prop_map(move |i| to("default", i, json!(format!("uid-c{i}")))),
        1 => (0usize..6).prop_map(move |i| to("default", i, json!("uid-old"))),
        1 => (0usize..2).prop_map(move |i| to("other", i, json!("uid-other"))),
    ]
}

/// Some of the annotations; most objects have none.
fn annotations(all: Vec<(&'static str, &'static str)>) -> impl Strategy<Value = Value> {
    let most = all.len().min(3);
    let some = subsequence(all, 0..=most).prop_map(|chosen| {
        let map: Map<String, Value> = chosen.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect();
        Value::Object(map)
    });
    prop_oneof![3 => Just(json!(null)), 2 => some]
}

/// A volume without a name.
pub fn volume() -> impl Strategy<Value = Value> {
    let notes = annotations(vec![
        ("pv.kubernetes.io/bound-by-controller", "yes"),
        ("pv.kubernetes.io/provisioned-by", "csi.example.com"),
        ("pv.kubernetes.io/provisioned-by", "kubernetes.io/aws-ebs"),
        ("pv.kubernetes.io/provisioned-by", "kubernetes.io/host-path"),
        ("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com"),
        ("volume.beta.kubernetes.io/storage-class", "now"),
        ("volume.alpha.kubernetes.io/pre-resize-capacity", "1Gi"),
    ]);
    let finalizers =
        one([json!(null), json!(null), json!(["kubernetes.io/pv-controller"]), json!(["other/finalizer"])]);
    let phase = one([
        json!(null),
        json!("Pending"),
        json!("Available"),
        json!("Available"),
        json!("Available"),
        json!("Bound"),
        json!("Released"),
        json!("Failed"),
    ]);
    let policy = one([json!("Retain"), json!("Delete"), json!("Recycle"), json!(null), json!("Shred")]);
    let source = one([
        json!({"hostPath": {"path": "/p"}}),
        json!({"hostPath": {"path": "/tmp/p"}}),
        json!({"csi": {"driver": "csi.example.com", "volumeHandle": "h"}}),
    ]);
    let shape = (class(), size(), access_modes(), volume_mode(), affinity(), labels(), attributes_class());
    let state = (reference(), phase, deleted(), policy, notes, finalizers, source);
    (shape, state).prop_map(|(shape, state)| {
        let (class, size, modes, mode, affinity, labels, attributes) = shape;
        let (reference, phase, deleted, policy, notes, finalizers, source) = state;
        let mut spec = json!({
            "capacity": size, "accessModes": modes, "volumeMode": mode, "storageClassName": class,
            "nodeAffinity": affinity, "claimRef": reference, "persistentVolumeReclaimPolicy": policy,
            "volumeAttributesClassName": attributes,
        });
        for (kind, source) in source.as_object().expect("a map") {
            spec[kind] = source.clone();
        }
        json!({
            "metadata": {
                "labels": labels, "annotations": notes, "finalizers": finalizers, "deletionTimestamp": deleted,
            },
            "spec": spec, "status": {"phase": phase},
        })
    })
}

fn selector() -> impl Strategy<Value = Value> {
    let expression = |operator: &str| json!({"matchExpressions": [{"key": "disk", "operator": operator, "values": ["ssd"]}]});
    one([
        json!(null),
        json!(null),
        json!(null),
        json!({"matchLabels": {"disk": "ssd"}}),
        expression("NotIn"),
        expression("Fits"),
    ])
}

/// A claim without a name.
pub fn claim() -> impl Strategy<Value = Value> {
    let notes = annotations(vec![
        ("pv.kubernetes.io/bind-completed", "yes"),
        ("pv.kubernetes.io/bound-by-controller", "yes"),
        ("volume.kubernetes.io/selected-node", "n0"),
        ("volume.kubernetes.io/storage-provisioner", "kubernetes.io/aws-ebs"),
        ("volume.beta.kubernetes.io/storage-provisioner", "csi.example.com"),
        ("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com"),
        ("volume.beta.kubernetes.io/storage-class", "late"),
    ]);
    let named = prop_oneof![
        3 => Just(json!(null)),
        1 => (0usize..6).prop_map(|i| json!(format!("p{i}"))),
    ];
    let phase = one([json!(null), json!("Pending"), json!("Pending"), json!("Bound"), json!("Lost")]);
    let held = one([json!(null), json!(null), json!({"storage": "1Gi"})]);
    let shape = (class(), size(), access_modes(), volume_mode(), selector(), attributes_class());
    let state = (named, phase, held, deleted(), notes);
    (shape, state).prop_map(|(shape, (named, phase, held, deleted, notes))| {
        let (class, size, modes, mode, selector, attributes) = shape;
        json!({
            "metadata": {
                "namespace": "default", "annotations": notes, "deletionTimestamp": deleted,
            },
            "spec": {
                "storageClassName": class, "resources": {"requests": size}, "accessModes": modes,
                "volumeMode": mode, "selector": selector, "volumeName": named,
                "volumeAttributesClassName": attributes,
            },
            "status": {"phase": phase, "capacity": held},
        })
    })
}

/// Up to three classes.
pub fn classes() -> impl Strategy<Value = Vec<Value>> {
    let made = |name: &str, provisioner: &str, mode: Value, default: Value| {
        json!({
            "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default}},
            "provisioner": provisioner, "volumeBindingMode": mode,
        })
    };
    let all = vec![
        made("now", "csi.example.com", json!("Immediate"), json!("false")),
        made("late", "csi.example.com", json!("WaitForFirstConsumer"), json!("false")),
        made("odd", "csi.example.com", json!(null), json!("false")),
        made("local", "kubernetes.io/no-provisioner", json!("WaitForFirstConsumer"), json!("true")),
        made("fast", "kubernetes.io/aws-ebs", json!("Immediate"), json!("true")),
    ];
    subsequence(all, 0..=3)
}

/// A pod without a name.
pub fn pod() -> impl Strategy<Value = Value> {
    let node = one([json!(null), json!(null), json!(null), json!("n0"), json!("n1")]);
    let phase = one([json!("Pending"), json!("Pending"), json!("Running"), json!("Succeeded")]);
    let cpu = one([json!("1"), json!("1"), json!("3")]);
    (subsequence(vec![0usize, 1, 2, 3], 0..=2), node, phase, cpu, deleted()).prop_map(
        |(claims, node, phase, cpu, deleted)| {
            let volumes: Vec<Value> = claims
                .into_iter()
                .map(|i| json!({"name": format!("v{i}"), "persistentVolumeClaim": {"claimName": format!("c{i}")}}))
                .collect();
            json!({
                "metadata": {"namespace": "default", "deletionTimestamp": deleted},
                "spec": {
                    "nodeName": node, "volumes": volumes,
                    "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
                },
                "status": {"phase": phase},
            })
        },
    )
}

/// A node without a name.
pub fn node() -> impl Strategy<Value = Value> {
    one([json!({"zone": "a"}), json!({"zone": "b"}), json!({})]).prop_map(|labels| {
        json!({
            "metadata": {"labels": labels},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}},
        })
    })
}

/// Gives objects their names, `<letter><index>`, and their uids; and nodes the label with their name.
pub fn named(letter: char, mut objects: Vec<Value>) -> Vec<Value> {
    for (index, object) in objects.iter_mut().enumerate() {
        let name = format!("{letter}{index}");
        if let Value::Object(labels) = &mut object["metadata"]["labels"]
            && letter == 'n'
        {
            labels.insert("kubernetes.io/hostname".to_owned(), json!(name));
        }
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        object["metadata"]["name"] = json!(name);
    }
    objects
}
