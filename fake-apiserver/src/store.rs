//! Decides the one order of all writes: a single revision counter, one table a kind, one history a table. A
//! list is a copy of a persistent map, so it takes no time and holds nobody up; an older list is the current
//! map with the later events undone. Never parses a request and never judges an object. Answers to etcd and
//! `k8s.io/apiserver/pkg/storage/etcd3`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use imbl::OrdMap;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::history::{Event, Shown};
use crate::kinds::{Kind, Kinds};
use crate::object::{Key, Object, metadata_mut};
use crate::selectors::Filter;
use crate::status::{Result, Status};

/// The revision before the first write. Above 1, so that a request from "1" is from before all memory, as on
/// a real server.
const START: u64 = 100;

pub(crate) type Objects = OrdMap<Key, Arc<Object>>;

pub(crate) type Delivery = (Shown, Arc<Event>);

#[derive(Debug)]
struct Watcher {
    filter: Arc<Filter>,
    sender: mpsc::Sender<Delivery>,
}

/// What a new watcher gets: what it missed, and where the rest arrives.
pub(crate) struct Subscription {
    pub(crate) missed: VecDeque<Delivery>,
    pub(crate) receiver: mpsc::Receiver<Delivery>,
}

#[derive(Debug, Default)]
struct Table {
    objects: Objects,
    /// Versions that only a GET sees, until the next write.
    hidden: HashMap<Key, Arc<Object>>,
    history: VecDeque<Arc<Event>>,
    /// The revision of the last event that the history no longer has.
    forgotten: u64,
    watchers: Vec<Watcher>,
    /// Events that watchers have to wait for, while they are held back.
    held: Option<Vec<Arc<Event>>>,
}

impl Table {
    /// Hands an event to the watchers that see it. One whose buffer is full is cut rather than waited for: the write must not
    /// depend on its readers.
    fn deliver(&mut self, event: &Arc<Event>) {
        self.watchers.retain(|watcher| {
            if watcher.sender.is_closed() {
                return false;
            }
            let shown = event.shown_to(&watcher.filter);
            shown.is_none_or(|shown| watcher.sender.try_send((shown, event.clone())).is_ok())
        });
    }
}

/// Everything that is stored.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) kinds: Kinds,
    tables: Vec<Table>,
    revision: u64,
    quiet_revision: u64,
    history: usize,
    watch_buffer: usize,
}

impl Store {
    pub(crate) fn new(history: usize, watch_buffer: usize) -> Self {
        let kinds = Kinds::served();
        let mut store = Self {
            kinds,
            tables: Vec::new(),
            revision: START,
            quiet_revision: START,
            history: history.max(1),
            watch_buffer: watch_buffer.max(1),
        };
        store.add_tables();
        store
    }

    fn add_tables(&mut self) {
        let forgotten = self.revision.min(START);
        while self.tables.len() < self.kinds.all().len() {
            self.tables.push(Table { forgotten, ..Table::default() });
        }
    }

    pub(crate) fn register(&mut self, api_version: &str, kind: &str, namespaced: bool) -> usize {
        let index = self.kinds.register(api_version, kind, namespaced);
        self.add_tables();
        index
    }

    /// The table in which a kind's objects are: the two event APIs share one.
    fn table_of(&self, kind: usize) -> usize {
        let kind_row = self.kinds.get(kind);
        if kind_row.is_events_view() { self.kinds.by_kind("", "v1", "Event").unwrap_or(kind) } else { kind }
    }

    fn table(&self, kind: usize) -> &Table {
        &self.tables[self.table_of(kind)]
    }

