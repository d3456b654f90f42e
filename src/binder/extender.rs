//! What kube-scheduler asks an extender about volumes, answered.
//!
//! kube-scheduler has found nodes that fit a pod in all but its volumes, and asks which of them those leave, and which it had
//! better take. [`judge`] says what upstream's plugin `VolumeBinding` would say of each in `PreFilter` and `Filter`,
//! [`prioritize`] ranks them as the scheduler of this crate does. Nothing is taken here: between this question and the
//! binding another pod may take the same volume, and the later of the two is refused.

use std::collections::BTreeSet;

use super::{Code, Cycle, Status};
use crate::cluster::Cluster;
use crate::decide::Settings;
use crate::decide::binder::score;
use crate::decide::binder::storage::Scoring;
use crate::objects::{Node, Pod, name};

/// The best priority that an extender can give to a node; the worst is 0.
pub const BEST: u8 = 10;
/// What of a score one step of a priority is.
const TENTH: u64 = 10;

/// The nodes that are asked about.
#[derive(Clone, Debug)]
pub enum Candidates {
    /// The names of nodes that the cluster ought to know.
    Named(Vec<String>),
    /// The nodes themselves.
    Given(Vec<Node>),
}

impl Candidates {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Candidates::Named(names) => names.len(),
            Candidates::Given(nodes) => nodes.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each node, unless the cluster does not know it.
    fn nodes<'a>(&'a self, cluster: &'a Cluster) -> Vec<Option<&'a Node>> {
        match self {
            Candidates::Named(names) => {
                names.iter().map(|name| cluster.node(name).map(AsRef::as_ref)).collect()
            }
            Candidates::Given(nodes) => nodes.iter().map(Some).collect(),
        }
    }
}

/// What is said of each node, in the order in which they were asked about: the pod's volumes leave it, or why not. Nothing
/// would be gained there by evicting other pods.
pub type Judgement = Vec<Result<(), String>>;

/// Which nodes the pod's volumes leave.
///
/// # Errors
/// What is wrong with a claim, where upstream calls that an error and not a matter of nodes.
pub fn judge(
    cluster: &Cluster,
    settings: &Settings,
    pod: &Pod,
    candidates: &Candidates,
) -> Result<Judgement, String> {
    let all = |verdict: Result<(), String>| vec![verdict; candidates.len()];
    let mut cycle = match Cycle::pre_filter(cluster, pod) {
        Ok(cycle) => cycle,
        Err(Status { code: Code::Skip, .. }) => return Ok(all(Ok(()))),
        Err(Status { code: Code::UnschedulableAndUnresolvable, reasons }) => {
            return Ok(all(Err(reasons.join(", "))));
        }
        Err(Status { code: Code::Error, reasons }) => return Err(reasons.join(", ")),
    };
    let nodes = candidates.nodes(cluster);
    let known = nodes.iter().copied().flatten();
    let mut statuses = cycle.filter(cluster, settings, known).into_iter();
    let mut judgement = Judgement::with_capacity(nodes.len());
    for node in nodes {
        judgement.push(match node.and_then(|_| statuses.next()) {
            Some(Ok(())) => Ok(()),
            Some(Err(Status { code: Code::Error, reasons })) => return Err(reasons.join(", ")),
            Some(Err(status)) => Err(status.reasons.join(", ")),
            None => Err("node(s) not known to the volume binder yet".to_owned()),
        });
    }
    Ok(judgement)
}

/// The priority of each node: the best go to those where volumes exist and waste the least or, if that is asked for, by how
/// full storage would become. A node that will not do has the worst.
#[must_use]
pub fn prioritize(cluster: &Cluster, settings: &Settings, pod: &Pod, candidates: &Candidates) -> Vec<u8> {
    let Ok(mut cycle) = Cycle::pre_filter(cluster, pod) else { return vec![0; candidates.len()] };
    let nodes = candidates.nodes(cluster);
    // What this says of nodes that will not do was the answer to another question.
    let _ = cycle.filter(cluster, settings, nodes.iter().copied().flatten());
    if let Scoring::Capacity(_) = settings.scoring {
        let score = |node: Option<&Node>| {
            let volumes = cycle.on_node(name(&node?.metadata))?;
            u8::try_from(settings.scoring.score(cluster, settings, volumes) / TENTH).ok()
        };
        return nodes.into_iter().map(|node| score(node).unwrap_or(0)).collect();
    }
    let rank = |node: &Node| {
        let node = name(&node.metadata);
        // How many pods there are on a node, and what it is called, is kube-scheduler's own business.
        let (makes, waste, _, _) = score::rank(cluster, node, cycle.on_node(node)?);
        Some((makes, waste))
    };
    let ranks: Vec<_> = nodes.into_iter().map(|node| rank(node?)).collect();
    let distinct: BTreeSet<_> = ranks.iter().flatten().copied().collect();
    let worst = distinct.len().saturating_sub(1).max(1);
    let priority = |rank| {
        let above = distinct.range(..rank).count();
        u8::try_from(usize::from(BEST) * (worst - above) / worst).unwrap_or_default()
    };
    ranks.into_iter().map(|rank| rank.map_or(0, priority)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use crate::cluster::Object;
    use crate::decide::binder::storage::Shape;
    use crate::objects::{Claim, Class, Volume};

    /// The pod takes a volume of 10Gi, of 20Gi or of 15Gi, and asks for 10Gi; at the fourth node there is none.
    #[test]
    fn nodes_are_scored_by_how_full_storage_becomes_if_that_is_asked_for() {
        let mut cluster = Cluster::new();
        let class = json!({
            "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        cluster.show(Object::from(from_value::<Class>(class).unwrap()));
        let claim = json!({
            "metadata": {"namespace": "default", "name": "c"},
            "spec": {"storageClassName": "local", "resources": {"requests": {"storage": "10Gi"}}},
        });
        cluster.show(Object::from(from_value::<Claim>(claim).unwrap()));
        let mut nodes = Vec::new();
        for (index, size) in ["10Gi", "20Gi", "15Gi", "5Gi"].into_iter().enumerate() {
            let labels = json!({"host": index.to_string()});
            let node = json!({"metadata": {"name": format!("n{index}"), "labels": labels}});
            nodes.push(from_value::<Node>(node).unwrap());
            let pin = json!({"key": "host", "operator": "In", "values": [index.to_string()]});
            let volume = json!({
                "metadata": {"name": format!("v{index}")},
                "spec": {
                    "storageClassName": "local", "capacity": {"storage": size},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [pin]}]}},
                },
                "status": {"phase": "Available"},
            });
            cluster.show(Object::from(from_value::<Volume>(volume).unwrap()));
        }
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        let pod = json!({
            "metadata": {"namespace": "default", "name": "p"}, "spec": {"containers": [], "volumes": volumes},
        });
        let pod: Pod = from_value(pod).unwrap();
        let candidates = Candidates::Given(nodes);
        let priorities =
            |scoring| prioritize(&cluster, &Settings { scoring, ..Settings::default() }, &pod, &candidates);
        assert_eq!(priorities(Scoring::BestFit), [10, 0, 5, 0]);
        // What is to be half full is worth 50 of 100, what is to be two thirds full 34.
        assert_eq!(priorities(Scoring::Capacity(Shape::default())), [0, 5, 3, 0]);
    }
}
