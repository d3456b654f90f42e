//! Taking turns: who leads, when the next one does, what the record says of it.

use std::time::Duration;

use pvbind::act::lease::{Ended, Loss};
use rstest::rstest;
use serde_json::json;
use tokio::time::sleep;

use crate::stage::{
    Candidate, EARLIEST, Mode, ROUND, TERMS, holder, leads, observe, overwrite, record, server,
};

/// Without a watch, everything takes up to a round longer.
const WAYS: [(Mode, Duration); 2] = [(Mode::Up, Duration::from_millis(100)), (Mode::Unwatched, ROUND)];

#[tokio::test(start_paused = true)]
async fn of_candidates_that_start_at_once_one_leads() {
    for round in 0..20 {
        let server = server();
        let [a, b, c] = ["a", "b", "c"].map(|name| Candidate::start(&server, name, Mode::Up));
        let led = observe(&[&a.lead, &b.lead, &c.lead], Duration::from_secs(60)).await;
        let longest = led.iter().max().expect("three");
        assert!(*longest > Duration::from_secs(59), "round {round}: {led:?}");
        assert_eq!(led.iter().filter(|time| time.is_zero()).count(), 2, "round {round}: {led:?}");
        assert_eq!(record(&server)["leaseTransitions"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_stops_lets_the_next_in_within_a_period() {
    for (mode, more) in WAYS {
        let server = server();
        let a = Candidate::start(&server, "a", mode);
        leads(&a.lead).await;
        let b = Candidate::start(&server, "b", mode);
        sleep(Duration::from_secs(7)).await;
        let acquired = record(&server)["acquireTime"].clone();
        assert_eq!(a.stop().await, Ended::Stopped);
        if mode == Mode::Unwatched {
            let released = record(&server);
            assert_eq!((holder(&server).as_str(), &released["leaseDurationSeconds"]), ("", &json!(1)));
            assert_ne!(released["acquireTime"], acquired);
        }
        let took = leads(&b.lead).await;
        assert!(took <= more, "{mode:?}: {took:?}");
        assert_eq!((holder(&server).as_str(), &record(&server)["leaseTransitions"]), ("b", &json!(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_killed_is_followed_when_its_lease_has_expired_and_not_before() {
    for (mode, more) in WAYS {
        let server = server();
        let a = Candidate::start(&server, "a", mode);
        leads(&a.lead).await;
        let b = Candidate::start(&server, "b", mode);
        sleep(Duration::from_secs(61)).await;
        a.kill();
        let took = leads(&b.lead).await;
        assert!((EARLIEST..=TERMS.lease_duration + 2 * more).contains(&took), "{mode:?}: {took:?}");
        assert_eq!(record(&server)["leaseTransitions"], 1);
    }
}

/// Nobody looks at another's clock.
#[rstest]
#[case(-5, 7)]
#[case(9, -100_000)]
#[tokio::test(start_paused = true)]
async fn clocks_that_are_hours_apart_make_no_difference(#[case] of_a: i64, #[case] of_b: i64) {
    let server = server();
    let a = Candidate::start_skewed(&server, "a", Mode::Up, of_a);
    leads(&a.lead).await;
    let b = Candidate::start_skewed(&server, "b", Mode::Up, of_b);
    let led = observe(&[&a.lead, &b.lead], Duration::from_secs(100)).await;
    assert!(led[1].is_zero() && led[0] > Duration::from_secs(99), "{led:?}");
    a.kill();
    let took = leads(&b.lead).await;
    assert!(took <= TERMS.lease_duration + Duration::from_secs(1), "{took:?}");
    assert!(took >= EARLIEST, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_stops_before_it_leads_leaves_the_lease_alone() {
    let server = server();
    let a = Candidate::start(&server, "a", Mode::Up);
    leads(&a.lead).await;
    let b = Candidate::start(&server, "b", Mode::Up);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(b.stop().await, Ended::Stopped);
    assert_eq!(holder(&server), "a");
    assert!(a.lead.holds());
}

#[tokio::test(start_paused = true)]
async fn whoever_sees_anothers_name_stops_at_once() {
    for (mode, more) in [(Mode::Up, Duration::ZERO), (Mode::Unwatched, TERMS.retry_period)] {
        let server = server();
        let a = Candidate::start(&server, "a", mode);
        leads(&a.lead).await;
        sleep(Duration::from_millis(6500)).await;
        let mut spec = record(&server);
        spec["holderIdentity"] = json!("b");
        overwrite(&server, &spec);
        sleep(more + Duration::from_millis(1)).await;
        assert!(!a.lead.holds(), "{mode:?}");
        assert_eq!(a.task.await.expect("it does not panic"), Ended::Lost(Loss::Taken("b".to_owned())));
        assert_eq!(record(&server), spec, "and nothing is written");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_stays_with_its_holder() {
    for mode in [Mode::Up, Mode::Unwatched] {
        let server = server();
        let a = Candidate::start(&server, "a", mode);
        leads(&a.lead).await;
        let b = Candidate::start(&server, "b", mode);
        for _ in 0..5 {
            sleep(Duration::from_millis(4900)).await;
            let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/it";
            assert_eq!(server.request("DELETE", path, "application/json", b"").0, 200);
            let led = observe(&[&a.lead, &b.lead], Duration::from_secs(20)).await;
            assert!(led[1].is_zero() && led[0] >= Duration::from_secs(20), "{mode:?}: {led:?}");
            assert_eq!(holder(&server), "a");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_when_its_holder_has_died_goes_to_the_next_when_it_would_have_expired() {
    let server = server();
    let a = Candidate::start(&server, "a", Mode::Up);
    leads(&a.lead).await;
    let b = Candidate::start(&server, "b", Mode::Up);
    sleep(Duration::from_secs(5)).await;
    a.kill();
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/it";
    assert_eq!(server.request("DELETE", path, "application/json", b"").0, 200);
    let took = leads(&b.lead).await;
    assert!(took <= TERMS.lease_duration && took >= EARLIEST, "{took:?}");
}
