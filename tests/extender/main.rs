//! `pvbind extender`: what it answers, what it binds, and a real kube-scheduler that asks it.

mod bind;
mod caller;
mod kube_scheduler;
mod pages;
mod stage;
mod tls;
