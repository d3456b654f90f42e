//! What refuses a pod that waits, and whether news may help it.
//!
//! A pod waits for the nodes that were found wanting, each for a first reason. So it can be helped only by news of one of
//! these reasons, and most news of one node's only if that node would do now. In doubt a pod is helped: one that is
//! looked at in vain costs a decision, one that is not waits for ever. Changes of a pod's own claims, and of the
//! volumes and classes that these name, lead to the pod by key ([`crate::cluster::wake`]), not from here. Answers to
//! the queueing hints of upstream's plugins.

use std::collections::BTreeSet;

use super::news::News;
use crate::cluster::{Cluster, Key, Kind};
use crate::decide::Settings;
use crate::decide::binder::claims::PodClaims;
use crate::decide::binder::find::Conflict;
use crate::decide::binder::fit::Wanted;
use crate::decide::binder::terms;
use crate::decide::binder::unfit::Unfit;
use crate::decide::matching::{self, For};
use crate::objects::quantity::Amount;
use crate::objects::{Capacity, Claim, Pod, capacity, claim, name, namespace, pod, volume};

/// How many nodes are looked at for one pod because of one piece of news.
const LOOKED_AT: usize = 16;

/// Why nodes are refused, as far as it matters to what may help: what upstream's plugins tell apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// Taints, a cordon among them.
    Taints,
    /// The node's labels, or its name.
    Labels,
    /// Host ports.
    Ports,
    /// Resources, the number of pods among them.
    Resources,
    /// A claim for one pod alone.
    ClaimInUse,
    /// A disk that stands in the pod.
    Disks,
    /// The number of volumes that can be attached.
    Attachments,
    /// The lack of pods to be near to.
    Affinity,
    /// Pods that are to be far.
    AntiAffinity,
    /// Bound volumes that are out of reach.
    Reach,
    /// No volume of the class, and none can be made.
    NoVolume {
        /// The class.
        class: String,
    },
    /// No storage left to make a volume of the class.
    NoSpace {
        /// The class.
        class: String,
    },
}

/// What refuses a pod with these claims, if these are the reasons of the nodes.
pub fn of<'a>(unfit: impl IntoIterator<Item = &'a Unfit<'a>>, claims: &PodClaims) -> BTreeSet<Refusal> {
    let mut refusals = BTreeSet::new();
    let (mut no_volume, mut no_space) = (false, false);
    for unfit in unfit {
        let refusal = match unfit {
            Unfit::Unschedulable | Unfit::Taint(_) => Refusal::Taints,
            Unfit::Label { .. } | Unfit::Affinity => Refusal::Labels,
            Unfit::Port { .. } => Refusal::Ports,
            Unfit::TooManyPods | Unfit::Insufficient(_) => Refusal::Resources,
            Unfit::ClaimInUse { .. } => Refusal::ClaimInUse,
            Unfit::DiskInUse { .. } => Refusal::Disks,
            Unfit::TooManyVolumes { .. } => Refusal::Attachments,
            Unfit::PodAffinity => Refusal::Affinity,
            Unfit::PodAntiAffinity | Unfit::ExistingAntiAffinity => Refusal::AntiAffinity,
            Unfit::Zone(_) | Unfit::Volumes(Conflict::NodeAffinity | Conflict::Untranslatable) => {
                Refusal::Reach
            }
            Unfit::Volumes(Conflict::NoVolume) => {
                no_volume = true;
                continue;
            }
            Unfit::Volumes(Conflict::NoSpace) => {
                no_space = true;
                continue;
            }
            // The volume leads to the pod by key, once it is there.
            Unfit::Volumes(Conflict::VolumeMissing) => continue,
        };
        refusals.insert(refusal);
    }
    for (_, claim) in &claims.delayed {
        let class = claim::class(claim);
        refusals.extend(no_volume.then(|| Refusal::NoVolume { class: class.to_owned() }));
        refusals.extend(no_space.then(|| Refusal::NoSpace { class: class.to_owned() }));
    }
    refusals
}

/// A pod that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// What decisions may take for granted.
    pub settings: &'a Settings,
    /// The pod's key.
    pub key: &'a Key,
    /// The pod.
    pub pod: &'a Pod,
}

impl Refusal {
    /// Whether such news may help any pod that is refused for this.
    #[must_use]
    pub fn hears(&self, news: &News) -> bool {
        if *news == News::NodeCount {
            return true;
        }
        match self {
            Refusal::Taints => matches!(news, News::Taints { .. }),
            Refusal::Labels => matches!(news, News::Labels { .. }),
            Refusal::Ports | Refusal::ClaimInUse | Refusal::Disks => matches!(news, News::PodLeft { .. }),
            // A pod that comes may have attached what the other one needs too.
            Refusal::Attachments => {
                matches!(news, News::Attachments { .. } | News::PodLeft { .. } | News::PodCame { .. })
            }
            Refusal::Resources => matches!(news, News::PodLeft { .. } | News::Room { .. }),
            // A pod that leaves may have been the only one of its kind, and the first of them goes anywhere.
            Refusal::Affinity => matches!(
                news,
                News::PodCame { .. }
                    | News::PodLeft { .. }
                    | News::PodRelabelled { .. }
                    | News::Labels { .. }
            ),
            Refusal::AntiAffinity => {
                matches!(news, News::PodLeft { .. } | News::PodRelabelled { .. } | News::Labels { .. })
            }
            Refusal::Reach => matches!(news, News::Labels { .. } | News::Migrated { .. }),
            Refusal::NoVolume { class } => match news {
                News::Volume(found) => volume::class(found) == class,
                News::Class { class: changed } => changed == class,
                other => matches!(other, News::Labels { .. }),
            },
            // A claim that takes a free volume leaves the storage to the others.
            Refusal::NoSpace { class } => match news {
                News::Volume(found) => volume::class(found) == class,
                News::Capacity { report, .. } => report.storage_class_name == *class,
                News::Unreported { class: changed } => changed == class,
                other => matches!(other, News::Labels { .. }),
            },
        }
    }

