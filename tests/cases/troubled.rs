//! Placing pods while writes go wrong, one write in each run, every one in turn: refused, overtaken by another client,
//! answered into the void, or the last that a process sends (kubernetes/kubernetes#73263, volcano-sh/volcano#4480).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::stage::{Deed, Stage, Trouble, claim, class, delayed_class, local_class, local_volume, node, pod};

/// More writes than the scene needs; a run in which none of them goes wrong ends the series.
const MOST: usize = 100;

/// Two nodes with volumes that are there, a class whose volumes are made, and pods: one that needs both volumes of a node
/// and another one that shares one of its claims, one that needs a small volume, one whose volume is made, and one whose
/// claim does not wait for it. With `spare` there are more volumes, so that a reservation which nobody needs would stay;
/// without, each volume is needed, and the small one is where its pod has to be.
fn scene(spare: bool) -> Stage {
    let stage = Stage::scheduling();
    stage.create_all([local_class("local"), delayed_class("made"), class("now", false)]);
    stage.create_all([node("n1", 9), node("n2", 9)]);
    stage.create_all([
        local_volume("p1", "local", "5Gi", "n1"),
        local_volume("p2", "local", "5Gi", "n1"),
        local_volume("p3", "local", "1Gi", "n2"),
        local_volume("p7", "now", "1Gi", "n2"),
    ]);
    if spare {
        let volumes = [("p4", "n1"), ("p5", "n2"), ("p6", "n2"), ("p8", "n2")];
        stage.create_all(volumes.map(|(name, node)| local_volume(name, "local", "5Gi", node)));
    }
    let of = |class: &str, size: &str| json!({"storageClassName": class, "resources": {"requests": {"storage": size}}});
    stage.create_all([
        claim("c1", &of("local", "5Gi")),
        claim("c2", &of("local", "5Gi")),
        claim("c3", &of("local", "1Gi")),
        claim("c4", &of("made", "1Gi")),
        claim("c5", &of("now", "1Gi")),
    ]);
    let mut small = pod("d2", &["c3"]);
    if !spare {
        small["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n2"});
    }
    stage.create_all([pod("d1", &["c1", "c2"]), small, pod("d3", &["c4"])]);
    stage.create_all([pod("d4", &["c1"]), pod("d5", &["c5"])]);
    stage
}

/// The node that alone reaches a volume.
fn node_of(volume: &Value) -> &Value {
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    &terms[0]["matchExpressions"][0]["values"][0]
}

/// The claims of a pod.
fn claims_of(pod: &Value) -> impl Iterator<Item = &Value> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.map(|volume| &volume["persistentVolumeClaim"]["claimName"]).filter(|claim| !claim.is_null())
}

/// Every volume that is taken and every claim that has one belong to a pair: no volume serves two claims, and none stays
/// reserved for a claim that does not get it. A claim that is gone leaves its volume Released.
#[track_caller]
pub fn paired(stage: &Stage, what: &str) {
    for volume in stage.all("PersistentVolume") {
        let (reference, name) = (&volume["spec"]["claimRef"], &volume["metadata"]["name"]);
        let Some(claim) = reference["name"].as_str().map(|claim| stage.claim(claim)) else {
            assert_eq!(volume["status"]["phase"], "Available", "{what}: {volume}");
            continue;
        };
        if claim["metadata"]["uid"] != reference["uid"] {
            assert_eq!(volume["status"]["phase"], "Released", "{what}: {volume}");
            continue;
        }
        let of_claim = (&claim["spec"]["volumeName"], &claim["status"]["phase"]);
        assert_eq!(of_claim, (name, &json!("Bound")), "{what}: {claim} {volume}");
        assert_eq!(volume["status"]["phase"], "Bound", "{what}: {volume}");
    }
    for claim in stage.all("PersistentVolumeClaim") {
        let Some(volume) = claim["spec"]["volumeName"].as_str() else { continue };
        let volume = stage.volume(volume);
        assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"], "{what}: {claim}");
    }
}

/// All are paired, and each pair is used by a pod that is where the volume is: no volume stays taken for a pod that isn't
/// going to use it.
#[track_caller]
pub fn sound(stage: &Stage, what: &str) {
    paired(stage, what);
    let mut places: BTreeMap<String, Value> = BTreeMap::new();
    for pod in stage.all("Pod") {
        for claim in claims_of(&pod) {
            places.insert(claim.as_str().expect("a name").to_owned(), pod["spec"]["nodeName"].clone());
        }
    }
    for volume in stage.all("PersistentVolume") {
        if let Some(claim) = volume["spec"]["claimRef"]["name"].as_str() {
            assert_eq!(places.get(claim), Some(node_of(&volume)), "{what}: {claim} has {volume}");
        }
    }
}

/// Every pod has its place.
#[track_caller]
pub fn placed(stage: &Stage, what: &str) {
    for pod in stage.all("Pod") {
        assert!(pod["spec"]["nodeName"].is_string(), "{what}: {pod}");
    }
}

/// Runs the scene with one kind of trouble at each write in turn; returns how many writes there were.
async fn series(trouble: Trouble, spare: bool) -> usize {
    for at in 1..MOST {
        let mut stage = scene(spare);
        let provisioner = stage.provision(|_| Deed::Make);
        stage.server.record_calls(true);
        let happened = stage.run_with(trouble, at).await;
        let what = format!("{trouble:?} at write {at}");
        placed(&stage, &what);
        sound(&stage, &what);
        let refused: Vec<_> = stage.calls().into_iter().filter(|call| call.code == 409).collect();
        let injected = usize::from(happened && matches!(trouble, Trouble::Refused | Trouble::Overtaken));
        assert!(refused.len() <= injected, "{what}: in its own way: {refused:?}");
        let counts = stage.stop().await.counts;
        assert!(counts.conflicts <= injected as u64, "{what}: {counts:?}");
        provisioner.abort();
        if !happened {
            assert_eq!((refused.len(), counts.failures), (0, 0), "nothing went wrong: {counts:?}");
            return at - 1;
        }
    }
    panic!("more than {MOST} writes");
}

/// The writes of the scene: each of four local volumes is reserved, and gets its phase; each of five claims is bound and gets
/// its status; the claim whose volume is made gets its provisioner and its node, and that volume its phase; five pods are
/// placed.
const WRITES: usize = 4 * 2 + 5 * 2 + 3 + 5;

macro_rules! series {
    ($($name:ident: $trouble:ident;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            for spare in [false, true] {
                let writes = series(Trouble::$trouble, spare).await;
                assert!(writes >= WRITES, "{writes} writes");
            }
        }
    )*};
}

series! {
    b3_every_write_may_be_refused: Refused;
    b3_every_write_may_be_overtaken: Overtaken;
    b3_every_answer_may_be_lost: Lost;
    b3_the_process_may_die_before_every_write: KilledBefore;
    b3_the_process_may_die_after_every_write: KilledAfter;
}

#[tokio::test(start_paused = true)]
async fn b3_many_writes_may_go_wrong() {
    for seed in 0..25 {
        let mut stage = scene(seed % 2 == 0);
        let provisioner = stage.provision(|_| Deed::Make);
        stage.fail_at_random(seed, 20);
        stage.start();
        stage.settle().await;
        let what = format!("seed {seed}");
        placed(&stage, &what);
        sound(&stage, &what);
        let counts = stage.stop().await.counts;
        assert!((1..=20).contains(&counts.failures), "{what}: {counts:?}");
        provisioner.abort();
    }
}
