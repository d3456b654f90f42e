//! A program that ends with the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program that was asked to end did so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself.
    Exited(ExitStatus),
    /// It did not, in the time that it had, and was killed.
    Killed,
}

/// A program that runs, and is killed when this is dropped.
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program. It says what it says into the log; its output comes back.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(name: &str, program: &Path, arguments: &[String], log: PathBuf) -> (Self, ChildStdout) {
        let file = File::options().create(true).append(true).open(&log).expect("its log");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(file).env_remove("KUBECONFIG");
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let output = child.stdout.take().expect("it is piped");
        (Program { name: name.to_owned(), child, log }, output)
    }

    /// The name that it was started under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said by now.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// If the system does not know it.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is a child")
    }

    /// Sends a signal, such as `TERM`, `STOP` or `CONT`.
    ///
    /// # Panics
    /// If there is no program to send it with.
    pub fn signal(&self, signal: &str) {
        let arguments = [format!("-{signal}"), self.child.id().to_string()];
        let sent = Command::new("kill").args(arguments).status().expect("the program `kill` is there");
        assert!(sent.success(), "{} does not get the signal {signal}", self.name);
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Panics
    /// If there is no program to ask with.
    #[must_use]
    pub fn stop(mut self, patience: Duration) -> Ending {
        self.signal("TERM");
        let start = Instant::now();
        while start.elapsed() < patience {
            if let Some(status) = self.ended() {
                return Ending::Exited(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ending::Killed
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = self.said();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(25)..].join("\n");
            eprintln!("the last lines of {}:\n{last}\n", self.log.display());
        }
    }
}
