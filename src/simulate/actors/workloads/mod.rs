//! The workload controllers: what makes and takes away pods, claims and `ReplicaSets`.
//!
//! One file a kind, each a pure planning function that looks at the World and says what to call. What they share is
//! here: how a pod is made from a template, and how names and hashes are made without chance. They answer to
//! kube-controller-manager's `statefulset`, `deployment`, `replicaset`, `daemonset`, `job` and `ephemeral-volume`
//! controllers; they never place a pod and never mark one as running.

mod daemon_set;
mod deployment;
mod ephemeral;
mod job;
mod replica_set;
mod retention;
mod stateful_set;

pub use daemon_set::{plan_node as plan_daemon, plan_status as plan_daemon_set};
pub use deployment::plan as plan_deployment;
pub use ephemeral::plan as plan_ephemeral;
pub use job::plan as plan_job;
pub use replica_set::plan as plan_replica_set;
pub use stateful_set::{plan as plan_stateful_set, plan_replica, unordered};

use super::call::{Call, Remark, Target};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

/// Letters and digits that make no words, as upstream uses for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The longest a generated name may be before its five letters, as in upstream's `names.SimpleNameGenerator`.
const LONGEST_BASE: usize = 58;
/// How many pods one plan makes at most, as upstream's burst: what was made is taken in before more is decided.
const BURST: usize = 500;
/// Names the `ReplicaSet` that a pod belongs to within its Deployment.
const TEMPLATE_HASH: &str = "pod-template-hash";
/// Names the revision of the template that a pod was made from.
const REVISION_HASH: &str = "controller-revision-hash";

/// FNV-1a, the hash that upstream takes of templates (over other bytes).
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A name that is the same in every run: `BASExxxxx`. The letters look like chance, but no two numbers below 14 million
/// have the same: the stride has no divisor in common with the number of words there are.
fn generated(base: &str, seed: &str, number: u64) -> String {
    const WORDS: u64 = 27_u64.pow(5);
    const STRIDE: u64 = 8_121_373;
    let mut rest = (fnv(seed.as_bytes()) % WORDS + number % WORDS * STRIDE) % WORDS;
    let base = base.get(..LONGEST_BASE).unwrap_or(base);
    let letters = (0..5).map(|_| {
        let letter = usize::try_from(rest % 27).map_or('x', |at| char::from(ALPHABET[at]));
        rest /= 27;
        letter
    });
    base.chars().chain(letters).collect()
}

/// A template's hash, spelled as upstream spells one.
fn template_hash(template: &PodTemplateSpec) -> String {
    let folded = fnv(json!(template).to_string().as_bytes());
    let folded = (folded >> 32) ^ (folded & 0xffff_ffff);
    folded.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % 27])).collect()
}

/// A pod of a template, controlled by `owner`, without a name yet.
fn pod_from(template: &PodTemplateSpec, owner: &Target) -> Value {
    let meta = template.metadata.clone().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner.name.namespace,
            "labels": meta.labels.unwrap_or_default(),
            "annotations": meta.annotations.unwrap_or_default(),
            "finalizers": meta.finalizers.unwrap_or_default(),
            "ownerReferences": [owner.controller_reference()],
        },
        "spec": template.spec.clone().unwrap_or_default(),
    })
}

/// Gives a pod a generated name that starts with `OWNER-`.
fn name_pod(pod: &mut Value, owner: &Target, base: &str, number: u64) -> String {
    let seed = format!("{}/{}/{}", owner.kind.name(), owner.name.namespace, owner.name.name);
    let name = generated(base, &seed, number);
    pod["metadata"]["generateName"] = json!(base);
    pod["metadata"]["name"] = json!(name);
    name
}

/// Creates a pod and says so on the owner, or says why not.
fn create_pod(pod: Value, name: &str, owner: &Target, source: &str) -> [Call; 2] {
    let failed = Remark::warning(owner.clone(), source, "FailedCreate", "Error creating: ".to_owned());
    let done = Remark::normal(owner.clone(), source, "SuccessfulCreate", format!("Created pod: {name}"));
    [Call::Create { object: pod, otherwise: Some(failed) }, Call::Event(done)]
}

/// Deletes a pod and says so on the owner.
fn delete_pod(pod: Target, owner: &Target, source: &str) -> [Call; 2] {
    let message = format!("Deleted pod: {}", pod.name.name);
    let done = Remark::normal(owner.clone(), source, "SuccessfulDelete", message);
    [Call::delete(pod), Call::Event(done)]
}

/// Writes a status if it differs from the one that is there in any field that we write.
fn update_status(target: Target, old: &Value, new: &Value) -> Option<Call> {
    let same = new.as_object()?.iter().all(|(key, value)| {
        // A count of zero and no count are the same to every reader.
        let old = old.get(key).unwrap_or(&Value::Null);
        old == value || old.is_null() && (*value == json!(0) || value.is_null())
    });
    (!same).then(|| Call::merge_status(target, new))
}

/// A count as the API spells it.
fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::generated;
    use std::collections::BTreeSet;

    #[test]
    fn generated_names_never_clash() {
        let names: BTreeSet<_> =
            (0..50_000).map(|number| generated("web-", "ReplicaSet/default/web", number)).collect();
        assert_eq!(names.len(), 50_000);
        assert!(names.iter().all(|name| name.len() == 9));
        assert_ne!(generated("web-", "a", 0), generated("web-", "b", 0));
        assert_eq!(generated(&"long".repeat(40), "a", 0).len(), 63);
    }
}
