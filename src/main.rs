//! The `pvbind` program.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    pvbind::cmd::Cli::parse().run().into()
}
