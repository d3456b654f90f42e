//! x

pub mod manifest;
pub mod simulate;
