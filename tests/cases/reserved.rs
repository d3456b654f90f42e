//! Volumes that a user reserved for a claim, and claims that name their volume: what binds, what is said when the two
//! differ, and what a strict program refuses.

use crate::offline::{Ended, codes, simulated, simulated_strictly, simulated_then};

/// The pair is bound as upstream binds it; the warning on the claim and its reason name what differs.
#[track_caller]
fn bound_with_a_warning(ended: &Ended, what: &str) {
    assert_eq!(ended.state("c1"), ("Bound", "p1"));
    assert_eq!(ended.volume_state("p1"), ("Bound", "default/c1"));
    let said = format!(
        "volume \"p1\" is reserved for the claim and bound to it, though it is not what the claim asks for: {what}"
    );
    assert_eq!(ended.told("c1", "Warning", "VolumeMismatch"), said);
    let reasons = &ended.claim("c1").reasons;
    assert_eq!(codes(reasons), ["BoundThoughDiffers"]);
    assert_eq!((reasons[0].subject.as_str(), reasons[0].message.as_str()), ("PersistentVolume/p1", &*said));
    assert!(reasons[0].fix.as_deref().is_some_and(|fix| fix.contains("--strict")), "{reasons:?}");
    assert!(ended.0.is_good(), "a bound claim is no failure");
}

/// Nothing is written for the pair, and the claim is told what differs.
#[track_caller]
fn refused(ended: &Ended, what: &str) {
    assert_eq!(ended.claim("c1").phase, "Pending");
    assert_eq!(ended.volume_state("p1"), ("Available", "default/c1"));
    let said = format!("Cannot bind to requested volume \"p1\": {what}");
    assert_eq!(ended.told("c1", "Warning", "VolumeMismatch"), said);
    let reasons = &ended.claim("c1").reasons;
    assert_eq!((reasons[0].code.as_str(), reasons[0].message.as_str()), ("VolumeDiffers", &*said));
    assert_eq!(ended.object("PersistentVolume", "p1")["spec"]["claimRef"].get("uid"), None);
    assert!(!ended.0.is_good());
}

/// kubernetes/kubernetes#76768: upstream binds a volume of no class, reserved for the claim, to one of class foo.
#[test]
fn a4_a_reserved_volume_of_another_class_is_bound_with_a_warning() {
    let what = "storageClassName does not match";
    bound_with_a_warning(&simulated("reserved-other-class.yaml"), what);
    refused(&simulated_strictly("reserved-other-class.yaml"), what);
}

/// kubernetes/kubernetes#76768: the other direction was always refused, and is by a program that is not strict.
#[test]
fn a4_a_volume_of_another_class_that_only_the_claim_names_is_refused() {
    for ended in [simulated("named-other-class.yaml"), simulated_strictly("named-other-class.yaml")] {
        assert_eq!(ended.state("c1"), ("Pending", "p1"));
        assert_eq!(ended.volume_state("p1"), ("Available", ""));
        assert_eq!(
            ended.told("c1", "Warning", "VolumeMismatch"),
            "Cannot bind to requested volume \"p1\": storageClassName does not match"
        );
        assert!(ended.events("PersistentVolume/p1").is_empty());
    }
}

/// kubernetes/kubernetes#76768, kubernetes/kubernetes#30690: upstream checks nothing at all when both name each other.
#[test]
fn a4_variant_a_pair_that_names_each_other_is_bound_whatever_differs_and_all_of_it_is_said() {
    let what = "requested PV is too small; storageClassName does not match; incompatible volumeMode; incompatible accessMode";
    let ended = simulated("both-name-each-other.yaml");
    bound_with_a_warning(&ended, what);
    let status = &ended.object("PersistentVolumeClaim", "c1")["status"];
    assert_eq!(status["capacity"]["storage"], "1Gi", "the claim says what it has, not what it wanted");
    refused(&simulated_strictly("both-name-each-other.yaml"), what);
}

/// kubernetes/kubernetes#30690: with the volume's reference alone, what was fixed upstream stays refused.
#[test]
fn a4_sibling_a_reserved_volume_that_cannot_serve_the_claim_is_not_bound() {
    let ended = simulated("reserved-refused.yaml");
    let expected = [
        ("wants-more", "small", "VolumeTooSmall"),
        ("wants-block", "file", "VolumeModeDiffers"),
        ("wants-many", "once", "VolumeAccessModesDiffer"),
    ];
    for (claim, volume, code) in expected {
        assert_eq!(ended.state(claim), ("Pending", ""), "{claim}");
        assert_eq!(ended.volume_state(volume), ("Available", &*format!("default/{claim}")));
        ended.is_calm(claim);
        let reasons = &ended.claim(claim).reasons;
        let about = format!("PersistentVolume/{volume}");
        assert!(reasons.iter().any(|r| r.code == code && r.subject == about), "{claim}: {reasons:?}");
    }
}

