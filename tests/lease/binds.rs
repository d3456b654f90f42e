//! Two controllers of which one leads: nothing is written by the other, and nothing is lost when they change.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_apiserver::FakeApiServer;
use pvbind::act::lease::{Elector, Ended};
use pvbind::act::{self, Error, Lead, Options};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{GLANCE, Line, Mode, TERMS, holder, leads, pausable, server, settings};

/// A controller with its election, as one process.
struct Replica {
    lead: Lead,
    /// What the controller writes.
    line: Line,
    /// How the lease is asked for.
    lease: Line,
    paused: watch::Sender<bool>,
    stop: Option<oneshot::Sender<()>>,
    process: JoinHandle<(Result<(), Error>, Ended)>,
}

impl Replica {
    fn start(server: &FakeApiServer, name: &str) -> Self {
        let [line, lease] = [Line::default(), Line::default()];
        let (elector, lead) = Elector::new(lease.client(server), settings(name));
        let (stop, stopped) = oneshot::channel::<()>();
        let (paused, may_run) = watch::channel(false);
        let (client, mine) = (line.client(server), lead.clone());
        let process = async move {
            let (ended, work_ended) = oneshot::channel::<()>();
            let work = async move {
                let options = Options { lead: mine, ..Options::controller() };
                let done = act::run(client, options, async {
                    // A sender that is gone means stop.
                    let _ = stopped.await;
                })
                .await;
                drop(ended);
                done.map(|_| ())
            };
            let election = elector.run(async {
                // The work's end ends the election too.
                let _ = work_ended.await;
            });
            futures::future::join(work, election).await
        };
        let process = tokio::spawn(pausable(process, may_run));
        Replica { lead, line, lease, paused, stop: Some(stop), process }
    }

    async fn stop(mut self) -> (Result<(), Error>, Ended) {
        drop(self.stop.take());
        self.process.await.expect("it does not panic")
    }
}

fn volume(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("v{number}")},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    })
}

fn claim(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "default", "name": format!("c{number}")},
        "spec": {
            "storageClassName": "", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// Creates so many pairs, one each moment; a handle that aborts it.
fn create_pairs(server: &FakeApiServer, moment: Duration, count: usize) -> JoinHandle<()> {
    let server = server.clone();
    tokio::spawn(async move {
        for number in 0..count {
            server.import(volume(number)).expect("a volume");
            server.import(claim(number)).expect("a claim");
            sleep(moment).await;
        }
    })
}

/// The volume of each bound claim; fails if a volume has two, or a pair does not agree.
fn bound(server: &FakeApiServer) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    let mut taken = BTreeMap::new();
    for claim in server.objects().iter().filter(|object| object["kind"] == "PersistentVolumeClaim") {
        if claim["status"]["phase"] != "Bound" {
            continue;
        }
        let [name, volume] = [&claim["metadata"]["name"], &claim["spec"]["volumeName"]]
            .map(|text| text.as_str().expect("a name").to_owned());
        let found = server.get("PersistentVolume", "", &volume).expect("the volume");
        assert_eq!(found["spec"]["claimRef"]["uid"], claim["metadata"]["uid"], "{name} and {volume}");
        assert_eq!(taken.insert(volume.clone(), name.clone()), None, "{volume} is bound twice");
        pairs.insert(name, volume);
    }
    pairs
}

/// One replica that leads, and one that stands by.
async fn leader_and_standby() -> (FakeApiServer, Replica, Replica) {
    let server = server();
    let a = Replica::start(&server, "a");
    leads(&a.lead).await;
    let b = Replica::start(&server, "b");
    (server, a, b)
}

fn claims(server: &FakeApiServer) -> usize {
    server.objects().iter().filter(|object| object["kind"] == "PersistentVolumeClaim").count()
}

