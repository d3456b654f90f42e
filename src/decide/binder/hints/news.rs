//! What has become better for pods that wait, in the words of what refuses them.
//!
//! A change of an object is turned into [`News`] once, and the news then asked about each pod that it may help
//! ([`super::refusal`]). What has become worse is no news: it helps nobody. Answers to the events that upstream's plugins
//! register for (`EventsToRegister`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Hint, WrongKind, is_schedulable_after_capacity_change, is_schedulable_after_class_change,
    is_schedulable_after_csi_node_change, stops_tracking,
};
use crate::cluster::{Assumption, Change, Cluster, Key, Object, usage, volumes};
use crate::objects::{Capacity, CsiNode, Node, Pod, Volume, capacity, name, pod, requests, volume};

/// Something that may help a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// There are more or fewer nodes. Helps those that need a new one, and what is said of every pod tells the number.
    NodeCount,
    /// A node has other labels.
    Labels {
        /// The node.
        node: String,
    },
    /// A node has other taints, or has been cordoned or uncordoned.
    Taints {
        /// The node.
        node: String,
    },
    /// A node offers more of a resource, or a pod on it requests less.
    Room {
        /// The node.
        node: String,
    },
    /// Other plugins are migrated on a node.
    Migrated {
        /// The node.
        node: String,
    },
    /// A driver attaches more volumes to a node, or has attached fewer.
    Attachments {
        /// The node.
        node: String,
    },
    /// A pod is, or was about to be, on a node no longer.
    PodLeft {
        /// The pod, as it was.
        pod: Arc<Pod>,
        /// The node.
        node: String,
    },
    /// A pod is, or is about to be, on a node.
    PodCame {
        /// The pod.
        pod: Arc<Pod>,
        /// The node.
        node: String,
    },
    /// A pod on a node has other labels.
    PodRelabelled {
        /// The pod, as it was.
        before: Arc<Pod>,
        /// The pod.
        after: Arc<Pod>,
    },
    /// A volume has become free, or is another one.
    Volume(Arc<Volume>),
    /// A class allows other nodes.
    Class {
        /// The class.
        class: String,
    },
    /// There is more storage left, or less of it is promised.
    Capacity {
        /// What is reported.
        report: Arc<Capacity>,
        /// The nodes that can use it.
        nodes: Vec<String>,
    },
    /// What is left of the storage of a class is not reported any more.
    Unreported {
        /// The class.
        class: String,
    },
}

impl News {
    /// What is new in a change; the cluster is as after it.
    #[must_use]
    pub fn of_change(cluster: &Cluster, change: &Change) -> Vec<News> {
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        let mut news = match after.or(before) {
            None | Some(Object::Claim(_)) => Vec::new(),
            Some(Object::Node(node)) => {
                let node = name(&node.metadata).to_owned();
                of_node(node, kept(change, Object::as_node))
            }
            Some(Object::CsiNode(node)) => of_csi_node(name(&node.metadata), change),
            Some(Object::Pod(_)) => of_pod(change),
            Some(Object::Volume(_)) => of_volume(change).into_iter().collect(),
            Some(Object::Class(class)) => {
                // The keys of the pods are named when a class appears or goes.
                let hint = before.zip(after);
                let hint = hint.map(|(before, after)| is_schedulable_after_class_change(Some(before), after));
                let class = name(&class.metadata).to_owned();
                if hint.is_some_and(queues) { vec![News::Class { class }] } else { Vec::new() }
            }
            Some(Object::Capacity(report)) => {
                let hint = after.map(|after| is_schedulable_after_capacity_change(before, after));
                if hint.is_some_and(queues) { vec![of_capacity(cluster, report)] } else { Vec::new() }
            }
            Some(Object::CsiDriver(driver)) => {
                let [before, after] = [before, after].map(|object| object.and_then(Object::as_csi_driver));
                let stops = stops_tracking(before.map(AsRef::as_ref), after.map(AsRef::as_ref));
                let driver = name(&driver.metadata);
                let classes = cluster.classes().filter(|class| stops && class.provisioner == driver);
                classes.map(|class| News::Unreported { class: name(&class.metadata).to_owned() }).collect()
            }
        };
        let relieved = change.relieved.iter().filter_map(|report| cluster.object(report)?.as_capacity());
        news.extend(relieved.map(|report| of_capacity(cluster, report)));
        news
    }

    /// What is new when it has been decided where a pod is about to run.
    #[must_use]
    pub fn of_assumption(cluster: &Cluster, pod: &Key, assumption: &Assumption) -> Option<News> {
        let pod = cluster.pod(pod)?.clone();
        Some(News::PodCame { pod, node: assumption.node.to_string() })
    }

    /// What is new when a pod is not to run after all where it was about to.
    #[must_use]
    pub fn of_release(cluster: &Cluster, pod: &Key, assumption: &Assumption) -> Option<News> {
        let pod = cluster.pod(pod).filter(|pod| pod::node_name(pod).is_empty())?.clone();
        Some(News::PodLeft { pod, node: assumption.node.to_string() })
    }
}

