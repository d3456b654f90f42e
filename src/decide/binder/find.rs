//! What a pod's claims would get on one node.
//!
//! A volume that is bound is looked for as the node has it: by the labels of its CSI driver, where its in-tree plugin is
//! migrated. Free volumes are not: upstream matches them as they are. Answers to upstream's `FindPodVolumes`,
//! `checkBoundClaims`, `findMatchingVolumes` and `checkVolumeProvisions`.

mod why;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::capacity::{Count, Room};
use super::claims::PodClaims;
use crate::cluster::{Binding, Cluster, Key, PodVolumes, Provision};
use crate::decide::matching::NodeSearch;
use crate::decide::{Reason, Settings};
use crate::objects::quantity::Amount;
use crate::objects::translation::OnNodes;
use crate::objects::{Claim, Class, Node, annotations, claim, name, topology};

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
    /// A plugin is migrated on the node, and a volume of it makes no sense to the CSI driver there.
    Untranslatable,
}

impl Conflict {
    /// Upstream's words, where it has any.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Conflict::NodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Conflict::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Conflict::NoSpace => "node(s) did not have enough free storage",
            Conflict::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Conflict::Untranslatable => "node(s) have a CSI driver that can't serve an in-tree volume",
        }
    }
}

/// What the claims get on a node, and why the node will not do all the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What the claims get, as far as they get anything: those without a volume are not in it.
    pub volumes: PodVolumes,
    /// What stands against the node, in upstream's order; nothing when it will do.
    pub conflicts: Vec<Conflict>,
}

/// Why nothing can be found on any node; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The claim has no class, and no volume that it could take.
    #[error("no class for claim {:?}", .0.path())]
    NoClass(Key),
    /// The claim's class does not exist.
    #[error("failed to find storage class {class:?}")]
    ClassNotFound {
        /// The claim.
        claim: Key,
        /// The class.
        class: String,
    },
    /// The claim makes no sense.
    #[error("{0}")]
    Claim(Reason),
}

impl Failure {
    /// The same, as what a pod waits for.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Failure::NoClass(claim) => Reason::NoVolumeAndNoClass { claim },
            Failure::ClassNotFound { claim, class } => Reason::ClassNotFound { claim, class },
            Failure::Claim(reason) => reason,
        }
    }
}

/// Who would make a volume for a claim.
#[derive(Debug)]
enum Maker<'a> {
    /// The driver of a class, and whether it reports its capacity.
    Driver { class: &'a Class, tracked: bool },
    /// Nobody: the class has no provisioner.
    Nobody,
    /// There is no such class.
    Missing(Failure),
}

/// A claim whose volume is chosen, or made, together with the node; with all of it that no node changes.
#[derive(Debug)]
struct Delayed<'a> {
    claim: &'a Arc<Claim>,
    requested: Amount,
    search: Result<NodeSearch<'a>, Reason>,
    maker: Maker<'a>,
}

/// A search for what a pod's claims get, on one node after the other.
#[derive(Debug)]
pub struct PodSearch<'a> {
    cluster: &'a Cluster,
    count: Count,
    claims: &'a PodClaims,
    /// The volumes of the bound claims; `None` for one that is gone.
    bound: Vec<Option<OnNodes<'a>>>,
    /// The claims for which a node is selected, with that node.
    selected: Vec<(&'a str, Delayed<'a>)>,
    /// The others, the smallest request first, so that it does not take what only a larger one needs.
    open: Vec<Delayed<'a>>,
}

impl<'a> Delayed<'a> {
    fn new(cluster: &'a Cluster, settings: &Settings, key: &'a Key, claim: &'a Arc<Claim>) -> Self {
        let class_name = claim::class(claim);
        let search = NodeSearch::new(cluster, settings, key, claim);
        let requested = claim::requested(claim);
        let maker = match cluster.class(class_name) {
            Some(class) => match class.provisioner.as_str() {
                "" | annotations::NO_PROVISIONER => Maker::Nobody,
                driver => Maker::Driver { class, tracked: cluster.reports_capacity(driver) },
            },
            None if class_name.is_empty() => Maker::Missing(Failure::NoClass(key.clone())),
            None => {
                Maker::Missing(Failure::ClassNotFound { claim: key.clone(), class: class_name.to_owned() })
            }
        };
        Delayed { claim, requested, search, maker }
    }

