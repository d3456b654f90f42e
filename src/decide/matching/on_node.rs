//! Which volume a claim gets on a node.
//!
//! What is the same on all nodes is looked up once, so that a node costs what its own volumes cost. Never looks at
//! whether a volume could be made instead. Answers to upstream's `FindMatchingVolume` as the scheduler calls it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{For, check_claim, judge, judge_always};
use crate::cluster::volumes::Shelf;
use crate::cluster::{Cluster, Key};
use crate::decide::{Reason, Settings};
use crate::objects::quantity::Amount;
use crate::objects::topology::Labels;
use crate::objects::{Claim, Volume, claim, name, volume};

/// A search for a claim's volume on one node after the other; what is the same for all of them is looked up once.
#[derive(Debug)]
pub struct NodeSearch<'a> {
    cluster: &'a Cluster,
    wanted: For<'a>,
    least: Amount,
    /// The volumes that are reserved for the claim.
    reserved: Vec<(&'a Key, &'a Arc<Volume>)>,
    /// The free ones of its class and volume mode that offer its access modes.
    free: Vec<&'a Shelf>,
}

impl<'a> NodeSearch<'a> {
    /// Prepares the search.
    ///
    /// # Errors
    /// A failure, when no volume may be looked for at all.
    pub fn new(
        cluster: &'a Cluster,
        settings: &Settings,
        key: &'a Key,
        claim: &'a Claim,
    ) -> Result<Self, Reason> {
        let wanted = For { claim, node: None, attributes_class: settings.volume_attributes_class };
        check_claim(key, &wanted)?;
        let (class, mode, modes) = (claim::class(claim), claim::mode(claim), claim::access_modes(claim));
        let reserved = cluster.volumes_for(key).filter(|(_, volume)| {
            volume::class(volume) == class
                && volume::is_for(volume, claim)
                && judge_always(volume, &wanted).is_ok()
        });
        let reserved = reserved.collect();
        let free = cluster.free_volumes().offering(class, mode, modes).map(|(_, shelf)| shelf).collect();
        Ok(NodeSearch { cluster, wanted, least: claim::requested(claim), reserved, free })
    }

    /// The volume that the scheduler gives to the claim on a node: one that is reserved for the claim, if the node
    /// reaches it, else the smallest free one that fits and is not in `excluded`, by name among equals.
    #[must_use]
    pub fn on_node(
        &self,
        node: (&str, Option<&Labels>),
        excluded: &BTreeSet<Key>,
    ) -> Option<&'a Arc<Volume>> {
        let wanted = For { node: Some(node), ..self.wanted };
        if let Some((_, volume)) = self.reserved.iter().find(|(key, _)| !excluded.contains(*key)) {
            // A reserved volume out of the node's reach means no match at all, not another volume.
            return judge(volume, &wanted).is_ok().then_some(*volume);
        }
        let empty = Labels::new();
        let labels = node.1.unwrap_or(&empty);
        let mut best: Option<&'a Arc<Volume>> = None;
        for shelf in &self.free {
            let found = shelf
                .at_least(self.least, Some(labels))
                .filter(|key| !excluded.contains(*key))
                .filter_map(|key| self.cluster.volume(key))
                .find(|volume| judge(volume, &wanted).is_ok());
            if let Some(found) = found
                && best.is_none_or(|best| rank(found) < rank(best))
            {
                best = Some(found);
            }
        }
        best
    }
}

/// The least is the best: a small volume before a large one, by name among equals.
fn rank(volume: &Volume) -> (Amount, &str) {
    (volume::capacity(volume), name(&volume.metadata))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Object;
    use crate::decide::matching::find;
    use serde_json::{from_value, json};

    #[test]
    fn on_a_node_the_smallest_volume_wins_whatever_else_it_offers() {
        let volume = |name: &str, size: &str, modes: &[&str]| {
            let volume = json!({
                "metadata": {"name": name, "resourceVersion": "1"},
                "spec": {"capacity": {"storage": size}, "accessModes": modes},
                "status": {"phase": "Available"},
            });
            Object::from(from_value::<Volume>(volume).unwrap())
        };
        let claim = json!({
            "metadata": {"namespace": "default", "name": "c", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let claim: Claim = from_value(claim).unwrap();
        let (once, both) = (["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]);
        for (volumes, best) in [
            ([volume("a", "9Gi", &once), volume("b", "2Gi", &both)], "b"),
            ([volume("a", "2Gi", &both), volume("b", "2Gi", &once)], "a"),
            ([volume("a", "2Gi", &once), volume("b", "3Gi", &both)], "a"),
        ] {
            let mut cluster = Cluster::new();
            for volume in volumes {
                cluster.show(volume);
            }
            let key = Key::claim("default", "c");
            let search = NodeSearch::new(&cluster, &Settings::default(), &key, &claim).unwrap();
            let found = search.on_node(("n", None), &BTreeSet::new()).unwrap();
            assert_eq!(name(&found.metadata), best);
            // The controller goes by what they offer first.
            let found = find(&cluster, &Settings::default(), &key, &claim, false).unwrap().unwrap();
            assert_eq!(found.spec.as_ref().unwrap().access_modes.as_deref().unwrap().len(), 1);
        }
    }
}
