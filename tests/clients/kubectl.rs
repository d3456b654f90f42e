//! The page `docs/kubectl.md` says the truth: every command in it is run by kubectl itself against the bundled API server, and
//! its output is the real one.
//!
//! A block holds shell commands after `$ ` and what they print; `$ echo $?` shows the exit code of the command before. What
//! differs from run to run is masked. With `UPDATE_KUBECTL=1` the blocks are rewritten instead of compared.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;

use crate::stage::Stage;

/// What the page was written with: others print the same things in other words.
const VERSION: &str = "v1.36.";

/// The folder of kubectl: where the other programs are, or somewhere on the path.
fn find() -> Option<PathBuf> {
    if let Some(assets) = control_plane::assets(&["kubectl"]) {
        return Some(assets);
    }
    std::env::split_paths(&std::env::var_os("PATH")?).find(|folder| folder.join("kubectl").is_file())
}

/// A shell that knows the server, and kubectl by its name.
struct Shell<'a> {
    stage: &'a Stage,
    path: String,
    masks: Vec<(Regex, &'static str)>,
}

impl<'a> Shell<'a> {
    fn new(stage: &'a Stage, folder: &Path) -> Self {
        let rest = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{rest}", folder.to_str().expect("a plain path"));
        let masks = [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-01T00:00:00Z"),
            (
                r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "00000000-0000-0000-0000-000000000000",
            ),
            (r"(kube-api-access-)\w{5}", "${1}xxxxx"),
            (r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:6443"),
            (r"(resourceVersion: ).*", "${1}\"1\""),
            // An age, which is a column; how long a pod tolerates something follows a word.
            (r"(?m)(  )\d+m?\d*s$", "${1}1s"),
            (r"( )\d+m?\d*s +Filesystem", "${1}1s    Filesystem"),
            // What differs names the files that it was written to.
            (r"(?m)^(diff|---|\+\+\+) .*/(LIVE|MERGED)-.*$", "$1 $2"),
            (r"(?m)[ \t]+$", ""),
        ];
        let masks = masks.map(|(pattern, with)| (Regex::new(pattern).expect("a pattern"), with));
        Shell { stage, path, masks: masks.into() }
    }

    /// Runs a command; returns what it printed on both outputs, and its exit code.
    fn run(&self, command: &str) -> (String, Option<i32>) {
        let output = Command::new("timeout")
            .args(["60", "bash", "-c", &format!("exec 2>&1; {command}")])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kubectl"))
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.stage.kubeconfig())
            // What it remembers of other servers is not about this one.
            .env("HOME", self.stage.path("home"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .expect("there is a shell");
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        for (pattern, with) in &self.masks {
            printed = pattern.replace_all(&printed, *with).into_owned();
        }
        if !printed.is_empty() && !printed.ends_with('\n') {
            printed.push('\n');
        }
        (printed, output.status.code())
    }

    /// Runs the commands of a block; returns the block as it should be.
    fn block(&self, block: &[&str]) -> String {
        let (mut out, mut code) = (String::new(), None);
        for command in block.iter().filter_map(|line| line.strip_prefix("$ ")) {
            writeln!(out, "$ {command}").expect("memory");
            if command == "echo $?" {
                writeln!(out, "{}", code.expect("a command before that ended by itself")).expect("memory");
                continue;
            }
            let (printed, ended) = self.run(command);
            out.push_str(&printed);
            code = ended;
        }
        out
    }
}

/// The page with what its commands print now.
fn page(written: &str, shell: &Shell) -> String {
    let mut real = String::new();
    let mut lines = written.lines();
    while let Some(line) = lines.next() {
        writeln!(real, "{line}").expect("memory");
        if line == "```console" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            real.push_str(&shell.block(&block));
            real.push_str("```\n");
        }
    }
    real
}

#[tokio::test]
async fn kubectl_prints_what_its_page_says() {
    let Some(folder) = find() else {
        return control_plane::not_run(
            "kubectl is neither in KUBEBUILDER_ASSETS nor on the path; docs/kubectl.md was not checked",
        );
    };
    let stage = Stage::start(&[]).await;
    let shell = Shell::new(&stage, &folder);
    let (version, code) = shell.run("kubectl version");
    assert_eq!(code, Some(0), "{version}");
    if !version.contains(&format!("Client Version: {VERSION}")) {
        let first = version.lines().next().unwrap_or_default();
        return control_plane::not_run(&format!(
            "docs/kubectl.md is checked with kubectl {VERSION}*, and {} says {first}; tests/control-plane/build.sh kubectl builds \
             the right one",
            folder.join("kubectl").display()
        ));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kubectl.md");
    let written = fs::read_to_string(&file).expect("the page is there");
    let real = page(&written, &shell);
    if std::env::var_os("UPDATE_KUBECTL").is_some() {
        fs::write(&file, real).expect("the page is written");
    } else {
        assert_eq!(written, real, "docs/kubectl.md is not what is printed: UPDATE_KUBECTL=1 rewrites it");
    }
}
