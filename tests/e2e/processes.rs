//! Programs as processes of this machine, with a kubeconfig: what most targets run them as.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control_plane::{Ending, Program as Process, free_port};
use tempfile::TempDir;

use crate::available;
use crate::invariants::value;
use crate::target::{How, Program};

/// How long a program may take to get ready, or to end.
const START: Duration = Duration::from_secs(60);

/// Leases of the scheduler that end soon, so that one that was killed is not waited for that long. The controller has those that
/// people have.
const SOON: [&str; 3] = [
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
];

struct Running {
    process: Process,
    /// The port of its metrics and health, if it has one.
    port: Option<u16>,
}

/// See the module's documentation.
pub struct Processes {
    // Programs end before their folder goes.
    running: Mutex<BTreeMap<Program, Running>>,
    folder: TempDir,
    kubeconfig: String,
}

impl Processes {
    /// None so far; each will be told this kubeconfig.
    pub fn new(kubeconfig: &Path) -> Self {
        Processes {
            running: Mutex::default(),
            folder: tempfile::tempdir().expect("a folder"),
            kubeconfig: kubeconfig.to_str().expect("a plain path").to_owned(),
        }
    }

    /// A file or folder that goes with the programs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<Program, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, program: Program, more: &[&str]) -> Running {
        let port = free_port();
        let pvbind = |command: &str, more: &[&str]| {
            let metrics = format!("127.0.0.1:{port}");
            let usual = [command, "--kubeconfig", &self.kubeconfig, "--metrics-addr", &metrics];
            (
                PathBuf::from(env!("CARGO_BIN_EXE_pvbind")),
                usual.iter().chain(more).map(ToString::to_string).collect(),
            )
        };
        let ((path, arguments), port): ((_, Vec<String>), _) = match program {
            Program::Controller | Program::Standby => {
                (pvbind("controller", &["--enable-hostpath-provisioner"]), Some(port))
            }
            Program::Scheduler => (pvbind("scheduler", &SOON), Some(port)),
            Program::Extender => (pvbind("extender", more), Some(port)),
            Program::KubeScheduler => panic!("kube-scheduler is none of our programs"),
            Program::Provisioner => {
                let folder = self.path("volumes").to_str().expect("a plain path").to_owned();
                let path = available::provisioner().unwrap_or_else(|why| panic!("{why}"));
                ((path, vec![format!("-kubeconfig={}", self.kubeconfig), format!("-folder={folder}")]), None)
            }
        };
        let name = format!("{program:?}");
        let (process, _output) = Process::start(&name, &path, &arguments, self.path(&format!("{name}.log")));
        Running { process, port }
    }

    /// See [`crate::target::Target::ensure`].
    pub fn ensure(&self, program: Program) {
        self.ensure_with(program, &[]);
    }

    /// The same for the extender, with where it listens and whom it answers.
    pub fn ensure_with(&self, program: Program, more: &[&str]) {
        let mut all = self.running();
        if let Some(running) = all.get_mut(&program)
            && running.process.ended().is_none()
        {
            return;
        }
        let mut running = self.start(program, more);
        let start = Instant::now();
        while running.port.is_some_and(|port| get(port, "/readyz").is_none()) {
            let ended = running.process.ended();
            assert!(ended.is_none(), "{program:?} has ended: {ended:?}: {}", running.process.said());
            assert!(start.elapsed() < START, "{program:?} is not ready: {}", running.process.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        all.insert(program, running);
    }

    /// See [`crate::target::Target::end`].
    pub fn end(&self, program: Program, how: How) {
        let running = self.running().remove(&program);
        let running = running.unwrap_or_else(|| panic!("{program:?} does not run"));
        match how {
            How::Kill => drop(running),
            How::Terminate => match running.process.stop(START) {
                Ending::Exited(status) => assert!(status.success(), "{program:?} ends well: {status}"),
                Ending::Killed => panic!("{program:?} does not end when it is asked to"),
            },
        }
    }

    /// See [`crate::target::Fault::ReplaceLeader`].
    pub fn replace_leader(&self, how: How) {
        let both = [Program::Controller, Program::Standby];
        for program in both {
            self.ensure(program);
        }
        let leads = |program: &Program| {
            let metrics = self.metrics(*program).unwrap_or_default();
            value(&metrics, "leader_election_master_status") == Some(1.0)
        };
        let leader = |what: &str| {
            let start = Instant::now();
            loop {
                if let Some(leader) = both.into_iter().find(leads) {
                    return leader;
                }
                assert!(start.elapsed() < START, "{what}: {}", self.said());
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        self.end(leader("somebody leads"), how);
        leader("another one leads");
    }

    /// See [`crate::target::Target::metrics`].
    pub fn metrics(&self, program: Program) -> Option<String> {
        let port = self.running().get(&program)?.port?;
        get(port, "/metrics")
    }

    /// See [`crate::target::Target::said`].
    pub fn said(&self) -> String {
        let tail = |(program, running): (&Program, &Running)| {
            let said = running.process.said();
            let lines: Vec<_> = said.lines().collect();
            format!("{program:?}:\n{}\n", lines[lines.len().saturating_sub(25)..].join("\n"))
        };
        self.running().iter().map(tail).collect()
    }
}

/// What a page says, if it is served and good.
fn get(port: u16, page: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(START)).ok()?;
    write!(stream, "GET {page} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}
