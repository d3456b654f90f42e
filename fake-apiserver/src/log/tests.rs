//! What a folder holds after everything that can happen to its files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::file::{LogFile, Medium};
use super::{Compaction, Folder, Log, OpenError, Signal, Writer};
use crate::options::{Ids, Options};
use crate::request::Request;
use crate::server::Server;
use crate::store::Store;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What is stored, by namespace and name.
type Objects = BTreeMap<String, String>;

const NEVER: Compaction = Compaction { least: u64::MAX, times: 0 };

fn open(folder: &Path, compaction: Compaction) -> Result<Server, OpenError> {
    Server::open(Options { ids: Ids::Seeded(1), ..Options::default() }, folder, compaction)
}

fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::new(method, path, content_type, body.into());
    let answer = server.settle(|| Ok(server.handle(&request)));
    let answer = answer.unwrap_or_else(crate::answer::Answer::from);
    let crate::answer::Content::Ready(body) = answer.content else { panic!("{method} {path} is a watch") };
    // Where nothing is served there is a page, and not an object.
    (answer.code, serde_json::from_slice(&body).unwrap_or_default())
}

fn write(server: &Server, step: u64) -> (u16, Value) {
    let name = format!("m{}", step / 3 % 7);
    let path = format!("{MAPS}/{name}");
    let config = json!({"metadata": {"name": name}, "data": {"step": step.to_string()}});
    match step % 3 {
        0 => send(server, "POST", MAPS, &config),
        1 => send(server, "PATCH", &path, &json!({"data": {"step": step.to_string()}})),
        _ => send(server, "DELETE", &path, &Value::Null),
    }
}

/// All that is stored, as text, and the revision.
fn state(server: &Server) -> (Objects, u64) {
    let store = server.lock();
    let objects = store.everything().map(|object| {
        (
            format!("{}/{}", object.namespace(), object.name()),
            String::from_utf8_lossy(object.bytes()).into_owned(),
        )
    });
    (objects.collect(), store.revision())
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("0000000000.log")
}

/// A folder with so many writes, and the state after each of them, by the length of the log.
fn written(steps: u64) -> (tempfile::TempDir, Vec<(u64, Objects)>) {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), NEVER).unwrap();
    let mut states = Vec::new();
    for step in 0..steps {
        write(&server, step);
        states.push((fs::metadata(log_file(folder.path())).unwrap().len(), state(&server).0));
    }
    (folder, states)
}

#[test]
fn a_server_goes_on_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), NEVER).unwrap();
    server.lock().register("example.com/v1", "Thing", true);
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    assert_eq!(send(&server, "POST", "/apis/example.com/v1/namespaces/default/things", &thing).0, 201);
    let first = send(&server, "POST", MAPS, &json!({"metadata": {"generateName": "a-"}})).1;
    for step in 0..20 {
        write(&server, step);
    }
    let before = state(&server);
    drop(server);
    let server = open(folder.path(), NEVER).unwrap();
    assert_eq!(state(&server), before);
    assert_eq!(send(&server, "GET", "/apis/example.com/v1/namespaces/default/things/t", &Value::Null).0, 200);
    let (_, second) = send(&server, "POST", MAPS, &json!({"metadata": {"generateName": "a-"}}));
    for field in ["uid", "name", "resourceVersion"] {
        assert_ne!(first["metadata"][field], second["metadata"][field], "{field}");
    }
    assert_eq!(second["metadata"]["resourceVersion"], (before.1 + 1).to_string());
}

#[test]
fn a_watch_goes_on_over_a_restart() {
    let (folder, _) = written(9);
    let server = open(folder.path(), NEVER).unwrap();
    let mut store = server.lock();
    let kind = store.kinds.named("ConfigMap").unwrap();
    let filter = crate::selectors::Filter::new(store.kinds.get(kind), "default", "", "").unwrap();
    let missed = store.watch(kind, &Arc::new(filter), 104).unwrap().missed;
    let missed: Vec<_> = missed.iter().map(|(shown, event)| (shown.name(), event.revision)).collect();
    assert_eq!(missed[..3], [("ADDED", 105), ("MODIFIED", 106), ("DELETED", 107)][..]);
}

#[test]
fn a_folder_serves_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = open(folder.path(), NEVER).unwrap();
    let refused = open(folder.path(), NEVER).err().unwrap().to_string();
    assert!(
        refused.ends_with("is in use by another server: stop that one, or name another folder"),
        "{refused}"
    );
    drop(server);
    assert!(open(folder.path(), NEVER).is_ok());
}

