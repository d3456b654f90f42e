//! Whether a pod fits on a node, what its claims would get there aside.
//!
//! Answers to upstream's plugins `NodeUnschedulable`, `NodeName`, `TaintToleration`, `NodeAffinity`, `NodePorts`,
//! `NodeResourcesFit`, `VolumeRestrictions` (disks through [`super::disks`]) and, through [`super::limits`],
//! `NodeVolumeLimits`, in that order and with their words.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::disks::Disks;
use super::limits::Attachments;
use super::unfit::Unfit;
use super::zone::Zones;
use crate::cluster::usage::{self, HostPort};
use crate::cluster::{Cluster, Key};
use crate::objects::quantity::Amount;
use crate::objects::requests::{self, Resources};
use crate::objects::{Node, Pod, name, pod, taint, topology};

/// What a pod asks of every node; computed once for all of them.
#[derive(Debug)]
pub struct Wanted<'a> {
    pod: &'a Pod,
    requests: Resources,
    ports: Vec<HostPort>,
    disks: Disks<'a>,
    /// A claim for one pod alone, and the other pod that has it.
    exclusive: Option<(Key, Key)>,
    attachments: Attachments,
    zones: Zones,
}

impl<'a> Wanted<'a> {
    /// What the pod asks.
    #[must_use]
    pub fn of(cluster: &Cluster, key: &Key, pod: &'a Pod) -> Self {
        Wanted {
            pod,
            requests: requests::of(pod),
            ports: usage::host_ports(pod),
            disks: Disks::of(pod),
            exclusive: exclusive_claim_in_use(cluster, key, pod),
            attachments: Attachments::of(cluster, key.namespace(), pod),
            zones: Zones::of(cluster, key.namespace(), pod),
        }
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> &'a Pod {
        self.pod
    }

    /// Where the labels of the pod's volumes say that they are; asked of nodes that can serve the claims.
    #[must_use]
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Whether the node offers it.
    ///
    /// # Errors
    /// The first thing that it does not offer; of resources all that it has too little of.
    pub fn fits<'s>(&'s self, cluster: &'s Cluster, node: &'s Node) -> Result<(), Vec<Unfit<'s>>> {
        let one = |unfit: Unfit<'s>| vec![unfit];
        self.tolerates(node).map_err(one)?;
        self.matches(node).map_err(one)?;
        self.ports_free(cluster, node).map_err(one)?;
        let missing = self.missing_resources(cluster, node);
        if !missing.is_empty() {
            return Err(missing);
        }
        self.disks.free(cluster, node).map_err(one)?;
        if let Some((claim, holder)) = &self.exclusive {
            return Err(vec![Unfit::ClaimInUse { claim, holder }]);
        }
        self.attachments.fit(cluster, node).map_err(one)
    }

    fn tolerations(&self) -> &[Toleration] {
        self.pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default()
    }

    fn tolerates<'s>(&self, node: &'s Node) -> Result<(), Unfit<'s>> {
        let spec = node.spec.as_ref();
        if spec.and_then(|s| s.unschedulable) == Some(true) {
            let cordon = Taint {
                key: "node.kubernetes.io/unschedulable".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            if !taint::is_tolerated(&cordon, self.tolerations()) {
                return Err(Unfit::Unschedulable);
            }
        }
        match taint::untolerated(self.tolerations(), node, &["NoSchedule", "NoExecute"]) {
            Some(taint) => Err(Unfit::Taint(taint)),
            None => Ok(()),
        }
    }

    fn matches(&self, node: &Node) -> Result<(), Unfit<'a>> {
        let Some(spec) = &self.pod.spec else { return Ok(()) };
        let labels = node.metadata.labels.as_ref();
        let has = |key: &String, value: &String| labels.and_then(|l| l.get(key)) == Some(value);
        let missing = spec.node_selector.iter().flatten().find(|(key, value)| !has(key, value));
        if let Some((key, value)) = missing {
            return Err(Unfit::Label { key, value });
        }
        let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let node_name = name(&node.metadata);
        if required.is_some_and(|selector| !topology::node_selector_matches(selector, node_name, labels)) {
            return Err(Unfit::Affinity);
        }
        Ok(())
    }

    fn ports_free<'s>(&self, cluster: &'s Cluster, node: &Node) -> Result<(), Unfit<'s>> {
        if self.ports.is_empty() {
            return Ok(());
        }
        let Some(in_use) = cluster.in_use(name(&node.metadata)) else { return Ok(()) };
        let clash = in_use.ports.iter().find(|(held, _)| self.ports.iter().any(|port| clashes(port, held)));
        match clash {
            None => Ok(()),
            Some(((_, _, number), holder)) => Err(Unfit::Port { number: *number, holder }),
        }
    }

    fn missing_resources<'s>(&'s self, cluster: &Cluster, node: &Node) -> Vec<Unfit<'s>> {
        let node_name = name(&node.metadata);
        let room = cluster.room(node_name);
        let in_use = room.and_then(|room| room.in_use.as_ref());
        let offers = |resource: &str| room?.offers.as_ref()?.get(resource).copied();
        let pods = in_use.map_or(0, |in_use| in_use.pods.len());
        let pods = Amount::units(i64::try_from(pods).unwrap_or(i64::MAX));
        let mut missing = Vec::new();
        if offers("pods").is_none_or(|limit| pods + Amount::units(1) > limit) {
            missing.push(Unfit::TooManyPods);
        }
        for (resource, wanted) in self.requests.iter().filter(|(_, wanted)| **wanted > Amount::ZERO) {
            let used = in_use.and_then(|in_use| in_use.requests.get(resource)).copied().unwrap_or_default();
            if offers(resource).unwrap_or_default() < used + *wanted {
                missing.push(Unfit::Insufficient(resource));
            }
        }
        missing
    }
}

fn clashes(wanted: &HostPort, held: &HostPort) -> bool {
    let any = "0.0.0.0";
    wanted.0 == held.0 && wanted.2 == held.2 && (wanted.1 == held.1 || wanted.1 == any || held.1 == any)
}

/// A `ReadWriteOncePod` claim of the pod that another pod already uses on some node.
fn exclusive_claim_in_use(cluster: &Cluster, key: &Key, pod: &Pod) -> Option<(Key, Key)> {
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

#[cfg(test)]
mod tests;
