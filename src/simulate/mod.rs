//! `pvbind simulate`: what it found, and how a person reads it.

pub mod report;
pub mod table;
