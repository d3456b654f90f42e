//! A simulation's report in the form in which outcomes are recorded: names that vary become symbolic ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// What a report says, in the recorded form.
pub struct Normal {
    pub claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub pods: Vec<Value>,
    /// (type, reason, regarding).
    pub events: BTreeSet<(String, String, String)>,
}

pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// `pvc-` and a uid: the name of a provisioned volume.
fn is_provisioned(name: &str) -> bool {
    name.strip_prefix("pvc-")
        .is_some_and(|uid| uid.len() == 36 && uid.split('-').map(str::len).eq([8, 4, 4, 4, 12]))
}

/// Names in the report, and what the record calls them.
struct Names {
    pods: BTreeMap<String, String>,
    volumes: BTreeMap<String, String>,
}

impl Names {
    /// Pods with generated names are numbered by node; so is what is named after them.
    fn pods(report: &Value, wanted: &Value) -> BTreeMap<String, String> {
        let fixed: BTreeSet<&str> = list(wanted, "pods").iter().map(|pod| text(pod, "/name")).collect();
        let owners: BTreeSet<(&str, &str)> = fixed
            .iter()
            .filter_map(|name| {
                let mut parts = name.split('.');
                let (kind, owner, index) = (parts.next()?, parts.next()?, parts.next()?);
                let generated = matches!(kind, "deployment" | "replicaset" | "daemonset" | "job");
                (generated && index.parse::<usize>().is_ok()).then_some((kind, owner))
            })
            .collect();
        let mut names = BTreeMap::new();
        for (kind, owner) in owners {
            let belongs = |name: &str| {
                let rest = name.strip_prefix(owner).and_then(|rest| rest.strip_prefix('-'));
                rest.is_some_and(|r| {
                    !r.is_empty() && r.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric())
                }) && !fixed.contains(name)
            };
            let mut group: Vec<(&str, &str)> = list(report, "pods")
                .iter()
                .map(|pod| (text(pod, "/node"), text(pod, "/name")))
                .filter(|(_, name)| belongs(name))
                .collect();
            group.sort_by_key(|(node, name)| (if node.is_empty() { "~" } else { node }, *name));
            for (index, (_, name)) in group.into_iter().enumerate() {
                names.insert(name.to_owned(), format!("{kind}.{owner}.{index}"));
            }
        }
        names
    }

    fn pod(&self, name: &str) -> String {
        let mut name = name.to_owned();
        for (generated, symbolic) in self.pods.iter().rev() {
            name = name.replace(generated, symbolic);
        }
        name
    }

    fn volume(&self, name: &str) -> String {
        match self.volumes.get(name) {
            Some(symbolic) => symbolic.clone(),
            None if is_provisioned(name) => "provisioned:gone".to_owned(),
            None => name.to_owned(),
        }
    }
}

/// Puts a report into the recorded form.
pub fn normal(report: &Value, wanted: &Value) -> Normal {
    let objects: BTreeMap<(&str, &str, &str), &Value> = list(report, "objects")
        .iter()
        .map(|o| ((text(o, "/kind"), text(o, "/metadata/namespace"), text(o, "/metadata/name")), o))
        .collect();
    let is_claim = |kind: &str| kind == "PersistentVolumeClaim";
    let uids: BTreeSet<&str> = objects
        .iter()
        .filter(|((kind, ..), _)| is_claim(kind))
        .map(|(_, o)| text(o, "/metadata/uid"))
        .collect();
    let mut names = Names { pods: Names::pods(report, wanted), volumes: BTreeMap::new() };
    let known: BTreeSet<&str> = list(wanted, "volumes").iter().map(|v| text(v, "/name")).collect();
    for volume in list(report, "volumes") {
        let name = text(volume, "/name");
        let object = objects[&("PersistentVolume", "", name)];
        if !known.contains(name) && is_provisioned(name) {
            let gone = if uids.contains(text(object, "/spec/claimRef/uid")) { "" } else { "(gone)" };
            let claim = names.pod(text(volume, "/claim"));
            names.volumes.insert(name.to_owned(), format!("provisioned:{claim}{gone}"));
        }
    }
    Normal {
        claims: list(report, "claims").iter().map(|c| claim(c, &objects, &names)).collect(),
        volumes: list(report, "volumes").iter().map(|v| volume(v, &objects, &names, &uids)).collect(),
        pods: list(report, "pods")
            .iter()
            .filter(|pod| !text(pod, "/name").starts_with("recycler-for-"))
            .map(|pod| {
                let object = objects[&("Pod", text(pod, "/namespace"), text(pod, "/name"))];
                json!({
                    "namespace": pod["namespace"], "name": names.pod(text(pod, "/name")), "node": pod["node"],
                    "deleting": object["metadata"].get("deletionTimestamp").is_some(),
                })
            })
            .collect(),
        events: list(report, "events").iter().map(|event| described(event, &names)).collect(),
    }
}

