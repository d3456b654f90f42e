//! What is written for what a pod's claims get on a node, and what takes that back.
//!
//! The volumes are reserved first, then the claims are given to their provisioners, each in the version that was found:
//! what has changed since is written by nobody. It chooses nothing. Answers to upstream's `AssumePodVolumes` and
//! `bindAPIUpdate`, which share this list.

use crate::cluster::{Cluster, Key, Object, PodVolumes};
use crate::decide::Write;
use crate::decide::write::ClaimIdentity;
use crate::objects::{Claim, Volume, claim, volume};

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

/// The writes that take back what was reserved for a claim whose binding has not begun, each with the object that it was
/// decided on. What a user reserved stays, and so does what the controller has begun to bind. Unlike upstream, which has no
/// rollback at the API server; see *Differences from upstream*.
pub fn undo<'a>(cluster: &'a Cluster, claim: &Key) -> impl Iterator<Item = (Object, Write)> + use<'a> {
    let key = claim.clone();
    let reserved = cluster.claim(claim).into_iter().flat_map(move |claim| {
        let volumes = cluster.volumes_for(&key);
        volumes.filter(|(_, volume)| is_open(claim, volume)).collect::<Vec<_>>()
    });
    reserved
        .map(|(key, volume)| (Object::Volume(volume.clone()), Write::UnbindVolume { volume: key.clone() }))
}

/// Whether the volume is reserved for the claim and can be given back: a scheduler did it, and nothing of it is bound.
#[must_use]
pub fn is_open(claim: &Claim, volume: &Volume) -> bool {
    let names_none = !claim::is_bind_completed(claim) && claim::volume_name(claim).is_empty();
    // A volume that is new has no phase yet, or the one that the server gives it.
    let begun = !matches!(volume::phase(volume), "" | "Pending" | volume::AVAILABLE);
    names_none && !begun && volume::is_for(volume, claim) && volume::is_bound_by_controller(volume)
}

/// The write that takes back the node that was selected for a claim, once there is no such node any more. Upstream leaves it
/// to whoever makes the volumes; see *Differences from upstream*.
#[must_use]
pub fn unselect(cluster: &Cluster, claim: &Key) -> Option<(Object, Write)> {
    let found = cluster.claim(claim).filter(|found| claim::volume_name(found).is_empty())?;
    claim::selected_node(found).filter(|node| cluster.node(node).is_none())?;
    Some((Object::Claim(found.clone()), Write::SelectNode { claim: claim.clone(), node: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    /// What is given back of a volume that is reserved for a claim.
    #[rstest::rstest]
    #[case::ours("", false, "c", "uid", true, "Available", true)]
    #[case::of_a_volume_that_is_new("", false, "c", "uid", true, "", true)]
    #[case::of_a_volume_that_is_pending("", false, "c", "uid", true, "Pending", true)]
    #[case::the_claim_names_a_volume("v", false, "c", "uid", true, "Available", false)]
    #[case::the_claim_is_bound("", true, "c", "uid", true, "Available", false)]
    #[case::of_an_earlier_claim("", false, "c", "earlier", true, "Available", false)]
    #[case::of_another_claim("", false, "d", "uid", true, "Available", false)]
    #[case::of_a_user("", false, "c", "uid", false, "Available", false)]
    #[case::the_controller_has_it("", false, "c", "uid", true, "Bound", false)]
    fn what_was_reserved_for_a_pod_is_given_back_and_nothing_else(
        #[case] names: &str,
        #[case] completed: bool,
        #[case] of: &str,
        #[case] uid: &str,
        #[case] by_controller: bool,
        #[case] phase: &str,
        #[case] given_back: bool,
    ) {
        let yes = |is: bool, key: &str| is.then(|| json!({key: "yes"}));
        let claim = json!({
            "metadata": {
                "namespace": "ns", "name": "c", "uid": "uid",
                "annotations": yes(completed, "pv.kubernetes.io/bind-completed"),
            },
            "spec": {"volumeName": names},
        });
        let volume = json!({
            "metadata": {"name": "v", "annotations": yes(by_controller, "pv.kubernetes.io/bound-by-controller")},
            "spec": {"claimRef": {"namespace": "ns", "name": of, "uid": uid}},
            "status": {"phase": phase},
        });
        let mut cluster = Cluster::new();
        cluster.show(Object::from(from_value::<crate::objects::Claim>(claim).unwrap()));
        cluster.show(Object::from(from_value::<crate::objects::Volume>(volume).unwrap()));
        let writes: Vec<Write> = undo(&cluster, &Key::claim("ns", "c")).map(|(_, write)| write).collect();
        let wanted = given_back.then(|| Write::UnbindVolume { volume: Key::volume("v") });
        assert_eq!(writes, wanted.into_iter().collect::<Vec<_>>());
    }
}
