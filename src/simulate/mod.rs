//! `pvbind simulate`: what would become of these manifests, offline and in virtual time.
pub mod actors;
pub mod report;
pub mod table;
