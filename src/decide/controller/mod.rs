//! The PersistentVolume controller's decisions, one file for each of its questions.
//!
//! Answers to upstream's `pkg/controller/volume/persistentvolume/pv_controller.go`.

pub mod bind;
pub mod claim;
pub mod migration;
pub mod operation;
pub mod provision;
pub mod reclaim;
pub mod recycle;
pub mod volume;