type Objects<'a> = BTreeMap<(&'a str, &'a str, &'a str), &'a Value>;

fn or(value: Option<&Value>, otherwise: Value) -> Value {
    value.cloned().unwrap_or(otherwise)
}

fn claim(claim: &Value, objects: &Objects<'_>, names: &Names) -> Value {
    let object = objects[&("PersistentVolumeClaim", text(claim, "/namespace"), text(claim, "/name"))];
    let annotation = |key: &str| object["metadata"]["annotations"].get(key);
    json!({
        "namespace": claim["namespace"],
        "name": names.pod(text(claim, "/name")),
        "phase": claim["phase"],
        "volume": names.volume(text(claim, "/volume")),
        "capacity": text(object, "/status/capacity/storage"),
        "accessModes": or(object.pointer("/status/accessModes"), json!([])),
        "storageClassName": or(object.pointer("/spec/storageClassName"), json!("<unset>")),
        "selectedNode": or(annotation("volume.kubernetes.io/selected-node"), json!("")),
        "bindCompleted": annotation("pv.kubernetes.io/bind-completed").is_some(),
        "boundByController": annotation("pv.kubernetes.io/bound-by-controller").is_some(),
        "migratedTo": or(annotation("pv.kubernetes.io/migrated-to"), json!("")),
        "deleting": object["metadata"].get("deletionTimestamp").is_some(),
    })
}

fn volume(volume: &Value, objects: &Objects<'_>, names: &Names, uids: &BTreeSet<&str>) -> Value {
    let object = objects[&("PersistentVolume", "", text(volume, "/name"))];
    let annotation = |key: &str| object["metadata"]["annotations"].get(key);
    let reference = object.pointer("/spec/claimRef").map_or(json!({}), |reference| {
        let uid = match text(reference, "/uid") {
            "" => "",
            uid if uids.contains(uid) => "live",
            _ => "gone",
        };
        json!({"namespace": reference["namespace"], "name": names.pod(text(reference, "/name")), "uid": uid})
    });
    let mut finalizers: Vec<&str> =
        list(&object["metadata"], "finalizers").iter().filter_map(Value::as_str).collect();
    finalizers.sort_unstable();
    json!({
        "name": names.volume(text(volume, "/name")),
        "phase": volume["phase"],
        "claimRef": reference,
        "storageClassName": text(object, "/spec/storageClassName"),
        "finalizers": finalizers,
        "reclaimPolicy": text(object, "/spec/persistentVolumeReclaimPolicy"),
        "boundByController": annotation("pv.kubernetes.io/bound-by-controller").is_some(),
        "migratedTo": or(annotation("pv.kubernetes.io/migrated-to"), json!("")),
        "deleting": object["metadata"].get("deletionTimestamp").is_some(),
    })
}

fn described(event: &Value, names: &Names) -> (String, String, String) {
    let regarding = text(event, "/regarding");
    let regarding = match regarding.strip_prefix("PersistentVolume/") {
        Some(name) => format!("PersistentVolume/{}", names.volume(name)),
        None => names.pod(regarding),
    };
    (text(event, "/type").to_owned(), text(event, "/reason").to_owned(), regarding)
}
