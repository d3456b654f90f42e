//! A server that is killed at random moments under concurrent writers, and started again in its folder: what was acknowledged
//! is there, what a watch showed is there, and resource versions go on.
//!
//! `PVBIND_KILLS` says how often (10 unless told; `just kills` asks for 200). The server is this program itself, started
//! again: what is killed is a process of its own, with files and a port.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on says so by panicking")]

mod client;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fake_apiserver::{FakeApiServer, Ids, Options};
use serde_json::{Value, json};

use client::Client;

const FOLDER: &str = "PVBIND_KILL_FOLDER";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: u64 = 6;
const NAMES: u64 = 12;

/// The server, when this program is started for that.
#[test]
#[ignore = "it is the server of the other test, and serves until it is killed"]
fn served() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server =
            FakeApiServer::open(Options { ids: Ids::Seeded(3), ..Options::default() }, &folder).unwrap();
        println!("\nserving on {address}");
        server.serve(listener, std::future::pending()).await.unwrap();
    });
}

struct Running {
    process: Child,
    address: String,
}

impl Running {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "served", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("serving on ").map(str::to_owned));
        let address = address.expect("the server starts; what it said is above");
        Self { process, address }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL: the process has no chance to write anything.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// An object as its only writer knows it.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What the server acknowledged last: the step that the object shows, or that there is none.
    acknowledged: Option<u64>,
    /// What was asked for when the server was killed: it may have happened.
    asked: Vec<Option<u64>>,
}

#[derive(Default)]
struct Writer {
    number: u64,
    step: u64,
    random: u64,
    objects: BTreeMap<String, Known>,
    /// Names and uids of objects whose names the server made.
    generated: Vec<(String, String)>,
    acknowledged: u64,
    highest: u64,
}

