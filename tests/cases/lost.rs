//! Pairs of which one half seems to be gone: what is asked before anything is given up, and what is healed.

use serde_json::json;

use crate::offline::{codes, simulated};
use crate::stage::{Stage, claim, class, volume};

/// What a provisioner makes for a claim with this uid.
fn made_for(uid: &str) -> serde_json::Value {
    volume(
        "p1",
        &json!({
            "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "drv.example.com"}},
            "spec": {
                "storageClassName": "sc1", "persistentVolumeReclaimPolicy": "Delete", "hostPath": null,
                "csi": {"driver": "drv.example.com", "volumeHandle": "h1"},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c1", "uid": uid},
            },
        }),
    )
}

fn uid(object: &serde_json::Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

fn gets(stage: &Stage) -> usize {
    stage.calls().iter().filter(|call| call.verb == "get").count()
}

/// kubernetes/kubernetes#105131: the controller knew the claim only as it was before it was made anew, threw the new
/// volume away and left the claim Pending for ever.
#[tokio::test(start_paused = true)]
async fn a1_a_volume_whose_claim_is_known_with_an_older_uid_is_not_released() {
    let mut stage = Stage::new();
    stage.create(&class("sc1", false));
    stage.create(&claim("c1", &json!({"storageClassName": "sc1"})));
    stage.start();
    stage.settle().await;
    stage.server.hold_watches("PersistentVolumeClaim", true);
    stage.delete("PersistentVolumeClaim", "c1");
    let anew = stage.create(&claim("c1", &json!({"storageClassName": "sc1"})));
    let phases = stage.phases_of("p1");
    stage.server.record_calls(true);
    stage.create(&made_for(&uid(&anew)));
    stage.settle().await;
    assert!(gets(&stage) > 0, "the API server is asked before anything is decided");
    assert!(!stage.volume("p1").is_null());

    stage.server.hold_watches("PersistentVolumeClaim", false);
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    assert_eq!(stage.volume_state("p1"), ("Bound".into(), "c1".into()));
    let phases = phases.lock().expect("nobody notes any more").clone();
    assert!(!phases.iter().any(|phase| phase == "Released" || phase == "Failed"), "{phases:?}");
    assert!(stage.calls().iter().all(|call| call.verb != "delete" || call.name == "c1"));
    stage.stop().await;
}

/// kubernetes/kubernetes#105131: the same for a claim of which no watch has told yet.
#[tokio::test(start_paused = true)]
async fn a1_sibling_a_volume_whose_claim_is_not_known_yet_is_not_released() {
    let mut stage = Stage::new();
    stage.create(&class("sc1", false));
    stage.start();
    stage.settle().await;
    stage.server.hold_watches("PersistentVolumeClaim", true);
    let made = stage.create(&claim("c1", &json!({"storageClassName": "sc1"})));
    stage.server.record_calls(true);
    stage.create(&made_for(&uid(&made)));
    stage.settle().await;
    assert_eq!(gets(&stage), 1);
    assert_ne!(stage.volume_state("p1").0, "Released");

    stage.server.hold_watches("PersistentVolumeClaim", false);
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    assert_eq!(stage.volume_state("p1"), ("Bound".into(), "c1".into()));
    stage.stop().await;
}

/// kubernetes/kubernetes#105131: a claim that is really gone is asked for once; a volume that is Released already
/// needs no second look.
#[tokio::test(start_paused = true)]
async fn a1_sibling_a_claim_that_is_gone_is_asked_for_once() {
    let mut stage = Stage::new();
    stage.create(&class("sc1", false));
    stage.start();
    stage.settle().await;
    stage.server.record_calls(true);
    stage.create(&made_for("uid-of-a-claim-that-is-gone"));
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Released".into(), "c1".into()));
    assert_eq!(gets(&stage), 1);
    stage.patch("PersistentVolume", "p1", &json!({"metadata": {"labels": {"seen": "again"}}}));
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Released".into(), "c1".into()));
    assert_eq!(gets(&stage), 1, "what is Released is not checked again");
    stage.stop().await;
}

/// kubernetes/kubernetes#112562, kubernetes/kubernetes#60298, fluxcd/flux2#2250, fluxcd/flux2#2456,
/// fluxcd/flux2#2827, IBM/core-dump-handler#149: a reference that was rewritten without its uid.
#[test]
fn a2_a_pair_whose_reference_has_lost_its_uid_is_whole_again() {
    for file in ["reference-without-uid.yaml", "reference-without-uid-lost.yaml"] {
        let ended = simulated(file);
        assert_eq!(ended.state("c1"), ("Bound", "p1"), "{file}");
        assert_eq!(ended.volume_state("p1"), ("Bound", "default/c1"), "{file}");
        let reference = &ended.object("PersistentVolume", "p1")["spec"]["claimRef"];
        assert_eq!(reference["uid"], "u1", "{file}");
        ended.is_calm("c1");
    }
}

/// kubernetes/kubernetes#112562: the same while the controller runs, for a reference that loses its uid and for one
/// that is cleared.
#[tokio::test(start_paused = true)]
async fn a2_sibling_a_reference_that_is_damaged_while_the_pair_is_bound_is_restored() {
    let mut stage = Stage::new();
    stage.create(&volume("p1", &json!({})));
    let made = stage.create(&claim("c1", &json!({})));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
    let by_name = json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}});
    for damage in [by_name, json!({"spec": {"claimRef": null}})] {
        stage.patch("PersistentVolume", "p1", &damage);
        stage.settle().await;
        assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()), "{damage}");
        assert_eq!(stage.volume_state("p1"), ("Bound".into(), "c1".into()), "{damage}");
        assert_eq!(stage.volume("p1")["spec"]["claimRef"]["uid"], made["metadata"]["uid"], "{damage}");
    }
    let reasons: Vec<_> = stage.events("c1").into_iter().map(|(reason, _)| reason).collect();
    assert!(!reasons.iter().any(|reason| reason == "ClaimMisbound" || reason == "ClaimLost"), "{reasons:?}");
    stage.stop().await;
}

