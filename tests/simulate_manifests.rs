//! `pvbind simulate` as users run it: manifests of the shapes that are about in the wild, bad input, and the promises
//! about bytes and time. The worlds stand under `testdata/manifests`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const WORLDS: [&str; 7] = [
    "dump.yaml",
    "local-disks.yaml",
    "postgres",
    "restless.yaml",
    "scratch.yaml",
    "wordpress.yaml",
    "zonal.yaml",
];

fn path(world: &str) -> String {
    format!("testdata/manifests/{world}")
}

fn pvbind(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvbind"));
    command.arg("simulate").args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().expect("the binary runs")
}

/// What the binary makes of a text on standard input.
fn piped(text: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvbind"));
    command.args(["simulate", "-f", "-"]).env_remove("RUST_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    // A binary that has seen enough need not read to the end.
    let _ = child.stdin.take().expect("it is piped").write_all(text);
    child.wait_with_output().expect("the binary ends")
}

fn report(output: &Output) -> Value {
    let told = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

fn simulate(world: &str, exit: i32) -> Value {
    let output = pvbind(&["-f", &path(world), "-o", "json"]);
    assert_eq!(output.status.code(), Some(exit), "{world}: {}", String::from_utf8_lossy(&output.stdout));
    report(&output)
}

/// One line for each of a list of claims, volumes or pods: name, where it is, and the codes of its reasons.
fn lines(list: &Value, fields: &[&str]) -> Vec<String> {
    let text = |thing: &Value, field: &str| thing[field].as_str().unwrap_or_default().to_owned();
    let line = |thing: &Value| {
        let mut line = text(thing, "name");
        for field in fields {
            write!(line, " {}", text(thing, field)).expect("strings take all");
        }
        for reason in thing["reasons"].as_array().into_iter().flatten() {
            write!(line, " {}", text(reason, "code")).expect("strings take all");
        }
        line
    };
    list.as_array().expect("a list").iter().map(line).collect()
}

fn fixes(thing: &Value) -> Vec<&str> {
    let reasons = thing["reasons"].as_array().expect("a list");
    reasons.iter().filter_map(|reason| reason["fix"].as_str()).collect()
}

#[test]
fn a_database_with_all_that_is_around_it_runs_a_pod_on_each_node() {
    let report = simulate("postgres", 0);
    assert_eq!(
        lines(&report["claims"], &["phase"]),
        ["data-postgres-0 Bound", "data-postgres-1 Bound", "data-postgres-2 Bound"]
    );
    assert_eq!(
        lines(&report["pods"], &["node"]),
        ["postgres-0 node-a", "postgres-1 node-b", "postgres-2 node-c"]
    );
    let warnings = report["warnings"].as_array().expect("a list");
    assert_eq!(warnings.len(), 3, "one for each inert kind: {warnings:?}");
}

#[test]
fn local_disks_go_to_the_pods_of_their_nodes_and_the_third_pod_learns_why_not() {
    let report = simulate("local-disks.yaml", 1);
    assert_eq!(
        lines(&report["claims"], &["phase", "volume"]),
        [
            "log-broker-0 Bound disk-1",
            "log-broker-1 Bound disk-2",
            "log-broker-2 Pending  WaitForPodScheduled"
        ]
    );
    assert_eq!(
        lines(&report["pods"], &["node"]),
        ["broker-0 n1", "broker-1 n2", "broker-2  NodeDoesNotFit NodeDoesNotFit NodeDoesNotFit"]
    );
    assert_eq!(
        fixes(&report["pods"][2]),
        [
            "create a volume with spec.storageClassName \"disks\" for claim default/log-broker-2 that node n1 reaches",
            "create a volume with spec.storageClassName \"disks\" for claim default/log-broker-2 that node n2 reaches",
            "kubectl uncordon n3",
        ]
    );
}

#[test]
fn a_claim_for_which_every_volume_is_too_small_is_told_so() {
    let report = simulate("wordpress.yaml", 1);
    assert_eq!(
        lines(&report["claims"], &["phase", "volume"]),
        ["mysql Bound pv-1", "uploads Pending  NoVolumeAndNoClass VolumeTooSmall"]
    );
    assert_eq!(
        lines(&report["volumes"], &["phase", "claim"]),
        ["pv-1 Bound default/mysql", "pv-2 Available "]
    );
    assert_eq!(fixes(&report["claims"][1])[1], "request 10Gi or less, or create a larger volume");
}

#[test]
fn a_dump_of_a_live_cluster_stays_as_it_is() {
    let report = simulate("dump.yaml", 1);
    assert_eq!(
        lines(&report["claims"], &["phase", "volume"]),
        [
            "archive Pending  ClassNotFound VolumeClaimedByOther",
            "data Bound pvc-849bd646-6d3f-4a87-909e-2416d4e00904"
        ]
    );
    assert_eq!(
        lines(&report["volumes"], &["phase", "claim"]),
        [
            "archive Released live/archive Released",
            "pvc-849bd646-6d3f-4a87-909e-2416d4e00904 Bound live/data"
        ]
    );
}

#[test]
fn what_keeps_a_pod_from_a_volume_of_another_zone_is_named() {
    let report = simulate("zonal.yaml", 1);
    assert_eq!(lines(&report["pods"], &["node"]), ["on-given  NodeDoesNotFit", "on-made  NodeDoesNotFit"]);
    assert_eq!(
        fixes(&report["pods"][0]),
        ["add a node with label topology.kubernetes.io/zone=zone-a or zone-b on which the pod fits"]
    );
    assert_eq!(fixes(&report["pods"][1]), ["add a node with label topology.kubernetes.io/zone=zone-c"]);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for world in WORLDS {
        let path = path(world);
        let run = || pvbind(&["-f", &path, "-o", "json"]).stdout;
        let first = run();
        assert!(!first.is_empty(), "{world}");
        assert!(first == run(), "{world} gave other bytes the second time");
    }
}

#[test]
fn the_order_of_documents_does_not_matter_where_they_are_no_equals() {
    let mut documents = Vec::new();
    for file in ["cluster.yaml", "database.yaml"] {
        let text = std::fs::read_to_string(Path::new(&path("postgres")).join(file)).expect(file);
        documents.extend(text.split("\n---\n").map(str::to_owned));
    }
    let seen = |documents: &[String]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pvbind"))
            .args(["simulate", "-f", "-", "-o", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let text = documents.join("\n---\n");
        child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
        let report = report(&child.wait_with_output().expect("the binary ends"));
        let (claims, pods) = (lines(&report["claims"], &["phase"]), lines(&report["pods"], &["node"]));
        (claims, pods, report["virtualSeconds"].clone(), report["events"].as_array().map(Vec::len))
    };
    let forwards = seen(&documents);
    documents.reverse();
    assert_eq!(forwards, seen(&documents));
}

#[test]
fn a_world_without_rest_ends_at_the_time_limit_and_costs_little() {
    let begin = Instant::now();
    let output = pvbind(&["-f", &path("restless.yaml"), "-o", "json", "--for", "10m"]);
    assert_eq!(output.status.code(), Some(1));
    let report = report(&output);
    assert_eq!(report["settled"], false);
    assert_eq!(report["virtualSeconds"], 600.0);
    // The pauses grow up to a minute, so ten minutes hold a few dozen attempts; the limit is for slow machines.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn a_time_limit_does_not_count_the_waiting_for_more() {
    let output = pvbind(&["-f", &path("scratch.yaml"), "-o", "json", "--for", "10s"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report(&output)["settled"], true);
}

/// Nine lines that stand for more values than any machine holds.
fn alias_bomb() -> String {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (new, old) in ('b'..='i').zip('a'..) {
        let aliases = vec![format!("*{old}"); 10].join(", ");
        writeln!(text, "{new}: &{new} [{aliases}]").expect("strings take all");
    }
    text
}

#[test]
fn bad_input_ends_with_two_and_says_where() {
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec:\n";
    let cases: [(&str, String, &str); 9] = [
        ("cut off", format!("{claim}  accessModes: [ReadWrite"), "document 1, line 5: is not valid YAML"),
        ("a template", format!("{{{{- if .Values.on }}}}\n{claim}"), "render it first, as with helm template"),
        (
            "a quoted template",
            format!("{claim}  resources: {{requests: {{storage: \"{{{{ .Values.size }}}}\"}}}}\n"),
            "spec.resources.requests.storage: \"{{ .Values.size }}\" is not a quantity; if it is a template, render it",
        ),
        (
            "an unknown access mode beside a known one",
            format!("{claim}  accessModes: [ReadWriteOnce, ReadWriteTwice]\n"),
            "line 5: PersistentVolumeClaim default/c: spec.accessModes[1]: \"ReadWriteTwice\" is not known",
        ),
        (
            "what only the API server refuses",
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce]}\n".to_owned(),
            "document 1, line 1: PersistentVolume v: PersistentVolume \"v\" is invalid: spec: Required value: must specify a volume type",
        ),
        (
            "a pod without containers",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n".to_owned(),
            "Pod default/p: spec.containers: is missing",
        ),
        (
            "twice",
            format!("{claim}  accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n---\n{claim}  accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n"),
            "is there twice, first in standard input, document 1",
        ),
        ("no object", "just text\n".to_owned(), "standard input, document 1"),
        (
            "aliases that stand for too much",
            alias_bomb(),
            "is an alias too many",
        ),
    ];
    for (what, text, wanted) in cases {
        let output = piped(text.as_bytes());
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{what}: {told}");
        assert!(told.contains(wanted) && told.contains("standard input"), "{what}: {told}");
        assert!(output.stdout.is_empty(), "{what}");
    }
    let output = pvbind(&["-f", "testdata/manifests/absent.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("absent.yaml: can't be read"));
}

#[test]
fn odd_input_is_taken_with_a_warning_or_without() {
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}}\n";
    let custom = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pools.example.com}\n---\napiVersion: example.com/v1\nkind: Pool\nmetadata: {name: a, namespace: x}\nspec: {any: [1, {b: c}]}\n";
    let cases = [
        ("nothing", String::new(), "standard input holds no objects"),
        (
            "Windows line ends and a byte order mark",
            format!("\u{feff}{}", volume.replace('\n', "\r\n")),
            "v     Available",
        ),
        ("custom resources", custom.to_owned(), "kind Pool (example.com/v1) is stored but inert"),
    ];
    for (what, text, wanted) in cases {
        let output = piped(text.as_bytes());
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{what}: {told}");
        assert!(told.contains(wanted), "{what}: {told}");
    }
}

#[test]
fn much_input_is_no_matter() {
    let mut list = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for index in 0..10_000 {
        writeln!(list, "- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{index}}}, data: {{a: b}}}}")
            .expect("strings take all");
    }
    let long = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: long}}\ndata:\n  a: {}\n",
        "x".repeat(20_000_000)
    );
    for text in [list, long] {
        let output = piped(text.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
