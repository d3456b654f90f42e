//! Many pods at once, each with a claim that waits for it, on many nodes with local volumes: no write of the program stands
//! in the way of another one of its own.

use std::time::Duration;

use serde_json::json;

use crate::stage::{Stage, claim, local_class, local_volume, node, pod};
use crate::troubled::{placed, sound};

const NODES: usize = 100;
const VOLUMES: usize = 10;
const PODS: usize = 500;

/// The nodes, and volumes of a few sizes on each.
fn offer(stage: &Stage) {
    stage.create(&local_class("local"));
    for at in 0..NODES {
        let on = format!("n{at:02}");
        stage.create_all([node(&on, 20)]);
        for i in 0..VOLUMES {
            let size = ["1Gi", "2Gi", "5Gi"][(at + i) % 3];
            stage.create(&local_volume(&format!("{on}-{i}"), "local", size, &on));
        }
    }
}

/// A pod and its claim.
fn ask(stage: &Stage, i: usize) {
    let size = ["1Gi", "2Gi", "5Gi"][i % 3];
    let request = json!({"storageClassName": "local", "resources": {"requests": {"storage": size}}});
    stage.create(&claim(&format!("c{i}"), &request));
    stage.create(&pod(&format!("d{i}"), &[&format!("c{i}")]));
}

/// All are placed where their volumes are, in next to no time, and nothing was tried twice.
async fn all_placed(stage: &mut Stage) {
    let took = stage.settle().await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    placed(stage, "all");
    sound(stage, "all");
    let refused: Vec<_> = stage.calls().into_iter().filter(|call| call.code >= 400).collect();
    assert_eq!(refused, []);
    let stats = stage.stop().await;
    assert_eq!((stats.counts.failures, stats.counts.conflicts), (0, 0), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn five_hundred_pods_that_are_there_are_placed_without_a_conflict() {
    let mut stage = Stage::scheduling();
    offer(&stage);
    (0..PODS).for_each(|i| ask(&stage, i));
    stage.server.record_calls(true);
    stage.start();
    all_placed(&mut stage).await;
}

#[tokio::test(start_paused = true)]
async fn five_hundred_pods_that_come_are_placed_without_a_conflict() {
    let mut stage = Stage::scheduling();
    offer(&stage);
    stage.start();
    stage.settle().await;
    stage.server.record_calls(true);
    for i in 0..PODS {
        ask(&stage, i);
        if i % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    all_placed(&mut stage).await;
}
