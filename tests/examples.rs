//! The examples say the truth: every `console` block of the READMEs is run, and its output is the real one.
//!
//! A block holds commands after `$ ` and what they print; `$ echo $?` shows the exit code of the command before.
//! With `UPDATE_READMES=1` the blocks are rewritten instead of compared. The snapshots under `snapshots/examples`
//! hold the same tables, so that a change of one is reviewed like any other.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;

#[rstest]
fn an_example_prints_what_its_readme_says(#[files("examples/*/README.md")] readme: PathBuf) {
    let runs = check(&readme);
    let name = readme.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots/examples");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, runs));
}

#[test]
fn the_readme_prints_what_it_says() {
    check(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")));
}

/// Compares every block of the README with what its commands print; returns all that was printed.
fn check(readme: &Path) -> String {
    let written = fs::read_to_string(readme).unwrap();
    let mut real = String::new();
    let mut printed = String::new();
    let mut lines = written.lines();
    while let Some(line) = lines.next() {
        real.push_str(line);
        real.push('\n');
        if line == "```console" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let ran = run(&block);
            real.push_str(&ran);
            real.push_str("```\n");
            printed.push_str(&ran);
        }
    }
    assert!(!printed.is_empty(), "{} shows no command", readme.display());
    if std::env::var_os("UPDATE_READMES").is_some() {
        fs::write(readme, real).unwrap();
    } else {
        assert_eq!(written, real, "{} is not what is printed: UPDATE_READMES=1", readme.display());
    }
    printed
}

/// Runs the commands of a block; returns the block as it should be.
fn run(block: &[&str]) -> String {
    let mut out = String::new();
    let mut code = None;
    for command in block.iter().filter_map(|line| line.strip_prefix("$ ")) {
        writeln!(out, "$ {command}").unwrap();
        if command == "echo $?" {
            writeln!(out, "{}", code.unwrap()).unwrap();
            continue;
        }
        let arguments = command.strip_prefix("pvbind ");
        let arguments = arguments.or_else(|| command.strip_prefix("cargo run -- ")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_pvbind"))
            .args(arguments.split_whitespace())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        out.push_str(&String::from_utf8(output.stdout).unwrap());
        code = output.status.code();
    }
    out
}
