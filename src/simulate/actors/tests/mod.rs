//! What each actor plans, and how scenes end when plans are performed.

mod faults;
mod garbage;
mod kubelet;
mod live;
mod protection;
mod provisioner;
mod scene;
mod stateful_set;
mod workloads;
mod world;