    /// The storage from which a volume for the claim can be made for the node.
    fn check_provision(&self, node: &Node, room: &mut Room) -> Result<Result<Provision, Conflict>, Failure> {
        let (class, tracked) = match &self.maker {
            Maker::Missing(failure) => return Err(failure.clone()),
            Maker::Nobody => return Ok(Err(Conflict::NoVolume)),
            Maker::Driver { class, tracked } => (class, *tracked),
        };
        let allowed = class.allowed_topologies.as_deref().unwrap_or_default();
        if !topology::topology_allowed(allowed, node.metadata.labels.as_ref()) {
            return Ok(Err(Conflict::NoVolume));
        }
        let claim = self.claim.clone();
        if !tracked {
            return Ok(Ok(Provision { claim, capacity: None }));
        }
        let taken = room.take(name(&class.metadata), self.claim);
        Ok(taken.map(|capacity| Provision { claim, capacity }).ok_or(Conflict::NoSpace))
    }
}

impl<'a> PodSearch<'a> {
    /// Prepares the search.
    #[must_use]
    pub fn new(cluster: &'a Cluster, settings: &Settings, claims: &'a PodClaims) -> Self {
        let count = Count::of(cluster, settings, claims);
        let bound = claims.bound.iter();
        let bound = bound.map(|(_, claim)| cluster.volume(&Key::volume(claim::volume_name(claim))));
        let bound = bound.map(|volume| Some(OnNodes::new(volume?))).collect();
        let (mut selected, mut open) = (Vec::new(), Vec::new());
        for (key, claim) in &claims.delayed {
            let delayed = Delayed::new(cluster, settings, key, claim);
            match claim::selected_node(claim) {
                Some(node) => selected.push((node, delayed)),
                None => open.push(delayed),
            }
        }
        open.sort_by_key(|delayed| delayed.requested);
        PodSearch { cluster, count, claims, bound, selected, open }
    }

    /// Finds what the pod's claims would get on the node.
    ///
    /// # Errors
    /// Why they can get nothing on any node.
    pub fn on_node(&self, node: &Node) -> Result<Found, Failure> {
        let mut found = Found::default();
        found.conflicts.extend(self.check_bound(node).err());
        let conflict = self.find_delayed(node, &mut found.volumes)?;
        found.conflicts.extend(conflict);
        found.conflicts.sort_unstable();
        Ok(found)
    }

    fn check_bound(&self, node: &Node) -> Result<(), Conflict> {
        for volume in &self.bound {
            let volume = volume.as_ref().ok_or(Conflict::VolumeMissing)?;
            let csi_node = || self.cluster.csi_node(name(&node.metadata)).map(AsRef::as_ref);
            let volume = volume.on(csi_node).map_err(|_| Conflict::Untranslatable)?;
            if !topology::reaches(volume, node.metadata.labels.as_ref()) {
                return Err(Conflict::NodeAffinity);
            }
        }
        Ok(())
    }

    fn find_delayed(&self, node: &Node, volumes: &mut PodVolumes) -> Result<Option<Conflict>, Failure> {
        let node_name = name(&node.metadata);
        if self.selected.iter().any(|(selected, _)| *selected != node_name) {
            return Ok(Some(Conflict::NoVolume));
        }
        let mut room = Room::new(self.cluster, node, &self.count);
        for delayed in self.find_free(node, &mut volumes.bindings)? {
            match delayed.check_provision(node, &mut room)? {
                Ok(provision) => volumes.provisions.push(provision),
                Err(conflict) => {
                    // What could be made for some of the claims is no use without the others.
                    volumes.provisions.clear();
                    return Ok(Some(conflict));
                }
            }
        }
        Ok(None)
    }

