//! The parts of a cluster that `simulate` needs beside the volume controller and the scheduler.
//!
//! Each actor is a set of pure planning functions over one [`World`]: given what is known and a [`Key`], a list of
//! [`Call`]s. One async shell ([`run`]) watches, decides and performs. The actors are stand-ins: they bring a cluster to
//! the end state that the real ones would, at once and without chance, and leave out what no volume depends on. They
//! never bind a claim and never place a pod.
//!
//! | actor | stands in for |
//! |---|---|
//! | `workloads` | statefulset, deployment, replicaset, daemonset, job and ephemeral-volume controllers |
//! | `kubelet` | a kubelet on every node |
//! | `protection` | pvc-protection, pv-protection and vac-protection controllers |
//! | `provisioner` (with `room`) | a CSI driver with its external-provisioner, for every class that is not built in |
//! | `garbage` | garbage collector and namespace controller |

mod call;
mod family;
mod garbage;
mod intake;
mod key;
mod kubelet;
mod perform;
mod protection;
mod provisioner;
mod relation;
mod room;
mod routes;
mod selector;
mod shell;
mod workloads;
mod world;

#[cfg(test)]
mod tests;

pub use call::{Call, Kind, Name, Remark, Target};
pub use key::Key;
pub use perform::Clock;
pub use shell::{Error, plan, run};
pub use world::{Watched, World};

/// Which actors to play; all of them unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of switches is what this is")]
pub struct Roles {
    /// The workload controllers and the ephemeral-volume controller.
    pub workloads: bool,
    /// The kubelets.
    pub kubelet: bool,
    /// The protection controllers.
    pub protection: bool,
    /// The external provisioner.
    pub provisioner: bool,
    /// The garbage collector.
    pub garbage: bool,
    /// The namespace controller.
    pub namespaces: bool,
}

impl Default for Roles {
    fn default() -> Self {
        Self {
            workloads: true,
            kubelet: true,
            protection: true,
            provisioner: true,
            garbage: true,
            namespaces: true,
        }
    }
}
