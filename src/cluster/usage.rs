//! What the pods on each node use of it, kept up to date pod by pod.
//!
//! Answers to upstream's scheduler cache (`NodeInfo`).

use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use crate::objects::quantity::Amount;
use crate::objects::{Node, Pod, pod, pod::Resources};

/// A port that a pod takes on its node: (protocol, address, port).
pub type HostPort = (String, String, i32);

/// What is in use on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InUse {
    /// The pods, finished ones excepted.
    pub pods: BTreeSet<Key>,
    /// The sum of their requests.
    pub requests: Resources,
    /// The host ports that they hold, with the pod that holds each.
    pub ports: BTreeSet<(HostPort, Key)>,
}

/// What is in use, by node name.
#[derive(Clone, Debug, Default)]
pub struct NodeUsage {
    nodes: BTreeMap<String, InUse>,
}

/// What a node offers to pods. One that does not say what may be allocated offers all that it has.
#[must_use]
pub fn offers(node: &Node) -> Resources {
    let status = node.status.as_ref();
    let offered = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
    let amounts = offered.into_iter().flatten();
    amounts.filter_map(|(resource, quantity)| Some((resource.clone(), Amount::parse(&quantity.0)?))).collect()
}

/// The host ports that the pod asks for.
#[must_use]
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let containers = pod.spec.iter().flat_map(|s| &s.containers);
    let ports = containers.flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let address =
                port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
            Some((protocol, address, number))
        })
        .collect()
}

impl NodeUsage {
    /// Counts a pod on a node.
    pub fn add(&mut self, node: &str, key: &Key, pod: &Pod) {
        let node = self.nodes.entry(node.to_owned()).or_default();
        if !node.pods.insert(key.clone()) {
            return;
        }
        for (resource, amount) in pod::requests(pod) {
            let sum = node.requests.entry(resource).or_default();
            *sum = *sum + amount;
        }
        node.ports.extend(host_ports(pod).into_iter().map(|port| (port, key.clone())));
    }

    /// Takes a pod off a node, as it was when it was counted.
    pub fn remove(&mut self, node: &str, key: &Key, pod: &Pod) {
        let Some(usage) = self.nodes.get_mut(node) else { return };
        if !usage.pods.remove(key) {
            return;
        }
        for (resource, amount) in pod::requests(pod) {
            let sum = usage.requests.entry(resource).or_default();
            *sum = *sum - amount;
        }
        for port in host_ports(pod) {
            usage.ports.remove(&(port, key.clone()));
        }
        if usage.pods.is_empty() {
            self.nodes.remove(node);
        }
    }

    /// What is in use on a node; `None` when nothing is.
    #[must_use]
    pub fn on(&self, node: &str) -> Option<&InUse> {
        self.nodes.get(node)
    }
}