    /// Finds free volumes for the claims; returns those for which volumes have to be made.
    fn find_free(&self, node: &Node, bindings: &mut Vec<Binding>) -> Result<Vec<&Delayed<'a>>, Failure> {
        let here = (name(&node.metadata), node.metadata.labels.as_ref());
        let mut to_provision: Vec<&Delayed> = self.selected.iter().map(|(_, delayed)| delayed).collect();
        let mut chosen = BTreeSet::new();
        for delayed in &self.open {
            let search = delayed.search.as_ref().map_err(|reason| Failure::Claim(reason.clone()))?;
            match search.on_node(here, &chosen) {
                None => to_provision.push(delayed),
                Some(volume) => {
                    chosen.insert(Key::volume(name(&volume.metadata)));
                    bindings.push(Binding { claim: delayed.claim.clone(), volume: volume.clone() });
                }
            }
        }
        Ok(to_provision)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::cluster::Object;
    use crate::decide::binder::{Pods, schedule};
    use crate::objects::{CsiNode, Pod, Volume};

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Object
    where
        Object: From<T>,
    {
        Object::from(serde_json::from_value::<T>(value).unwrap())
    }

    /// What becomes of a pod with an in-tree volume, on a node that has nothing but the label of a CSI driver.
    fn placed(volume_id: &str, migrated: &str) -> (String, String) {
        let volume = json!({
            "metadata": {"name": "v", "labels": {"failure-domain.beta.kubernetes.io/zone": "a"}},
            "spec": {
                "awsElasticBlockStore": {"volumeID": volume_id},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]},
                ]}]}},
            },
        });
        let claim = json!({
            "metadata": {"name": "c", "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "v"},
        });
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        });
        let labels = json!({"topology.ebs.csi.aws.com/zone": "a"});
        let status = json!({"allocatable": {"pods": "10"}});
        let node = json!({"metadata": {"name": "n", "labels": labels}, "status": status});
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": migrated});
        let csi_node =
            json!({"metadata": {"name": "n", "annotations": annotations}, "spec": {"drivers": []}});
        let mut cluster = Cluster::new();
        cluster.show(object::<Volume>(volume));
        cluster.show(object::<Claim>(claim));
        cluster.show(object::<Pod>(pod));
        cluster.show(object::<Node>(node));
        cluster.show(object::<CsiNode>(csi_node));
        let plan = schedule(&cluster, &Settings::default(), &Pods::All, &Key::pod("default", "p"));
        (plan.reason.to_string(), plan.reason.fix().unwrap_or_default())
    }

    #[test]
    fn a_migrated_volume_is_where_its_driver_is() {
        assert_eq!(placed("vol-1", "kubernetes.io/aws-ebs").0, "the pod is on node n");
    }

    #[test]
    fn a_volume_that_is_not_migrated_is_where_its_labels_are() {
        let (why, fix) = placed("vol-1", "kubernetes.io/gce-pd");
        let label = "label failure-domain.beta.kubernetes.io/zone";
        let needs =
            format!("volume v of claim default/c needs a node with {label}=a, and node n has no {label}");
        assert_eq!(why, format!("node n: node(s) didn't match PersistentVolume's node affinity: {needs}"));
        assert_eq!(fix, format!("add a node with {label}=a on which the pod fits"));
    }

    #[test]
    fn a_volume_that_makes_no_sense_to_the_driver_has_no_use_there() {
        let (why, fix) = placed("aws:///1", "kubernetes.io/aws-ebs");
        let name = "volume v of claim default/c: \"aws:///1\" is not the name of a volume at its provider";
        assert_eq!(
            why,
            format!("node n: node(s) have a CSI driver that can't serve an in-tree volume: {name}")
        );
        assert_eq!(fix, "recreate the volume of claim default/c");
    }
}
