//! Leader election: candidates on one Lease of the bundled API server, in virtual time, with everything going wrong that can
//! go wrong between them and the server.

mod binds;
mod client_go;
mod faults;
mod stage;
mod turns;
