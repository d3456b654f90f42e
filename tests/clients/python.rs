//! The Python client lists and watches, falls behind what the server remembers, is told so with 410, and recovers.
//!
//! Runs where `PVBIND_PYTHON_CLIENT` is set: the client is installed from the package index, into a folder that is kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::Stage;

/// The client, as pip names it: its minor version is that of the API that it was made for.
const PACKAGE: &str = "kubernetes>=35,<38";

fn ran(program: &Path, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{} {arguments:?}: {said}", program.display());
}

/// A Python that has the client.
fn python() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-client");
    let python = folder.join("bin/python");
    if !folder.join("installed").is_file() {
        ran(Path::new("python3"), &["-m", "venv", folder.to_str().expect("a plain path")]);
        ran(&python, &["-m", "pip", "install", "--quiet", PACKAGE]);
        std::fs::write(folder.join("installed"), PACKAGE).expect("it is noted");
    }
    python
}

#[tokio::test]
async fn the_python_client_recovers_from_a_version_that_is_gone() {
    if std::env::var_os("PVBIND_PYTHON_CLIENT").is_none() {
        return control_plane::not_run(
            "the Python client was not tried; set PVBIND_PYTHON_CLIENT=1 where pip can install it",
        );
    }
    let python = python();
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("faults.yaml");
    std::fs::write(&script, "history: 5\n").expect("it is written");
    let stage = Stage::start(&["--faults", script.to_str().expect("a plain path")]).await;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/client.py");
    let arguments = ["60", python.to_str().expect("a plain path"), program.to_str().expect("a plain path")];
    ran(Path::new("timeout"), &[&arguments[..], &[&stage.kubeconfig(), "10"]].concat());
}