/// A wrong kind queues too, as upstream has it.
fn queues(hint: Result<Hint, WrongKind>) -> bool {
    !matches!(hint, Ok(Hint::Skip))
}

/// The object before and after, where it neither appeared nor went.
fn kept<T>(change: &Change, get: impl Fn(&Object) -> Option<&Arc<T>>) -> Option<(&Arc<T>, &Arc<T>)> {
    change.before.as_ref().and_then(&get).zip(change.after.as_ref().and_then(&get))
}

fn of_node(node: String, kept: Option<(&Arc<Node>, &Arc<Node>)>) -> Vec<News> {
    let Some((before, after)) = kept else { return vec![News::NodeCount] };
    let mut news = Vec::new();
    if before.metadata.labels != after.metadata.labels {
        news.push(News::Labels { node: node.clone() });
    }
    if before.spec != after.spec {
        news.push(News::Taints { node: node.clone() });
    }
    let offered = usage::offers(before);
    let grows = |resource: &String, now| offered.get(resource).is_none_or(|before| now > before);
    if usage::offers(after).iter().any(|(resource, now)| grows(resource, now)) {
        news.push(News::Room { node: node.clone() });
    }
    let attached = |node: &Node| {
        let status = node.status.as_ref();
        status.and_then(|s| s.volumes_attached.clone()).unwrap_or_default()
    };
    let still = attached(after);
    if attached(before).iter().any(|volume| !still.contains(volume)) {
        news.push(News::Attachments { node });
    }
    news
}

/// Where there is no `CSINode`, nothing is migrated and nothing limited.
fn of_csi_node(node: &str, change: &Change) -> Vec<News> {
    let mut news = Vec::new();
    let hint = change.after.as_ref();
    let hint = hint.map(|after| is_schedulable_after_csi_node_change(change.before.as_ref(), after));
    if hint.is_none_or(queues) {
        news.push(News::Migrated { node: node.to_owned() });
    }
    let Some(before) = change.before.as_ref().and_then(Object::as_csi_node) else { return news };
    let limits = |node: &CsiNode| {
        let drivers = node.spec.drivers.iter();
        let limits = drivers.filter_map(|d| Some((d.name.clone(), d.allocatable.as_ref()?.count?)));
        limits.collect::<BTreeMap<_, _>>()
    };
    let now = change.after.as_ref().and_then(Object::as_csi_node).map(|node| limits(node));
    let now = now.unwrap_or_default();
    if limits(before).iter().any(|(driver, before)| now.get(driver).is_none_or(|now| now > before)) {
        news.push(News::Attachments { node: node.to_owned() });
    }
    news
}

fn of_pod(change: &Change) -> Vec<News> {
    let runs = |pod: &&Arc<Pod>| !pod::node_name(pod).is_empty() && !pod::is_finished(pod);
    let pod = |object: &Option<Object>| object.as_ref().and_then(Object::as_pod).filter(runs).cloned();
    let node = |pod: &Pod| pod::node_name(pod).to_owned();
    match (pod(&change.before), pod(&change.after)) {
        (None, None) => {
            let gone = change.before.as_ref().and_then(Object::as_pod).zip(change.released.as_ref());
            let left = gone.map(|(pod, at)| News::PodLeft { pod: pod.clone(), node: at.node.to_string() });
            left.into_iter().collect()
        }
        (Some(pod), None) => vec![News::PodLeft { node: node(&pod), pod }],
        (None, Some(pod)) => vec![News::PodCame { node: node(&pod), pod }],
        (Some(before), Some(after)) => {
            let mut news = Vec::new();
            let requested = requests::of(&after);
            let shrinks = |resource: &String, before| requested.get(resource).is_none_or(|now| now < before);
            if requests::of(&before).iter().any(|(resource, before)| shrinks(resource, before)) {
                news.push(News::Room { node: node(&after) });
            }
            if before.metadata.labels != after.metadata.labels {
                news.push(News::PodRelabelled { before, after });
            }
            news
        }
    }
}

fn of_capacity(cluster: &Cluster, report: &Arc<Capacity>) -> News {
    let nodes = cluster.nodes().filter(|node| capacity::is_accessible(report, node));
    let nodes = nodes.map(|node| name(&node.metadata).to_owned()).collect();
    News::Capacity { report: report.clone(), nodes }
}

/// A volume is news when it becomes free, and while it is free when what claims ask for changes.
fn of_volume(change: &Change) -> Option<News> {
    let volume = |object: &Option<Object>| object.as_ref().and_then(Object::as_volume).cloned();
    let after = volume(&change.after).filter(|after| volumes::is_free(after))?;
    let before = volume(&change.before).filter(|before| volumes::is_free(before));
    let is_same = before.is_some_and(|before| {
        before.spec == after.spec
            && before.metadata.labels == after.metadata.labels
            && volume::class(&before) == volume::class(&after)
    });
    (!is_same).then_some(News::Volume(after))
}