impl Writer {
    fn draw(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// Writes until the server is gone.
    fn run(&mut self, address: &str, acknowledged: &AtomicU64) {
        let Ok(mut client) = Client::connect(address) else { return };
        while self.write_once(&mut client).is_some() {
            self.acknowledged += 1;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write_once(&mut self, client: &mut Client) -> Option<()> {
        self.step += 1;
        let step = self.step;
        if self.draw(10) == 0 {
            let (code, made) = client.send("POST", MAPS, &json!({"metadata": {"generateName": "made-"}}))?;
            assert_eq!(code, 201, "{made}");
            let text = |field: &str| made["metadata"][field].as_str().unwrap().to_owned();
            self.see(&made);
            self.generated.push((text("name"), text("uid")));
            return Some(());
        }
        let drawn = self.draw(NAMES);
        let name = format!("w{}-{drawn}", self.number);
        let path = format!("{MAPS}/{name}");
        let exists = self.objects.get(&name).is_some_and(|known| known.acknowledged.is_some());
        let data = json!({"metadata": {"name": name}, "data": {"step": step.to_string()}});
        let (method, path, body, after) = match (exists, self.draw(4)) {
            (false, _) => ("POST", MAPS, data, Some(step)),
            (true, 0) => ("DELETE", &*path, Value::Null, None),
            (true, 1) => ("PUT", &*path, data, Some(step)),
            (true, _) => ("PATCH", &*path, json!({"data": {"step": step.to_string()}}), Some(step)),
        };
        self.objects.entry(name.clone()).or_default().asked = vec![after];
        let (code, answer) = client.send(method, path, &body)?;
        assert!(code == 200 || code == 201, "{method} {path}: {answer}");
        self.see(&answer);
        self.objects.insert(name, Known { acknowledged: after, asked: Vec::new() });
        Some(())
    }

    fn see(&mut self, answer: &Value) {
        let version = answer["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let version: u64 = version.unwrap_or(0);
        assert!(version == 0 || version > self.highest, "{version} after {}", self.highest);
        self.highest = self.highest.max(version);
    }

    /// Compares what is stored with what was acknowledged, and takes what happened unheard for known.
    fn check(&mut self, stored: &BTreeMap<String, u64>) {
        for (name, known) in &mut self.objects {
            let found = stored.get(name).copied();
            let expected = found == known.acknowledged || known.asked.contains(&found);
            assert!(expected, "{name} shows {found:?}, but {known:?}");
            *known = Known { acknowledged: found, asked: Vec::new() };
        }
        for (name, _) in &self.generated {
            assert!(stored.contains_key(name), "{name} is gone");
        }
    }
}

/// Follows the watch until the server is gone; returns the last version that it showed of each object.
fn watch(address: &str, from: u64) -> BTreeMap<String, (u64, bool)> {
    let mut shown = BTreeMap::new();
    let Some(lines) = client::watch(address, &format!("{MAPS}?watch=true&resourceVersion={from}")) else {
        return shown;
    };
    for line in lines {
        // The last line may be half a line.
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        let metadata = &event["object"]["metadata"];
        let version = metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        shown.insert(name, (version.unwrap_or(0), event["type"] == "DELETED"));
    }
    shown
}

/// The steps and versions of all that is stored, and the version of the list.
fn stored(address: &str) -> (BTreeMap<String, u64>, BTreeMap<String, u64>, u64) {
    let mut client = Client::connect(address).unwrap();
    let (code, list) = client.send("GET", MAPS, &Value::Null).expect("a list");
    assert_eq!(code, 200, "{list}");
    let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    let (mut steps, mut versions) = (BTreeMap::new(), BTreeMap::new());
    for item in list["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap().to_owned();
        versions.insert(name.clone(), number(&item["metadata"]["resourceVersion"]));
        steps.insert(name, number(&item["data"]["step"]));
    }
    (steps, versions, number(&list["metadata"]["resourceVersion"]))
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let kills: u64 = std::env::var("PVBIND_KILLS").map_or(10, |kills| kills.parse().expect("a number"));
    let started = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer { number, random: number + 1, ..Writer::default() }).collect();
    let mut chance = Writer { random: 99, ..Writer::default() };
    let mut version = 0;
    for kill in 0..=kills {
        let running = Running::start(folder.path());
        let (steps, _, now) = stored(&running.address);
        let highest = writers.iter().map(|writer| writer.highest).max().unwrap_or(0);
        assert!(now >= version.max(highest), "start {kill}: {now}, but {version} and {highest} were told");
        for writer in &mut writers {
            writer.check(&steps);
        }
        if kill == kills {
            break;
        }
        let moment = Duration::from_micros(chance.draw(300_000));
        let shown = under_load(running, &mut writers, now, moment);
        version = now.max(shown.values().map(|(version, _)| *version).max().unwrap_or(0));
        // What a watch showed is there, or something newer.
        let running = Running::start(folder.path());
        let (_, after, _) = stored(&running.address);
        for (name, (seen, deleted)) in shown {
            let found = after.get(&name).copied().unwrap_or(0);
            let newer = if deleted { found > seen } else { found >= seen };
            assert!(newer || found == 0, "{name} was shown at {seen}, and is at {found}");
        }
    }
    let generated: Vec<_> = writers.iter().flat_map(|writer| writer.generated.clone()).collect();
    let names: BTreeSet<_> = generated.iter().map(|(name, _)| name).collect();
    let uids: BTreeSet<_> = generated.iter().map(|(_, uid)| uid).collect();
    assert_eq!(
        (names.len(), uids.len()),
        (generated.len(), generated.len()),
        "names and uids are given once"
    );
    let acknowledged: u64 = writers.iter().map(|writer| writer.acknowledged).sum();
    assert!(acknowledged > kills, "the writers wrote");
    println!("{kills} kills, {acknowledged} acknowledged writes, {:?}", started.elapsed());
}

/// Lets everybody write, kills the server at that moment after the first write, and waits until all have noticed.
fn under_load(
    running: Running,
    writers: &mut [Writer],
    from: u64,
    moment: Duration,
) -> BTreeMap<String, (u64, bool)> {
    let acknowledged = AtomicU64::new(0);
    let address = running.address.clone();
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&address, from));
        for writer in writers {
            let (address, acknowledged) = (&address, &acknowledged);
            scope.spawn(move || writer.run(address, acknowledged));
        }
        let end = Instant::now() + Duration::from_secs(30);
        while acknowledged.load(Ordering::Relaxed) == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(moment);
        drop(running);
        watching.join().unwrap()
    })
}
