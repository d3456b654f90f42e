//! Whether the binding of a claim waits for the rest of what its pod needs.
//!
//! A pod's volumes are reserved one after the other, and a claim that is bound stays bound. So where this program also
//! binds, it binds no claim to a volume that was reserved for a pod while the pod has yet to find a place, or to find one
//! again: until then the reservation can be given back. It places nothing and gives nothing back. Upstream's controller and
//! scheduler know nothing of each other, and a pod that lost half of its volumes stays where the other half is; see
//! *Differences from upstream*.

use super::{Pods, gates, is_pending, reserve};
use crate::cluster::{Cluster, Key};
use crate::decide::matching;
use crate::objects::{Pod, pod};

/// Whether the claim is to be left alone until one of its pods has been decided about.
#[must_use]
pub fn waits(cluster: &Cluster, pods: &Pods, key: &Key) -> bool {
    let Some(found) = cluster.claim(key) else { return false };
    let is_reserved = cluster.volumes_for(key).any(|(_, volume)| reserve::is_open(found, volume))
        && matching::delays_binding(cluster, found) == Ok(true);
    if !is_reserved {
        return false;
    }
    let users = || cluster.pods_using(key).filter(|(_, pod)| !pod::is_finished(pod));
    let has_place = |key: &Key, pod: &Pod| cluster.node_of(key, pod).is_some();
    let looks_for_one =
        |key: &Key, pod: &Pod| is_pending(pod) && gates(pod).is_empty() && pods.include(key, pod);
    !users().any(|(key, pod)| has_place(key, pod)) && users().any(|(key, pod)| looks_for_one(key, pod))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::cluster::{Assumption, Object, PodVolumes};
    use crate::objects::{Claim, Class, Volume};

    fn merged(mut base: Value, changes: &Value) -> Value {
        json_patch::merge(&mut base, changes);
        base
    }

    /// A claim of a class that waits for pods, the volume that was reserved for it, and its pod; all with changes.
    fn cluster(claim: &Value, volume: &Value, pod: &Value, mode: &str) -> Cluster {
        let class = json!({"metadata": {"name": "w"}, "provisioner": "p", "volumeBindingMode": mode});
        let meta = json!({"namespace": "ns", "name": "c", "uid": "u"});
        let claim = merged(json!({"metadata": meta, "spec": {"storageClassName": "w"}}), claim);
        let mark = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
        let reference = json!({"claimRef": {"namespace": "ns", "name": "c", "uid": "u"}});
        let volume =
            merged(json!({"metadata": {"name": "v", "annotations": mark}, "spec": reference}), volume);
        let used = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        let meta = json!({"namespace": "ns", "name": "p"});
        let pod = merged(json!({"metadata": meta, "spec": {"containers": [], "volumes": used}}), pod);
        let mut cluster = Cluster::new();
        cluster.show(Object::from(from_value::<Class>(class).unwrap()));
        cluster.show(Object::from(from_value::<Claim>(claim).unwrap()));
        cluster.show(Object::from(from_value::<Volume>(volume).unwrap()));
        cluster.show(Object::from(from_value::<Pod>(pod).unwrap()));
        cluster
    }

    #[rstest::rstest]
    #[case::for_its_pod(json!({}), json!({}), json!({}), true)]
    #[case::bound(json!({"spec": {"volumeName": "v"}}), json!({}), json!({}), false)]
    #[case::reserved_by_a_user(json!({}), json!({"metadata": {"annotations": null}}), json!({}), false)]
    #[case::reserved_for_another(json!({}), json!({"spec": {"claimRef": {"uid": "older"}}}), json!({}), false)]
    #[case::begun(json!({}), json!({"status": {"phase": "Bound"}}), json!({}), false)]
    #[case::placed(json!({}), json!({}), json!({"spec": {"nodeName": "n"}}), false)]
    #[case::gated(json!({}), json!({}), json!({"spec": {"schedulingGates": [{"name": "g"}]}}), false)]
    #[case::finished(json!({}), json!({}), json!({"status": {"phase": "Failed"}}), false)]
    #[case::of_another_scheduler(json!({}), json!({}), json!({"spec": {"schedulerName": "other"}}), false)]
    fn a_claim_waits_for_a_pod_that_looks_for_a_place(
        #[case] claim: Value,
        #[case] volume: Value,
        #[case] pod: Value,
        #[case] expected: bool,
    ) {
        let (key, pods) = (Key::claim("ns", "c"), Pods::Naming("default-scheduler".to_owned()));
        let late = cluster(&claim, &volume, &pod, "WaitForFirstConsumer");
        assert_eq!(waits(&late, &pods, &key), expected);
        let at_once = cluster(&claim, &volume, &pod, "Immediate");
        assert!(!waits(&at_once, &pods, &key), "no pod has a say in a claim that is bound at once");
    }

    #[test]
    fn a_claim_waits_no_longer_once_one_of_its_pods_has_a_place() {
        let none = json!({});
        let mut cluster = cluster(&none, &none, &none, "WaitForFirstConsumer");
        let (key, pod) = (Key::claim("ns", "c"), Key::pod("ns", "p"));
        assert!(waits(&cluster, &Pods::All, &key));
        cluster.set_assumption(&pod, Some(Assumption::of("n", PodVolumes::default())));
        assert!(!waits(&cluster, &Pods::All, &key));
    }
}
