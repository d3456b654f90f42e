//! Placing pods: which node, and which volumes there.

use crate::cluster::{Cluster, Key};
use crate::decide::{Plan, Reason, Settings};

/// Which pods are scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// All that are on no node.
    All,
    /// Those that name this scheduler.
    Naming(String),
}

/// Decides about a pod.
#[must_use]
pub fn schedule(_cluster: &Cluster, _settings: &Settings, _pods: &Pods, _key: &Key) -> Plan {
    Plan::nothing(Reason::Gone)
}
