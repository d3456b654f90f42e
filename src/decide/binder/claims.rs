//! What a pod's claims are waiting for.
//!
//! [`check`] says what stops a pod wherever it is to be, [`sort`] which of its claims are bound and which are bound
//! together with the choice of a node. Neither looks at a node. Answers to upstream's `podHasPVCs` and
//! `GetPodVolumeClaims`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::{Cluster, Key};
use crate::decide::reason::PodReason;
use crate::decide::{Reason, matching};
use crate::objects::{Claim, Pod, claim, is_deleting, pod};

/// A claim and its key.
pub type Used = (Key, Arc<Claim>);

/// A pod's claims, each once, in the order of the pod's volumes.
#[derive(Clone, Debug, Default)]
pub struct PodClaims {
    /// Those that have their volume.
    pub bound: Vec<Used>,
    /// Those for which a volume is chosen, or made, together with the node.
    pub delayed: Vec<Used>,
    /// Those that ought to be bound by now, as no pod has a say in it; also those that name a volume.
    pub immediate: Vec<Used>,
}

/// Why a pod's claims could not be sorted; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsorted {
    /// There is no such claim.
    #[error("error getting PVC {0:?}: persistentvolumeclaims {0:?} not found", .claim.path())]
    NotFound {
        /// The claim.
        claim: Key,
        /// Whether it is still to be made for a generic ephemeral volume.
        ephemeral: bool,
    },
    /// The claim of an ephemeral volume was not made for the pod.
    #[error("PVC {} was not created for pod {} (pod is not owner)", .claim.path(), .pod.path())]
    NotOwned {
        /// The pod.
        pod: Key,
        /// The claim.
        claim: Key,
    },
    /// The claim's class does not say when to bind.
    #[error("{0}")]
    Class(Reason),
}

impl Unsorted {
    /// The same, as what a pod waits for.
    #[must_use]
    pub fn reason(self, pod: &Key) -> Reason {
        match self {
            Unsorted::NotFound { claim, ephemeral } => {
                Reason::Pod(PodReason::ClaimNotFound { pod: pod.clone(), claim, ephemeral })
            }
            Unsorted::NotOwned { pod, claim } => Reason::Pod(PodReason::ClaimNotOwned { pod, claim }),
            Unsorted::Class(reason) => reason,
        }
    }
}

/// Looks whether every claim of the pod is there and is going to stay; says whether the pod uses any.
///
/// # Errors
/// Why the pod cannot be placed anywhere before something is done about one of its claims.
pub fn check(cluster: &Cluster, key: &Key, pod: &Pod) -> Result<bool, PodReason> {
    let mut any = false;
    for used in pod::claims(pod) {
        any = true;
        let (pod_key, claim_key) = (key.clone(), Key::claim(key.namespace(), &used.claim));
        let Some(claim) = cluster.claim(&claim_key) else {
            return Err(PodReason::ClaimNotFound {
                pod: pod_key,
                claim: claim_key,
                ephemeral: used.ephemeral,
            });
        };
        if claim::phase(claim) == claim::LOST {
            let volume = claim::volume_name(claim).to_owned();
            return Err(PodReason::ClaimLost { pod: pod_key, claim: claim_key, volume });
        }
        if is_deleting(&claim.metadata) {
            return Err(PodReason::ClaimDeleting { pod: pod_key, claim: claim_key });
        }
        if used.ephemeral && !pod::owns(pod, claim) {
            return Err(PodReason::ClaimNotOwned { pod: pod_key, claim: claim_key });
        }
    }
    Ok(any)
}

