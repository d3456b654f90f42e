//! Doing what was decided: one decider, many executors.
//!
//! One task owns the [`crate::cluster::Cluster`]: it takes watch events, finished jobs and due keys, decides,
//! assumes the writes of the plan at once and hands the plan to executors that run side by side ([`run()`]). A
//! key whose object has a job under way waits for it, so the program never conflicts with itself
//! ([`decider`]). This is the only part that waits, reads a clock or talks to an API server.

pub mod clock;
pub mod deadlines;
pub mod decider;
pub mod error;
pub mod events;
pub mod execute;
pub mod extender;
pub mod lease;
pub mod log;
pub mod metrics;
pub mod operations;
pub mod pace;
pub mod parked;
pub mod plugin;
pub mod queue;
pub mod run;
pub mod scrubbing;
pub mod serve;
pub mod tls;
pub mod watch;

pub use clock::Clock;
pub use decider::{Decider, Job, Roles};
pub use error::Error;
pub use execute::Outcome;
pub use lease::Lead;
pub use metrics::Metrics;
pub use pace::Pace;
pub use plugin::{Plugins, VolumePlugin};
pub use run::{Options, Stats, run, run_extender, run_on};
