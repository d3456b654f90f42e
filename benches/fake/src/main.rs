//! What the fake API server costs, beside a real etcd and kube-apiserver under the same load in the same run.
//!
//! `KUBEBUILDER_ASSETS=DIR cargo run --release -p bench-fake [OURS [THEIRS]]`: so many claims are created on ours (100,000 if
//! nothing is said) and on the real one (20,000). Each server is a process of its own, asked over TLS with a token by the same
//! client on as many connections; the client shares the machine with the server. Without the folder only ours is measured.
//! The table is Markdown.

mod load;
mod server;
mod wire;

use std::time::{Duration, Instant};

use control_plane::{ControlPlane, assets, not_run};

use load::{AT_ONCE, Listed, Watched};
use wire::{MERGE, Place};

/// The same as the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many watch.
const WATCHERS: usize = 1000;
/// How many claims are created under their eyes.
const WATCHED: usize = 300;
/// How many claims a list has.
const LISTED: usize = 10_000;
/// How many claims are created in process.
const IN_PROCESS: u32 = 20_000;

/// What was found out about a server.
struct Found {
    ready: Duration,
    /// Memory when it was ready, in bytes.
    empty: f64,
    /// Memory with all claims.
    full: f64,
    claims: usize,
    creates: f64,
    patches: f64,
    watched: Watched,
    listed: Listed,
}

/// Memory that is resident in processes together, in bytes.
fn memory(processes: &[u32]) -> f64 {
    let of = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        resident.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0
    };
    processes.iter().map(of).sum()
}

async fn measure(place: &Place, processes: &[u32], ready: Duration, claims: usize) -> Found {
    let empty = memory(processes);
    load::namespace(place, "many").await;
    let mut connections = place.connections(AT_ONCE).await;
    let creates = load::create(&mut connections, "many", claims).await;
    let full = memory(processes);
    let patches = load::patch_all(&mut connections, "many", claims.min(20_000)).await;
    let watched = load::watched(place, &mut connections, WATCHERS, WATCHED).await;
    let listed = load::listed(place, &mut connections, LISTED).await;
    Found { ready, empty, full, claims, creates, patches, watched, listed }
}

async fn ours(claims: usize) -> Found {
    let start = Instant::now();
    let (program, place) = server::start().await;
    let ready = start.elapsed();
    measure(&place, &[program.id()], ready, claims).await
}

async fn theirs(assets: std::path::PathBuf, claims: usize) -> Found {
    let start = Instant::now();
    let mut real = ControlPlane::start(assets).await;
    let ready = start.elapsed();
    let authority = std::fs::read_to_string(real.path("ca.crt")).expect("a certificate");
    let address = real.server().trim_start_matches("https://").to_owned();
    let place = Place::new(&address, &authority, "admin");
    let processes = ["etcd", "kube-apiserver"].map(|name| real.running(name).id());
    measure(&place, &processes, ready, claims).await
}

/// Creates and patches in a second without a socket, one after the other.
fn in_process() -> (f64, f64) {
    let server = fake_apiserver::FakeApiServer::new(server::options());
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let rate = |request: &dyn Fn(u32) -> u16| {
        let start = Instant::now();
        for number in 0..IN_PROCESS {
            let code = request(number);
            assert!(code < 300, "request {number} is answered with {code}");
        }
        f64::from(IN_PROCESS) / start.elapsed().as_secs_f64()
    };
    let creates = rate(&|number| {
        let claim = load::claim(&format!("claim-{number}"));
        server.request("POST", path, wire::JSON, &claim).0
    });
    let patches = rate(&|number| {
        server.request("PATCH", &format!("{path}/claim-{number}"), MERGE, &load::patch(number as usize)).0
    });
    (creates, patches)
}

const MEBIBYTE: f64 = 1024.0 * 1024.0;

impl Found {
    #[expect(clippy::cast_precision_loss, reason = "nobody creates so many")]
    fn per_claim(&self) -> f64 {
        (self.full - self.empty) / self.claims as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "there are not so many watches")]
    /// Each measure: its name, its value and its unit.
    fn rows(&self) -> [(String, f64, &'static str); 11] {
        let many = self.empty + self.per_claim() * 100_000.0;
        [
            ("start to ready".to_owned(), self.ready.as_secs_f64() * 1000.0, "ms"),
            ("memory when ready".to_owned(), self.empty / MEBIBYTE, "MiB"),
            ("memory a claim".to_owned(), self.per_claim() / 1024.0, "KiB"),
            ("memory with 100,000 claims".to_owned(), many / MEBIBYTE, "MiB"),
            ("creates".to_owned(), self.creates, "/s"),
            ("merge patches".to_owned(), self.patches, "/s"),
            (format!("creates under {WATCHERS} watchers"), self.watched.writes, "/s"),
            (format!("events to {WATCHERS} watchers"), self.watched.events, "/s"),
            ("watches cut by the server".to_owned(), self.watched.cut as f64, "of them"),
            (format!("list of {LISTED} while writing"), self.listed.list.as_secs_f64() * 1000.0, "ms"),
            ("patches while listing".to_owned(), self.listed.writes, "/s"),
        ]
    }
}

fn print(ours: &Found, theirs: Option<&Found>) {
    println!("| | ours | real | ratio |\n|---|---:|---:|---:|");
    let others = theirs.map(Found::rows);
    for (index, (name, value, unit)) in ours.rows().into_iter().enumerate() {
        let digits = usize::from(value < 10.0);
        let other = others.as_ref().map(|rows| rows[index].1);
        let real = other.map_or("-".to_owned(), |other| format!("{other:.digits$} {unit}"));
        let ratio = other
            .filter(|other| *other > 0.0)
            .map_or("-".to_owned(), |other| format!("{:.3}", value / other));
        println!("| {name} | {value:.digits$} {unit} | {real} | {ratio} |");
    }
    let (creates, patches) = in_process();
    println!(
        "| creates in process | {creates:.0} /s | - | - |\n| merge patches in process | {patches:.0} /s | - | - |"
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if arguments.first().is_some_and(|first| first == server::COMMAND) {
        return threads.block_on(server::serve());
    }
    let size = |index: usize, or: usize| {
        arguments.get(index).map_or(or, |text| text.parse().expect("a number of claims"))
    };
    let (our_claims, their_claims) = (size(0, 100_000), size(1, 20_000));
    threads.block_on(async {
        let real = if let Some(assets) = assets(&["etcd", "kube-apiserver"]) {
            Some(theirs(assets, their_claims).await)
        } else {
            not_run(
                "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver; only ours was measured",
            );
            None
        };
        print(&ours(our_claims).await, real.as_ref());
    });
}
