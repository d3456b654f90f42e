//! Turns with a candidate of client-go itself, in real time over TCP.
//!
//! Runs where `PVBIND_CLIENT_GO` is set and Go is there; elsewhere it says that it did not run. Its program is in
//! `client-go`; `just client-go` runs this.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kube::{Client, Config};
use pvbind::act::Lead;
use pvbind::act::lease::{Elector, Ended, Settings, Terms};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{holder, record, server, settings};

/// What the program in `client-go` has.
const TERMS: Terms = Terms {
    lease_duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry_period: Duration::from_millis(500),
};
/// How long a lease lasts at least that was renewed a period ago.
const EARLIEST: Duration = Duration::from_millis(2500);
/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
struct Program(Child);

impl Program {
    fn start(binary: &Path, url: &str) -> Self {
        Program(Command::new(binary).arg(url).stderr(Stdio::null()).spawn().expect("it starts"))
    }

    fn terminate(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        assert!(self.0.wait().expect("it ends").success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended already when the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds the program, if that is asked for.
fn build(folder: &Path) -> Option<PathBuf> {
    if std::env::var_os("PVBIND_CLIENT_GO").is_none() {
        eprintln!("NOT RUN: turns with client-go; set PVBIND_CLIENT_GO=1 where Go is installed");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lease/client-go");
    let binary = folder.join("candidate");
    let built = Command::new("go").args(["build", "-o"]).arg(&binary).arg(".").current_dir(source).status();
    assert!(built.expect("PVBIND_CLIENT_GO is set, and go is not there").success(), "it is built");
    Some(binary)
}

fn start(url: &str, identity: &str) -> (Lead, oneshot::Sender<()>, JoinHandle<Ended>) {
    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    let (elector, lead) = Elector::new(client, Settings { terms: TERMS, ..settings(identity) });
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(elector.run(async {
        // A sender that is gone means stop.
        let _ = stopped.await;
    }));
    (lead, stop, task)
}

#[tokio::test]
async fn one_of_client_go_and_one_of_ours_take_turns() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(binary) = build(folder.path()) else { return };
    let server = server();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
    let held_by = async |name: &str| {
        let start = Instant::now();
        let held = async {
            while holder(&server) != name {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, held).await.unwrap_or_else(|_| panic!("{name} leads in time"));
        start.elapsed()
    };

    let (lead, stop, task) = start(&url, "ours");
    held_by("ours").await;
    let theirs = Program::start(&binary, &url);
    sleep(2 * TERMS.lease_duration).await;
    assert!(lead.holds(), "theirs waits while ours renews");

    // Ours releases: theirs comes within a round of its looking.
    drop(stop);
    assert_eq!(task.await.expect("it does not panic"), Ended::Stopped);
    let took = held_by("client-go").await;
    assert!(took <= TERMS.retry_period.mul_f64(2.2) + Duration::from_millis(500), "{took:?}");
    let (lead, stop, task) = start(&url, "ours");
    sleep(2 * TERMS.lease_duration).await;
    assert!(!lead.holds(), "ours waits while theirs renews");

    // Theirs releases: ours is there at once.
    // The server answers in this thread meanwhile.
    tokio::task::spawn_blocking(|| theirs.terminate()).await.expect("it ends well");
    let took = held_by("ours").await;
    assert!(took <= Duration::from_millis(500), "{took:?}");

    // Ours dies: theirs comes once the lease has expired.
    let theirs = Program::start(&binary, &url);
    sleep(TERMS.lease_duration).await;
    task.abort();
    drop(stop);
    let took = held_by("client-go").await;
    assert!(took >= EARLIEST, "{took:?}");

    // Theirs is killed: so does ours.
    let (lead, _stop, _task) = start(&url, "ours");
    sleep(TERMS.lease_duration).await;
    drop(theirs);
    let took = held_by("ours").await;
    assert!(took >= EARLIEST, "{took:?}");
    assert!(took <= TERMS.lease_duration + Duration::from_secs(1), "{took:?}");
    timeout(PATIENCE, lead.begun()).await.expect("and it knows");
    assert_eq!(record(&server)["leaseTransitions"], 4);
}
