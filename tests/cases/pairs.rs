//! Pairs that name each other: how much is written for them, how fast, and that the program never stands in its own
//! way (kubernetes/kubernetes#135127, #133352, #48941, #25930, #85661).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Stage, claim, volume};

/// Writes that a pair needs: reference and phase of the volume, annotations and status of the claim.
const WRITES: usize = 4;
/// What a volume gets before that, when its claim is not there yet: the phase Available.
const AVAILABLE: usize = 1;

/// In which order the objects come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// All volumes, then all claims.
    VolumesFirst,
    /// All claims, then all volumes.
    ClaimsFirst,
    /// Pair by pair, each volume before or after its claim.
    Interleaved,
}

fn volume_of(i: usize) -> Value {
    let reference = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": format!("c{i}")});
    volume(&format!("p{i}"), &json!({"spec": {"claimRef": reference}}))
}

fn claim_of(i: usize) -> Value {
    claim(&format!("c{i}"), &json!({"volumeName": format!("p{i}")}))
}

fn create_interleaved(stage: &Stage, pairs: usize) {
    for i in 0..pairs {
        let pair = [volume_of(i), claim_of(i)];
        for at in if i % 2 == 0 { [0, 1] } else { [1, 0] } {
            stage.create(&pair[at]);
        }
    }
}

#[track_caller]
fn all_bound(stage: &Stage, pairs: usize) {
    for i in 0..pairs {
        let (claim, volume) = (format!("c{i}"), format!("p{i}"));
        assert_eq!(stage.claim_state(&claim), ("Bound".into(), volume.clone()));
        assert_eq!(stage.volume_state(&volume), ("Bound".into(), claim));
    }
}

/// What the controller asked of the server; what the case itself creates is not counted.
#[track_caller]
fn frugal(stage: &Stage, pairs: usize, most: usize) {
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    for call in stage.calls().into_iter().filter(|call| call.verb != "create") {
        assert_eq!(call.code, 200, "{call:?}");
        assert_eq!(call.verb, "patch", "{call:?}");
        *writes.entry(call.name[1..].to_owned()).or_default() += 1;
    }
    assert_eq!(writes.len(), pairs);
    let wasteful = writes.iter().find(|(_, writes)| **writes > most);
    assert_eq!(wasteful, None, "a pair and its writes");
}

/// The controller runs when the pairs come.
async fn come(pairs: usize, order: Order) {
    let mut stage = Stage::new();
    stage.start();
    stage.settle().await;
    stage.server.record_calls(true);
    let (volumes, claims) = ((0..pairs).map(volume_of), (0..pairs).map(claim_of));
    match order {
        Order::VolumesFirst => {
            volumes.for_each(|volume| drop(stage.create(&volume)));
            stage.settle().await;
            frugal(&stage, pairs, AVAILABLE);
            stage.server.record_calls(true);
            claims.for_each(|claim| drop(stage.create(&claim)));
        }
        Order::ClaimsFirst => {
            claims.for_each(|claim| drop(stage.create(&claim)));
            stage.settle().await;
            frugal(&stage, 0, 0);
            volumes.for_each(|volume| drop(stage.create(&volume)));
        }
        Order::Interleaved => create_interleaved(&stage, pairs),
    }
    let took = stage.settle().await;
    all_bound(&stage, pairs);
    // At once, nobody knows which of the two the controller sees first.
    frugal(&stage, pairs, if order == Order::Interleaved { AVAILABLE + WRITES } else { WRITES });
    assert!(took < Duration::from_secs(1), "{pairs} pairs took {took:?} of virtual time");

    // Every watch ends, and everything is listed anew: there is nothing to write, and nothing to fail.
    assert_eq!(stage.relist().await, []);
    all_bound(&stage, pairs);
    let stats = stage.stop().await;
    assert_eq!((stats.counts.conflicts, stats.counts.failures), (0, 0), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a10_one_pair_is_bound_with_four_writes_in_any_order() {
    for order in [Order::VolumesFirst, Order::ClaimsFirst, Order::Interleaved] {
        come(1, order).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_hundred_pairs_are_bound_without_a_conflict_in_any_order() {
    for order in [Order::VolumesFirst, Order::ClaimsFirst, Order::Interleaved] {
        come(100, order).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a10_five_hundred_pairs_are_bound_without_a_conflict_in_any_order() {
    for order in [Order::VolumesFirst, Order::ClaimsFirst, Order::Interleaved] {
        come(500, order).await;
    }
}

/// The claims are known, and told to wait, long before their volumes come one by one: none waits for a resync.
#[tokio::test(start_paused = true)]
async fn a10_sibling_five_hundred_claims_are_bound_as_their_volumes_arrive() {
    const PAIRS: usize = 500;
    let mut stage = Stage::new();
    stage.start();
    for i in 0..PAIRS {
        stage.create(&claim_of(i));
    }
    stage.settle().await;
    stage.server.record_calls(true);
    for i in 0..PAIRS {
        stage.create(&volume_of(i));
        if i % 50 == 0 {
            let took = stage.settle().await;
            assert_eq!(stage.claim_state(&format!("c{i}")).0, "Bound");
            assert!(took < Duration::from_secs(1), "{took:?}");
        }
    }
    let took = stage.settle().await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    all_bound(&stage, PAIRS);
    frugal(&stage, PAIRS, WRITES);
    let stats = stage.stop().await;
    assert_eq!((stats.counts.conflicts, stats.counts.failures), (0, 0), "{stats:?}");
}

/// The watches break off again and again while pairs are bound: what is listed anew is older than what was written
/// meanwhile, and must not be written again.
#[tokio::test(start_paused = true)]
async fn a10_sibling_relists_in_the_middle_make_no_conflict() {
    const PAIRS: usize = 100;
    let mut stage = Stage::new();
    stage.start();
    stage.settle().await;
    stage.server.record_calls(true);
    for i in 0..PAIRS {
        stage.create(&volume_of(i));
        stage.create(&claim_of(i));
        if i % 10 == 0 {
            stage.server.cut_watches();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.settle().await;
    all_bound(&stage, PAIRS);
    frugal(&stage, PAIRS, AVAILABLE + WRITES);
    let stats = stage.stop().await;
    assert_eq!(stats.counts.conflicts, 0, "{stats:?}");
}

/// A controller that is restarted while everything is bound writes nothing at all.
#[tokio::test(start_paused = true)]
async fn a10_sibling_a_restart_writes_nothing() {
    let mut stage = Stage::new();
    stage.start();
    create_interleaved(&stage, 100);
    stage.settle().await;
    stage.stop().await;
    all_bound(&stage, 100);
    stage.server.record_calls(true);
    stage.start();
    stage.settle().await;
    assert_eq!(stage.calls(), []);
    stage.stop().await;
}
