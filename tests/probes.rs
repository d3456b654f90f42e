//! The bundled API server beside a real one: every request that was recorded from kube-apiserver v1.36.3 is sent to
//! `pvbind apiserver`, and has to be answered alike (see testdata/probes/README.md). The scenarios in `more` are our own,
//! recorded from the same version.
//!
//! Needs Python 3, and says so where there is none.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// How long the server may take to say where it serves.
const START: Duration = Duration::from_secs(30);

/// A server that ends with the test.
struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(arguments: &[&str]) -> Served {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvbind"));
    command.args(["apiserver", "--listen", "127.0.0.1:0"]).args(arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let said = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let (found, told) = mpsc::channel();
    thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            let url = line.split_whitespace().find(|word| word.starts_with("http"));
            // Nobody listens once the first is told; what it says is read all the same.
            let _ = url.map(|url| found.send(url.to_owned()));
        }
    });
    let mut served = Served { child, url: String::new() };
    served.url = told.recv_timeout(START).expect("the server says where it serves");
    served
}

#[test]
fn a_client_cannot_tell_it_from_the_real_one() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|ran| ran.status.success()) {
        eprintln!("NOT RUN: the recorded answers of a real API server: there is no python3");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/probes");
    let served = serve(&["--token", "secret"]);
    for set in ["public", "more"] {
        let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("probes-{set}.jsonl"));
        let mut probe = Command::new("python3");
        probe.arg(folder.join("probe.py")).arg("check").arg("--scenarios").arg(folder.join(set));
        probe.args(["--server", &served.url, "--token", "secret", "--report"]).arg(&report);
        let ran = probe.output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stdout);
        let report = fs::read_to_string(&report).unwrap_or_else(|error| panic!("no report: {error}\n{said}"));
        let lines = report.lines().map(|line| serde_json::from_str(line).expect("a line is an object"));
        let lines: Vec<Value> = lines.collect();
        let names: BTreeSet<_> = lines.iter().map(|line| line["scenario"].to_string()).collect();
        assert_eq!(names.len(), scenarios(&folder.join(set)), "each scenario is in the report");
        assert!(ran.status.success(), "{said}");
        eprintln!("{set}: {}", said.lines().last().unwrap_or_default());
    }
}

fn scenarios(folder: &Path) -> usize {
    let files = fs::read_dir(folder).expect("the scenarios are there");
    let files = files.map(|file| file.expect("and can be read").path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).count()
}