    fn table_mut(&mut self, kind: usize) -> &mut Table {
        let index = self.table_of(kind);
        &mut self.tables[index]
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The last revision that was neither an Event nor a Lease.
    pub(crate) fn quiet_revision(&self) -> u64 {
        self.quiet_revision
    }

    /// The newest version, hidden ones included.
    pub(crate) fn get(&self, kind: usize, key: &str) -> Option<&Arc<Object>> {
        let table = self.table(kind);
        table.hidden.get(key).or_else(|| table.objects.get(key))
    }

    pub(crate) fn list(&self, kind: usize) -> Objects {
        self.table(kind).objects.clone()
    }

    /// The list as it was at a revision.
    pub(crate) fn list_at(&self, kind: usize, revision: u64) -> Result<Objects> {
        let table = self.table(kind);
        if revision < table.forgotten {
            return Err(Status::expired(format!("The provided resource version is too old: {revision}")));
        }
        let mut objects = table.objects.clone();
        for event in table.history.iter().rev().take_while(|event| event.revision > revision) {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), previous.clone()),
                None => objects.remove(&event.key),
            };
        }
        Ok(objects)
    }

    fn next_revision(&mut self, kind: &Kind) -> u64 {
        self.revision += 1;
        if !kind.is_noise() {
            self.quiet_revision = self.revision;
        }
        self.revision
    }

    /// Lets the next write have at least this revision.
    pub(crate) fn advance_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision.saturating_sub(1));
    }

    /// Stores a new version of an object, whatever was there before.
    pub(crate) fn put(&mut self, kind: usize, key: Key, mut value: Value) -> Arc<Object> {
        let row = self.kinds.get(kind).clone();
        let revision = self.next_revision(&row);
        set_revision(&mut value, revision);
        let object = Arc::new(Object::new(value, revision));
        let table = self.table_mut(kind);
        table.hidden.remove(&key);
        let previous = table.objects.insert(key.clone(), object.clone());
        self.publish(
            kind,
            Event { key, revision, object: object.clone(), previous, deleted: false, line: OnceLock::new() },
        );
        object
    }

    /// Removes an object; the event shows its last state with the delete's revision.
    pub(crate) fn remove(&mut self, kind: usize, key: &str) -> Option<Arc<Object>> {
        let row = self.kinds.get(kind).clone();
        let table = self.table_mut(kind);
        let hidden = table.hidden.remove(key);
        let Some((key, previous)) = table.objects.remove_with_key(key) else {
            return hidden;
        };
        let mut value = Value::clone(&hidden.as_ref().unwrap_or(&previous).value);
        let revision = self.next_revision(&row);
        set_revision(&mut value, revision);
        let object = Arc::new(Object::new(value, revision));
        let previous = Some(previous);
        self.publish(
            kind,
            Event { key, revision, object: object.clone(), previous, deleted: true, line: OnceLock::new() },
        );
        Some(object)
    }

    /// Removes an object of which no watcher hears.
    pub(crate) fn forget(&mut self, kind: usize, key: &str) -> bool {
        let table = self.table_mut(kind);
        let hidden = table.hidden.remove(key).is_some();
        table.objects.remove(key).is_some() || hidden
    }

    /// Stores a version that only a GET sees.
    pub(crate) fn hide(&mut self, kind: usize, key: Key, mut value: Value) -> Arc<Object> {
        let row = self.kinds.get(kind).clone();
        let revision = self.next_revision(&row);
        set_revision(&mut value, revision);
        let object = Arc::new(Object::new(value, revision));
        self.table_mut(kind).hidden.insert(key, object.clone());
        object
    }

    fn publish(&mut self, kind: usize, event: Event) {
        let history = self.history;
        let table = self.table_mut(kind);
        let event = Arc::new(event);
        table.history.push_back(event.clone());
        while table.history.len() > history {
            if let Some(dropped) = table.history.pop_front() {
                table.forgotten = dropped.revision;
            }
        }
        match &mut table.held {
            Some(held) => held.push(event),
            None => table.deliver(&event),
        }
    }

    /// Up to where the watchers of a kind know everything: a bookmark must not promise more.
    pub(crate) fn delivered(&self, kind: &Kind) -> u64 {
        let index = self.kinds.by_kind(&kind.group, &kind.version, &kind.kind);
        let held = index.and_then(|index| self.table(index).held.as_ref()?.first());
        held.map_or(self.revision, |event| event.revision - 1)
    }

    /// Ends every watch.
    pub(crate) fn cut_watches(&mut self) {
        for table in &mut self.tables {
            table.watchers.clear();
        }
    }

    /// Holds the events of a kind back from its watchers, or lets go what was held.
    pub(crate) fn hold_watches(&mut self, kind: usize, hold: bool) {
        let table = self.table_mut(kind);
        if hold {
            table.held.get_or_insert_default();
            return;
        }
        for event in table.held.take().into_iter().flatten() {
            table.deliver(&event);
        }
    }

    /// Starts a watch after a revision: everything later is either missed (and handed over now) or still to
    /// come.
    pub(crate) fn watch(&mut self, kind: usize, filter: &Arc<Filter>, after: u64) -> Result<Subscription> {
        let buffer = self.watch_buffer;
        let table = self.table_mut(kind);
        if after < table.forgotten {
            let oldest = table.forgotten;
            return Err(Status::expired(format!("too old resource version: {after} ({oldest})")));
        }
        let first = table.history.partition_point(|event| event.revision <= after);
        // What is held back from the others is held back from a new watcher too.
        let held_from =
            table.held.as_ref().and_then(|held| held.first()).map_or(u64::MAX, |event| event.revision);
        let missed = table.history.range(first..).take_while(|event| event.revision < held_from);
        let missed = missed.filter_map(|event| Some((event.shown_to(filter)?, event.clone()))).collect();
        let (sender, receiver) = mpsc::channel(buffer);
        table.watchers.push(Watcher { filter: filter.clone(), sender });
        Ok(Subscription { missed, receiver })
    }

    /// Every object, as it is listed.
    pub(crate) fn everything(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.tables.iter().flat_map(|table| table.objects.values())
    }
}

pub(crate) fn set_revision(value: &mut Value, revision: u64) {
    metadata_mut(value).insert("resourceVersion".into(), revision.to_string().into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::key_of;

    fn store() -> (Store, usize) {
        let store = Store::new(3, 2);
        let kind = store.kinds.named("ConfigMap").unwrap();
        (store, kind)
    }

    fn put(store: &mut Store, kind: usize, name: &str, labels: &Value) -> u64 {
        let value =
            json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns", "labels": labels}});
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
}
