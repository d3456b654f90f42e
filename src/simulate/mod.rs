//! `pvbind simulate`: what would become of these manifests, offline and in virtual time; and `pvbind up`, the same live ([`live`]).
//!
//! The manifests go into the bundled API server; the production controller and scheduler ([`crate::act::run()`]) and
//! stand-ins for the rest of a cluster ([`actors`]) run against it through a `kube::Client`, on a clock that jumps
//! ahead whenever all of them wait, until nothing moves ([`run`]). Then the server is read out ([`outcome`]) and
//! told ([`report`], [`table`]). Nothing leaves the process.

pub mod actors;
pub mod live;
mod load;
mod namespaces;
pub mod outcome;
pub mod progress;
pub mod report;
pub mod run;
pub mod stage;
pub mod table;

pub use progress::Progress;
pub use run::{Error, Input, simulate, simulate_watched};
