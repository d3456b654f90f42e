//! Requests that fail, hang, or are done and never answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::{Fault, Status};
use pvbind::act::lease::{Ended, Loss};
use rstest::rstest;
use tokio::time::{Instant, sleep};

use crate::stage::{Candidate, GLANCE, Mode, ROUND, TERMS, holder, leads, observe, record, server};

/// How long a leader goes on without a renewal: the pause before the next one, and the deadline.
const GRACE: Duration = Duration::from_secs(12);
/// The same, seen from just before its next renewal.
const SHORTEST: Duration = Duration::from_secs(10);

#[rstest]
#[case(Mode::Down)]
#[case(Mode::Silent)]
#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_less_than_the_deadline_changes_nothing(#[case] away: Mode) {
    let server = server();
    let a = Candidate::start(&server, "a", Mode::Unwatched);
    leads(&a.lead).await;
    let b = Candidate::start(&server, "b", Mode::Unwatched);
    for moment in 0..8 {
        sleep(Duration::from_millis(30_000 + 250 * moment)).await;
        for line in [&a.line, &b.line] {
            line.set(away);
        }
        // A request that hangs ends at half of the deadline: the next one has to come in time.
        let gap =
            if away == Mode::Silent { Duration::from_millis(4400) } else { Duration::from_millis(9400) };
        let led = observe(&[&a.lead, &b.lead], gap).await;
        for line in [&a.line, &b.line] {
            line.set(Mode::Unwatched);
        }
        assert!(led[0] >= gap, "{away:?}, {moment}: {led:?}");
    }
    assert_eq!(record(&server)["leaseTransitions"], 0);
}

#[rstest]
#[case(Mode::Down)]
#[case(Mode::Silent)]
#[tokio::test(start_paused = true)]
async fn one_that_cannot_renew_stops_in_time_for_the_next(#[case] away: Mode) {
    for moment in 0..8 {
        let server = server();
        let a = Candidate::start(&server, "a", Mode::Unwatched);
        leads(&a.lead).await;
        let b = Candidate::start(&server, "b", Mode::Unwatched);
        sleep(Duration::from_millis(30_000 + 250 * moment)).await;
        a.line.set(away);
        let start = Instant::now();
        let loss = a.lead.lost().await;
        let lost = start.elapsed();
        assert_eq!(loss, Loss::Deadline);
        assert!(lost <= GRACE && lost >= SHORTEST, "{away:?}, {moment}: {lost:?}");
        let led = observe(&[&a.lead, &b.lead], Duration::from_secs(60)).await;
        assert!(led[0].is_zero() && led[1] > Duration::from_secs(40), "{led:?}");
        assert_eq!(a.task.await.expect("it does not panic"), Ended::Lost(Loss::Deadline));
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_outlast_the_term() {
    let server = server();
    let a = Candidate::start(&server, "a", Mode::Up);
    leads(&a.lead).await;
    sleep(Duration::from_secs(30)).await;
    a.line.set(Mode::Silent);
    let start = Instant::now();
    assert_eq!(a.task.await.expect("it does not panic"), Ended::Lost(Loss::Deadline));
    assert!(start.elapsed() <= GRACE + GLANCE, "{:?}", start.elapsed());
}

/// Lets one write of the lease go wrong.
fn one_fault(number: usize, fault: &Fault) -> fake_apiserver::FaultHook {
    let (count, fault) = (AtomicUsize::new(0), fault.clone());
    Arc::new(move |call| {
        let writes = call.resource == "leases" && matches!(call.verb, "create" | "update");
        let is_it = writes && count.fetch_add(1, Ordering::SeqCst) == number;
        is_it.then(|| fault.clone())
    })
}

fn conflict() -> Fault {
    Fault::Status(Box::new(Status::new(409, "Conflict", "somebody was faster")))
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_lost_or_a_write_that_is_refused_costs_nobody_the_lease() {
    for fault in [Fault::Lost, conflict(), Fault::Status(Box::new(Status::new(500, "InternalError", "no")))] {
        for number in 0..5 {
            let server = server();
            server.set_faults(Some(one_fault(number, &fault)));
            let a = Candidate::start(&server, "a", Mode::Up);
            let took = leads(&a.lead).await;
            assert!(took <= ROUND, "{fault:?}, {number}: {took:?}");
            let b = Candidate::start(&server, "b", Mode::Up);
            let led = observe(&[&a.lead, &b.lead], Duration::from_secs(60)).await;
            assert!(led[0] >= Duration::from_secs(60), "{fault:?}, {number}: {led:?}");
            assert_eq!(record(&server)["leaseTransitions"], 0, "{fault:?}, {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_is_lost_or_that_is_refused_once_is_a_release_all_the_same() {
    for fault in [Fault::Lost, conflict()] {
        let server = server();
        let a = Candidate::start(&server, "a", Mode::Up);
        leads(&a.lead).await;
        server.set_faults(Some(one_fault(0, &fault)));
        assert_eq!(a.stop().await, Ended::Stopped);
        assert_eq!(holder(&server), "", "{fault:?}");
    }
}

/// A takeover whose reply is lost leads all the same, and counts once.
#[tokio::test(start_paused = true)]
async fn a_takeover_whose_reply_is_lost_counts_once() {
    let server = server();
    let a = Candidate::start(&server, "a", Mode::Up);
    leads(&a.lead).await;
    a.kill();
    let b = Candidate::start(&server, "b", Mode::Up);
    sleep(Duration::from_secs(5)).await;
    server.set_faults(Some(one_fault(0, &Fault::Lost)));
    let took = leads(&b.lead).await;
    assert!(took <= TERMS.lease_duration + ROUND, "{took:?}");
    assert_eq!((holder(&server).as_str(), record(&server)["leaseTransitions"].as_u64()), ("b", Some(1)));
}
