//! Whether a node is in the zone and region that the labels of a pod's bound volumes name.
//!
//! Volumes say where they are by their node affinity; labels are the older way, which still counts. A node without any
//! such label is everywhere. Volumes that are yet to be chosen or made are not looked at. Answers to upstream's plugin
//! `VolumeZone`.

use super::obstacle::Obstacle;
use super::unfit::Unfit;
use crate::cluster::{Cluster, Key};
use crate::objects::difference::Difference;
use crate::objects::topology::Labels;
use crate::objects::translation::zones;
use crate::objects::{Node, Pod, claim, name, pod};

/// A label by which a volume or a node says where it is, and the name that took its place.
const LABELS: [(&str, &str); 4] = [
    (zones::BETA_ZONE, zones::ZONE),
    (zones::BETA_REGION, zones::REGION),
    (zones::ZONE, zones::ZONE),
    (zones::REGION, zones::REGION),
];

/// Where a volume says that it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Zone {
    /// The claim that has the volume.
    pub claim: Key,
    /// The volume.
    pub volume: Key,
    /// The label.
    pub label: &'static str,
    /// What a node without that label may have instead.
    newer: &'static str,
    /// The values of which a node must have one.
    pub values: Vec<String>,
}

impl Zone {
    /// The same, with what the node has.
    #[must_use]
    pub fn obstacle(&self, node: &Node) -> Obstacle {
        let here = node.metadata.labels.as_ref().and_then(|labels| labels.get(self.label));
        let difference = Difference {
            key: self.label.to_owned(),
            operator: "In".to_owned(),
            wanted: self.values.clone(),
            node: name(&node.metadata).to_owned(),
            has: here.cloned(),
            alternatives: 1,
        };
        let (claim, volume) = (self.claim.clone(), self.volume.clone());
        Obstacle::OutOfReach { claim, volume, difference: Some(difference) }
    }
}

/// Where the volumes of a pod say that they are.
#[derive(Debug, Default)]
pub struct Zones(Vec<Zone>);

impl Zones {
    /// Looks at the labels of the volumes that the pod's claims have.
    #[must_use]
    pub fn of(cluster: &Cluster, namespace: &str, pod: &Pod) -> Self {
        let mut found = Vec::new();
        for used in pod::claims(pod) {
            let claim_key = Key::claim(namespace, &used.claim);
            let bound = cluster.claim(&claim_key).filter(|claim| claim::is_fully_bound(claim));
            let Some(key) = bound.map(|claim| Key::volume(claim::volume_name(claim))) else { continue };
            let Some(volume) = cluster.volume(&key) else { continue };
            for (label, newer) in LABELS {
                let Some(text) = volume.metadata.labels.as_ref().and_then(|labels| labels.get(label)) else {
                    continue;
                };
                let values: Vec<String> =
                    text.split(zones::BETWEEN_ZONES).map(|value| value.trim().to_owned()).collect();
                // Upstream takes no notice of a label that it cannot read.
                if values.iter().all(|value| !value.is_empty()) {
                    found.push(Zone { claim: claim_key.clone(), volume: key.clone(), label, newer, values });
                }
            }
        }
        Zones(found)
    }

    /// Whether the node is where they all are.
    ///
    /// # Errors
    /// The one that is elsewhere.
    pub fn allow(&self, node: &Node) -> Result<(), Unfit<'_>> {
        let empty = Labels::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
        if !LABELS.iter().any(|(label, _)| labels.contains_key(*label)) {
            return Ok(());
        }
        let is_elsewhere = |zone: &&Zone| {
            let here = labels.get(zone.label).or_else(|| labels.get(zone.newer));
            !here.is_some_and(|here| zone.values.contains(here))
        };
        match self.0.iter().find(is_elsewhere) {
            Some(zone) => Err(Unfit::Zone(zone)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::cluster::Object;
    use crate::objects::{Claim, Volume};

    const OLD: &str = "failure-domain.beta.kubernetes.io/zone";
    const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";
    const NEW: &str = "topology.kubernetes.io/zone";
    const NEW_REGION: &str = "topology.kubernetes.io/region";

    fn zones(labels: &Value) -> Zones {
        let volume: Volume = from_value(json!({"metadata": {"name": "v", "labels": labels}})).unwrap();
        let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let meta = json!({"namespace": "default", "name": "c", "annotations": bound});
        let claim: Claim = from_value(json!({"metadata": meta, "spec": {"volumeName": "v"}})).unwrap();
        let source = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let pod: Pod = from_value(json!({"spec": {"containers": [], "volumes": [source]}})).unwrap();
        let mut cluster = Cluster::new();
        cluster.show(Object::from(volume));
        cluster.show(Object::from(claim));
        Zones::of(&cluster, "default", &pod)
    }

    /// The facts of upstream's `TestSingleZone` and `TestMultiZone`, restated.
    #[rstest]
    #[case::node_without_labels(json!({OLD: "a"}), json!({}), true)]
    #[case::zone(json!({OLD: "a"}), json!({OLD: "a", "useless": "none"}), true)]
    #[case::region(json!({OLD_REGION: "a", "useless": "none"}), json!({OLD_REGION: "a"}), true)]
    #[case::other_region(json!({OLD_REGION: "a"}), json!({OLD_REGION: "b"}), false)]
    #[case::other_zone(json!({OLD: "a"}), json!({OLD: "b"}), false)]
    #[case::new_zone(json!({NEW: "a"}), json!({NEW: "a"}), true)]
    #[case::new_region(json!({NEW_REGION: "a"}), json!({NEW_REGION: "a"}), true)]
    #[case::other_new_region(json!({NEW_REGION: "a"}), json!({NEW_REGION: "b"}), false)]
    #[case::other_new_zone(json!({NEW: "a"}), json!({NEW: "b"}), false)]
    #[case::node_without_the_region(json!({NEW: "a", NEW_REGION: "a"}), json!({NEW: "a"}), false)]
    #[case::only_the_node_is_old(json!({NEW: "a"}), json!({OLD: "a"}), false)]
    #[case::only_the_volume_is_old(json!({OLD: "a"}), json!({NEW: "a"}), true)]
    #[case::only_the_volume_is_old_and_elsewhere(json!({OLD: "a"}), json!({NEW: "b"}), false)]
    #[case::several_zones(json!({OLD: "c__a"}), json!({OLD: "a"}), true)]
    #[case::several_zones_elsewhere(json!({NEW: "c__a"}), json!({NEW: "b"}), false)]
    #[case::unreadable(json!({NEW: "a__"}), json!({NEW: "b"}), true)]
    #[case::volume_without_labels(json!({}), json!({NEW: "b"}), true)]
    fn a_node_is_where_the_volume_is(#[case] volume: Value, #[case] node: Value, #[case] wanted: bool) {
        let node: Node = from_value(json!({"metadata": {"name": "n", "labels": node}})).unwrap();
        assert_eq!(zones(&volume).allow(&node).is_ok(), wanted);
    }
}
