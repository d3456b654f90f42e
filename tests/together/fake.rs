//! Two of ours on the fake API server, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::{Call, FakeApiServer, Ids};
use futures::{Stream, StreamExt};
use kube::Client;
use pvbind::act::{self, Options, Plugins};
use pvbind::decide::binder::Pods;
use pvbind::decide::{Settings, plugin};
use pvbind::simulate::actors::{self, Roles};
use serde_json::json;
use tokio::sync::watch;

use crate::burst::burst;
use crate::history::History;
use crate::verdict::{Verdict, judge};

const CLAIMS: u64 = 100;
/// Longer than any pause after a failure.
const QUIET: Duration = Duration::from_secs(150);
/// How many changes may be late at once.
const AT_ONCE: usize = 4096;
/// How long they may go on after the burst.
const LIMIT: Duration = Duration::from_secs(30);

/// Lets what the watches tell come late, in the same order; by how much says the seed.
fn lagging(watches: act::watch::Watches, seed: u64) -> impl Stream<Item = act::watch::Change> {
    let mut chance = seed;
    let late = watches.map(move |change| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lag = Duration::from_millis(chance >> 59);
        async move {
            tokio::time::sleep(lag).await;
            change
        }
    });
    late.buffered(AT_ONCE)
}

/// Runs the burst under one controller for each seed, which says when it is behind; 0 is never. Says what became of it, and
/// how often anybody asked for something to be changed.
async fn under(seeds: &[u64]) -> (Verdict, usize) {
    let options = fake_apiserver::Options { ids: Ids::Seeded(1), ..fake_apiserver::Options::default() };
    let server = FakeApiServer::new(options);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    server.set_faults(Some(Arc::new(move |call: &Call| {
        counted.fetch_add(usize::from(call.verb == "patch"), Ordering::SeqCst);
        None
    })));
    let client = || Client::new(server.router(), "default");
    let (stop, stopped) = watch::channel(false);
    let mut running = Vec::new();
    for seed in seeds.iter().copied() {
        let settings = Settings { plugins: plugin::PROVISIONING, ..Settings::default() };
        let options = Options { settings, plugins: Plugins::pretended(), ..Options::controller() };
        let (client, mut stopped) = (client(), stopped.clone());
        running.push(tokio::spawn(async move {
            let stop = async {
                stopped.wait_for(|stop| *stop).await.expect("the sender stays");
            };
            let watches = act::watch::watch(&client, &act::run::kinds(&options.roles));
            let watches = if seed == 0 { watches.boxed() } else { lagging(watches, seed).boxed() };
            act::run_on(client, watches, options, stop).await.expect("the loop ends well").0
        }));
    }
    // Volumes are scrubbed by pods, which somebody has to place.
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    server.import(node).expect("a node");
    let roles = act::Roles { controller: false, scheduler: Some(Pods::All) };
    let (client_of_it, mut until) = (client(), stopped.clone());
    running.push(tokio::spawn(async move {
        let stop = async {
            until.wait_for(|stop| *stop).await.expect("the sender stays");
        };
        let options = Options { roles, ..Options::controller() };
        act::run(client_of_it, options, stop).await.expect("the loop ends well").0
    }));
    let roles =
        Roles { workloads: false, provisioner: false, garbage: false, namespaces: false, ..Roles::default() };
    let kinds = act::run::kinds(&act::Roles { controller: true, scheduler: Some(Pods::All) });
    let shared = act::watch::watch(&client(), &kinds).boxed();
    let cast = actors::run(client(), shared, roles, Arc::new(jiff::Timestamp::now), stopped);
    let cast = tokio::spawn(cast);
    let history = History::listen(&client());
    burst(&client(), CLAIMS).await;
    history.quiet(QUIET, LIMIT).await;
    stop.send(true).expect("they run");
    for program in running {
        program.await.expect("no loop panics");
    }
    cast.await.expect("no stand-in panics").expect("no watch ends");
    (judge(&history.end()), asked.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn two_of_ours_bind_what_one_binds_and_do_not_fight() {
    let (alone, asked_alone) = under(&[0]).await;
    assert_eq!(alone.wrong, Vec::<String>::new());
    for seeds in [[0, 0], [0, 1], [2, 3]] {
        let (two, asked) = under(&seeds).await;
        assert_eq!(two.wrong, Vec::<String>::new(), "{seeds:?}");
        assert!(
            two.bound * 10 >= alone.bound * 9,
            "{seeds:?}: {} bound by two, {} by one",
            two.bound,
            alone.bound
        );
        let most = alone.changes * 3 / 2;
        assert!(asked <= 3 * asked_alone, "{seeds:?}: {asked} patches by two, {asked_alone} by one");
        assert!(two.changes <= most, "{seeds:?}: {} changes by two, {} by one", two.changes, alone.changes);
    }
}
