//! What `manifest` makes of good, odd, broken and hostile input.
//!
//! Every file under `testdata/inputs/bad` and `stages` has a snapshot of its message under `snapshots/inputs`: the
//! message is the product, so it is read like one.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use proptest::prelude::*;
use pvbind::manifest::{InputError, Loaded, load, load_stage};
use serde_json::{Value, json};

fn settings(folder: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("../snapshots/inputs/{folder}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect(folder);
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect(folder).path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} is empty");
    files
}

fn load_files(paths: &[&str]) -> Result<Loaded, InputError> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    load(&paths, "default", io::empty)
}

fn load_bytes(bytes: &[u8]) -> Result<Loaded, InputError> {
    load(&["-".into()], "default", || bytes)
}

fn message(result: Result<Loaded, InputError>) -> String {
    result.expect_err("the input is bad").to_string()
}

fn told(loaded: &Loaded) -> String {
    let mut told = String::new();
    for warning in &loaded.warnings {
        writeln!(told, "warning: {warning}").expect("strings take all");
    }
    for document in &loaded.documents {
        writeln!(told, "{}\n  {}", document.origin, document.object).expect("strings take all");
    }
    told
}

#[test]
fn bad_input_says_where_and_what_to_do() {
    settings("bad").bind(|| {
        for file in files("testdata/inputs/bad") {
            let name = file.file_name().expect("a file").to_string_lossy().into_owned();
            let error = load(&[file], "default", io::empty).expect_err(&name);
            insta::assert_snapshot!(name, error);
        }
    });
}

#[test]
fn stages_say_what_they_ask_for() {
    settings("stages").bind(|| {
        for file in files("testdata/inputs/stages") {
            let name = file.file_name().expect("a file").to_string_lossy().into_owned();
            match load_stage(&file, "default") {
                Ok(stage) => insta::assert_debug_snapshot!(name, stage),
                Err(error) => insta::assert_snapshot!(name, error),
            }
        }
    });
}

#[test]
fn good_and_odd_input_is_kept_whole() {
    settings("good").bind(|| {
        for file in files("testdata/inputs/good").into_iter().chain(files("testdata/inputs/warn")) {
            let name = file.file_name().expect("a file").to_string_lossy().into_owned();
            let loaded = load(&[file], "default", io::empty).expect(&name);
            insta::assert_snapshot!(name, told(&loaded));
        }
    });
}

#[test]
fn unquoted_scalars_mean_what_they_mean_to_kubectl() {
    let loaded = load_files(&["testdata/inputs/good/scalars.yaml"]).expect("good");
    let object = &loaded.documents[0].object;
    assert_eq!(object["booleans"], json!([true, false, true, false, true, false, true, false]));
    assert_eq!(object["nulls"], json!([null, null, null, null]));
    assert_eq!(object["absent"], Value::Null);
    assert_eq!(object["integers"], json!([10, -3, 4, 493, 15, 16, -31, 5, 1000, 1000, 2, u64::MAX]));
    assert_eq!(object["floats"], json!([1.5, 0.5, -0.0015, 1e21, 8.5]));
    assert_eq!(object["leading"], json!([8, 9, 7]));
    assert_eq!(object["tagged"], json!([7, 1.5, true, null]));
    assert_eq!(object["keys"], json!({"1": "a", "true": "b", "yes2": "c", "1.5": "d", "on": "e"}));
    let strings = object["strings"].as_array().expect("a list");
    assert!(strings.iter().all(Value::is_string), "{strings:?}");
}

#[test]
fn files_that_are_no_text_say_so() {
    assert_eq!(
        message(load_bytes(b"apiVersion: v1\nkind: \xff\n")),
        "standard input, line 2: byte 21 (0xff) is not UTF-8; save the file as UTF-8"
    );
    assert_eq!(
        message(load_bytes(b"a: b\nc: \0\n")),
        "standard input, line 2: byte 8 is NUL, so this is not a manifest; name a YAML or JSON file"
    );
    assert_eq!(message(load_bytes(b"\xff\xfea\0:\0")), "standard input: is UTF-16; save it as UTF-8");
    assert_eq!(
        message(load_files(&["testdata/inputs/absent.yaml"])),
        "testdata/inputs/absent.yaml: can't be read: No such file or directory (os error 2); check the path, or use - for standard input"
    );
}

#[test]
fn an_empty_folder_is_a_slip() {
    let folder = std::env::temp_dir().join(format!("pvbind-empty-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder can be made");
    let error = load(std::slice::from_ref(&folder), "default", io::empty).expect_err("nothing is in it");
    fs::remove_dir(&folder).expect("it is still empty");
    assert!(
        error.to_string().ends_with("is a folder without any .yaml, .yml or .json file; name another"),
        "{error}"
    );
}

#[test]
fn a_byte_order_mark_is_no_matter() {
    let loaded = load_bytes(
        "\u{feff}{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"a\"}}"
            .as_bytes(),
    );
    assert_eq!(loaded.expect("good").documents.len(), 1);
    let loaded = load_bytes("\u{feff}apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n".as_bytes());
    assert_eq!(loaded.expect("good").documents.len(), 1);
}

#[test]
fn standard_input_is_read_once() {
    let paths = ["-".into(), "-".into()];
    let error = load(&paths, "default", || &b"# nothing\n"[..]).expect_err("named twice");
    assert_eq!(error.to_string(), "standard input: is named twice, and can be read only once; name it once");
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the pipe burst"))
    }
}

#[test]
fn standard_input_that_fails_is_told() {
    let error = load(&["-".into()], "default", || Failing).expect_err("it failed");
    assert_eq!(error.to_string(), "standard input: can't be read: the pipe burst");
}

