//! Small worlds with the end state that the real control plane reached, each as a test of its own name.
//! `testdata/worlds/README.md` says what is compared.

mod compare;
mod normal;

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};
use pvbind::decide::{Settings, plugin};
use pvbind::manifest;
use pvbind::simulate::{Input, simulate};
use serde_json::Value;

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/worlds");
    let entries = std::fs::read_dir(&root).expect("the worlds are there");
    let mut worlds: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    worlds.retain(|path| path.is_dir());
    worlds.sort();
    let trials = worlds
        .into_iter()
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            Trial::test(name, move || run(&path))
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn read(path: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The end states of which each is right.
fn wanted(world: &Path) -> Vec<Value> {
    let outcome = read(&world.join("better.json")).or_else(|| read(&world.join("outcome.json")));
    let outcome = outcome.expect("a world has an outcome");
    match outcome.get("oneOf") {
        Some(Value::Array(alternatives)) => alternatives.clone(),
        _ => vec![outcome],
    }
}

fn run(world: &Path) -> Result<(), Failed> {
    let loaded = manifest::load(&[world.join("world.yaml")], "default", std::io::empty)?;
    let then = world.join("then.yaml");
    let stages = if then.exists() { vec![manifest::load_stage(&then, "default")?] } else { Vec::new() };
    let settings = Settings { plugins: plugin::PROVISIONING, ..Settings::default() };
    let report = simulate(Input { loaded, stages, settings, limit: None })?;
    let report = serde_json::to_value(report)?;
    let mut closest: Option<Vec<String>> = None;
    for wanted in wanted(world) {
        let differences = compare::differences(&wanted, &normal::normal(&report, &wanted));
        if differences.is_empty() {
            return Ok(());
        }
        if closest.as_ref().is_none_or(|closest| differences.len() < closest.len()) {
            closest = Some(differences);
        }
    }
    Err(closest.unwrap_or_default().join("\n").into())
}
