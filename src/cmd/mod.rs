//! The commands: one file each, wiring only.

pub mod apiserver;
mod config;
mod connection;
pub mod controller;
mod counting;
mod election;
pub mod extender;
mod meter;
mod observe;
mod pacing;
mod recycler;
pub mod scheduler;
pub mod simulate;
mod up;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use kube::Client;

use crate::act::{self, Lead, Metrics, Stats};
use crate::cluster::Cluster;
use config::{Configuration, Refused};
use connection::Connected;
use election::Election;

/// Kubernetes volume binding: simulate it, serve it, run it.
#[derive(Debug, Parser)]
#[command(name = "pvbind", version, about, propagate_version = true)]
pub struct Cli {
    /// How logs are written; they go to stderr, `RUST_LOG` says which.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "PVBIND_LOG_FORMAT")]
    log_format: LogFormat,
    /// A file of options, in YAML: each by its name here, such as `executors: 64`. Flags and environment variables come
    /// before it.
    #[arg(long, global = true, env = "PVBIND_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load manifests, let everything run in virtual time until nothing moves, and say what bound, what did not,
    /// and why.
    Simulate(simulate::Arguments),
    /// Run a cluster of its own, in which claims bind and pods run, until it is told to stop.
    #[command(mut_arg("listen", |listen| listen.default_value("127.0.0.1:0")))]
    Up(up::Arguments),
    /// Serve the bundled API server alone.
    Apiserver(apiserver::Arguments),
    /// Run the PersistentVolume controller against a cluster.
    #[command(mut_arg("leader_elect_resource_name", |name| name.default_value("pvbind-controller")))]
    Controller(controller::Arguments),
    /// Schedule the pods that name this scheduler: their nodes and their volumes together.
    #[command(mut_arg("leader_elect_resource_name", |name| name.default_value("pvbind-scheduler")))]
    Scheduler(scheduler::Arguments),
    /// Bind volumes for a kube-scheduler that asks, as its extender: filter, prioritize and bind over HTTP.
    // An extender beside each kube-scheduler needs no lease: the one that leads asks its own.
    #[command(
        mut_arg("leader_elect", |leader_elect| leader_elect.default_value("false")),
        mut_arg("leader_elect_resource_name", |name| name.default_value("pvbind-extender"))
    )]
    Extender(extender::Arguments),
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything is as it should be.
    Good = 0,
    /// Something stays pending or lost.
    Pending = 1,
    /// Bad usage or bad input.
    Usage = 2,
    /// The cluster cannot be reached.
    Unreachable = 3,
    /// This process led and leads no more: it has to be started anew.
    Lost = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Runs the command that a command line asks for.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let read = config::read(&Cli::command(), arguments)
        .and_then(|(matches, all)| Ok((Cli::from_arg_matches(&matches)?, all)));
    match read {
        Ok((cli, configuration)) => cli.run(&configuration),
        // Help and version go to standard output, and are no problem.
        Err(Refused::Line(error)) => error.exit(),
        Err(error @ Refused::File(_)) => complain(&error, Exit::Usage),
    }
}

impl Cli {
    fn run(self, configuration: &Configuration) -> Exit {
        // Who reads what a simulation says has no use for what was done on the way.
        let at_work = !matches!(self.command, Command::Simulate(_) | Command::Up(_) | Command::Apiserver(_));
        start_logging(self.log_format, if at_work { "warn,pvbind=info" } else { "warn" });
        if at_work {
            let file = self.config.as_ref().map(|file| file.display().to_string());
            let all = serde_json::to_string(configuration).unwrap_or_default();
            tracing::info!(version = env!("CARGO_PKG_VERSION"), file, configuration = all, "configured");
        }
        match self.command {
            Command::Simulate(arguments) => simulate::run(&arguments),
            Command::Up(arguments) => up::run(&arguments),
            Command::Apiserver(arguments) => apiserver::run(&arguments),
            Command::Controller(arguments) => controller::run(&arguments),
            Command::Scheduler(arguments) => scheduler::run(&arguments),
            Command::Extender(arguments) => extender::run(&arguments),
        }
    }
}

fn start_logging(format: LogFormat, usual: &str) {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual));
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi);
    // Only a second start in one process fails, and then logging runs already.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

/// Reads a duration such as `90s`, `10m` or `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| format!("{text:?} is no duration; write 90s, 10m or 1h30m"))?;
    span.try_into().map_err(|_| format!("{text:?} lies in the past"))
}

/// Prints a problem for the user, and the exit that it stands for.
#[expect(clippy::print_stderr, reason = "a command's problems go to stderr")]
fn complain(problem: &dyn std::fmt::Display, exit: Exit) -> Exit {
    eprintln!("pvbind: {problem}");
    exit
}

/// Prints the address of a server, for a script that starts it. Whoever has closed the output does not want it: the server
/// serves others.
fn announce(url: &str) {
    use std::io::Write;
    if let Err(error) = writeln!(std::io::stdout(), "{url}") {
        tracing::debug!(%error, url, "nobody reads the address");
    }
}

/// A runtime for commands that talk to a network.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs a command that talks to a network to its end.
fn on_network(command: impl Future<Output = Exit>) -> Exit {
    match runtime() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => complain(&error, Exit::Usage),
    }
}

/// Does a command's work for a cluster, if there are other instances only while this one leads.
async fn work_for(
    cluster: Connected,
    election: &Election,
    metrics: &Metrics,
    work: impl AsyncFnOnce(Client, Lead) -> Result<(Stats, Cluster), act::Error>,
) -> Exit {
    let running = match election.start(&cluster, metrics).await {
        Ok(running) => running,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let done = work(cluster.client, running.lead.clone()).await;
    // Only now that nothing is under way any more may another one begin.
    running.end().await;
    ended(done)
}

/// How a command ends whose loop has ended.
fn ended(done: Result<(Stats, Cluster), act::Error>) -> Exit {
    match done {
        Ok((stats, _)) => {
            tracing::info!(?stats, "stopped");
            Exit::Good
        }
        Err(error @ act::Error::Lost(_)) => complain(&error, Exit::Lost),
        Err(error) => complain(&error, Exit::Unreachable),
    }
}

/// Ends when the process is told to: Ctrl-C or SIGTERM.
async fn told_to_stop() {
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate => {}
    }
}
