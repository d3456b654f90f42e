//! How a report reads as a table, and that its JSON keeps the promised shape.

use pvbind::simulate::report::{Claim, Event, Pod, Reason, Report, Volume};
use pvbind::simulate::table::{Style, render};
use serde_json::{Value, json};

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots/report");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn claim(namespace: &str, name: &str, phase: &str, volume: &str, reasons: Vec<Reason>) -> Claim {
    Claim {
        namespace: namespace.into(),
        name: name.into(),
        phase: phase.into(),
        volume: volume.into(),
        reasons,
    }
}

fn volume(name: &str, phase: &str, claim: &str, reasons: Vec<Reason>) -> Volume {
    Volume { name: name.into(), phase: phase.into(), claim: claim.into(), reasons }
}

fn pod(namespace: &str, name: &str, node: &str, reasons: Vec<Reason>) -> Pod {
    Pod { namespace: namespace.into(), name: name.into(), node: node.into(), reasons }
}

fn reason(code: &str, subject: &str, message: &str, fix: Option<&str>) -> Reason {
    Reason { code: code.into(), subject: subject.into(), message: message.into(), fix: fix.map(Into::into) }
}

fn claim_object(namespace: &str, name: &str, class: &str, capacity: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name},
        "spec": {"storageClassName": class}, "status": {"capacity": capacity.map(|storage| json!({"storage": storage}))},
    })
}

fn volume_object(name: &str, class: &str, capacity: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"storageClassName": class, "capacity": {"storage": capacity}, "persistentVolumeReclaimPolicy": "Retain"},
    })
}

fn pod_object(namespace: &str, name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "status": {"phase": phase},
    })
}

fn bound() -> Report {
    let mut report = Report {
        settled: true,
        virtual_seconds: 1.5,
        claims: vec![claim("default", "data-0", "Bound", "p1", vec![])],
        volumes: vec![
            volume("p1", "Bound", "default/data-0", vec![]),
            volume("larger", "Available", "", vec![]),
        ],
        pods: vec![pod("default", "d1", "n1", vec![])],
        events: vec![Event {
            kind: "Normal".into(),
            reason: "WaitForFirstConsumer".into(),
            regarding: "PersistentVolumeClaim/default/data-0".into(),
            message: "waiting for first consumer to be created before binding".into(),
            count: 1,
        }],
        warnings: vec![],
        objects: vec![
            volume_object("p1", "fast", "10Gi"),
            volume_object("larger", "", "1Ti"),
            claim_object("default", "data-0", "fast", Some("10Gi")),
            pod_object("default", "d1", "Running"),
        ],
    };
    report.sort();
    report
}

fn stuck() -> Report {
    let small = reason(
        "VolumeTooSmall",
        "PersistentVolume/p2",
        "holds 1Gi, which is less than the 5Gi that the claim asks for",
        Some(
            "set spec.resources.requests.storage of PersistentVolumeClaim/web/c2 to 1Gi, or make a volume of at least 5Gi",
        ),
    );
    let taken = reason("NodeConflict", "Node/n1", "can't reach volume p1, which is local to n2", None);
    let waiting = reason("WaitForFirstConsumer", "", "waits for a pod that uses it, as its class says", None);
    let odd = reason(
        "ClassDiffers",
        "PersistentVolume/p1",
        "was reserved beforehand although its class is slow",
        None,
    );
    let mut report = Report {
        settled: true,
        virtual_seconds: 319.25,
        claims: vec![
            claim("web", "c2", "Pending", "", vec![small]),
            claim("db", "c1", "Bound", "p1", vec![odd.clone()]),
            claim("db", "c0", "Lost", "gone", vec![]),
            claim("web", "c3", "Pending", "", vec![waiting]),
        ],
        volumes: vec![volume("p1", "Bound", "db/c1", vec![odd]), volume("p2", "Failed", "", vec![])],
        pods: vec![pod("web", "d2", "", vec![taken]), pod("db", "d1", "n2", vec![])],
        events: vec![],
        warnings: vec![
            "there is no Node in the input, so one was made: node-1 with 110 pods and no limits".into(),
            "widgets.yaml: kind Widget (example.com/v1) is stored but inert".into(),
        ],
        objects: vec![
            volume_object("p1", "slow", "10Gi"),
            claim_object("db", "c1", "fast", Some("10Gi")),
            claim_object("web", "c2", "fast", None),
            pod_object("db", "d1", "Running"),
            pod_object("web", "d2", "Pending"),
        ],
    };
    report.sort();
    report
}

#[test]
fn all_is_well() {
    snapshot("bound", &render(&bound(), Style::default()));
}

#[test]
fn some_is_not() {
    snapshot("stuck", &render(&stuck(), Style::default()));
}

#[test]
fn sentences_are_wrapped() {
    let text = render(&stuck(), Style { color: false, width: Some(60) });
    snapshot("stuck-60", &text);
    let sentences = text.split("NOT BOUND").nth(1).expect("there is one");
    assert!(sentences.lines().all(|line| line.chars().count() <= 60), "{sentences}");
}

#[test]
fn colours_only_when_asked() {
    let colored = render(&stuck(), Style { color: true, width: Some(80) });
    snapshot("stuck-colored", &colored.replace('\x1b', "␛"));
    let plain = render(&stuck(), Style { color: false, width: Some(80) });
    assert!(!plain.contains('\x1b'));
    let mut stripped = colored;
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, plain, "colours change nothing else");
}

#[test]
fn nothing_at_all() {
    let nothing = Report { settled: true, ..Report::default() };
    assert_eq!(
        render(&nothing, Style::default()),
        "settled after 0 s of virtual time: no claims and no pods\n"
    );
    let moving =
        Report { virtual_seconds: 3600.0, pods: vec![pod("a", "b", "", vec![])], ..Report::default() };
    snapshot("still-moving", &render(&moving, Style::default()));
}

#[test]
fn what_would_steer_the_terminal_is_shown() {
    let mut report = bound();
    report.warnings.push("a \x1b[31mred\x07 name\nand a second line".into());
    report.claims[0].phase = "Pending".into();
    report.claims[0].reasons = vec![reason("X", "Pod/\x1b]0;title", "é wide 漢字", Some("\ttab"))];
    let text = render(&report, Style { color: false, width: Some(0) });
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn json_has_the_promised_fields_in_their_order() {
    let mut report = bound();
    report.claims[0].reasons = vec![
        reason("VolumeTooSmall", "PersistentVolume/p2", "is small", Some("make it larger")),
        reason("VolumeTooSmall", "PersistentVolume/p3", "is small", None),
    ];
    report.objects.clear();
    let text = serde_json::to_string(&report).expect("JSON");
    assert_eq!(
        text,
        r#"{"settled":true,"virtualSeconds":1.5,"claims":[{"namespace":"default","name":"data-0","phase":"Bound","volume":"p1","reasons":[{"code":"VolumeTooSmall","subject":"PersistentVolume/p2","message":"is small","fix":"make it larger"},{"code":"VolumeTooSmall","subject":"PersistentVolume/p3","message":"is small"}]}],"volumes":[{"name":"larger","phase":"Available","claim":"","reasons":[]},{"name":"p1","phase":"Bound","claim":"default/data-0","reasons":[]}],"pods":[{"namespace":"default","name":"d1","node":"n1","reasons":[]}],"events":[{"type":"Normal","reason":"WaitForFirstConsumer","regarding":"PersistentVolumeClaim/default/data-0","message":"waiting for first consumer to be created before binding","count":1}],"warnings":[],"objects":[]}"#
    );
    assert_eq!(serde_json::from_str::<Report>(&text).expect("JSON"), report);
}
