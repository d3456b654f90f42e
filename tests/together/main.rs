//! Two controllers at once on one API server, through a burst of claims and volumes that come and go: nothing is bound twice,
//! nothing is lost, and they do not fight for ever.
//!
//! Always on the fake API server; on a real one, also beside upstream's controller, where the environment variable
//! `KUBEBUILDER_ASSETS` names a folder with the programs.

mod burst;
mod fake;
mod history;
mod real;
mod verdict;
