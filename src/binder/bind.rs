//! Binding a pod's volumes: requests, and then a question that is asked at every change.
//!
//! A state machine without a clock and without a client. It never sends anything: the caller does, within the time that it
//! has. Answers to upstream's `BindPodVolumes`, `bindAPIUpdate` and `checkBindings`.

use std::collections::VecDeque;

use crate::cluster::{Binding, Cluster, Key, Object, PodVolumes};
use crate::decide::binder::check::{self, Failed, Progress};
use crate::decide::binder::reserve;
use crate::decide::{Write, patch};

/// One request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The object, as it was when this was decided.
    pub before: Object,
    /// What is to be made of it.
    pub write: Write,
}

impl Request {
    /// What is sent: a merge patch of exactly what changes, with the version that was decided on as its precondition.
    #[must_use]
    pub fn body(&self) -> Option<patch::Request> {
        self.write.request(&self.before)
    }
}

/// The volumes of one pod on their way to being bound.
#[derive(Clone, Debug)]
pub struct Bind {
    pod: Key,
    node: String,
    volumes: PodVolumes,
    requests: VecDeque<Request>,
}

impl Bind {
    /// Begins to bind what was assumed for a pod on a node.
    #[must_use]
    pub fn new(pod: Key, node: &str, volumes: PodVolumes) -> Self {
        let changes = reserve::writes(node, &volumes).filter(|(before, write)| write.apply(before).is_some());
        let requests = changes.map(|(before, write)| Request { before, write }).collect();
        Bind { pod, node: node.to_owned(), volumes, requests }
    }

    /// The request that is to be sent next; `None` when all have been.
    #[must_use]
    pub fn next(&self) -> Option<&Request> {
        self.requests.front()
    }

    /// The API server has done what [`Bind::next`] asked for, and shows the object as it is now.
    pub fn answered(&mut self, cluster: &mut Cluster, answer: &Object) {
        self.requests.pop_front();
        for binding in &mut self.volumes.bindings {
            if let Object::Volume(volume) = answer
                && binding.volume_key() == answer.key()
            {
                binding.volume = volume.clone();
            }
        }
        for provision in &mut self.volumes.provisions {
            if let Object::Claim(claim) = answer
                && provision.claim_key() == answer.key()
            {
                provision.claim = claim.clone();
            }
        }
        cluster.show(answer.clone());
    }

    /// The API server has refused what [`Bind::next`] asked for. What has not been written is given back; see
    /// [`Bind::undo`] for what has.
    pub fn refused(&mut self, cluster: &mut Cluster) {
        for request in self.requests.drain(..) {
            cluster.release(&request.before);
        }
    }

    /// What the pod's claims get, with the objects as they have been written so far.
    #[must_use]
    pub fn volumes(&self) -> &PodVolumes {
        &self.volumes
    }

    /// How far the binding has come, once nothing is left to send.
    ///
    /// # Errors
    /// What makes it impossible: the pod has to be scheduled again.
    pub fn progress(&self, cluster: &Cluster) -> Result<Progress, Failed> {
        if !self.requests.is_empty() {
            return Ok(Progress::Waiting);
        }
        check::progress(cluster, &self.pod, &self.node, &self.volumes)
    }

    /// The requests that take back what was reserved for claims whose binding has not begun, for a pod that is not going to
    /// use it. A claim that is being bound keeps its volume.
    #[must_use]
    pub fn undo(&self, cluster: &Cluster) -> Vec<Request> {
        let claims = self.volumes.bindings.iter().map(Binding::claim_key);
        let writes = claims.flat_map(|claim| reserve::undo(cluster, &claim));
        writes.map(|(before, write)| Request { before, write }).collect()
    }
}
