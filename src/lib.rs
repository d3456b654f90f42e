//! x

pub mod simulate;
