//! What of a pod's volumes keeps it from a node, with all that a user has to know to see why.
//!
//! Data and its prose; what it is asked for has been decided before, in [`super::find`]. A report of a driver goes by its
//! version, never by its age: two decisions about the same figures have to say the same, or what is told of a pod that waits
//! would be written anew at each of them.

use std::fmt;

use crate::cluster::Key;
use crate::objects::difference::Difference;
use crate::objects::quantity::Amount;

/// What keeps a pod from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The node does not reach the volume of a claim.
    OutOfReach {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
        /// What the node lacks; `None` for a volume that no labels can reach.
        difference: Option<Difference>,
    },
    /// The volume of a claim makes no sense to the CSI driver that serves it on the node.
    Untranslatable {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
        /// Why not.
        why: String,
    },
    /// The volume of a claim is gone.
    VolumeMissing {
        /// The claim.
        claim: Key,
        /// The volume.
        volume: Key,
    },
    /// Another node is selected for a claim.
    ChosenElsewhere {
        /// The claim.
        claim: Key,
        /// The other node.
        node: String,
    },
    /// No free volume fits that the node reaches, and nobody makes any.
    NoVolume {
        /// The claim.
        claim: Key,
        /// Its class.
        class: String,
        /// The node.
        node: String,
    },
    /// No free volume fits that the node reaches, and the class makes none for the node.
    NotAllowed {
        /// The claim.
        claim: Key,
        /// Its class.
        class: String,
        /// What the node lacks.
        difference: Option<Difference>,
    },
    /// There is not enough room to make a volume.
    NoRoom(Shortage),
}

/// What is missing for a volume to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The claim.
    pub claim: Key,
    /// Its class.
    pub class: String,
    /// The node.
    pub node: String,
    /// What the claim requests.
    pub requested: Amount,
    /// The report that comes nearest; `None` when nothing is reported for the node.
    pub report: Option<Report>,
}

/// What a driver has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The `CSIStorageCapacity`.
    pub key: Key,
    /// The version in which it was seen.
    pub version: String,
    /// All that is left, if it says so.
    pub whole: Option<Amount>,
    /// The largest size that one volume may have.
    pub largest: Option<Amount>,
    /// What of it is promised to claims of other pods.
    pub promised: Amount,
    /// Those claims, in the order in which it was.
    pub to: Vec<Key>,
    /// What other claims of the pod itself take of it.
    pub own: Amount,
}

impl Report {
    /// The limit for one volume, where that is less than all.
    fn limit(&self) -> Option<Amount> {
        self.largest.filter(|largest| Some(*largest) != self.whole)
    }

    /// The size of a volume that could still be made.
    #[must_use]
    pub fn free(&self) -> Amount {
        let left = self.whole.map(|whole| (whole - self.promised - self.own).max(Amount::ZERO));
        match (left, self.largest) {
            (Some(left), Some(largest)) => left.min(largest),
            (left, largest) => left.or(largest).unwrap_or_default(),
        }
    }
}

impl Obstacle {
    /// What would cure it.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        match self {
            Obstacle::OutOfReach { difference: Some(difference), .. } => {
                Some(format!("add a node with {} on which the pod fits", difference.asked()))
            }
            Obstacle::OutOfReach { volume, difference: None, .. } => {
                Some(format!("see spec.nodeAffinity of volume {}", volume.name()))
            }
            Obstacle::Untranslatable { claim, .. } => {
                Some(format!("recreate the volume of claim {}", claim.path()))
            }
            Obstacle::VolumeMissing { claim, .. } => Some(format!("recreate claim {}", claim.path())),
            Obstacle::ChosenElsewhere { node, .. } => Some(format!("make room for the pod on node {node}")),
            Obstacle::NoVolume { claim, class, node } => Some(format!(
                "create a volume with spec.storageClassName {class:?} for claim {} that node {node} reaches",
                claim.path()
            )),
            Obstacle::NotAllowed { class, difference, .. } => {
                let node =
                    difference.as_ref().map(|difference| format!("add a node with {}", difference.asked()));
                Some(node.unwrap_or_else(|| format!("see allowedTopologies of class {class}")))
            }
            Obstacle::NoRoom(shortage) => Some(shortage.fix()),
        }
    }
}

impl Shortage {
    fn fix(&self) -> String {
        let Shortage { claim, class, node, requested, report } = self;
        let Some(report) = report else {
            return format!("let the driver of class {class} publish a CSIStorageCapacity for node {node}");
        };
        let free = report.free();
        let missing = *requested - free;
        let less = if free > Amount::ZERO {
            format!(", or request {free} or less for claim {}", claim.path())
        } else {
            String::new()
        };
        if report.limit().is_some_and(|limit| limit < *requested) {
            return format!("let the driver make volumes of {requested} at node {node}{less}");
        }
        format!("free {missing} at node {node}{less}")
    }
}

fn paths(claims: &[Key]) -> String {
    claims.iter().map(Key::path).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { claim, class, node, requested, report } = self;
        write!(f, "claim {} requests {requested}, and ", claim.path())?;
        let Some(report) = report else {
            return write!(f, "no CSIStorageCapacity of class {class} is for node {node}");
        };
        write!(f, "CSIStorageCapacity {} (version {}) reports ", report.key.path(), report.version)?;
        match (report.whole, report.largest) {
            (Some(whole), _) => write!(f, "{whole}")?,
            (None, Some(_)) => f.write_str("no total")?,
            (None, None) => return f.write_str("nothing"),
        }
        if let Some(limit) = report.limit() {
            write!(f, ", in volumes of {limit} at most")?;
        }
        if report.promised > Amount::ZERO {
            write!(f, ", of which {} are promised to {}", report.promised, paths(&report.to))?;
        }
        if report.own > Amount::ZERO {
            write!(f, ", of which {} are for other claims of the pod", report.own)?;
        }
        write!(f, ": {} are free", report.free())
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::OutOfReach { claim, volume, difference } => {
                write!(f, "volume {} of claim {} ", volume.name(), claim.path())?;
                match difference {
                    Some(difference) => difference.fmt(f),
                    None => f.write_str("can be reached from no node, whatever its labels"),
                }
            }
            Obstacle::Untranslatable { claim, volume, why } => {
                write!(f, "volume {} of claim {}: {why}", volume.name(), claim.path())
            }
            Obstacle::VolumeMissing { claim, volume } => {
                write!(f, "claim {} is bound to volume {}, which does not exist", claim.path(), volume.name())
            }
            Obstacle::ChosenElsewhere { claim, node } => {
                write!(f, "node {node} is selected for claim {}", claim.path())
            }
            Obstacle::NoVolume { claim, class, node } => write!(
                f,
                "claim {} finds no free volume that node {node} reaches, and class {class:?} has no provisioner",
                claim.path()
            ),
            Obstacle::NotAllowed { claim, class, difference } => {
                write!(f, "a volume of class {class:?} for claim {} ", claim.path())?;
                match difference {
                    Some(difference) => difference.fmt(f),
                    None => f.write_str("can be made for no node, whatever its labels"),
                }
            }
            Obstacle::NoRoom(shortage) => shortage.fmt(f),
        }
    }
}
