//! `pvbind simulate`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::counting::Counting;
use super::meter::Meter;
use super::{Exit, complain, duration};
use crate::manifest;
use crate::simulate::report::Report;
use crate::simulate::{Input, Progress, simulate_watched, table};

/// What to simulate, and how to tell it.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Files, folders or `-` for stdin: YAML, JSON and lists.
    #[arg(short = 'f', long = "filename", required = true, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// A further stage, once all before it has settled: manifests to create or merge, `delete:` and `settle:`.
    #[arg(long, value_name = "FILE")]
    then: Vec<PathBuf>,
    /// How the outcome is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Table, env = "PVBIND_OUTPUT")]
    output: Output,
    /// The namespace of objects that name none.
    #[arg(short, long, default_value = "default", env = "PVBIND_NAMESPACE")]
    namespace: String,
    /// Refuse to bind a volume that differs from what its claim asks for, even if one names the other.
    #[arg(long, env = "PVBIND_STRICT")]
    strict: bool,
    /// How room is counted.
    #[command(flatten)]
    counting: Counting,
    /// How much virtual time may pass.
    #[arg(long = "for", default_value = "1h", value_parser = duration, env = "PVBIND_FOR", value_name = "DURATION")]
    limit: Duration,
}

/// How an outcome is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    let progress = Arc::default();
    let meter = Meter::start(&progress);
    let report = report(arguments, &progress);
    drop(meter);
    let report = match report {
        Ok(report) => report,
        Err(error) => return complain(&error, Exit::Usage),
    };
    match print(&report, arguments.output) {
        Ok(()) if report.is_good() => Exit::Good,
        Ok(()) => Exit::Pending,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Good,
        Err(error) => complain(&error, Exit::Usage),
    }
}

fn report(arguments: &Arguments, progress: &Progress) -> Result<Report, Box<dyn std::error::Error>> {
    let loaded = manifest::load(&arguments.files, &arguments.namespace, || std::io::stdin().lock())?;
    let stages = arguments.then.iter().map(|file| manifest::load_stage(file, &arguments.namespace));
    let stages = stages.collect::<Result<Vec<_>, _>>()?;
    let settings = arguments.counting.among_stand_ins(arguments.strict);
    let input = Input { loaded, stages, settings, limit: Some(arguments.limit) };
    Ok(simulate_watched(input, progress)?)
}

fn print(report: &Report, output: Output) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match output {
        Output::Table => {
            let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
            out.write_all(table::render(report, table::Style { color, width }).as_bytes())?;
        }
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, report)?;
            out.write_all(b"\n")?;
        }
        Output::Yaml => {
            let text = serde_saphyr::to_string(report).map_err(std::io::Error::other)?;
            out.write_all(text.as_bytes())?;
        }
    }
    out.flush()
}