#[test]
fn every_prefix_of_a_log_is_a_prefix_of_the_writes() {
    let (folder, states) = written(30);
    let bytes = fs::read(log_file(folder.path())).unwrap();
    let first = usize::try_from(states[0].0).unwrap();
    for length in (first..=bytes.len()).step_by(7) {
        fs::write(log_file(folder.path()), &bytes[..length]).unwrap();
        let server = open(folder.path(), NEVER).unwrap();
        let expected = states.iter().rev().find(|(end, _)| *end <= length as u64);
        assert_eq!(Some(&state(&server).0), expected.map(|(_, state)| state), "{length} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_is_found(at in 0.0_f64..1.0, bit in 0_u8..8) {
        static WRITTEN: OnceLock<Vec<u8>> = OnceLock::new();
        let written = || fs::read(log_file(written(12).0.path())).unwrap();
        let mut bytes = WRITTEN.get_or_init(written).clone();
        let folder = tempfile::tempdir().unwrap();
        let path = log_file(folder.path());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a small file")]
        let at = ((bytes.len() - 1) as f64 * at) as usize;
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).unwrap();
        let refused = open(folder.path(), NEVER).err().map(|error| error.to_string()).unwrap_or_default();
        prop_assert!(refused.contains("0000000000.log is damaged at byte "), "{refused}");
        prop_assert!(refused.contains("truncate --size="), "{refused}");
    }
}

fn wait_for(what: &str, until: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !until() {
        assert!(Instant::now() < end, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_snapshot_replaces_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let often = Compaction { least: 4096, times: 1 };
    let server = open(folder.path(), often).unwrap();
    server.lock().register("example.com/v1", "Thing", false);
    for step in 0..400 {
        write(&server, step);
    }
    let before = state(&server);
    drop(server);
    let names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let ending = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
    assert_eq!((ending(".snapshot"), ending(".log"), ending(".unfinished")), (1, 1, 0), "{names:?}");
    assert!(!log_file(folder.path()).exists(), "{names:?}");
    let server = open(folder.path(), often).unwrap();
    assert_eq!(state(&server), before);
    assert_eq!(send(&server, "GET", "/apis/example.com/v1/things", &Value::Null).0, 200);
    let old =
        send(&server, "GET", &format!("{MAPS}?resourceVersion=101&resourceVersionMatch=Exact"), &Value::Null);
    assert_eq!(old.0, 410, "what was before the snapshot is forgotten");
}

#[test]
fn custom_resources_come_back_from_log_and_snapshot() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}},
                }}},
                {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}},
            ],
        },
    });
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/gadgets");
    for compaction in [NEVER, Compaction { least: 4096, times: 1 }] {
        let folder = tempfile::tempdir().unwrap();
        let server = open(folder.path(), compaction).unwrap();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(send(&server, "POST", definitions, &definition).0, 201);
        let gadget =
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {}});
        let (code, made) = send(&server, "POST", &path("v1"), &gadget);
        assert_eq!((code, &made["spec"]["size"]), (201, &json!(3)));
        for step in 0..100 {
            write(&server, step);
        }
        let before = state(&server);
        drop(server);
        let server = open(folder.path(), compaction).unwrap();
        assert_eq!(state(&server), before);
        assert_eq!(send(&server, "GET", &format!("{}/g", path("v1")), &Value::Null), (200, made));
        assert_eq!(send(&server, "GET", &format!("{}/g", path("v1beta1")), &Value::Null).0, 200);
        let other =
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "h"}, "spec": {}});
        assert_eq!(send(&server, "POST", &path("v1"), &other).1["spec"]["size"], 3, "the schema is back");
    }
}

#[test]
fn a_compaction_that_did_not_end_is_passed_over() {
    let (folder, states) = written(12);
    // The next log was begun, and the snapshot was not finished.
    fs::write(folder.path().join("0000000001.unfinished"), b"pvblog1\nhalf").unwrap();
    fs::write(folder.path().join("0000000001.log"), b"pvb").unwrap();
    let server = open(folder.path(), NEVER).unwrap();
    assert_eq!(Some(&state(&server).0), states.last().map(|(_, state)| state));
    assert_eq!(write(&server, 21).0, 201);
    let after = state(&server);
    drop(server);
    assert_eq!(state(&open(folder.path(), NEVER).unwrap()), after);
    fs::remove_file(log_file(folder.path())).unwrap();
    let refused = open(folder.path(), NEVER).err().unwrap().to_string();
    assert!(refused.contains("0000000000.log is missing"), "{refused}");
}

/// A disk that can be told to be full, or to fail.
struct Moody {
    mood: Arc<AtomicU8>,
    kept: Arc<Mutex<Vec<u8>>>,
}