    /// Whether the news may help this pod, which is refused for this and [hears](Refusal::hears) of it.
    #[must_use]
    pub fn is_cured(&self, news: &News, waiting: Waiting) -> bool {
        let pod = waiting.pod;
        match news {
            News::NodeCount | News::Class { .. } | News::Unreported { .. } => true,
            News::Taints { node }
            | News::Room { node }
            | News::Migrated { node }
            | News::Attachments { node } => waiting.serves(node),
            News::Labels { node } => match self {
                // What is near to a node may have changed for all nodes.
                Refusal::Affinity | Refusal::AntiAffinity => true,
                Refusal::Taints
                | Refusal::Labels
                | Refusal::Ports
                | Refusal::Resources
                | Refusal::ClaimInUse
                | Refusal::Disks
                | Refusal::Attachments
                | Refusal::Reach
                | Refusal::NoVolume { .. }
                | Refusal::NoSpace { .. } => waiting.serves(node),
            },
            News::PodLeft { pod: other, node } | News::PodCame { pod: other, node } => match self {
                Refusal::ClaimInUse => shares_claim(pod, other),
                Refusal::Affinity => terms::near(pod).any(|term| term.speaks_of(other)),
                Refusal::AntiAffinity => {
                    terms::away(pod).any(|term| term.speaks_of(other))
                        || terms::away(other).any(|term| term.speaks_of(pod))
                }
                Refusal::Taints
                | Refusal::Labels
                | Refusal::Ports
                | Refusal::Resources
                | Refusal::Disks
                | Refusal::Attachments
                | Refusal::Reach
                | Refusal::NoVolume { .. }
                | Refusal::NoSpace { .. } => waiting.serves(node),
            },
            News::PodRelabelled { before, after } => {
                terms::near(pod).any(|term| term.speaks_of(before) || term.speaks_of(after))
                    || terms::away(pod).any(|term| term.speaks_of(before))
            }
            News::Volume(volume) => waiting.delayed(volume::class(volume)).any(|(_, claim)| {
                let attributes_class = waiting.settings.volume_attributes_class;
                matching::judge(volume, &For { claim, node: None, attributes_class }).is_ok()
            }),
            News::Capacity { report, nodes } => waiting.has_room(report) && waiting.is_served_by(nodes),
        }
    }
}

fn shares_claim(pod: &Pod, other: &Pod) -> bool {
    let is_near = namespace(&pod.metadata) == namespace(&other.metadata);
    is_near && pod::claims(pod).any(|used| pod::claims(other).any(|held| held.claim == used.claim))
}

impl<'a> Waiting<'a> {
    /// Whether the node would do, its volumes and other pods aside.
    fn serves(self, node: &str) -> bool {
        let Some(node) = self.cluster.node(node) else { return false };
        Wanted::of(self.cluster, self.key, self.pod).may_fit(self.cluster, node)
    }

    /// Whether one of the nodes would do. Of many not all are looked at: then one of them may.
    fn is_served_by(self, nodes: &[String]) -> bool {
        nodes.len() > LOOKED_AT || nodes.iter().any(|node| self.serves(node))
    }

    /// The pod's claims of a class that are not bound yet.
    fn delayed(self, class: &'a str) -> impl Iterator<Item = (Key, &'a Claim)> {
        let keys = pod::claims(self.pod).map(move |used| Key::claim(self.key.namespace(), &used.claim));
        let claims = keys.filter_map(move |key| Some((key.clone(), self.cluster.claim(&key)?.as_ref())));
        claims.filter(move |(_, claim)| claim::class(claim) == class && !claim::is_fully_bound(claim))
    }

    /// Whether a volume for one of the claims can be made of what is reported.
    fn has_room(self, report: &'a Capacity) -> bool {
        let (namespace, name) = (namespace(&report.metadata), name(&report.metadata));
        let debits = self.cluster.debits();
        let promised = if self.settings.strict_capacity {
            debits.on(&Key::new(Kind::Capacity, namespace, name))
        } else {
            Amount::ZERO
        };
        self.delayed(&report.storage_class_name).any(|(key, claim)| {
            // What is promised to the claim itself is its own to take.
            let size = capacity::taken_by(claim).filter(|_| debits.of(&key).is_none());
            size.is_none_or(|size| capacity::holds(report, size, promised))
        })
    }
}

#[cfg(test)]
mod tests;
