//! Whether a pod fits on a node, volumes aside.
//!
//! Answers to upstream's plugins `NodeUnschedulable`, `NodeName`, `TaintToleration`, `NodeAffinity`, `NodePorts`,
//! `NodeResourcesFit` and `VolumeRestrictions`, in that order and with their words.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::cluster::usage::{self, HostPort};
use crate::cluster::{Cluster, Key};
use crate::objects::pod::Resources;
use crate::objects::quantity::Amount;
use crate::objects::{Node, Pod, name, pod, taint, topology};

/// What a node does not offer, and what would cure it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What, in upstream's words.
    pub why: String,
    /// What would cure it.
    pub fix: Option<String>,
}

impl Unfit {
    pub(super) fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Unfit { why: why.into(), fix: Some(fix.into()) }
    }
}

/// What a pod asks of every node; computed once for all of them.
#[derive(Debug)]
pub struct Wanted<'a> {
    pod: &'a Pod,
    requests: Resources,
    ports: Vec<HostPort>,
}

impl<'a> Wanted<'a> {
    /// What the pod asks.
    #[must_use]
    pub fn of(pod: &'a Pod) -> Self {
        Wanted { pod, requests: pod::requests(pod), ports: usage::host_ports(pod) }
    }

    /// Whether the node offers it.
    ///
    /// # Errors
    /// The first thing that it does not offer.
    pub fn fits(&self, cluster: &Cluster, node: &Node) -> Result<(), Unfit> {
        self.tolerates(node)?;
        self.matches(node)?;
        self.ports_free(cluster, node)?;
        self.resources_free(cluster, node)
    }

    fn tolerations(&self) -> &[Toleration] {
        self.pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default()
    }

    fn tolerates(&self, node: &Node) -> Result<(), Unfit> {
        let node_name = name(&node.metadata);
        let spec = node.spec.as_ref();
        if spec.and_then(|s| s.unschedulable) == Some(true) {
            let cordon = Taint {
                key: "node.kubernetes.io/unschedulable".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            if !taint::is_tolerated(&cordon, self.tolerations()) {
                return Err(Unfit::new(
                    "node(s) were unschedulable",
                    format!("kubectl uncordon {node_name}"),
                ));
            }
        }
        if let Some(taint) = taint::untolerated(self.tolerations(), node, &["NoSchedule", "NoExecute"]) {
            let taint =
                format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or_default(), taint.effect);
            return Err(Unfit::new(
                "node(s) had untolerated taint(s)",
                format!("let the pod tolerate {taint}, or take the taint off node {node_name}"),
            ));
        }
        Ok(())
    }

    fn matches(&self, node: &Node) -> Result<(), Unfit> {
        let Some(spec) = &self.pod.spec else { return Ok(()) };
        let (node_name, labels) = (name(&node.metadata), node.metadata.labels.as_ref());
        let has = |key: &String, value: &String| labels.and_then(|l| l.get(key)) == Some(value);
        let missing = spec.node_selector.iter().flatten().find(|(key, value)| !has(key, value));
        let why = "node(s) didn't match Pod's node affinity/selector";
        if let Some((key, value)) = missing {
            return Err(Unfit::new(why, format!("label node {node_name} with {key}={value}")));
        }
        let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        if required.is_some_and(|selector| !topology::node_selector_matches(selector, node_name, labels)) {
            return Err(Unfit { why: why.to_owned(), fix: None });
        }
        Ok(())
    }

    fn ports_free(&self, cluster: &Cluster, node: &Node) -> Result<(), Unfit> {
        let Some(in_use) = cluster.in_use(name(&node.metadata)).filter(|_| !self.ports.is_empty()) else {
            return Ok(());
        };
        let clash = in_use.ports.iter().find(|(held, _)| self.ports.iter().any(|port| clashes(port, held)));
        match clash {
            None => Ok(()),
            Some(((_, _, number), holder)) => Err(Unfit::new(
                "node(s) didn't have free ports for the requested pod ports",
                format!("host port {number} is held by pod {}", holder.path()),
            )),
        }
    }

    fn resources_free(&self, cluster: &Cluster, node: &Node) -> Result<(), Unfit> {
        let node_name = name(&node.metadata);
        let in_use = cluster.in_use(node_name);
        let offered = cluster.offers(node_name);
        let offers = |resource: &str| offered?.get(resource).copied();
        let pods = in_use.map_or(0, |in_use| in_use.pods.len());
        let pods = Amount::units(i64::try_from(pods).unwrap_or(i64::MAX));
        let too_many = offers("pods").is_none_or(|limit| pods + Amount::units(1) > limit);
        if too_many {
            return Err(Unfit::new(
                "Too many pods",
                format!("raise status.allocatable.pods of node {node_name}"),
            ));
        }
        for (resource, wanted) in self.requests.iter().filter(|(_, wanted)| **wanted > Amount::ZERO) {
            let used = in_use.and_then(|in_use| in_use.requests.get(resource)).copied().unwrap_or_default();
            if offers(resource).unwrap_or_default() < used + *wanted {
                return Err(Unfit::new(
                    format!("Insufficient {resource}"),
                    format!("request less {resource}, or free some on node {node_name}"),
                ));
            }
        }
        Ok(())
    }
}

fn clashes(wanted: &HostPort, held: &HostPort) -> bool {
    let any = "0.0.0.0";
    wanted.0 == held.0 && wanted.2 == held.2 && (wanted.1 == held.1 || wanted.1 == any || held.1 == any)
}

/// A `ReadWriteOncePod` claim of the pod that another pod already uses on some node.
#[must_use]
pub fn exclusive_claim_in_use(cluster: &Cluster, key: &Key, pod: &Pod) -> Option<(Key, Key)> {
    pod::claims(pod).find_map(|used| {
        let claim_key = Key::claim(key.namespace(), &used.claim);
        let claim = cluster.claim(&claim_key)?;
        let is_exclusive = crate::objects::claim::access_modes(claim).iter().any(|m| m == "ReadWriteOncePod");
        let mut users = cluster.pods_using(&claim_key).filter(|_| is_exclusive);
        let holder = users.find(|(other, pod)| {
            *other != key && !pod::is_finished(pod) && cluster.node_of(other, pod).is_some()
        })?;
        Some((claim_key.clone(), holder.0.clone()))
    })
}
