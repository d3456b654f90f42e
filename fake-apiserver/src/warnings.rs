//! Decides what the server warns of while it does what it is told. Never refuses. Answers to the
//! `WarningsOnCreate` and `WarningsOnUpdate` of each kind.

use serde_json::Value;

use crate::kinds::Kind;
use crate::object::{at, text};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What there is to say of an object as it is stored now.
pub(crate) fn of(kind: &Kind, old: Option<&Value>, value: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    match (&*kind.group, &*kind.kind) {
        ("", "Endpoints") => warnings.push(endpoints().to_owned()),
        ("", "PersistentVolume") => {
            beta_class(value, &mut warnings);
            if text(value, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
                let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
                warnings.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
            }
            gone(value, &mut warnings);
        }
        ("", "PersistentVolumeClaim") => {
            beta_class(value, &mut warnings);
            for part in ["requests", "limits"] {
                let amount = text(value, &["spec", "resources", part, "storage"]);
                if amount.ends_with('m') || amount.ends_with("e-3") {
                    let field = format!("spec.resources.{part}[storage]");
                    warnings.push(format!(
                        "{field}: fractional byte value \"{amount}\" is invalid, must be an integer"
                    ));
                }
            }
        }
        ("storage.k8s.io", "CSIDriver") => {
            let tokens = at(value, &["spec", "tokenRequests"]).and_then(Value::as_array);
            let changed =
                old.is_none_or(|old| old["spec"]["tokenRequests"] != value["spec"]["tokenRequests"]);
            if changed
                && tokens.is_some_and(|tokens| !tokens.is_empty())
                && at(value, &["spec", "serviceAccountTokenInSecrets"]).is_none()
            {
                let why = "is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
                warnings.push(format!("spec.serviceAccountTokenInSecrets {why}"));
            }
        }
        _ => {}
    }
    warnings
}

/// What is said of every use of a kind that is on its way out.
pub(crate) fn endpoints() -> &'static str {
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
}

/// What is said of owners that are named more than once.
pub(crate) fn repeated_owners(value: &Value) -> Option<String> {
    let owners = at(value, &["metadata", "ownerReferences"]).and_then(Value::as_array)?;
    let (mut seen, mut twice): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for uid in owners.iter().map(|owner| text(owner, &["uid"])) {
        if seen.contains(&uid) && !twice.contains(&uid) {
            twice.push(uid);
        }
        seen.push(uid);
    }
    let why = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed:";
    (!twice.is_empty()).then(|| format!("{why} {}", twice.join(", ")))
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
