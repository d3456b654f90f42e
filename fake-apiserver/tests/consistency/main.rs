//! Whatever several clients ask for, and whatever goes wrong meanwhile, a client that lists and watches ends with exactly what
//! a fresh list shows: over cut streams, lost answers, refusals, short histories that expire it, pages, streaming lists and
//! selectors, for several kinds at once. `PROPTEST_CASES` says how many random stories are played.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

mod follower;
mod story;

use fake_apiserver::{FakeApiServer, Faults, Ids, Options};
use proptest::prelude::*;

use follower::{Follower, Mode};
use story::{Kind, Step};

/// Who watches what: each kind in several ways.
fn followers() -> Vec<Follower> {
    let mut followers = Vec::new();
    for (kind, selector) in [
        (Kind::Map, ""),
        (Kind::Map, "labelSelector=app%3Dx"),
        (Kind::Claim, "labelSelector=app%21%3Dx"),
        (Kind::Volume, ""),
        (Kind::Pod, "fieldSelector=spec.nodeName%3D"),
        (Kind::Pod, "fieldSelector=spec.nodeName%3Dn1"),
    ] {
        for mode in [Mode::Pages(2), Mode::List, Mode::Stream] {
            followers.push(Follower::new(kind.everywhere(), selector, mode));
        }
    }
    followers
}

async fn play(steps: &[Step], faults: &Faults, history: usize) {
    let server = FakeApiServer::new(Options { ids: Ids::Seeded(1), history, ..Options::default() });
    let mut followers = followers();
    server.script_faults(Some(faults.clone())).unwrap();
    for (index, step) in steps.iter().enumerate() {
        step.play(&server).await;
        // Some look after every step, others seldom, so that they are behind by different lengths.
        for (number, follower) in followers.iter_mut().enumerate() {
            if index % (number % 5 + 1) == 0 {
                follower.look(&server).await;
            }
        }
    }
    server.script_faults(None).unwrap();
    for follower in &mut followers {
        follower.catch_up(&server).await;
        let (fresh, version) = follower::fresh(&server, &follower.list_path()).await;
        assert_eq!(follower.objects(), &fresh, "{follower:?} at {version}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_client_that_watches_ends_with_what_a_list_shows(
        steps in prop::collection::vec(story::step(), 1..60),
        faults in story::faults(),
        history in prop_oneof![Just(10_000_usize), 1_usize..6],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(&steps, &faults, history));
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48)
}
