//! What users of upstream's controller and scheduler ran into, each with the outcome that is right: public reports, restated with
//! small inputs of our own, and their siblings.
//!
//! What shows offline runs through `pvbind::simulate` on the manifests of `testdata/cases`; what needs a lagging
//! watch, a failing request or the log of calls runs the production loop against the fake API server, on a clock that
//! jumps. Never looks inside: only at what the API server holds, what it was asked, and which events it was given.

mod capacity;
mod classes;
mod growing;
mod interrupted;
mod lost;
mod many;
mod migration;
mod offline;
mod pairs;
mod placing;
mod reclaim;
mod reserved;
mod selected;
mod sharing;
mod stage;
mod troubled;
mod undone;
mod waiting;
