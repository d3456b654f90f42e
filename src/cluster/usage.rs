//! What the pods on each node use of it, kept up to date pod by pod.
//!
//! Answers to upstream's scheduler cache (`NodeInfo`).

use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use crate::objects::quantity::Amount;
use crate::objects::{Node, Pod, attachment, requests, requests::Resources};

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
    /// How many volumes may have to be attached for them, at most: one that several of them use counts for each.
    pub attachable: usize,
}

/// A node's room: what it offers, and what of it is in use.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// What it offers, by resource; `None` for a node that nobody has seen.
    pub offers: Option<Resources>,
    /// What its pods use; `None` when there are none.
    pub in_use: Option<InUse>,
}

/// The room of every node, by name.
#[derive(Clone, Debug, Default)]
pub struct NodeUsage {
    nodes: BTreeMap<String, Room>,
}

/// What a node offers to pods. One that does not say what may be allocated offers all that it has.
#[must_use]
pub fn offers(node: &Node) -> Resources {
    let status = node.status.as_ref();
    let offered = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
    let amounts = offered.into_iter().flatten();
    amounts.filter_map(|(resource, quantity)| Some((resource.clone(), Amount::parse(&quantity.0)?))).collect()
}

/// The host ports that the pod asks for: those of its containers, and of init containers that run as long as these.
#[must_use]
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = sidecars.chain(&spec.containers).flat_map(|container| container.ports.iter().flatten());
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
    /// Takes note of a node; read once and not for each pod.
    pub fn appear(&mut self, name: &str, node: &Node) {
        self.nodes.entry(name.to_owned()).or_default().offers = Some(offers(node));
    }

    /// Takes note that a node is gone; pods on it stay counted.
    pub fn vanish(&mut self, name: &str) {
        if let Some(room) = self.nodes.get_mut(name) {
            room.offers = None;
            if room.in_use.is_none() {
                self.nodes.remove(name);
            }
        }
    }

    /// Counts a pod on a node.
    pub fn add(&mut self, node: &str, key: &Key, pod: &Pod) {
        let room = self.nodes.entry(node.to_owned()).or_default();
        let node = room.in_use.get_or_insert_default();
        if !node.pods.insert(key.clone()) {
            return;
        }
        for (resource, amount) in requests::of(pod) {
            let sum = node.requests.entry(resource).or_default();
            *sum = *sum + amount;
        }
        node.ports.extend(host_ports(pod).into_iter().map(|port| (port, key.clone())));
        node.attachable += attachment::at_most(pod);
    }

    /// Takes a pod off a node, as it was when it was counted.
    pub fn remove(&mut self, node: &str, key: &Key, pod: &Pod) {
        let Some(room) = self.nodes.get_mut(node) else { return };
        let Some(usage) = &mut room.in_use else { return };
        if !usage.pods.remove(key) {
            return;
        }
        for (resource, amount) in requests::of(pod) {
            let sum = usage.requests.entry(resource).or_default();
            *sum = *sum - amount;
        }
        for port in host_ports(pod) {
            usage.ports.remove(&(port, key.clone()));
        }
        usage.attachable = usage.attachable.saturating_sub(attachment::at_most(pod));
        if usage.pods.is_empty() {
            room.in_use = None;
            if room.offers.is_none() {
                self.nodes.remove(node);
            }
        }
    }

    /// The room of a node.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<&Room> {
        self.nodes.get(node)
    }
}
