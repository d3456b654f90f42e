//! Candidates, and the line that each has to the API server.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Ids, Options, Plugins};
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use pvbind::act::lease::{Elector, Ended, Settings, Terms};
use pvbind::act::{Lead, lease};
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// How the leases of these tests are held: client-go's defaults.
pub const TERMS: Terms = Terms {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};
/// How long a lease lasts at least that was renewed a period ago.
pub const EARLIEST: Duration = Duration::from_secs(13);
/// How long a round of looking at the lease takes at most: a period and its jitter.
pub const ROUND: Duration = Duration::from_millis(4400);
/// How long a write is on its way.
const LATENCY: Duration = Duration::from_millis(2);
/// How often candidates are looked at.
pub const GLANCE: Duration = Duration::from_millis(50);

/// What happens to requests on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They arrive.
    Up,
    /// They arrive, but nobody may watch.
    Unwatched,
    /// There is no connection.
    Down,
    /// They are sent, and nothing comes back.
    Silent,
}

/// A line to the API server, and what was sent over it that writes.
#[derive(Clone, Default)]
pub struct Line {
    mode: Arc<AtomicU8>,
    written: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Line {
    pub fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// What was written, and when.
    pub fn written(&self) -> Vec<(Instant, String)> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client at this end of it.
    pub fn client(&self, server: &FakeApiServer) -> Client {
        let (line, there) = (self.clone(), Client::new(server.router(), "default"));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (line, there) = (line.clone(), there.clone());
            async move { line.send(there, request).await }
        });
        Client::new(service, "default")
    }

    async fn send(&self, there: Client, request: Request<Body>) -> kube::Result<http::Response<Body>> {
        let mode = self.mode.load(Ordering::SeqCst);
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if mode == Mode::Silent as u8 {
            std::future::pending::<()>().await;
        }
        if mode == Mode::Down as u8 || (watches && mode == Mode::Unwatched as u8) {
            return Err(kube::Error::Service("no connection".into()));
        }
        if request.method() != Method::GET {
            let what = format!("{} {}", request.method(), request.uri().path());
            self.written.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), what));
            // What has been sent arrives, whatever becomes of the one who sent it.
            let sent = tokio::spawn(async move {
                sleep(LATENCY).await;
                there.send(request).await
            });
            return sent.await.expect("it is not cut off");
        }
        there.send(request).await
    }
}

pub fn server() -> FakeApiServer {
    let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
    FakeApiServer::new(Options { ids: Ids::Seeded(1), plugins, ..Options::default() })
}

pub fn settings(identity: &str) -> Settings {
    let [namespace, name, identity] = ["kube-system", "it", identity].map(str::to_owned);
    Settings { namespace, name, identity, terms: TERMS }
}

/// A candidate that runs.
pub struct Candidate {
    pub lead: Lead,
    pub line: Line,
    stop: Option<oneshot::Sender<()>>,
    pub task: JoinHandle<Ended>,
}

impl Candidate {
    pub fn start(server: &FakeApiServer, identity: &str, mode: Mode) -> Self {
        Self::start_skewed(server, identity, mode, 0)
    }

    /// One whose clock is wrong by so many hours.
    pub fn start_skewed(server: &FakeApiServer, identity: &str, mode: Mode, hours: i64) -> Self {
        let line = Line::default();
        line.set(mode);
        let (elector, lead) = Elector::new(line.client(server), settings(identity));
        let elector =
            elector.with_wall(Arc::new(move || Timestamp::now() + SignedDuration::from_hours(hours)));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(elector.run(async {
            // A sender that is gone means stop.
            let _ = stopped.await;
        }));
        Candidate { lead, line, stop: Some(stop), task }
    }

    /// Tells it to stop, and waits until it has.
    pub async fn stop(mut self) -> Ended {
        drop(self.stop.take());
        self.task.await.expect("it does not panic")
    }

    /// Ends it at once, as SIGKILL does.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// The record on the server.
pub fn record(server: &FakeApiServer) -> Value {
    server.get("Lease", "kube-system", "it").expect("a lease")["spec"].clone()
}

pub fn holder(server: &FakeApiServer) -> String {
    let lease = server.get("Lease", "kube-system", "it");
    lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned)).unwrap_or_default()
}

/// Looks at the candidates for so long, and fails if two lead at once. Says for how long each led.
pub async fn observe(leads: &[&Lead], time: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let mut led = vec![Duration::ZERO; leads.len()];
    while start.elapsed() < time {
        let now: Vec<usize> = (0..leads.len()).filter(|index| leads[*index].holds()).collect();
        assert!(now.len() < 2, "after {:?}, these lead: {now:?}", start.elapsed());
        for index in now {
            led[index] += GLANCE;
        }
        sleep(GLANCE).await;
    }
    led
}

/// Waits until one leads; says how long that took.
pub async fn leads(lead: &Lead) -> Duration {
    let start = Instant::now();
    let begun = tokio::time::timeout(Duration::from_secs(1000), lead.begun()).await;
    begun.expect("it leads in the end");
    start.elapsed()
}

/// Runs something that can be stopped for a while, as SIGSTOP and SIGCONT do.
pub async fn pausable<T>(work: impl Future<Output = T>, mut paused: watch::Receiver<bool>) -> T {
    tokio::pin!(work);
    loop {
        let is_paused = *paused.borrow_and_update();
        tokio::select! {
            biased;
            done = &mut work, if !is_paused => return done,
            changed = paused.changed() => changed.expect("it is told"),
        }
    }
}

/// Puts a record in place of what is there, as another program would.
pub fn overwrite(server: &FakeApiServer, spec: &Value) {
    let mut lease = Value::clone(&server.get("Lease", "kube-system", "it").expect("a lease"));
    lease["spec"] = spec.clone();
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/it";
    let (code, answer) = server.request("PUT", path, "application/json", lease.to_string().as_bytes());
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&answer));
}

/// An identity as a program draws it.
#[test]
fn no_two_candidates_are_called_the_same() {
    let [one, other] = [lease::elect::identity("host"), lease::elect::identity("host")];
    assert!(one.starts_with("host_") && one != other, "{one} {other}");
}
