//! Binding while something breaks: each time with claims that are bound already, claims that are being bound, and claims that
//! are yet to come.

use std::time::Duration;

use crate::objects::{claim, text, volume};
use crate::stage::Stage;
use crate::target::{Fault, How, Program};

/// How long all claims may take, with everything that breaks.
const PATIENCE: Duration = Duration::from_secs(150);

/// Makes so many pairs, of which any two fit each other, half of the claims before their volumes.
async fn make_pairs(stage: &Stage, count: usize) {
    let class = stage.prefix();
    let mut objects = Vec::new();
    for number in 0..count {
        let pair = [
            claim(&format!("c{number}"), class, &serde_json::json!({})),
            volume(&stage.named(&format!("v{number}")), class, &serde_json::json!({})),
        ];
        let turn = number % 2;
        objects.extend([pair[turn].clone(), pair[1 - turn].clone()]);
    }
    stage.create_all(objects).await;
}

/// Waits until so many claims are bound; there must be others left.
async fn in_the_middle(stage: &Stage, at_least: usize, of: usize) {
    let check = async || {
        let claims = stage.list("PersistentVolumeClaim").await;
        let bound = claims.iter().filter(|claim| text(claim, "/status/phase") == "Bound").count();
        assert!(bound < of, "all {of} claims were bound before anything could break");
        if bound >= at_least { Ok(()) } else { Err(format!("{bound} are")) }
    };
    stage.until(&format!("{at_least} claims are bound"), check).await;
}

/// Makes pairs, and does each deed once so many of their claims are bound.
async fn meanwhile<D: Copy>(stage: &Stage, count: usize, deeds: &[(usize, D)], perform: impl AsyncFn(D)) {
    let breaking = async {
        for (at_least, deed) in deeds {
            in_the_middle(stage, *at_least, count).await;
            perform(*deed).await;
        }
    };
    tokio::join!(make_pairs(stage, count), breaking);
    stage.all_bound(PATIENCE).await;
}

/// The API server is killed and, later, asked to end, and comes back each time.
pub async fn api_server_restarts(stage: &Stage) {
    let faults = [(100, Fault::RestartApiServer(How::Kill)), (500, Fault::RestartApiServer(How::Terminate))];
    meanwhile(stage, 1000, &faults, async |fault| stage.fault(fault).await).await;
}

/// etcd is killed twice.
pub async fn etcd_restarts(stage: &Stage) {
    let faults = [(50, Fault::RestartEtcd), (150, Fault::RestartEtcd)];
    meanwhile(stage, 300, &faults, async |fault| stage.fault(fault).await).await;
}

/// Watches end again and again.
pub async fn watches_end(stage: &Stage) {
    let faults = [20, 60, 100, 140, 180].map(|at_least| (at_least, Fault::CutWatches));
    meanwhile(stage, 250, &faults, async |fault| stage.fault(fault).await).await;
}

/// The controller is killed, and later asked to end, and started again at once.
pub async fn controller_restarts(stage: &Stage) {
    let ends = [(50, How::Kill), (120, How::Kill), (200, How::Terminate)];
    let restart = async |how| {
        stage.end(Program::Controller, how).await;
        stage.ensure(Program::Controller).await;
    };
    meanwhile(stage, 300, &ends, restart).await;
}
