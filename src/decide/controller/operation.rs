//! Operations: what takes long and is done beside the syncs, one step after the other.
//!
//! A step is a plan. What it reads of the API server, or asks of a plugin, comes back and decides the next step; a
//! process that stops in between loses nothing, since each operation begins again from what the API server has.
//! Answers to upstream's `provisionClaimOperation`, `deleteVolumeOperation` and `recycleVolumeOperation`.

use std::sync::Arc;

use super::{provision, reclaim, recycle};
use crate::cluster::{Cluster, Key};
use crate::decide::plugin::{Answer, Call};
use crate::decide::{Operation, Plan, Reads, Reason, Settings};
use crate::objects::Volume;

/// The next step of an operation, knowing what it has read so far.
#[must_use]
pub fn operate(cluster: &Cluster, settings: &Settings, operation: &Operation, reads: &Reads) -> Plan {
    match operation {
        Operation::Provision(claim) => provision::operate(cluster, settings, claim, reads),
        Operation::Delete(volume) => reclaim::delete(cluster, settings, volume, reads),
        Operation::Recycle(volume) => recycle::recycle(cluster, settings, volume, reads),
    }
}

/// What follows from a plugin's answer.
#[must_use]
pub fn answered(cluster: &Cluster, operation: &Operation, call: &Call, answer: Answer) -> Plan {
    match (operation, call) {
        (Operation::Provision(claim), Call::Provision(wanted)) => {
            provision::made(cluster, claim, wanted, answer)
        }
        (Operation::Provision(claim), Call::CleanUp { volume, .. }) => {
            provision::cleaned_up(claim, volume, answer)
        }
        (Operation::Delete(volume), Call::Delete { .. }) => reclaim::deleted(cluster, volume, answer),
        (Operation::Recycle(volume), Call::Recycle { .. }) => recycle::recycled(cluster, volume, answer),
        (
            Operation::Provision(_) | Operation::Delete(_) | Operation::Recycle(_),
            Call::Provision(_) | Call::CleanUp { .. } | Call::Delete { .. } | Call::Recycle { .. },
        ) => Plan::nothing(Reason::NotDecidedAbout),
    }
}

/// What follows when a volume that a plugin has just made could not be saved: nobody knows of its storage, so it goes.
#[must_use]
pub fn unsaved(settings: &Settings, operation: &Operation, volume: &Arc<Volume>, why: &str) -> Plan {
    match operation {
        Operation::Provision(claim) => provision::unsaved(settings, claim, volume, why),
        Operation::Delete(_) | Operation::Recycle(_) => Plan::nothing(Reason::NotDecidedAbout),
    }
}

/// The name of the volume that is made for a claim with this uid.
#[must_use]
pub fn volume_key(uid: &str) -> Key {
    Key::volume(&format!("pvc-{uid}"))
}
