//! One pod's way through a scheduling cycle, in the words of the scheduling framework.
//!
//! It holds what the framework's plugin keeps in its cycle state: the pod's claims and, for each node that passed the filter,
//! what they would get there. It decides nothing that [`crate::decide::binder`] does not. Answers to the extension points
//! of upstream's plugin `VolumeBinding`.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{Cluster, Key, OutOfSync, PodVolumes};
use crate::decide::Settings;
use crate::decide::binder::claims::{self, PodClaims, Unsorted};
use crate::decide::binder::eligible;
use crate::decide::binder::find::PodSearch;
use crate::decide::binder::storage::{Shape, StorageResources};
use crate::objects::{Node, Pod, name, namespace};

/// What a status means to the framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// There is nothing to do for the pod.
    Skip,
    /// As things are, the pod cannot be there, and evicting others would not help.
    UnschedulableAndUnresolvable,
    /// Something is wrong.
    Error,
}

/// Why the pod does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it means.
    pub code: Code,
    /// Why, in upstream's words.
    pub reasons: Vec<String>,
}

impl Status {
    fn of(code: Code, reason: &dyn std::fmt::Display) -> Self {
        Status { code, reasons: vec![reason.to_string()] }
    }

    fn skip() -> Self {
        Status { code: Code::Skip, reasons: Vec::new() }
    }
}

/// The key of a pod.
pub(super) fn key(pod: &Pod) -> Key {
    Key::pod(namespace(&pod.metadata), name(&pod.metadata))
}

/// What is known of one pod in one scheduling cycle.
#[derive(Clone, Debug, Default)]
pub struct Cycle {
    claims: PodClaims,
    by_node: BTreeMap<String, PodVolumes>,
    all_bound: bool,
}

impl Cycle {
    /// Looks at the pod's claims.
    ///
    /// # Errors
    /// [`Code::Skip`] when the pod uses no claim; otherwise why it can be on no node for now.
    pub fn pre_filter(cluster: &Cluster, pod: &Pod) -> Result<Self, Status> {
        let key = key(pod);
        let uses_any = claims::check(cluster, &key, pod)
            .map_err(|why| Status::of(Code::UnschedulableAndUnresolvable, &why))?;
        if !uses_any {
            return Err(Status::skip());
        }
        let claims =
            claims::sort(cluster, &key, pod).map_err(|why: Unsorted| Status::of(Code::Error, &why))?;
        if !claims.immediate.is_empty() {
            let why = &"pod has unbound immediate PersistentVolumeClaims";
            return Err(Status::of(Code::UnschedulableAndUnresolvable, why));
        }
        Ok(Cycle { claims, ..Cycle::default() })
    }

    /// A cycle that somebody else has kept: what the claims get on each node that passed the filter, and whether they are all
    /// bound.
    #[must_use]
    pub fn restored(by_node: BTreeMap<String, PodVolumes>, all_bound: bool) -> Self {
        Cycle { claims: PodClaims::default(), by_node, all_bound }
    }

    /// The pod's claims.
    #[must_use]
    pub fn claims(&self) -> &PodClaims {
        &self.claims
    }

    /// Looks at nodes, one after the other, and keeps what the claims would get on each that will do. Volumes that are being
    /// made for other pods count against the room that drivers report.
    pub fn filter<'n>(
        &mut self,
        cluster: &Cluster,
        settings: &Settings,
        nodes: impl IntoIterator<Item = &'n Node>,
    ) -> Vec<Result<(), Status>> {
        let search = PodSearch::new(cluster, settings, &self.claims);
        let mut statuses = Vec::new();
        for node in nodes {
            let found = match search.on_node(node) {
                Ok(found) => found,
                Err(why) => {
                    statuses.push(Err(Status::of(Code::Error, &why)));
                    continue;
                }
            };
            if found.conflicts.is_empty() {
                self.by_node.insert(name(&node.metadata).to_owned(), found.volumes);
                statuses.push(Ok(()));
            } else {
                let reasons = found.conflicts.iter().map(|conflict| conflict.as_str().to_owned()).collect();
                statuses.push(Err(Status { code: Code::UnschedulableAndUnresolvable, reasons }));
            }
        }
        statuses
    }

    /// The nodes that the volumes of the pod's bound claims leave, by their names; `None` for all of them. Looking at these
    /// alone saves time, and is what older schedulers do.
    #[must_use]
    pub fn eligible_nodes(&self, cluster: &Cluster) -> Option<BTreeSet<String>> {
        eligible::nodes(cluster, self.claims.bound.iter().map(|(_, claim)| &**claim))
    }

    /// The score of a node, from 0 to 100: by how full the storage of each class would be. A node that did not pass the
    /// filter has 0.
    #[must_use]
    pub fn score(&self, shape: &Shape, node: &str) -> u64 {
        self.by_node.get(node).map_or(0, |volumes| shape.score(&StorageResources::of(volumes)))
    }

    /// What the claims get on a node that passed the filter.
    #[must_use]
    pub fn on_node(&self, node: &str) -> Option<&PodVolumes> {
        self.by_node.get(node)
    }

    /// Takes what the claims get on the chosen node for the pod; see [`super::assume`].
    ///
    /// # Errors
    /// When it has changed since the filter.
    pub fn reserve(&mut self, cluster: &mut Cluster, pod: &Pod, node: &str) -> Result<(), OutOfSync> {
        self.all_bound = match self.by_node.get(node) {
            Some(volumes) => super::assume(cluster, pod, node, volumes)?,
            None => true,
        };
        Ok(())
    }

    /// Gives back what was taken.
    pub fn unreserve(&self, cluster: &mut Cluster, node: &str) {
        if let Some(volumes) = self.by_node.get(node) {
            super::revert(cluster, volumes);
        }
    }

    /// What is to be bound before the pod is placed on the node.
    ///
    /// # Errors
    /// [`Code::Skip`] when there is nothing to bind; [`Code::Error`] for a node that did not pass the filter.
    pub fn pre_bind(&self, node: &str) -> Result<&PodVolumes, Status> {
        if self.all_bound {
            return Err(Status::skip());
        }
        let missing = || Status::of(Code::Error, &format_args!("no pod volume found for node {node:?}"));
        self.by_node.get(node).ok_or_else(missing)
    }
}