#[test]
fn one_bad_document_keeps_all_out_and_the_same_file_twice_is_an_object_twice() {
    let good = "testdata/inputs/good/folder/b.yml";
    let error =
        load_files(&[good, "testdata/inputs/bad/no-kind.yaml", "testdata/inputs/bad/quantity-gib.yaml"]);
    assert_eq!(error.expect_err("two are bad").problems.len(), 2);
    assert_eq!(
        message(load_files(&[good, "testdata/inputs/good/folder"])),
        "testdata/inputs/good/folder/b.yml, document 1, line 1: Namespace four: is there twice, first in \
         testdata/inputs/good/folder/b.yml, document 1, line 1; keep one of them"
    );
}

#[test]
fn the_namespace_is_filled_in_where_there_is_one() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}, spec: {containers: [{name: x}]}}\n---\n\
                {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: x}]}}\n---\n\
                {apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n\
                {apiVersion: v1, kind: Widget, metadata: {name: a}}\n";
    let loaded = load(&["-".into()], "mine", || text.as_bytes()).expect("good");
    let namespaces: Vec<_> =
        loaded.documents.iter().map(|document| &document.object["metadata"]["namespace"]).collect();
    assert_eq!(namespaces, [&json!("b"), &json!("mine"), &Value::Null, &Value::Null]);
}

#[test]
fn ten_thousand_objects_of_a_list_and_of_a_stream() {
    let mut list = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    let mut stream = String::new();
    for n in 0..10_000 {
        let claim = format!(
            "kind: PersistentVolumeClaim\n  metadata: {{name: c{n}, namespace: n{}}}\n  spec:\n    accessModes: [ReadWriteOnce]\n    resources:\n      requests: {{storage: 1Gi}}\n",
            n % 7
        );
        write!(list, "- apiVersion: v1\n  {claim}").expect("strings take all");
        write!(stream, "---\napiVersion: v1\n{}", claim.replace("\n  ", "\n")).expect("strings take all");
    }
    let started = Instant::now();
    for (text, item) in [(list, Some(10_000)), (stream, None)] {
        let loaded = load_bytes(text.as_bytes()).expect("good");
        assert_eq!(loaded.documents.len(), 10_000);
        assert_eq!(loaded.documents[9_999].origin.item, item);
        assert_eq!(loaded.warnings, [""; 0]);
    }
    // Generous, since this is not optimised; it would take minutes if anything were quadratic.
    assert!(started.elapsed().as_secs() < 30, "took {:?}", started.elapsed());
}

#[test]
fn hostile_input_ends_soon() {
    let nested_aliases = {
        let mut text = "a0: &a0 [x]\n".to_owned();
        for n in 1..2_000 {
            writeln!(text, "a{n}: &a{n} [*a{}]", n - 1).expect("strings take all");
        }
        text
    };
    let long_text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 100].join(", "));
    let merges = format!(
        "a: &a {{{}}}\nb: {{<<: [{}]}}\n",
        (0..1_000).map(|n| format!("k{n}: 1")).collect::<Vec<_>>().join(", "),
        vec!["*a"; 2_000].join(", ")
    );
    let cases: [(String, &str); 8] = [
        (nested_aliases, "levels deep"),
        (long_text, "alias too many"),
        (merges, "alias too many"),
        ("[".repeat(1_000_000), "levels deep"),
        ("- ".repeat(1_000_000), "levels deep"),
        ("{a: ".repeat(100_000), "levels deep"),
        ("{\"a\":".repeat(100_000), "levels deep"),
        ("? ".repeat(100_000), "levels deep"),
    ];
    for (text, expected) in cases {
        let started = Instant::now();
        let message = message(load_bytes(text.as_bytes()));
        assert!(message.contains(expected), "{message}");
        assert!(started.elapsed().as_secs() < 20, "{expected} took {:?}", started.elapsed());
    }
}

/// Text that is more likely to get past the parser than random bytes are.
fn almost_yaml() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "apiVersion: v1\n",
        "kind: Pod\n",
        "kind: PersistentVolumeClaim\n",
        "metadata:\n",
        "metadata: {name: a}\n",
        "  name: b\n",
        "spec:\n",
        "  accessModes: [x]\n",
        "  capacity: {storage: 5Gib}\n",
        "items:\n",
        "kind: List\n",
        "- ",
        "  ",
        "\t",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "!!binary ",
        "| \n",
        "? ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "'",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "\n",
        "~",
        "0x",
        "-0",
        "1e999",
        ".inf",
        "#",
        "\u{feff}",
        "é",
        "delete:\n",
        "settle: true\n",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = load_bytes(&bytes);
    }

    #[test]
    fn no_text_panics(text in almost_yaml()) {
        let _ = load_bytes(text.as_bytes());
    }

    #[test]
    fn what_json_says_is_what_is_loaded(name in "[a-z]{1,8}", text in "\\PC{0,30}", number in any::<i64>()) {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
            "text": text, "number": number, "list": [text, null, true, {"a": []}],
        });
        let loaded = load_bytes(serde_json::to_string_pretty(&object).expect("JSON").as_bytes()).expect("good");
        prop_assert_eq!(&loaded.documents[0].object, &object);
    }
}

#[test]
fn folders_are_read_in_the_order_of_their_paths() {
    let loaded = load_files(&["testdata/inputs/good/folder"]).expect("good");
    let names: Vec<_> =
        loaded.documents.iter().map(|document| document.object["metadata"]["name"].as_str()).collect();
    assert_eq!(names, [Some("one"), Some("two"), Some("three"), Some("four")]);
    let root = Path::new("testdata/inputs/good/folder");
    assert!(loaded.documents.iter().all(|document| document.origin.file.starts_with(root)));
}
