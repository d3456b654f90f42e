//! Decides what the server warns of while it does what it is told. Never refuses. Answers to the
//! `WarningsOnCreate` and `WarningsOnUpdate` of each kind.

use serde_json::Value;

use crate::kinds::Kind;
use crate::object::{at, text};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What there is to say of an object as it is stored now.
pub(crate) fn of(kind: &Kind, value: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    match (&*kind.group, &*kind.kind) {
        ("", "Endpoints") => warnings.push(endpoints().to_owned()),
        ("", "PersistentVolume") => {
            beta_class(value, &mut warnings);
            if text(value, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
                let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
                warnings.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
            }
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
            if tokens.is_some_and(|tokens| !tokens.is_empty())
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

fn beta_class(value: &Value, warnings: &mut Vec<String>) {
    if at(value, &["metadata", "annotations", BETA_CLASS]).is_some() {
        let instead = "deprecated since v1.8; use \"storageClassName\" attribute instead";
        warnings.push(format!("metadata.annotations[{BETA_CLASS}]: {instead}"));
    }
}
