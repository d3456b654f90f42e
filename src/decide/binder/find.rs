//! What a pod's claims would get on one node.
//!
//! Answers to upstream's `FindPodVolumes`, `checkBoundClaims`, `findMatchingVolumes` and `checkVolumeProvisions`.

use std::collections::BTreeSet;

use super::capacity::{self, Debits};
use super::claims::{PodClaims, Used};
use crate::cluster::{Cluster, Key};
use crate::decide::matching::{self, For};
use crate::decide::{Reason, Settings};
use crate::objects::quantity::Amount;
use crate::objects::{Node, annotations, claim, name, topology, volume};

/// Why a node cannot serve a pod's claims, in upstream's order and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conflict {
    /// A volume of the pod cannot be reached from the node.
    NodeAffinity,
    /// No volume fits, and none can be made there.
    NoVolume,
    /// There is not enough room left to make the volumes.
    NoSpace,
    /// A claim is bound to a volume that does not exist.
    VolumeMissing,
}

impl Conflict {
    /// Upstream's words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Conflict::NodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Conflict::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Conflict::NoSpace => "node(s) did not have enough free storage",
            Conflict::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
        }
    }
}

/// What the claims get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// The free volumes that they take: (claim, volume).
    pub bindings: Vec<(Key, Key)>,
    /// The claims whose volumes are to be made for the node.
    pub provisions: Vec<Key>,
    /// What the bindings waste: the sum of capacity that is not asked for.
    pub waste: Amount,
}

/// Finds what the pod's claims would get on the node.
///
/// # Errors
/// The conflicts; empty when a claim or its class makes no sense, which [`Reason`] tells.
pub fn find(
    cluster: &Cluster,
    settings: &Settings,
    claims: &PodClaims,
    node: &Node,
    debits: &Debits,
) -> Result<PodVolumes, Failure> {
    let mut conflicts = Vec::new();
    if let Err(conflict) = check_bound(cluster, &claims.bound, node) {
        conflicts.push(conflict);
    }
    let found = find_delayed(cluster, settings, &claims.delayed, node, debits)?;
    match found {
        Ok(volumes) if conflicts.is_empty() => Ok(volumes),
        Ok(_) => Err(Failure::Conflicts(conflicts)),
        Err(conflict) => {
            conflicts.push(conflict);
            conflicts.sort_unstable();
            Err(Failure::Conflicts(conflicts))
        }
    }
}

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The node conflicts with the claims.
    Conflicts(Vec<Conflict>),
    /// A claim makes no sense on any node.
    Claim(Reason),
}

fn check_bound(cluster: &Cluster, bound: &[Used], node: &Node) -> Result<(), Conflict> {
    for (_, claim) in bound {
        let volume =
            cluster.volume(&Key::volume(claim::volume_name(claim))).ok_or(Conflict::VolumeMissing)?;
        if !topology::reaches(volume, node.metadata.labels.as_ref()) {
            return Err(Conflict::NodeAffinity);
        }
    }
    Ok(())
}

fn find_delayed(
    cluster: &Cluster,
    settings: &Settings,
    delayed: &[Used],
    node: &Node,
    debits: &Debits,
) -> Result<Result<PodVolumes, Conflict>, Failure> {
    let node_name = name(&node.metadata);
    let mut volumes = PodVolumes::default();
    let mut to_provision: Vec<&Used> = Vec::new();
    let mut to_match: Vec<&Used> = Vec::new();
    for used in delayed {
        match claim::selected_node(&used.1) {
            Some(selected) if selected != node_name => return Ok(Err(Conflict::NoVolume)),
            Some(_) => to_provision.push(used),
            None => to_match.push(used),
        }
    }
    // The smallest request chooses first, so that it does not take what only a larger one needs.
    to_match.sort_by_key(|(_, claim)| claim::requested(claim));
    let mut chosen = BTreeSet::new();
    for used in to_match {
        let (key, claim) = used;
        let wanted = For {
            claim,
            node: Some((node_name, node.metadata.labels.as_ref())),
            attributes_class: settings.volume_attributes_class,
        };
        match matching::find_on_node(cluster, key, &wanted, &chosen).map_err(Failure::Claim)? {
            None => to_provision.push(used),
            Some(volume) => {
                let volume_key = Key::volume(name(&volume.metadata));
                chosen.insert(volume_key.clone());
                volumes.waste = volumes.waste + (volume::capacity(volume) - claim::requested(claim));
                volumes.bindings.push((key.clone(), volume_key));
            }
        }
    }
    let mut room = capacity::Room::new(cluster, node, debits);
    for (key, claim) in to_provision {
        if let Err(conflict) = check_provision(cluster, key, claim, node, &mut room)? {
            return Ok(Err(conflict));
        }
        volumes.provisions.push(key.clone());
    }
    Ok(Ok(volumes))
}

fn check_provision(
    cluster: &Cluster,
    key: &Key,
    claim: &crate::objects::Claim,
    node: &Node,
    room: &mut capacity::Room,
) -> Result<Result<(), Conflict>, Failure> {
    let class_name = claim::class(claim);
    let Some(class) = cluster.class(class_name) else {
        let reason = Reason::ClassNotFound { claim: key.clone(), class: class_name.to_owned() };
        return Err(Failure::Claim(reason));
    };
    if class.provisioner.is_empty() || class.provisioner == annotations::NO_PROVISIONER {
        return Ok(Err(Conflict::NoVolume));
    }
    let allowed = class.allowed_topologies.as_deref().unwrap_or_default();
    if !topology::topology_allowed(allowed, node.metadata.labels.as_ref()) {
        return Ok(Err(Conflict::NoVolume));
    }
    Ok(if room.take(&class.provisioner, class_name, claim) { Ok(()) } else { Err(Conflict::NoSpace) })
}