/// Sorts the pod's claims.
///
/// # Errors
/// Why they cannot be sorted.
pub fn sort(cluster: &Cluster, key: &Key, pod: &Pod) -> Result<PodClaims, Unsorted> {
    let mut claims = PodClaims::default();
    for used in pod::claims(pod) {
        let claim_key = Key::claim(key.namespace(), &used.claim);
        let Some(claim) = cluster.claim(&claim_key) else {
            return Err(Unsorted::NotFound { claim: claim_key, ephemeral: used.ephemeral });
        };
        if used.ephemeral && !pod::owns(pod, claim) {
            return Err(Unsorted::NotOwned { pod: key.clone(), claim: claim_key });
        }
        let seen = |list: &[Used]| list.iter().any(|(key, _)| *key == claim_key);
        if seen(&claims.bound) || seen(&claims.delayed) || seen(&claims.immediate) {
            continue;
        }
        let list = if claim::is_fully_bound(claim) {
            &mut claims.bound
        } else if matching::delays_binding(cluster, claim).map_err(Unsorted::Class)?
            && claim::volume_name(claim).is_empty()
        {
            &mut claims.delayed
        } else {
            &mut claims.immediate
        };
        list.push((claim_key, claim.clone()));
    }
    Ok(claims)
}

/// Those of the pod's claims that are bound together with the choice of a node and are not bound yet, whatever is wrong with
/// the others.
#[must_use]
pub fn delayed(cluster: &Cluster, key: &Key, pod: &Pod) -> BTreeSet<Key> {
    let claims = pod::claims(pod).map(|used| Key::claim(key.namespace(), &used.claim));
    let is_delayed = |key: &Key| {
        cluster.claim(key).is_some_and(|claim| {
            !claim::is_fully_bound(claim) && matching::delays_binding(cluster, claim) == Ok(true)
        })
    };
    claims.filter(is_delayed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Object;
    use crate::objects::Class;
    use serde_json::{Value, from_value, json};

    fn cluster(claims: &[(&str, Value, bool)]) -> Cluster {
        let mut cluster = Cluster::new();
        for (name, mode) in [("late", "WaitForFirstConsumer"), ("now", "Immediate")] {
            let class = json!({"metadata": {"name": name}, "provisioner": "p", "volumeBindingMode": mode});
            cluster.show(Object::from(from_value::<Class>(class).unwrap()));
        }
        for (name, spec, bound) in claims {
            let annotations = bound.then(|| json!({"pv.kubernetes.io/bind-completed": "yes"}));
            let meta = json!({"namespace": "ns", "name": name, "annotations": annotations});
            let claim = json!({"metadata": meta, "spec": spec});
            cluster.show(Object::from(from_value::<Claim>(claim).unwrap()));
        }
        cluster
    }

    fn pod(claims: &[&str]) -> Pod {
        let volume = |claim: &&str| json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
        let volumes: Vec<Value> = claims.iter().map(volume).collect();
        let spec = json!({"containers": [], "volumes": volumes});
        from_value(json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_claim_that_a_pod_uses_twice_counts_once() {
        let cluster = cluster(&[
            ("bound", json!({"storageClassName": "late", "volumeName": "v"}), true),
            ("late", json!({"storageClassName": "late"}), false),
            ("now", json!({"storageClassName": "now"}), false),
        ]);
        let pod = pod(&["now", "late", "bound", "bound", "late", "now"]);
        let sorted = sort(&cluster, &Key::pod("ns", "p"), &pod).unwrap();
        let lists = [&sorted.bound, &sorted.delayed, &sorted.immediate];
        assert_eq!(
            lists.map(|list| list.iter().map(|(key, _)| key.name()).collect::<Vec<_>>()),
            [["bound"], ["late"], ["now"]]
        );
    }

    #[test]
    fn what_is_bound_or_bound_at_once_is_not_bound_with_the_choice_of_a_node() {
        let cluster = cluster(&[
            ("bound", json!({"storageClassName": "late", "volumeName": "v"}), true),
            ("late", json!({"storageClassName": "late"}), false),
            ("now", json!({"storageClassName": "now"}), false),
        ]);
        let found = delayed(&cluster, &Key::pod("ns", "p"), &pod(&["bound", "late", "now", "gone"]));
        assert_eq!(found, BTreeSet::from([Key::claim("ns", "late")]));
    }
}