impl Medium for Moody {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let full = self.mood.load(Ordering::SeqCst) == 1;
        let written = if full { &bytes[..bytes.len() / 2] } else { bytes };
        self.kept.lock().unwrap().extend_from_slice(written);
        if full { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        if self.mood.load(Ordering::SeqCst) == 2 { Err(std::io::Error::other("bad sector")) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        self.kept.lock().unwrap().truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

/// A server whose log is on a moody disk.
fn moody(folder: &Path) -> (Server, Arc<AtomicU8>, Arc<Mutex<Vec<u8>>>) {
    let (mood, kept) = (Arc::new(AtomicU8::new(0)), Arc::new(Mutex::new(Vec::new())));
    let store = Arc::new(Mutex::new(Store::new(100, 100)));
    let signal = Arc::new(Signal::default());
    let (folder, _) = Folder::open(folder, &mut store.lock().unwrap()).unwrap();
    store.lock().unwrap().write_to(signal.clone());
    let medium = Moody { mood: mood.clone(), kept: kept.clone() };
    let file = LogFile::new(Box::new(medium), 0, 0);
    let writer = Writer::new(store.clone(), signal.clone(), folder, file, NEVER);
    let thread = Some(std::thread::spawn(|| writer.run()));
    let server = Server::on(Options::default(), store, Log { signal, thread });
    (server, mood, kept)
}

#[test]
fn a_full_disk_refuses_and_undoes() {
    let folder = tempfile::tempdir().unwrap();
    let (server, mood, kept) = moody(folder.path());
    assert_eq!(write(&server, 0).0, 201);
    wait_for("the first writes", || kept.lock().unwrap().len() > 100);
    let (objects, revision) = state(&server);
    let length = kept.lock().unwrap().len();
    let kind = server.lock().kinds.named("ConfigMap").unwrap();
    let filter = crate::selectors::Filter::new(server.lock().kinds.get(kind), "default", "", "").unwrap();
    let mut watch = server.lock().watch(kind, &Arc::new(filter), revision).unwrap();
    mood.store(1, Ordering::SeqCst);
    let (code, refused) = send(&server, "POST", MAPS, &json!({"metadata": {"name": "lost"}}));
    assert_eq!(code, 500);
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("Internal error occurred: the change could not be kept, and was undone: "));
    let (deleted, _) = send(&server, "DELETE", &format!("{MAPS}/m0"), &Value::Null);
    assert_eq!(deleted, 500);
    assert_eq!(state(&server).0, objects, "nothing of it is left");
    assert_eq!(kept.lock().unwrap().len(), length, "not on disk either");
    assert_eq!(send(&server, "GET", &format!("{MAPS}/m0"), &Value::Null).0, 200, "reads go on");
    mood.store(0, Ordering::SeqCst);
    let (code, created) = send(&server, "POST", MAPS, &json!({"metadata": {"name": "kept"}}));
    assert_eq!(code, 201, "there is space again");
    let version: u64 = created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(version > revision + 2, "no revision is given twice");
    let (_, event) = watch.receiver.blocking_recv().unwrap();
    assert_eq!(event.object.name(), "kept", "watchers never heard of the others");
}

#[test]
fn what_a_refused_definition_defines_is_not_offers() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = |versions: &[&str]| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version =
            |name: &&str| json!({"name": name, "served": true, "storage": *name == "v1", "schema": schema});
        json!({
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"kind": "Gadget", "plural": "gadgets"},
                "versions": versions.iter().map(version).collect::<Vec<Value>>(),
            },
        })
    };
    let folder = tempfile::tempdir().unwrap();
    let (server, mood, _) = moody(folder.path());
    let offers = |version: &str| {
        send(&server, "GET", &format!("/apis/example.com/{version}/gadgets"), &Value::Null).0 == 200
    };
    mood.store(1, Ordering::SeqCst);
    assert_eq!(send(&server, "POST", DEFINITIONS, &definition(&["v1"])).0, 500);
    assert!(!offers("v1"), "a definition that was never kept");
    mood.store(0, Ordering::SeqCst);
    let (code, made) = send(&server, "POST", DEFINITIONS, &definition(&["v1"]));
    assert_eq!((code, offers("v1")), (201, true), "{made}");
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    mood.store(1, Ordering::SeqCst);
    assert_eq!(send(&server, "PATCH", &path, &definition(&["v1", "v2"])).0, 500);
    assert!(offers("v1") && !offers("v2"), "the versions are those of before");
    assert_eq!(send(&server, "DELETE", &path, &Value::Null).0, 500);
    assert!(offers("v1"), "it is there still");
}

#[test]
fn after_a_failed_fsync_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (server, mood, _) = moody(folder.path());
    assert_eq!(write(&server, 0).0, 201);
    mood.store(2, Ordering::SeqCst);
    assert_eq!(write(&server, 3).0, 500);
    mood.store(0, Ordering::SeqCst);
    let (code, refused) = write(&server, 3);
    assert_eq!(code, 500, "nobody knows what the disk has");
    assert!(refused["message"].as_str().unwrap().contains("until the server starts again"), "{refused}");
    assert_eq!(send(&server, "GET", &format!("{MAPS}/m0"), &Value::Null).0, 200);
}
