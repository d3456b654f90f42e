//! What to do about one object, and why.
//!
//! [`sync`] looks at the [`Cluster`] and returns a [`Plan`]: API writes as intents, events, operations to start
//! and keys to look at again, with a [`Reason`]. Nothing here waits, reads a clock, draws a random number or
//! talks to anybody: the same cluster gives the same plan. Answers to upstream's `syncClaim` and `syncVolume`
//! (`pv_controller.go`) and to the scheduler's `VolumeBinding` plugin.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod binder;
pub mod controller;
pub mod event;
mod fix;
pub mod matching;
pub mod patch;
pub mod plan;
pub mod plugin;
mod prose;
pub mod reason;
pub mod write;

pub use event::{Event, Severity};
pub use plan::{Action, Operation, Plan, Reads, Settings};
pub use reason::Reason;
pub use write::Write;

use crate::cluster::{Cluster, Key, Kind};

/// Decides about one claim or volume; other kinds are looked at, not decided about.
#[must_use]
pub fn sync(cluster: &Cluster, settings: &Settings, key: &Key, reads: &Reads) -> Plan {
    match key.kind() {
        Kind::Claim => match cluster.claim(key) {
            Some(claim) => controller::claim::sync(cluster, settings, key, claim),
            None => Plan::nothing(Reason::Gone),
        },
        Kind::Volume => match cluster.volume(key) {
            Some(volume) => controller::volume::sync(cluster, settings, key, volume, reads),
            None => Plan::nothing(Reason::Gone),
        },
        Kind::Pod | Kind::Node | Kind::CsiNode | Kind::CsiDriver | Kind::Capacity | Kind::Class => {
            Plan::nothing(Reason::NotDecidedAbout)
        }
    }
}
