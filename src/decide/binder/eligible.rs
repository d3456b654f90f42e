//! Which nodes the volumes of a pod's bound claims leave, without a look at any node.
//!
//! It reads names of nodes off the volumes that are pinned to hosts, as a scheduler does that wants to look at few nodes.
//! The answer is upstream's and not exact: a host's name counts as the name of its node, and what a volume allows
//! beside hosts is overlooked. So no search here is narrowed by it: [`super::place`] looks at every node. Answers to
//! `GetEligibleNodes` of Kubernetes 1.28 and of the schedulers that took it over, and to
//! `GetLocalPersistentVolumeNodeNames`.

use std::collections::BTreeSet;

use crate::cluster::{Cluster, Key};
use crate::objects::{Claim, Volume, claim, topology};

/// The names of the nodes that can reach all of the claims' volumes; `None` when the volumes leave every node, or
/// one of them is not there.
#[must_use]
pub fn nodes<'a>(cluster: &Cluster, claims: impl IntoIterator<Item = &'a Claim>) -> Option<BTreeSet<String>> {
    let mut eligible: Option<BTreeSet<&str>> = None;
    for claim in claims {
        let volume = cluster.volume(&Key::volume(claim::volume_name(claim)))?;
        let hosts = hosts(volume);
        if hosts.is_empty() {
            continue;
        }
        eligible = Some(match eligible {
            None => hosts,
            Some(before) => before.intersection(&hosts).copied().collect(),
        });
    }
    eligible.map(|names| names.into_iter().map(str::to_owned).collect())
}

/// The hosts that a volume names: those of any of its terms; a term names those that all of its requirements do.
fn hosts(volume: &Volume) -> BTreeSet<&str> {
    let terms = topology::required(volume).map(|selector| selector.node_selector_terms.as_slice());
    let mut hosts = BTreeSet::new();
    for term in terms.unwrap_or_default() {
        let requirements = term.match_expressions.iter().flatten();
        let named = requirements.filter(|r| r.key == topology::HOSTNAME && r.operator == "In");
        let named = named.map(|r| r.values.iter().flatten().map(String::as_str).collect::<BTreeSet<_>>());
        hosts.extend(named.reduce(|a, b| a.intersection(&b).copied().collect()).unwrap_or_default());
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Object;
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    fn term(requirements: &[(&str, &str, &[&str])]) -> Value {
        let requirements = requirements
            .iter()
            .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}));
        json!({"matchExpressions": requirements.collect::<Vec<_>>()})
    }

    fn on(hosts: &[&str]) -> Value {
        term(&[(topology::HOSTNAME, "In", hosts)])
    }

    /// A claim for each volume; a volume has its terms, and one without any is not there.
    #[rstest]
    #[case::nothing_bound(&[], None)]
    #[case::a_volume_is_missing(&[json!([on(&["a"])]), json!(null)], None)]
    #[case::anywhere(&[json!([term(&[("zone", "In", &["a"])])])], None)]
    #[case::one_host(&[json!([on(&["a"])])], Some(&["a"][..]))]
    #[case::any_of_the_terms(&[json!([on(&["b"]), on(&["a"])])], Some(&["a", "b"][..]))]
    #[case::all_of_a_term(&[json!([term(&[(topology::HOSTNAME, "In", &["a", "b"]), (topology::HOSTNAME, "In", &["b", "c"])])])], Some(&["b"][..]))]
    #[case::a_term_without_hosts(&[json!([on(&["a"]), term(&[("zone", "In", &["z"])])])], Some(&["a"][..]))]
    #[case::a_term_that_excludes(&[json!([term(&[(topology::HOSTNAME, "NotIn", &["a"])])])], None)]
    #[case::a_term_that_nothing_meets(&[json!([on(&["a"])]), json!([term(&[(topology::HOSTNAME, "In", &["a"]), (topology::HOSTNAME, "In", &["b"])])])], Some(&["a"][..]))]
    #[case::apart(&[json!([on(&["a"])]), json!([on(&["b"])])], Some(&[][..]))]
    #[case::apart_and_back(&[json!([on(&["a"])]), json!([on(&["b"])]), json!([on(&["a"])])], Some(&[][..]))]
    fn what_volumes_leave(#[case] volumes: &[Value], #[case] left: Option<&[&str]>) {
        let mut cluster = Cluster::new();
        let mut claims = Vec::new();
        for (index, terms) in volumes.iter().enumerate() {
            let name = format!("v{index}");
            claims.push(from_value::<Claim>(json!({"spec": {"volumeName": name}})).unwrap());
            if !terms.is_null() {
                let affinity = json!({"required": {"nodeSelectorTerms": terms}});
                let volume = json!({"metadata": {"name": name}, "spec": {"nodeAffinity": affinity}});
                cluster.show(Object::from(from_value::<Volume>(volume).unwrap()));
            }
        }
        let left = left.map(|names| names.iter().copied().map(str::to_owned).collect());
        assert_eq!(nodes(&cluster, &claims), left);
    }
}
