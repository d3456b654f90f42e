//! Why a node cannot serve a pod's claims, object by object.
//!
//! Asked for the few nodes that somebody is told of; it goes the same way as the search and stops where that stopped. It
//! decides nothing.

use super::super::capacity::Room;
use super::super::obstacle::{Obstacle, Report, Shortage};
use super::{Conflict, Delayed, Maker, PodSearch};
use crate::cluster::Key;
use crate::objects::difference::Difference;
use crate::objects::quantity::Amount;
use crate::objects::{Node, capacity, claim, name, namespace, topology};

impl Delayed<'_> {
    fn key(&self) -> Key {
        Key::claim(namespace(&self.claim.metadata), name(&self.claim.metadata))
    }

    fn class(&self) -> String {
        claim::class(self.claim).to_owned()
    }
}

impl PodSearch<'_> {
    /// What is behind a conflict that [`PodSearch::on_node`] found.
    #[must_use]
    pub fn obstacle(&self, node: &Node, conflict: Conflict) -> Option<Obstacle> {
        match conflict {
            Conflict::NodeAffinity | Conflict::VolumeMissing | Conflict::Untranslatable => {
                self.of_bound(node)
            }
            Conflict::NoVolume | Conflict::NoSpace => self.of_delayed(node),
        }
    }

    /// The first bound claim whose volume the node cannot serve.
    fn of_bound(&self, node: &Node) -> Option<Obstacle> {
        let csi_node = || self.cluster.csi_node(name(&node.metadata)).map(AsRef::as_ref);
        self.claims.bound.iter().zip(&self.bound).find_map(|((claim, found), volume)| {
            let (claim, key) = (claim.clone(), Key::volume(claim::volume_name(found)));
            let Some(volume) = volume else { return Some(Obstacle::VolumeMissing { claim, volume: key }) };
            match volume.on(csi_node) {
                Err(why) => Some(Obstacle::Untranslatable { claim, volume: key, why: why.to_string() }),
                Ok(volume) if topology::reaches(volume, node.metadata.labels.as_ref()) => None,
                Ok(volume) => {
                    let difference = Difference::to_volume(volume, node);
                    Some(Obstacle::OutOfReach { claim, volume: key, difference })
                }
            }
        })
    }

    /// The first claim that gets no volume on the node.
    fn of_delayed(&self, node: &Node) -> Option<Obstacle> {
        let node_name = name(&node.metadata);
        let elsewhere = self.selected.iter().find(|(selected, _)| *selected != node_name);
        if let Some((selected, delayed)) = elsewhere {
            let node = (*selected).to_owned();
            return Some(Obstacle::ChosenElsewhere { claim: delayed.key(), node });
        }
        let mut room = Room::new(self.cluster, node, &self.count);
        let to_provision = self.find_free(node, &mut Vec::new()).ok()?;
        to_provision.into_iter().find_map(|delayed| {
            let conflict = delayed.check_provision(node, &mut room).ok()?.err()?;
            let (claim, class) = (delayed.key(), delayed.class());
            Some(match (conflict, &delayed.maker) {
                (Conflict::NoSpace, _) => Obstacle::NoRoom(self.shortage(node, delayed, &room)),
                (_, Maker::Driver { class: found, .. }) => {
                    let allowed = found.allowed_topologies.as_deref().unwrap_or_default();
                    let difference = Difference::to_topologies(allowed, node);
                    Obstacle::NotAllowed { claim, class, difference }
                }
                (_, Maker::Nobody | Maker::Missing(_)) => {
                    Obstacle::NoVolume { claim, class, node: node_name.to_owned() }
                }
            })
        })
    }

    /// What is missing for a claim, by the report that comes nearest.
    fn shortage(&self, node: &Node, delayed: &Delayed, room: &Room) -> Shortage {
        let (claim, class) = (delayed.key(), delayed.class());
        let requested = capacity::taken_by(delayed.claim).unwrap_or_default();
        let reports = self.cluster.capacities_for(&class, node).map(|(key, found)| {
            let promised = self.count.promised(self.cluster, key);
            let is_others = |claim: &&Key| !self.claims.delayed.iter().any(|(own, _)| own == *claim);
            let to = self.cluster.debits().claims_on(key).filter(is_others).cloned().collect();
            Report {
                key: key.clone(),
                version: found.metadata.resource_version.clone().unwrap_or_default(),
                whole: capacity::whole(found),
                largest: capacity::largest(found),
                promised,
                to: if promised > Amount::ZERO { to } else { Vec::new() },
                own: room.promised(key) - promised,
            }
        });
        let report = reports.max_by_key(Report::free);
        Shortage { claim, class, node: name(&node.metadata).to_owned(), requested, report }
    }
}

#[cfg(test)]
mod tests;
