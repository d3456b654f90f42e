//! Tests of the store alone: revisions, older lists, watches, what is hidden.

use serde_json::json;

use super::*;
use crate::object::key_of;

fn store() -> (Store, usize) {
    let store = Store::new(3, 2);
    let kind = store.kinds.named("ConfigMap").unwrap();
    (store, kind)
}

fn put(store: &mut Store, kind: usize, name: &str, labels: &Value) -> u64 {
    let value = json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns", "labels": labels}});
    store.put(kind, key_of("ns", name), value).revision
}

fn filter(store: &Store, kind: usize, labels: &str) -> Arc<Filter> {
    Arc::new(Filter::new(store.kinds.get(kind), "ns", labels, "").unwrap())
}

fn names(objects: &Objects) -> Vec<&str> {
    objects.keys().map(|key| &**key).collect()
}

#[test]
fn an_older_list_is_the_current_one_with_later_events_undone() {
    let (mut store, kind) = store();
    let first = put(&mut store, kind, "a", &json!({}));
    put(&mut store, kind, "b", &json!({}));
    store.remove(kind, "ns/a").unwrap();
    assert_eq!(names(&store.list(kind)), ["ns/b"]);
    assert_eq!(names(&store.list_at(kind, first + 1).unwrap()), ["ns/a", "ns/b"]);
    assert_eq!(names(&store.list_at(kind, first).unwrap()), ["ns/a"]);
    put(&mut store, kind, "c", &json!({}));
    assert_eq!(store.list_at(kind, first - 1).unwrap_err().code, 410);
}

#[test]
fn a_watch_after_a_list_misses_nothing() {
    let (mut store, kind) = store();
    put(&mut store, kind, "a", &json!({}));
    let listed = store.revision();
    store.remove(kind, "ns/a").unwrap();
    let filter = filter(&store, kind, "");
    let subscription = store.watch(kind, &filter, listed).unwrap();
    let shown: Vec<Shown> = subscription.missed.iter().map(|(shown, _)| *shown).collect();
    assert_eq!(shown, [Shown::Deleted]);
}

#[test]
fn forgotten_revisions_are_expired() {
    let (mut store, kind) = store();
    for name in ["a", "b", "c", "d"] {
        put(&mut store, kind, name, &json!({}));
    }
    let filter = filter(&store, kind, "");
    assert_eq!(store.watch(kind, &filter, START).err().unwrap().reason, "Expired");
    assert!(store.watch(kind, &filter, START + 1).is_ok());
}

#[test]
fn objects_enter_and_leave_a_selector() {
    let (mut store, kind) = store();
    let filter = filter(&store, kind, "app=x");
    let mut subscription = store.watch(kind, &filter, START).unwrap();
    put(&mut store, kind, "a", &json!({"app": "y"}));
    put(&mut store, kind, "a", &json!({"app": "x"}));
    put(&mut store, kind, "a", &json!({"app": "z"}));
    let (shown, _) = subscription.receiver.try_recv().unwrap();
    assert_eq!(shown, Shown::Added);
    let (shown, event) = subscription.receiver.try_recv().unwrap();
    assert_eq!(shown, Shown::Left);
    let line = event.line(shown);
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["type"], "DELETED");
    assert_eq!(line["object"]["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(line["object"]["metadata"]["resourceVersion"], event.revision.to_string());
}

#[test]
fn a_watcher_that_does_not_read_is_cut() {
    let (mut store, kind) = store();
    let filter = filter(&store, kind, "");
    let mut subscription = store.watch(kind, &filter, START).unwrap();
    for name in ["a", "b", "c"] {
        put(&mut store, kind, name, &json!({}));
    }
    assert!(subscription.receiver.try_recv().is_ok());
    assert!(subscription.receiver.try_recv().is_ok());
    assert_eq!(subscription.receiver.try_recv().err(), Some(mpsc::error::TryRecvError::Disconnected));
}

#[test]
fn hidden_versions_are_seen_by_get_alone() {
    let (mut store, kind) = store();
    let value = json!({"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
    store.hide(kind, key_of("ns", "a"), value);
    assert!(store.get(kind, "ns/a").is_some());
    assert!(store.list(kind).is_empty());
    put(&mut store, kind, "a", &json!({}));
    assert_eq!(names(&store.list(kind)), ["ns/a"]);
}
