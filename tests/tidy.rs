//! House rules that neither the compiler nor clippy can see: which module may know which, what the pure modules must
//! not contain, how long things may be. The fence of clippy.toml sees the rest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a function may have, signature and braces included.
const FUNCTION: usize = 70;
/// Lines that a file may have.
const FILE: usize = 400;

/// Functions that may be longer, and why.
const LONG_FUNCTIONS: [(&str, &str, &str); 2] = [
    ("src/decide/reason.rs", "fmt", "one arm a reason, and nothing but prose"),
    ("src/decide/fix.rs", "fix", "one arm a reason, and nothing but prose"),
];
/// Files that may be longer, and why.
const LONG_FILES: [(&str, &str); 3] = [
    ("src/decide/reason.rs", "one variant a reason, each field with its meaning"),
    ("src/decide/write.rs", "the one place that edits objects, write by write"),
    ("fake-apiserver/tests/flows.rs", "a list of independent tests"),
];

/// The modules that must give the same answer to the same question.
const PURE: [&str; 3] = ["src/objects", "src/cluster", "src/decide"];
/// What each module must not know: what is built on it, or beside it.
const ABOVE: [(&str, &[&str]); 7] = [
    ("src/objects", &["cluster", "decide", "act", "explain", "manifest", "simulate", "cmd"]),
    ("src/cluster", &["decide", "act", "explain", "manifest", "simulate", "cmd"]),
    ("src/decide", &["act", "explain", "manifest", "simulate", "cmd"]),
    ("src/act", &["explain", "manifest", "simulate", "cmd"]),
    ("src/explain.rs", &["act", "manifest", "simulate", "cmd"]),
    ("src/manifest", &["objects", "cluster", "decide", "act", "explain", "simulate", "cmd"]),
    ("src/simulate", &["cmd"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of the repository below a path, by name, with their text; what is not text is left out.
fn files(below: &str) -> Vec<(String, String)> {
    let mut folders: Vec<PathBuf> = vec![root().join(below)];
    let mut found = Vec::new();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of the repository can be read");
            let entries = entries.map(|entry| entry.expect("and so can its entries").path());
            folders.extend(entries.filter(|path| !path.ends_with("target") && !path.ends_with(".git")));
        } else if let Ok(text) = fs::read_to_string(&path) {
            let name = path.strip_prefix(root()).expect("it lies below the root");
            found.push((name.to_string_lossy().into_owned(), text));
        }
    }
    found.sort();
    found
}

/// Those of the files that end in `.extension`.
fn ending(below: &str, extension: &str) -> Vec<(String, String)> {
    let ends = |name: &str| Path::new(name).extension().is_some_and(|found| found == extension);
    files(below).into_iter().filter(|(name, _)| ends(name)).collect()
}

fn rust_files(below: &str) -> Vec<(String, String)> {
    ending(below, "rs")
}

/// The lines of code with their numbers: comments are left out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Fails with all findings, so that one run shows everything.
#[track_caller]
fn none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

fn is_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

#[test]
fn nothing_waits_in_a_pure_module() {
    let mut findings = Vec::new();
    for (name, text) in PURE.iter().flat_map(|module| rust_files(module)) {
        for (number, line) in code(&text) {
            if is_word(line, "async") || is_word(line, "await") || is_word(line, "rand") {
                findings.push(format!("{name}:{number}: {}", line.trim()));
            }
        }
    }
    none("pure modules neither wait nor draw lots", &findings);
}

#[test]
fn decisions_name_every_case() {
    let mut findings = Vec::new();
    for (name, text) in rust_files("src/decide") {
        for (number, line) in code(&text) {
            let line = line.trim_start();
            if line.starts_with("_ =>") || line.starts_with("_ if ") {
                findings.push(format!("{name}:{number}: {line}"));
            }
        }
    }
    none("a new variant must fail to compile wherever it matters: no wildcard arms in src/decide", &findings);
}

#[test]
fn no_module_knows_what_is_built_on_it() {
    let mut findings = Vec::new();
    for (module, above) in ABOVE {
        for (name, text) in rust_files(module) {
            for (number, line) in code(&text) {
                for other in above {
                    let path = format!("crate::{other}");
                    let known = line.match_indices(&path).any(|(at, _)| {
                        !line[at + path.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    });
                    let listed = line.trim_start().starts_with("use crate::{") && is_word(line, other);
                    if known || listed {
                        findings.push(format!("{name}:{number}: {}", line.trim()));
                    }
                }
            }
        }
    }
    none("objects, cluster, decide, act, cmd: each knows only those before it", &findings);
}

#[test]
fn the_api_server_knows_nothing_of_what_it_tests() {
    let manifest = fs::read_to_string(root().join("fake-apiserver/Cargo.toml")).expect("it has a manifest");
    let dependencies = manifest.lines().map(|line| line.split(['.', ' ', '=']).next().unwrap_or_default());
    let shared: Vec<_> = dependencies
        .filter(|name| ["pvbind", "kube", "k8s-openapi"].contains(name))
        .map(str::to_owned)
        .collect();
    none("an oracle that shares the bug is no oracle", &shared);
}

#[test]
fn every_file_says_what_it_is_for() {
    let all = ["src", "tests", "fake-apiserver", "fake-cluster"].map(rust_files);
    let silent = all.into_iter().flatten().filter(|(_, text)| !text.starts_with("//! "));
    none("a file begins with //!", &silent.map(|(name, _)| name).collect::<Vec<_>>());
}

/// The functions of a file that rustfmt has formatted, each with its name and number of lines.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let mut rest = line.trim_start();
        for prefix in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async "] {
            rest = rest.strip_prefix(prefix).unwrap_or(rest);
        }
        let Some(rest) = rest.strip_prefix("fn ") else { continue };
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        let ends = |line: &&str| {
            let same = line.len() - line.trim_start().len() == indent;
            same && !line.is_empty() && (line.ends_with('}') || line.ends_with(';'))
        };
        let length = lines[start..].iter().position(ends).map_or(1, |length| length + 1);
        found.push((name, length));
    }
    found
}

