//! Clients that others wrote, unmodified, against `pvbind apiserver`: over TLS, with a token, as a process of its own.
//!
//! Each runs where its programs are, and says `NOT RUN` on stderr where they are not. `just clients` runs all of them.

mod client_go;
mod controller_runtime;
mod helm;
mod kube_programs;
mod kube_rs;
mod kubectl;
mod python;
mod stage;
