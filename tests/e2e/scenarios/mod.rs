//! The scenarios, a file for each part of what volume binding is.

pub mod classes;
pub mod delayed;
pub mod dynamic;
pub mod faults;
pub mod migration;
pub mod pods;
pub mod prebound;
pub mod reclaim;
pub mod statics;
