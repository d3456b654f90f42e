//! Decides what the server warns of while it does what it is told. Never refuses. Answers to the
//! `WarningsOnCreate` and `WarningsOnUpdate` of each kind.

mod addresses;
mod networks;
mod paths;
mod pods;
mod ports;
mod services;

use serde_json::Value;

use crate::kinds::Kind;
use crate::object::{at, text};
use crate::validate::field::Field;

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What there is to say of an object as it is stored now.
pub(crate) fn of(kind: &Kind, old: Option<&Value>, value: &Value) -> Vec<String> {
    if kind.custom {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let object = Field::root(value);
    match (&*kind.group, &*kind.kind) {
        ("", "PersistentVolume") => {
            beta_class(value, &mut warnings);
            if text(value, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
                let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
                warnings.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
            }
            for term in object.at("spec.nodeAffinity.required.nodeSelectorTerms").items() {
                pods::term(&term, false, &mut warnings);
            }
            gone(value, &mut warnings);
        }
        ("", "PersistentVolumeClaim") => {
            beta_class(value, &mut warnings);
            pods::claim(&object.at("spec"), &mut warnings);
        }
        ("", "Pod") => {
            if old.is_none() {
                warnings.extend(pods::name(text(value, &["metadata", "name"]), "the Pod's hostname"));
            }
            warnings.extend(pods::of(&object));
        }
        ("", "Service") => warnings.extend(services::of(&object)),
        ("", "Node") => {
            if !object.at("spec.externalID").is_empty() {
                let why = "this field is deprecated, and is unused by Kubernetes";
                warnings.push(format!("spec.externalID: {why}"));
            }
            for range in object.at("spec.podCIDRs").items() {
                addresses::range(&range, &mut warnings);
            }
        }
        ("", "ReplicationController" | "PodTemplate") | ("apps" | "batch", _) => {
            workload(kind, old, &object, &mut warnings);
        }
        ("storage.k8s.io", "StorageClass") => pods::topologies(&object, &mut warnings),
        ("storage.k8s.io", "CSIStorageCapacity") => {
            pods::term(&object.at("nodeTopology"), false, &mut warnings);
        }
        ("node.k8s.io", "RuntimeClass") => pods::runtime(&object, &mut warnings),
        ("networking.k8s.io", "Ingress") if old.is_none() => warnings.extend(networks::of_class(&object)),
        ("networking.k8s.io", "NetworkPolicy") => networks::of_policy(&object, &mut warnings),
        ("discovery.k8s.io", "EndpointSlice") => networks::of_slice(old.is_none(), &object, &mut warnings),
        ("storage.k8s.io", "CSIDriver") => tokens(old, value, &mut warnings),
        _ => {}
    }
    warnings
}

/// What there is to say of a status that was written alone.
pub(crate) fn of_status(kind: &Kind, value: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if (&*kind.group, &*kind.kind) == ("networking.k8s.io", "Ingress") {
        networks::of_status(&Field::root(value), &mut warnings);
    }
    warnings
}

fn tokens(old: Option<&Value>, value: &Value, warnings: &mut Vec<String>) {
    let tokens = at(value, &["spec", "tokenRequests"]).and_then(Value::as_array);
    let changed = old.is_none_or(|old| old["spec"]["tokenRequests"] != value["spec"]["tokenRequests"]);
    if changed
        && tokens.is_some_and(|tokens| !tokens.is_empty())
        && at(value, &["spec", "serviceAccountTokenInSecrets"]).is_none()
    {
        let why = "is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
        warnings.push(format!("spec.serviceAccountTokenInSecrets {why}"));
    }
}

/// What makes pods is warned of their template, when it is new or something of it has changed.
fn workload(kind: &Kind, old: Option<&Value>, object: &Field<'_>, warnings: &mut Vec<String>) {
    let generation = |value: &Value| value["metadata"]["generation"].as_i64();
    let unchanged = old.is_some_and(|old| generation(old) == generation(object.value));
    let (template, named) = match &*kind.kind {
        "CronJob" => ("spec.jobTemplate.spec.template", true),
        "Deployment" | "ReplicaSet" | "Job" | "ReplicationController" => ("spec.template", true),
        "StatefulSet" | "DaemonSet" => ("spec.template", false),
        "PodTemplate" => ("template", false),
        _ => return,
    };
    if named && old.is_none() {
        let name = text(object.value, &["metadata", "name"]);
        warnings.extend(pods::name(name, "Pod names and hostnames"));
    }
    if !unchanged {
        warnings.extend(pods::of(&object.at(template)));
    }
    if kind.kind == "StatefulSet" {
        for claim in object.at("spec.volumeClaimTemplates").items() {
            let spec = claim.at(if old.is_none() { "spec" } else { "Spec" });
            pods::claim(&Field::new(claim.at("spec").value, spec.path), warnings);
        }
        if object.at("spec.revisionHistoryLimit").number().is_some_and(|limit| limit < 0) {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {why}"));
        }
    }
    if kind.kind == "CronJob" && old.is_some() && object.at("spec.schedule").text().contains("TZ") {
        let instead = "use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        warnings.push(format!("cannot use TZ or CRON_TZ in spec.spec.schedule, {instead}"));
    }
}

/// What is said of every use of a kind that is on its way out, whatever comes of the request.
pub(crate) fn of_request(kind: &Kind) -> Option<String> {
    match &kind.definition {
        Some(version) => version.warning.clone(),
        None => (kind.kind == "Endpoints").then(|| {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
        }),
    }
}

/// What is said of owners that are named more than once. In a patch they are noticed later than in an object.
pub(crate) fn repeated_owners(value: &Value, patched: bool) -> Option<String> {
    let owners = at(value, &["metadata", "ownerReferences"]).and_then(Value::as_array)?;
    let (mut seen, mut twice): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for uid in owners.iter().map(|owner| text(owner, &["uid"])) {
        if seen.contains(&uid) && !twice.contains(&uid) {
            twice.push(uid);
        }
        seen.push(uid);
    }
    let noticed = if patched { " after mutating admission happens" } else { "" };
    let why = "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed:";
    (!twice.is_empty()).then(|| {
        let what = ".metadata.ownerReferences contains duplicate entries";
        format!("{what}{noticed}; {why} {}", twice.join(", "))
    })
}

/// Sources of volumes whose plugins are gone.
const GONE: &[(&str, &str, &str)] = &[
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn gone(value: &Value, warnings: &mut Vec<String>) {
    for (source, shown, why) in GONE {
        if at(value, &["spec", source]).is_some() {
            warnings.push(format!("spec.{shown}: {why}"));
        }
    }
}

fn beta_class(value: &Value, warnings: &mut Vec<String>) {
    if at(value, &["metadata", "annotations", BETA_CLASS]).is_some() {
        let instead = "deprecated since v1.8; use \"storageClassName\" attribute instead";
        warnings.push(format!("metadata.annotations[{BETA_CLASS}]: {instead}"));
    }
}