#[test]
fn functions_and_files_stay_small() {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for (name, text) in
        ["src", "tests", "fake-apiserver", "fake-cluster"].map(rust_files).into_iter().flatten()
    {
        let lines = text.lines().count();
        if LONG_FILES.iter().any(|(file, _)| *file == name) {
            if lines > FILE {
                used.insert((name.clone(), String::new()));
            }
        } else if lines > FILE {
            findings.push(format!("{name}: {lines} lines; it has two rooms in it"));
        }
        for (function, length) in functions(&text).into_iter().filter(|(_, length)| *length > FUNCTION) {
            if LONG_FUNCTIONS.iter().any(|(file, long, _)| *file == name && *long == function) {
                used.insert((name.clone(), function.to_owned()));
            } else {
                findings.push(format!("{name}: fn {function} has {length} lines"));
            }
        }
    }
    let files = LONG_FILES.iter().map(|(file, _)| ((*file).to_owned(), String::new()));
    let functions = LONG_FUNCTIONS.iter().map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned()));
    for (file, function) in files.chain(functions).filter(|exception| !used.contains(exception)) {
        findings.push(format!("{file} {function}: is an exception that is no longer needed"));
    }
    none("functions of at most 70 lines, files of at most 400", &findings);
}

#[test]
fn nothing_is_left_for_later() {
    let marks = [concat!("to", "do!"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut findings = Vec::new();
    for (name, text) in files(".") {
        for (index, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) {
                findings.push(format!("{name}:{}", index + 1));
            }
        }
    }
    none("what is unfinished is not merged", &findings);
}

/// What a page names between backticks: paths of the repository, perhaps with something that is defined there.
fn named(page: &str) -> impl Iterator<Item = &str> {
    const ROOTS: [&str; 8] =
        ["src/", "tests/", "testdata/", "snapshots/", "examples/", "docs/", "deploy/", "fake-apiserver/"];
    let spans = page.split('`').skip(1).step_by(2);
    spans.filter(|span| ROOTS.iter().any(|root| span.starts_with(root)) && !span.contains(['*', ' ', '<']))
}

fn defines(text: &str, name: &str) -> bool {
    ["fn ", "const ", "struct ", "enum ", "trait "].iter().any(|keyword| {
        text.match_indices(&format!("{keyword}{name}")).any(|(at, found)| {
            !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    })
}

#[test]
fn pages_name_what_exists() {
    let mut findings = Vec::new();
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs", "examples"];
    for (name, page) in pages.iter().flat_map(|page| ending(page, "md")) {
        for span in named(&page) {
            let (path, definition) = span.split_once("::").unwrap_or((span, ""));
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            let exists = root().join(path).exists();
            if !exists || !(definition.is_empty() || defines(&text, definition)) {
                findings.push(format!("{name}: {span}"));
            }
        }
        let folder = root().join(&name);
        for link in page.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let target = folder.parent().expect("a file is in a folder").join(link);
            if !link.starts_with("http") && !target.exists() {
                findings.push(format!("{name}: {link}"));
            }
        }
    }
    none("a page leads nowhere", &findings);
}

#[test]
fn the_ruler_measures() {
    let text = "impl A {\n    fn one(&self) {}\n    fn two(\n        a: u8,\n    ) {\n        b();\n    }\n}\nfn three();\n";
    assert_eq!(functions(text), [("one", 1), ("two", 5), ("three", 1)]);
    assert!(is_word("pub async fn x", "async") && !is_word("asynchronous()", "async"));
}
