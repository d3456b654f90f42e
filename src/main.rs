//! The `pvbind` program.

use std::process::ExitCode;

/// A world is made of many small strings and maps: the system's allocator would be a third of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pvbind::cmd::run(std::env::args_os()).into()
}
