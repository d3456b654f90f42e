//! Decides that a pod has a service account, and mounts the token by which it is known. Answers to
//! `kubernetes/plugin/pkg/admission/serviceaccount`.

use serde_json::{Value, json};

use crate::object::{as_map_mut, at, key_of, map_mut, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;

const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// An hour, and seven seconds by which an old client's way of asking is told apart.
const LIFETIME: u64 = 3607;

pub(super) fn admit(server: &Server, store: &Store, target: &Target, pod: &mut Value) -> Result<()> {
    if at(pod, &["metadata", "annotations", MIRROR]).is_some() {
        return Ok(());
    }
    let spec = map_mut(pod, "spec");
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.entry(field).or_insert_with(|| "default".into());
    }
    let name = text(pod, &["spec", "serviceAccountName"]).to_owned();
    let index = store.kinds.named("ServiceAccount");
    let account = index.and_then(|index| store.get(index, &key_of(&target.namespace, &name)));
    let Some(account) = account.map(|account| account.value.share()) else {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount \"{name}\" not found",
            target.namespace
        );
        return Err(Status::forbidden("", "pods", text(pod, &["metadata", "name"]), &why));
    };
    let wants = |value: &Value, path: &[&str]| at(value, path).and_then(Value::as_bool);
    let mounts = wants(pod, &["spec", "automountServiceAccountToken"])
        .or_else(|| wants(&account, &["automountServiceAccountToken"]))
        .unwrap_or(true);
    if mounts {
        mount(server, pod);
    }
    let has = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|secrets| !secrets.is_empty());
    if let Some(secrets) = account.get("imagePullSecrets").filter(|_| !has) {
        map_mut(pod, "spec").insert("imagePullSecrets".into(), secrets.clone());
    }
    Ok(())
}

fn mount(server: &Server, pod: &mut Value) {
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let own = volumes.iter().map(|volume| text(volume, &["name"])).find(|name| name.starts_with(VOLUME));
    let name = own.map_or_else(|| server.generate_name(VOLUME), str::to_owned);
    let mut needed = false;
    for part in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(part).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers {
            let mounts = as_map_mut(container).entry("volumeMounts").or_insert_with(|| json!([]));
            let Value::Array(mounts) = mounts else { continue };
            if mounts.iter().all(|mount| mount["mountPath"] != PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": PATH}));
                needed = true;
            }
        }
    }
    if own.is_some() || !needed {
        return;
    }
    let volume = json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": LIFETIME, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}});
    let volumes = map_mut(pod, "spec").entry("volumes").or_insert_with(|| json!([]));
    if let Value::Array(volumes) = volumes {
        volumes.push(volume);
    }
}
