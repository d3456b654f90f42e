//! What a pod's claims are waiting for.
//!
//! Answers to upstream's `podHasPVCs` and `GetPodVolumeClaims`.

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
}

/// Sorts the pod's claims.
///
/// # Errors
/// Why the pod cannot be placed anywhere before something is done about one of its claims.
pub fn sort(cluster: &Cluster, key: &Key, pod: &Pod) -> Result<PodClaims, Reason> {
    let mut claims = PodClaims::default();
    let mut unbound: Option<Key> = None;
    for used in pod::claims(pod) {
        let (pod_key, claim_key) = (key.clone(), Key::claim(key.namespace(), &used.claim));
        let Some(claim) = cluster.claim(&claim_key) else {
            let reason =
                PodReason::ClaimNotFound { pod: pod_key, claim: claim_key, ephemeral: used.ephemeral };
            return Err(Reason::Pod(reason));
        };
        if claim::phase(claim) == claim::LOST {
            return Err(Reason::Pod(PodReason::ClaimLost { pod: pod_key, claim: claim_key }));
        }
        if is_deleting(&claim.metadata) {
            return Err(Reason::Pod(PodReason::ClaimDeleting { pod: pod_key, claim: claim_key }));
        }
        if used.ephemeral && !pod::owns(pod, claim) {
            return Err(Reason::Pod(PodReason::ClaimNotOwned { pod: pod_key, claim: claim_key }));
        }
        let seen = |list: &[Used]| list.iter().any(|(key, _)| *key == claim_key);
        if seen(&claims.bound) || seen(&claims.delayed) {
            continue;
        }
        if claim::is_fully_bound(claim) {
            claims.bound.push((claim_key, claim.clone()));
        } else if claim::volume_name(claim).is_empty() && matching::delays_binding(cluster, claim)? {
            claims.delayed.push((claim_key, claim.clone()));
        } else {
            unbound = unbound.or(Some(claim_key));
        }
    }
    match unbound {
        Some(claim) => Err(Reason::Pod(PodReason::ClaimUnbound { pod: key.clone(), claim })),
        None => Ok(claims),
    }
}
