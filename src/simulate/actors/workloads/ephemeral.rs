//! Generic ephemeral volumes: a claim `POD-VOLUME` for each, owned by the pod.
//!
//! Decides which claims a pod still lacks, and refuses a claim of that name that is not the pod's own. It never deletes
//! a claim: that follows from the owner reference. It answers to upstream's `ephemeral-volume` controller.

use crate::simulate::actors::call::{Call, Kind, Name, Remark, Target};
use crate::simulate::actors::world::{World, claims_of, is_for_pod};
use serde_json::{Value, json};

const SOURCE: &str = "ephemeral_volume";

/// What to do about the ephemeral volumes of a pod.
#[must_use]
pub fn plan(world: &World, name: &Name) -> Vec<Call> {
    let Some(pod) = world.pods.get(name).filter(|p| p.metadata.deletion_timestamp.is_none()) else {
        return Vec::new();
    };
    let target = Target::of(Kind::Pod, &pod.metadata);
    let mut calls = Vec::new();
    for (volume, claim_name) in claims_of(pod) {
        let Some(ephemeral) = &volume.ephemeral else { continue };
        let refused = |why: &str| {
            let message = format!("ephemeral volume {}: {why}", volume.name);
            Remark::warning(target.clone(), SOURCE, "FailedBinding", message)
        };
        if let Some(claim) = world.claims.get(&claim_name) {
            if is_for_pod(pod, claim) {
                continue;
            }
            let (namespace, pod_name, claim) = (&name.namespace, &name.name, &claim_name.name);
            let why = format!(
                "PVC {namespace}/{claim} was not created for pod {namespace}/{pod_name} (pod is not owner)"
            );
            // Upstream stops at the first volume that fails.
            calls.push(Call::Event(refused(&why)));
            break;
        }
        let template = ephemeral.volume_claim_template.as_ref();
        let meta = template.and_then(|t| t.metadata.clone()).unwrap_or_default();
        let object = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": claim_name.namespace,
                "name": claim_name.name,
                "labels": meta.labels.unwrap_or_default(),
                "annotations": meta.annotations.unwrap_or_default(),
                "ownerReferences": [target.controller_reference()],
            },
            "spec": template.map_or(Value::Null, |t| json!(t.spec)),
        });
        let otherwise = Some(refused(&format!("create PVC {}: ", claim_name.name)));
        calls.push(Call::Create { object, otherwise });
    }
    calls
}
