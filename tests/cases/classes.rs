//! Default classes: which one is the default, who is given it, and when.

use serde_json::{Value, json};

use crate::offline::{codes, simulated, simulated_then};
use crate::stage::{Stage, claim, class, volume};

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const BETA_DEFAULT: &str = "storageclass.beta.kubernetes.io/is-default-class";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A claim that says nothing about its class.
fn unsaid(name: &str) -> Value {
    claim(name, &json!({"storageClassName": null}))
}

fn class_of(stage: &Stage, claim: &str) -> Value {
    stage.claim(claim)["spec"]["storageClassName"].clone()
}

fn set_default(stage: &Stage, class: &str, value: &Value) {
    stage.patch("StorageClass", class, &json!({"metadata": {"annotations": {DEFAULT: value}}}));
}

/// A class of this age.
fn made(stage: &Stage, name: &str, at: &str) {
    let mut class = class(name, true);
    class["metadata"]["creationTimestamp"] = json!(at);
    stage.server.import(class).expect("a class");
}

/// kubernetes/enhancements#3333: a default class that appears after the claim is written into it, once, and `""` is an
/// answer that stays.
#[tokio::test(start_paused = true)]
async fn a12_a_default_class_that_comes_later_is_given_to_claims_that_said_nothing() {
    let mut stage = Stage::new();
    stage.create(&class("sc1", false));
    stage.create(&class("other", false));
    stage.create(&unsaid("c1"));
    stage.create(&claim("c2", &json!({"storageClassName": ""})));
    stage.start();
    stage.settle().await;
    let none = "no persistent volumes available for this claim and no storage class is set";
    assert_eq!(stage.events("c1"), [("FailedBinding".into(), none.into())]);
    assert_eq!(class_of(&stage, "c1"), Value::Null);

    stage.server.record_calls(true);
    set_default(&stage, "sc1", &json!("true"));
    stage.settle().await;
    assert_eq!(class_of(&stage, "c1"), "sc1");
    assert_eq!(class_of(&stage, "c2"), "");
    let notes = stage.claim("c1")["metadata"]["annotations"].clone();
    assert_eq!(notes["volume.kubernetes.io/storage-provisioner"], "drv.example.com", "the next step follows");
    assert!(stage.calls().iter().all(|call| call.name != "c2"));
    stage.stop().await;
}

/// kubernetes/enhancements#3333: the API lets a class be named once, and never another one.
#[test]
fn a12_the_api_lets_a_claim_name_a_class_once() {
    let stage = Stage::new();
    for name in ["sc1", "other"] {
        stage.create(&class(name, false));
    }
    stage.create(&unsaid("c1"));
    stage.create(&claim("c2", &json!({"storageClassName": ""})));
    let to = |class: Value| json!({"spec": {"storageClassName": class}});
    stage.patch("PersistentVolumeClaim", "c1", &to(json!("sc1")));
    for (claim, class) in
        [("c1", json!("other")), ("c1", json!("")), ("c1", Value::Null), ("c2", json!("sc1"))]
    {
        let (code, answer) = stage.try_patch("PersistentVolumeClaim", claim, &to(class.clone()));
        assert_eq!((code, answer["reason"].as_str()), (422, Some("Invalid")), "{claim} {class}: {answer}");
        assert_eq!(answer["details"]["causes"][0]["field"], "spec", "{answer}");
    }
    assert_eq!(class_of(&stage, "c1"), "sc1");
    assert_eq!(class_of(&stage, "c2"), "");
}

/// kubernetes/enhancements#3333: what was there before is looked at first: a claim that said nothing takes a volume of no
/// class, and is given the default only if none fits.
#[tokio::test(start_paused = true)]
async fn a12_sibling_a_volume_of_no_class_goes_before_the_default() {
    let mut stage = Stage::new();
    stage.create(&unsaid("fits"));
    let request = json!({"storageClassName": null, "resources": {"requests": {"storage": "50Gi"}}});
    stage.create(&claim("too-large", &request));
    stage.create(&volume("p1", &json!({})));
    stage.create(&class("sc1", true));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.claim_state("fits"), ("Bound".into(), "p1".into()));
    assert_eq!(class_of(&stage, "fits"), Value::Null, "it needs none");
    assert_eq!(class_of(&stage, "too-large"), "sc1");
    stage.stop().await;
}

/// kubernetes/enhancements#3333: a claim that names its volume, or has one, is left alone.
#[tokio::test(start_paused = true)]
async fn a12_sibling_a_claim_that_names_or_has_a_volume_is_given_no_class() {
    let mut stage = Stage::new();
    stage.create(&volume("p1", &json!({})));
    stage.create(&unsaid("bound"));
    stage.create(&claim("names", &json!({"storageClassName": null, "volumeName": "not-there-yet"})));
    stage.start();
    stage.settle().await;
    stage.create(&class("sc1", true));
    stage.settle().await;
    assert_eq!(stage.claim_state("bound"), ("Bound".into(), "p1".into()));
    assert_eq!(class_of(&stage, "bound"), Value::Null);
    assert_eq!(class_of(&stage, "names"), Value::Null);
    stage.create(&volume("not-there-yet", &json!({})));
    stage.settle().await;
    assert_eq!(stage.claim_state("names"), ("Bound".into(), "not-there-yet".into()));
    stage.stop().await;
}

