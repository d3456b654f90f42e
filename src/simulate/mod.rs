//! Offline simulation of a cluster.

pub mod actors;
