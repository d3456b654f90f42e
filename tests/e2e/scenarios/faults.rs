//! Binding while something breaks: each time with claims that are bound already, claims that are being bound, and claims that
//! are yet to come.

use std::ops::Range;
use std::time::Duration;

use serde_json::json;

use crate::objects::{claim, text, volume};
use crate::stage::Stage;
use crate::target::{Fault, How, Program};

/// How long all claims may take, with everything that breaks.
const PATIENCE: Duration = Duration::from_secs(150);

/// Makes pairs of these numbers, of which any two fit each other, half of the claims before their volumes.
async fn make_pairs(stage: &Stage, numbers: Range<usize>) {
    let class = stage.prefix();
    let mut objects = Vec::new();
    for number in numbers {
        let pair = [
            claim(&format!("c{number}"), class, &json!({})),
            volume(&stage.named(&format!("v{number}")), class, &json!({})),
        ];
        let turn = number % 2;
        objects.extend([pair[turn].clone(), pair[1 - turn].clone()]);
    }
    stage.create_all(objects).await;
}

/// Does each deed while a portion of the work is made and done: once some of it is done, and before all of it can be.
/// `make` makes a portion, `done` says how much of all is done.
pub async fn meanwhile<D: Copy>(
    stage: &Stage,
    portions: &[(Range<usize>, D)],
    make: impl AsyncFn(Range<usize>),
    done: impl AsyncFn() -> usize,
    perform: impl AsyncFn(D),
) {
    let mut in_the_middle = 0;
    for (portion, deed) in portions {
        let (at_least, all) = (portion.start + portion.len() / 5, portion.end);
        let check = async || match done().await {
            few if few < at_least => Err(format!("{few} of {at_least}")),
            enough => Ok(enough),
        };
        let breaking = async {
            let before = stage.until("some of it is done", check).await;
            perform(*deed).await;
            before
        };
        let ((), before) = tokio::join!(make(portion.clone()), breaking);
        in_the_middle += usize::from(before < all);
    }
    assert!(in_the_middle > 0, "all was done each time before anything could break");
}

/// The same for pairs that are to be bound; so many for each fault.
async fn pairs_meanwhile<D: Copy>(stage: &Stage, each: usize, deeds: &[D], perform: impl AsyncFn(D)) {
    let portions: Vec<_> =
        deeds.iter().enumerate().map(|(turn, deed)| (turn * each..(turn + 1) * each, *deed)).collect();
    let bound = async || {
        let claims = stage.list("PersistentVolumeClaim").await;
        claims.iter().filter(|claim| text(claim, "/status/phase") == "Bound").count()
    };
    meanwhile(stage, &portions, async |numbers| make_pairs(stage, numbers).await, bound, perform).await;
    stage.all_bound(PATIENCE).await;
}

/// The API server is killed and, later, asked to end, and comes back each time.
pub async fn api_server_restarts(stage: &Stage) {
    let faults = [How::Kill, How::Terminate].map(Fault::RestartApiServer);
    pairs_meanwhile(stage, 500, &faults, async |fault| stage.fault(fault).await).await;
}

/// etcd is killed twice.
pub async fn etcd_restarts(stage: &Stage) {
    pairs_meanwhile(stage, 150, &[Fault::RestartEtcd; 2], async |fault| stage.fault(fault).await).await;
}

/// Watches end again and again.
pub async fn watches_end(stage: &Stage) {
    pairs_meanwhile(stage, 50, &[Fault::CutWatches; 5], async |fault| stage.fault(fault).await).await;
}

/// The controller is killed, and later asked to end, and started again at once.
pub async fn controller_restarts(stage: &Stage) {
    let restart = async |how| {
        stage.end(Program::Controller, how).await;
        stage.ensure(Program::Controller).await;
    };
    pairs_meanwhile(stage, 100, &[How::Kill, How::Terminate, How::Kill], restart).await;
}

/// The controller that leads is killed and, later, asked to end, and the one that stood by goes on.
pub async fn leaders_change(stage: &Stage) {
    let faults = [Fault::ReplaceLeader(How::Kill), Fault::ReplaceLeader(How::Terminate)];
    pairs_meanwhile(stage, 150, &faults, async |fault| stage.fault(fault).await).await;
}

/// The release is upgraded and rolled back, each time while claims come.
pub async fn upgraded_and_back(stage: &Stage) {
    for (fault, numbers) in [(Fault::Upgrade, 0..150), (Fault::RollBack, 150..300)] {
        tokio::join!(make_pairs(stage, numbers), stage.fault(fault));
        stage.all_bound(PATIENCE).await;
    }
}