/// kubernetes/enhancements#3333: the old annotation is an answer too, and an empty one as well.
#[tokio::test(start_paused = true)]
async fn a12_sibling_the_old_annotation_says_a_class() {
    let mut stage = Stage::new();
    for (name, class) in [("named", "slow"), ("empty", "")] {
        let mut claim = unsaid(name);
        claim["metadata"]["annotations"] = json!({BETA_CLASS: class});
        stage.create(&claim);
    }
    stage.start();
    stage.settle().await;
    stage.create(&class("sc1", true));
    for (name, class) in [("named-later", "slow"), ("empty-later", "")] {
        let mut claim = unsaid(name);
        claim["metadata"]["annotations"] = json!({BETA_CLASS: class});
        stage.create(&claim);
    }
    stage.settle().await;
    for name in ["named", "empty", "named-later", "empty-later"] {
        assert_eq!(class_of(&stage, name), Value::Null, "{name}");
    }
    stage.stop().await;
}

/// kubernetes/enhancements#3333: of several defaults the newest, by name among those of one age; admission and controller
/// agree.
#[tokio::test(start_paused = true)]
async fn a12_sibling_the_newest_default_wins_and_among_equals_the_first_by_name() {
    let (older, newer) = ("2024-01-01T00:00:00Z", "2024-06-01T00:00:00Z");
    // An hour older than it looks beside the others.
    let elsewhere = "2024-06-01T01:00:00+02:00";
    let ages: [(&[(&str, &str)], &str); 5] = [
        (&[("a", elsewhere), ("b", newer)], "b"),
        (&[("a", older), ("b", newer)], "b"),
        (&[("b", older), ("a", newer)], "a"),
        (&[("b", newer), ("a", newer)], "a"),
        (&[("z", newer), ("y", newer), ("a", older)], "y"),
    ];
    for (classes, wins) in ages {
        let mut stage = Stage::new();
        stage.create(&unsaid("before"));
        for (name, at) in classes {
            made(&stage, name, at);
        }
        let admitted = stage.create(&unsaid("after"));
        assert_eq!(admitted["spec"]["storageClassName"], wins, "{classes:?}");
        stage.start();
        stage.settle().await;
        assert_eq!(class_of(&stage, "before"), wins, "{classes:?}");
        stage.stop().await;
    }
}

/// kubernetes/enhancements#3333: `"true"` is what makes a default, under either key; anything else does not.
#[test]
fn a12_sibling_only_true_makes_a_default() {
    let marks = [
        (json!({DEFAULT: "true"}), true),
        (json!({BETA_DEFAULT: "true"}), true),
        (json!({DEFAULT: "false", BETA_DEFAULT: "true"}), true),
        (json!({DEFAULT: "false"}), false),
        (json!({DEFAULT: "True"}), false),
        (json!({DEFAULT: ""}), false),
        (json!({}), false),
    ];
    for (annotations, is_default) in marks {
        let stage = Stage::new();
        let mut class = class("sc1", false);
        class["metadata"]["annotations"] = annotations.clone();
        stage.create(&class);
        let admitted = stage.create(&unsaid("c1"));
        let expected = if is_default { json!("sc1") } else { Value::Null };
        assert_eq!(admitted["spec"]["storageClassName"], expected, "{annotations}");
    }
}

/// kubernetes/enhancements#3333: a default that is taken back is given to nobody any more, and stays with those who have it.
#[tokio::test(start_paused = true)]
async fn a12_sibling_a_default_that_is_taken_back_or_deleted_is_given_to_nobody() {
    let mut stage = Stage::new();
    stage.create(&class("sc1", true));
    stage.create(&class("sc2", true));
    stage.start();
    stage.create(&unsaid("has-it"));
    stage.settle().await;
    let had = class_of(&stage, "has-it");
    assert!(had.is_string(), "{had}");
    set_default(&stage, "sc1", &Value::Null);
    stage.delete("StorageClass", "sc2");
    stage.settle().await;
    stage.create(&unsaid("too-late"));
    stage.settle().await;
    assert_eq!(class_of(&stage, "too-late"), Value::Null);
    assert_eq!(class_of(&stage, "has-it"), had);

    set_default(&stage, "sc1", &json!("true"));
    stage.settle().await;
    assert_eq!(class_of(&stage, "too-late"), "sc1");
    stage.stop().await;
}

/// kubernetes/enhancements#3333, offline: without a default a claim that says nothing is told what is missing; the file's own
/// default is given to it at once.
#[test]
fn a12_sibling_a_simulation_admits_claims_as_the_api_server_does() {
    let ended = simulated("no-default-class.yaml");
    assert_eq!(ended.state("unsaid"), ("Pending", ""));
    assert_eq!(codes(&ended.claim("unsaid").reasons), ["NoVolumeAndNoClass"]);
    assert!(ended.object("PersistentVolumeClaim", "unsaid")["spec"].get("storageClassName").is_none());

    let ended = simulated_then("no-default-class.yaml", "no-default-class.then.yaml");
    assert_eq!(ended.claim("unsaid").phase, "Bound");
    assert_eq!(ended.object("PersistentVolumeClaim", "unsaid")["spec"]["storageClassName"], "sc2");
    assert_eq!(ended.state("none"), ("Pending", ""));
    assert_eq!(ended.object("PersistentVolumeClaim", "none")["spec"]["storageClassName"], "");
}
