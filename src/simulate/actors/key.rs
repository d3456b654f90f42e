//! The things that have to be decided, each small enough that deciding it costs little.
//!
//! The order of the variants is the order in which keys that are due at once are decided: what goes away first, then
//! what makes pods run, then what makes new pods, then volumes; within one variant by name, which is how the recorded
//! provisioner takes claims.

use super::Roles;
use super::call::{Kind, Name};

/// Something to decide about one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A namespace that goes away takes its content with it.
    Namespace(String),
    /// An object one of whose owners is gone.
    Dependent(Kind, Name),
    /// An owner that waits for its dependents (`foregroundDeletion`, `orphan`).
    Owner(Kind, Name),
    /// The protection finalizer of a claim.
    ClaimProtection(Name),
    /// The protection finalizer of a volume.
    VolumeProtection(Name),
    /// The protection finalizer of a `VolumeAttributesClass`.
    ClassProtection(Name),
    /// Whether a new node is ready.
    Node(Name),
    /// A pod's life on its node.
    Kubelet(Name),
    /// The claims of a pod's ephemeral volumes.
    Ephemeral(Name),
    /// A Deployment's `ReplicaSets`.
    Deployment(Name),
    /// A `ReplicaSet`'s pods.
    ReplicaSet(Name),
    /// A `DaemonSet`'s pod on one node.
    Daemon(Name, String),
    /// A `DaemonSet`'s status.
    DaemonSet(Name),
    /// A Job's pods.
    Job(Name),
    /// One replica of a `StatefulSet`: its claims, and in a parallel set its pod.
    Replica(Name, i64),
    /// A `StatefulSet`'s order: the next pod to make or to take away.
    StatefulSet(Name),
    /// The volume for a claim.
    Provision(Name),
    /// A released volume.
    Reclaim(Name),
}

impl Key {
    /// Whether the actor that decides this key was asked for.
    #[must_use]
    pub fn is_played(&self, roles: Roles) -> bool {
        match self {
            Self::Namespace(_) => roles.namespaces,
            Self::Dependent(..) | Self::Owner(..) => roles.garbage,
            Self::ClaimProtection(_) | Self::VolumeProtection(_) | Self::ClassProtection(_) => {
                roles.protection
            }
            Self::Node(_) | Self::Kubelet(_) => roles.kubelet,
            Self::Provision(_) | Self::Reclaim(_) => roles.provisioner,
            Self::Ephemeral(_)
            | Self::Deployment(_)
            | Self::ReplicaSet(_)
            | Self::Daemon(..)
            | Self::DaemonSet(_)
            | Self::Job(_)
            | Self::Replica(..)
            | Self::StatefulSet(_) => roles.workloads,
        }
    }
}
