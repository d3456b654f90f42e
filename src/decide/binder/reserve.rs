//! What is written for what a pod's claims get on a node.
//!
//! The volumes are reserved first, then the claims are given to their provisioners, each in the version that was found:
//! what has changed since is written by nobody. Answers to upstream's `AssumePodVolumes` and `bindAPIUpdate`, which
//! share this list, and never looks at the cluster.

use crate::cluster::{Object, PodVolumes};
use crate::decide::Write;
use crate::decide::write::ClaimIdentity;

/// The writes in their order, each with the object that it was decided on. Some of them may change nothing.
pub fn writes<'a>(node: &'a str, volumes: &'a PodVolumes) -> impl Iterator<Item = (Object, Write)> + use<'a> {
    let reserved = volumes.bindings.iter().map(|binding| {
        let claim = ClaimIdentity::of(&binding.claim);
        let write = Write::ReserveVolume { volume: binding.volume_key(), claim };
        (Object::Volume(binding.volume.clone()), write)
    });
    let selected = volumes.provisions.iter().map(move |provision| {
        let write = Write::SelectNode { claim: provision.claim_key(), node: Some(node.to_owned()) };
        (Object::Claim(provision.claim.clone()), write)
    });
    reserved.chain(selected)
}
