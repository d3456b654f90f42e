//! Binding while something breaks: each time with claims that are bound already, claims that are being bound, and claims that
//! are yet to come.

use std::ops::Range;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::{claim, text, volume};
use crate::stage::Stage;
use crate::target::{Fault, How, Program};

/// How long all claims may take, with everything that breaks.
const PATIENCE: Duration = Duration::from_secs(300);

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

/// Does each deed while a portion of the work is made and done: once some of it is done, and before the rest of it is made, so
/// that no machine is too fast to be met in the middle.
/// `make` makes a portion, `done` says how much of all is done.
pub async fn meanwhile<D: Copy>(
    stage: &Stage,
    portions: &[(Range<usize>, D)],
    make: impl AsyncFn(Range<usize>),
    done: impl AsyncFn() -> usize,
    perform: impl AsyncFn(D),
) {
    for (portion, deed) in portions {
        let (at_least, half) = (portion.start + portion.len() / 5, portion.start + portion.len() / 2);
        let check = async || match done().await {
            few if few < at_least => Err(format!("{few} of {at_least}")),
            enough => Ok(enough),
        };
        let some_done = stage.within(PATIENCE, "some of it is done", check);
        let ((), before) = tokio::join!(make(portion.start..half), some_done);
        assert!(before < portion.end, "all was done before anything could break");
        tokio::join!(perform(*deed), make(half..portion.end));
    }
}

/// The same for pairs that are to be bound; so many for each fault.
async fn pairs_meanwhile<D: Copy>(stage: &Stage, each: usize, deeds: &[D], perform: impl AsyncFn(D)) {
    let portions: Vec<_> =
        deeds.iter().enumerate().map(|(turn, deed)| (turn * each..(turn + 1) * each, *deed)).collect();
    let bound = async || {
        // It ends when it loses its lease, and whoever runs it starts it again.
        stage.ensure(Program::Controller).await;
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
    pairs_meanwhile(stage, 150, &[How::Kill, How::Terminate], restart).await;
}

/// The controller that leads is killed and, later, asked to end, and the one that stood by goes on, in time.
pub async fn leaders_change(stage: &Stage) {
    let replace = async |how| {
        let replaced = stage.fault(Fault::ReplaceLeader(how));
        let (took, ()) = tokio::join!(takeover(stage), replaced);
        eprintln!("{how:?}: another one leads {took} s after the last renewal");
    };
    stage.ensure(Program::Standby).await;
    // Who stands by counts from the first renewal that it has seen.
    let renewed = async || stage.lease().await.map(|lease| text(&lease, "/spec/renewTime").to_owned());
    let before = stage.until("somebody leads", renewed).await;
    let again = async || renewed().await.and_then(|now| if now == before { Err(now) } else { Ok(()) });
    stage.until("the lease is renewed", again).await;
    pairs_meanwhile(stage, 150, &[How::Kill, How::Terminate], replace).await;
}

/// Follows the lease until somebody else has it, and says how many seconds after the last renewal. That may be as long as the
/// lease is held without one, and a second more.
async fn takeover(stage: &Stage) -> f64 {
    let at = |lease: &Value, field: &str| {
        let time: Result<Timestamp, _> = text(lease, &format!("/spec/{field}")).parse();
        time.expect("a time")
    };
    let holder = |lease: &Value| text(lease, "/spec/holderIdentity").to_owned();
    let mut last = stage.until("somebody leads", async || stage.lease().await).await;
    let (first, start) = (holder(&last), Instant::now());
    loop {
        if let Ok(lease) = stage.lease().await {
            let now = holder(&lease);
            if !now.is_empty() && now != first {
                let took = at(&lease, "acquireTime").duration_since(at(&last, "renewTime")).as_secs_f64();
                let allowed = lease["spec"]["leaseDurationSeconds"].as_f64().expect("a number") + 1.0;
                assert!(took <= allowed, "{took} s after the last renewal, {allowed} s are allowed: {lease}");
                return took;
            }
            // Who gives it back says so as if he renewed it.
            if now == first {
                last = lease;
            }
        }
        assert!(start.elapsed() < PATIENCE, "nobody else leads than {first}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The release is upgraded and rolled back, each time while claims come.
pub async fn upgraded_and_back(stage: &Stage) {
    for (fault, numbers) in [(Fault::Upgrade, 0..150), (Fault::RollBack, 150..300)] {
        tokio::join!(make_pairs(stage, numbers), stage.fault(fault));
        stage.all_bound(PATIENCE).await;
    }
}