/// kubernetes/kubernetes#82755: upstream takes the reserved volume before it looks at the selector.
#[test]
fn a5_a_reserved_volume_without_the_selected_labels_is_bound_with_a_warning() {
    let what = "the claim's selector does not match";
    bound_with_a_warning(&simulated("reserved-without-labels.yaml"), what);
    refused(&simulated_strictly("reserved-without-labels.yaml"), what);
}

/// kubernetes/kubernetes#76768, kubernetes/kubernetes#82755: the warning is for pairs that differ, and for no others.
#[test]
fn a5_sibling_a_reserved_volume_that_is_right_is_bound_in_silence() {
    for ended in [simulated("reserved-right.yaml"), simulated_strictly("reserved-right.yaml")] {
        for name in ["plain", "gold"] {
            assert_eq!(ended.state(name), ("Bound", name));
            ended.is_calm(name);
            assert!(ended.claim(name).reasons.is_empty());
        }
    }
}

/// kubernetes/kubernetes#25935: the claim stayed Pending although its volume pointed at it.
#[test]
fn a7_a_claim_gets_the_volume_that_it_names_and_the_other_claim_what_is_left() {
    let ended = simulated("named-volume.yaml");
    assert_eq!(ended.state("c2"), ("Bound", "p2"));
    assert_eq!(ended.state("c1"), ("Bound", "p1"));
    ended.is_calm("c1");
    ended.is_calm("c2");
}

/// kubernetes/kubernetes#25935: a claim that comes too late waits for its volume, and for no other.
#[test]
fn a7_sibling_a_claim_whose_volume_is_taken_waits_until_it_is_free() {
    let ended = simulated("named-volume-taken.yaml");
    assert_eq!(ended.state("c1"), ("Bound", "p2"));
    assert_eq!(ended.state("c2"), ("Pending", "p2"));
    let said = ended.told("c2", "Warning", "FailedBinding");
    assert_eq!(said, "volume \"p2\" already bound to a different claim.");
    assert_eq!(codes(&ended.claim("c2").reasons), ["VolumeTaken"]);

    let ended = simulated_then("named-volume-taken.yaml", "named-volume-taken.then.yaml");
    assert_eq!(ended.state("c2"), ("Bound", "p2"));
    assert_eq!(ended.volume_state("p2"), ("Bound", "default/c2"));
}

/// kubernetes/kubernetes#58655, longhorn/longhorn#512, ceph/ceph-csi#4010, rancher/rancher#19886: admission fills the
/// default class in, and the volume has none. kubernetes/kubernetes#53322: the claim is told, not the volume.
#[test]
fn a8_a_default_class_keeps_a_claim_from_the_classless_volume_that_it_names() {
    let ended = simulated("named-default-class.yaml");
    assert_eq!(ended.object("PersistentVolumeClaim", "defaulted")["spec"]["storageClassName"], "sc1");
    assert_eq!(ended.state("defaulted"), ("Pending", "p1"));
    assert_eq!(ended.volume_state("p1"), ("Available", ""));
    assert_eq!(
        ended.told("defaulted", "Warning", "VolumeMismatch"),
        "Cannot bind to requested volume \"p1\": storageClassName does not match"
    );
    assert!(ended.events("PersistentVolume/p1").is_empty());

    assert_eq!(ended.object("PersistentVolumeClaim", "none")["spec"]["storageClassName"], "");
    assert_eq!(ended.state("none"), ("Bound", "p2"));
    ended.is_calm("none");
}

/// kubernetes/kubernetes#29425: the status copied the request.
#[test]
fn a24_a_claim_says_what_its_volume_holds_and_offers() {
    let ended = simulated("larger-volume.yaml");
    assert_eq!(ended.state("c1"), ("Bound", "p1"));
    let claim = ended.object("PersistentVolumeClaim", "c1");
    assert_eq!(claim["status"]["capacity"]["storage"], "5Gi");
    assert_eq!(claim["status"]["accessModes"], serde_json::json!(["ReadWriteOnce", "ReadOnlyMany"]));
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi", "the request stays what it was");
}