/// kubernetes/kubernetes#112562: nothing is healed when the volume is for another claim by name or by uid.
#[test]
fn a2_sibling_a_claim_whose_volume_is_for_another_claim_stays_lost() {
    let ended = simulated("reference-to-other.yaml");
    assert_eq!(ended.state("c1"), ("Lost", "p1"));
    assert_eq!(ended.volume_state("p1"), ("Available", "default/c2"));
    let said = ended.told("c1", "Warning", "ClaimMisbound");
    assert_eq!(said, "Two claims are bound to the same volume, this one is bound incorrectly");
    assert_eq!(codes(&ended.claim("c1").reasons), ["Misbound"]);
    assert_eq!(ended.object("PersistentVolume", "p1")["spec"]["claimRef"].get("uid"), None);
}

/// kubernetes/kubernetes#21268: the claim was deleted while its volume was being made.
#[test]
fn a28_a_volume_that_was_made_for_a_deleted_claim_is_released_and_deleted() {
    let ended = simulated("made-for-nobody.yaml");
    assert!(ended.0.volumes.is_empty(), "its provisioner has deleted it: {:?}", ended.0.volumes);
}

/// kubernetes/kubernetes#21268: it is never offered to anybody on the way, whoever waits for one like it.
#[tokio::test(start_paused = true)]
async fn a28_sibling_a_volume_that_was_made_for_a_deleted_claim_is_never_offered() {
    let mut stage = Stage::new();
    stage.create(&class("sc1", false));
    stage.create(&claim("c2", &json!({"storageClassName": "sc1"})));
    stage.create(&claim("c1", &json!({"storageClassName": "sc1"})));
    let phases = stage.phases_of("p1");
    stage.start();
    stage.settle().await;
    stage.create(&made_for("uid-of-a-claim-that-is-gone"));
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Released".into(), "c1".into()));
    for claim in ["c1", "c2"] {
        assert_eq!(stage.claim_state(claim), ("Pending".into(), String::new()));
    }
    let phases = phases.lock().expect("nobody notes any more").clone();
    assert!(!phases.iter().any(|phase| phase == "Available" || phase == "Bound"), "{phases:?}");
    stage.stop().await;
}
