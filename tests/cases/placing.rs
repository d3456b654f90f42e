//! Where pods go, and which volumes their claims get there: what shows offline.

use crate::offline::{Ended, codes, simulated};

impl Ended {
    /// The node that a pod is on.
    fn node_of(&self, pod: &str) -> &str {
        &self.0.pods.iter().find(|found| found.name == pod).expect("the pod is there").node
    }
}

/// kubernetes/kubernetes#83323: upstream takes either node. `testdata/worlds/local-best-fit-among-nodes` has the same.
#[test]
fn b2_the_node_whose_volume_wastes_least_wins() {
    let ended = simulated("best-fit.yaml");
    assert_eq!(ended.node_of("d1"), "n2");
    assert_eq!(ended.state("c1"), ("Bound", "v2"));
    assert_eq!(ended.volume_state("v1"), ("Available", ""));
}

/// kubernetes/kubernetes#83323, kubernetes-sigs/sig-storage-local-static-provisioner#150: what counts is what all claims of
/// the pod waste together.
#[test]
fn b2_sibling_the_waste_of_all_claims_counts_together() {
    let ended = simulated("best-fit-two-claims.yaml");
    assert_eq!(ended.node_of("d1"), "n2");
    assert_eq!((ended.state("c1"), ended.state("c2")), (("Bound", "v3"), ("Bound", "v4")));
}

/// kubernetes/kubernetes#83323: a volume that is there goes before one that has to be made, however large it is.
#[test]
fn b2_sibling_a_volume_that_is_there_goes_before_one_to_be_made() {
    let ended = simulated("best-fit-made.yaml");
    assert_eq!(ended.node_of("d1"), "n2");
    assert_eq!(ended.state("c1"), ("Bound", "v1"));
}

/// kubernetes/kubernetes#83323: among equals pods spread.
#[test]
fn b2_sibling_among_equals_the_node_with_fewer_pods_wins() {
    let ended = simulated("best-fit-equal.yaml");
    assert_eq!((ended.node_of("d1"), ended.node_of("d2")), ("n1", "n2"));
    assert_eq!((ended.state("c1"), ended.state("c2")), (("Bound", "v1"), ("Bound", "v3")));
}

/// kubernetes/kubernetes#100485, kubernetes-sigs/sig-storage-lib-external-provisioner#121, kubernetes/autoscaler#4923,
/// kubernetes/kubernetes#112347: every node was refused for ever. `testdata/worlds/stale-selected-node-dynamic` has one of the
/// three.
#[test]
fn b5_a_node_that_is_gone_holds_no_claim() {
    let ended = simulated("selected-node-gone.yaml");
    for (pod, claim) in [("d1", "made"), ("d2", "there"), ("d3", "in-tree")] {
        assert_eq!(ended.node_of(pod), "n1", "{pod}");
        assert_eq!(ended.claim(claim).phase, "Bound", "{claim}");
    }
    assert_eq!(ended.claim("there").volume, "v1");
    assert!(ended.0.is_good());
}

/// kubernetes/kubernetes#89953, kubernetes/kubernetes#95767, openebs/openebs#2915, rancher/local-path-provisioner#383,
/// openebs/lvm-localpv#379, backube/volsync#361, rancher/k3k#727: a pod with `spec.nodeName` goes past the scheduler, and
/// nobody chooses a volume. `testdata/worlds/dynamic-nodename-pod` has one of them.
#[test]
fn b6_a_claim_of_a_pod_that_names_its_node_waits_and_says_why() {
    let ended = simulated("past-the-scheduler.yaml");
    for claim in ["named", "named-local"] {
        assert_eq!(ended.state(claim), ("Pending", ""), "{claim}");
        let said = ended.told(claim, "Normal", "WaitForFirstConsumer");
        assert_eq!(said, "waiting for first consumer to be created before binding");
        ended.is_calm(claim);
        let annotations = &ended.object("PersistentVolumeClaim", claim)["metadata"]["annotations"];
        assert!(annotations["volume.kubernetes.io/selected-node"].is_null(), "{annotations}");
        let reasons = &ended.claim(claim).reasons;
        assert_eq!(codes(reasons)[0], "PodPastScheduler", "{claim}");
        assert!(reasons[0].fix.as_deref().is_some_and(|fix| fix.contains("nodeName")), "{reasons:?}");
    }
    assert_eq!(ended.volume_state("v1"), ("Available", ""));
}

/// The way out of kubernetes/kubernetes#89953: a node selector leaves the choice to the scheduler, which has only one.
#[test]
fn b6_sibling_a_pod_that_selects_its_node_gets_its_volume() {
    let ended = simulated("past-the-scheduler.yaml");
    assert_eq!(ended.node_of("d3"), "n2");
    assert_eq!(ended.claim("selected").phase, "Bound");
    ended.is_calm("selected");
}