/// Waits until every claim is bound.
async fn all_bound(server: &FakeApiServer) {
    let all = async {
        while bound(server).len() < claims(server) {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(300), all).await.expect("every claim is bound in time");
}

#[tokio::test(start_paused = true)]
async fn a_standby_watches_and_writes_nothing_and_goes_on_when_the_leader_is_killed() {
    let (server, a, b) = leader_and_standby().await;
    let pairs = create_pairs(&server, Duration::from_millis(97), 1000);
    sleep(Duration::from_secs(40)).await;
    assert_eq!(b.line.written(), [], "a standby writes nothing");
    assert!(!b.process.is_finished() && bound(&server).len() > 400);

    a.process.abort();
    let killed = Instant::now();
    let before = bound(&server).len();
    let first = timeout(Duration::from_secs(60), b.lead.begun());
    first.await.expect("the other leads");
    sleep(GLANCE).await;
    assert!(bound(&server).len() > before, "and binds at once");
    let took = killed.elapsed();
    assert!(took <= TERMS.lease_duration + Duration::from_secs(1), "{took:?}");
    pairs.abort();
    all_bound(&server).await;
    let (done, ended) = b.stop().await;
    assert_eq!((done.is_ok(), ended), (true, Ended::Stopped));
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn one_that_sleeps_through_the_end_of_its_term_wakes_and_writes_nothing() {
    for asleep in [11, 16, 600] {
        let (server, a, b) = leader_and_standby().await;
        // So many at once that jobs are under way at any moment.
        let pairs = create_pairs(&server, Duration::from_millis(5), 400);
        sleep(Duration::from_millis(1503)).await;
        a.paused.send_replace(true);
        sleep(Duration::from_secs(asleep)).await;
        pairs.abort();
        let before = a.line.written().len();
        let woken = Instant::now();
        a.paused.send_replace(false);
        sleep(Duration::from_millis(1)).await;
        if asleep > 12 {
            let (done, _) = a.process.await.expect("it does not panic");
            assert!(matches!(done, Err(Error::Lost(_))), "{asleep}: {done:?}");
            assert_eq!(a.line.written().len(), before, "{asleep}: not even the rest of a job");
            assert!(a.lease.written().iter().all(|(when, _)| *when < woken), "{asleep}: nor a renewal");
        }
        all_bound(&server).await;
        assert!(asleep <= 12 || b.lead.holds(), "{asleep}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_renew_writes_nothing_once_its_term_is_over() {
    let (server, a, b) = leader_and_standby().await;
    let pairs = create_pairs(&server, Duration::from_millis(97), 1000);
    sleep(Duration::from_secs(20)).await;
    // The lease cannot be reached, everything else can.
    a.lease.set(Mode::Silent);
    let loss = a.lead.lost().await;
    let over = Instant::now();
    let (done, ended) =
        timeout(GLANCE, a.process).await.expect("it ends at once").expect("it does not panic");
    assert_eq!(ended, Ended::Lost(loss.clone()));
    assert_eq!(done.expect_err("it lost").to_string(), "the lease is lost: it could not be renewed in time");
    sleep(Duration::from_secs(30)).await;
    assert!(a.line.written().iter().all(|(when, _)| *when <= over));
    let first = b.line.written().first().expect("the other goes on").0;
    assert!(first >= over, "one after the other");
    pairs.abort();
    all_bound(&server).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_told_to_stop_ends_its_jobs_and_then_lets_the_next_in() {
    let (server, a, b) = leader_and_standby().await;
    let pairs = create_pairs(&server, Duration::from_millis(5), 400);
    sleep(Duration::from_millis(1503)).await;
    let (line, lease) = (a.line.clone(), a.lease.clone());
    let (done, ended) = a.stop().await;
    assert_eq!((done.is_ok(), ended), (true, Ended::Stopped));
    let released = lease.written().last().expect("a release").0;
    assert!(line.written().iter().all(|(when, _)| *when <= released), "no write after the release");
    let took = leads(&b.lead).await;
    assert!(took <= TERMS.retry_period, "{took:?}");
    sleep(Duration::from_secs(1)).await;
    pairs.abort();
    all_bound(&server).await;
}
