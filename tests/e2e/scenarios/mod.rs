//! The scenarios, a file for each part of what volume binding is.

pub mod faults;
pub mod statics;
