//! Decides the one order of all writes: a single revision counter, one table a kind, one history a table. A
//! list is a copy of a persistent map, so it takes no time and holds nobody up; an older list is the current
//! map with the later events undone. Never parses a request and never judges an object. Answers to etcd and
//! `k8s.io/apiserver/pkg/storage/etcd3`.

mod definitions;
pub(crate) mod replay;
pub(crate) mod unwritten;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use imbl::OrdMap;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::history::{Event, Shown};
use crate::kinds::{Kind, Kinds};
use crate::log::Record;
use crate::object::{Key, Object, metadata_mut};
use crate::selectors::Filter;
use crate::status::{Result, Status};

use self::unwritten::{Undo, Unwritten};

/// The revision before the first write. Above 1, so that a request from "1" is from before all memory, as on
/// a real server.
const START: u64 = 100;

pub(crate) type Objects = OrdMap<Key, Arc<Object>>;

pub(crate) type Delivery = (Shown, Arc<Event>);

#[derive(Debug)]
struct Watcher {
    filter: Arc<Filter>,
    sender: mpsc::Sender<Delivery>,
    /// Up to here it knew everything when it came, or was told.
    told: u64,
}

/// What a new watcher gets: what it missed, and where the rest arrives.
pub(crate) struct Subscription {
    pub(crate) missed: VecDeque<Delivery>,
    pub(crate) receiver: mpsc::Receiver<Delivery>,
    /// Where it starts: the watcher knows everything up to here from elsewhere.
    pub(crate) after: u64,
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
            if event.revision <= watcher.told {
                return true;
            }
            let shown = event.shown_to(&watcher.filter);
            shown.is_none_or(|shown| watcher.sender.try_send((shown, event.clone())).is_ok())
        });
    }

    /// Forgets the oldest events beyond so many.
    fn trim(&mut self, history: usize) {
        while self.history.len() > history {
            if let Some(dropped) = self.history.pop_front() {
                self.forgotten = dropped.revision;
            }
        }
    }

    /// Shows an event to the watchers, or holds it back with the others.
    fn show(&mut self, event: Arc<Event>) {
        match &mut self.held {
            Some(held) => held.push(event),
            None => self.deliver(&event),
        }
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
    /// What is not on disk yet, where there is a disk.
    unwritten: Option<Unwritten>,
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
            unwritten: None,
        };
        store.add_tables();
        store
    }

    fn add_tables(&mut self) {
        let forgotten = self.revision.min(START);
        while self.tables.len() < self.kinds.count() {
            self.tables.push(Table { forgotten, ..Table::default() });
        }
    }

    pub(crate) fn register(&mut self, api_version: &str, kind: &str, namespaced: bool) -> usize {
        let served = self.kinds.all().len();
        let index = self.kinds.register(api_version, kind, namespaced);
        self.add_tables();
        if self.kinds.all().len() > served {
            self.write_down(&Record::Register { api_version, kind, namespaced }, Undo::Nothing);
        }
        index
    }

    /// The table in which a kind's objects are: the two event APIs share one, and so do the versions of a kind.
    fn table_of(&self, kind: usize) -> usize {
        let kind_row = self.kinds.get(kind);
        match kind_row.kept_as() {
            Some((group, version, name)) => self.kinds.by_kind(group, version, name).unwrap_or(kind),
            None => self.kinds.table(kind),
        }
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
        let table = self.table_mut(kind);
        let untouched = !table.objects.contains_key(&key);
        let object = Arc::new(Object::stored(value, revision, untouched));
        table.hidden.remove(&key);
        let packed = object.packed();
        let previous = table.objects.insert(key.clone(), packed.clone());
        self.publish(
            kind,
            Event { key, revision, object: packed, previous, deleted: false, line: OnceLock::new() },
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
        let mut value = hidden.as_ref().unwrap_or(&previous).look(Value::clone);
        let revision = self.next_revision(&row);
        set_revision(&mut value, revision);
        let object = Arc::new(Object::new(value, revision));
        let previous = Some(previous);
        self.publish(
            kind,
            Event { key, revision, object: object.packed(), previous, deleted: true, line: OnceLock::new() },
        );
        Some(object)
    }

    /// Removes an object of which no watcher hears.
    pub(crate) fn forget(&mut self, kind: usize, key: &str) -> bool {
        let table = self.table_mut(kind);
        let hidden = table.hidden.remove(key).is_some();
        let Some((key, previous)) = table.objects.remove_with_key(key) else { return hidden };
        let name = self.kinds.get(kind).id();
        let record = Record::Forget { kind: &name, key: &key };
        self.write_down(&record, Undo::Forgotten(self.table_of(kind), key.clone(), previous));
        true
    }

    /// Stores a version that only a GET sees.
    pub(crate) fn hide(&mut self, kind: usize, key: Key, mut value: Value) -> Arc<Object> {
        let row = self.kinds.get(kind).clone();
        let revision = self.next_revision(&row);
        set_revision(&mut value, revision);
        let object = Arc::new(Object::new(value, revision));
        self.table_mut(kind).hidden.insert(key, object.clone());
        // The version was shown, so it must not be given again; the object itself is a test's illusion.
        self.write_down(&Record::Revision { revision, quiet: self.quiet_revision }, Undo::Nothing);
        object
    }

    fn publish(&mut self, kind: usize, event: Event) {
        let history = self.history;
        let index = self.table_of(kind);
        let table = &mut self.tables[index];
        let event = Arc::new(event);
        table.history.push_back(event.clone());
        table.trim(history);
        if self.unwritten.is_none() {
            return table.show(event);
        }
        let name = self.kinds.get(kind).id();
        self.write_down(&Record::of(&name, &event), Undo::Written(index, event.clone()));
    }

    /// Up to where the watchers of a kind know everything: a bookmark must not promise more.
    pub(crate) fn delivered(&self, kind: &Kind) -> u64 {
        let index = self.kinds.by_kind(&kind.group, &kind.version, &kind.kind);
        let held = index.and_then(|index| self.table(index).held.as_ref()?.first());
        let held = held.map_or(self.revision, |event| event.revision - 1);
        held.min(self.written_revision())
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

    /// Remembers so many events of each kind from now on.
    pub(crate) fn set_history(&mut self, history: usize) {
        self.history = history.max(1);
        for table in &mut self.tables {
            table.trim(self.history);
        }
    }

    /// How many watches of each kind are open, and whether they are held back.
    pub(crate) fn watches(&mut self) -> Vec<(String, usize, bool)> {
        let mut found = Vec::new();
        for (index, table) in self.tables.iter_mut().enumerate() {
            table.watchers.retain(|watcher| !watcher.sender.is_closed());
            if !table.watchers.is_empty() || table.held.is_some() {
                found.push((self.kinds.get(index).id(), table.watchers.len(), table.held.is_some()));
            }
        }
        found
    }

    /// Starts a watch after a revision: everything later is either missed (and handed over now) or still to
    /// come.
    pub(crate) fn watch(&mut self, kind: usize, filter: &Arc<Filter>, after: u64) -> Result<Subscription> {
        let buffer = self.watch_buffer;
        let (current, unwritten_from) = (self.revision, self.written_revision() + 1);
        let table = self.table_mut(kind);
        if after < table.forgotten {
            let oldest = table.forgotten;
            return Err(Status::expired(format!("too old resource version: {after} ({oldest})")));
        }
        let first = table.history.partition_point(|event| event.revision <= after);
        // What is held back from the others is held back from a new watcher too.
        let held_from =
            table.held.as_ref().and_then(|held| held.first()).map_or(u64::MAX, |event| event.revision);
        let held_from = if table.held.is_some() { held_from.min(unwritten_from) } else { held_from };
        let missed = table.history.range(first..).take_while(|event| event.revision < held_from);
        let missed = missed.filter_map(|event| Some((event.shown_to(filter)?, event.clone()))).collect();
        let (sender, receiver) = mpsc::channel(buffer);
        let told = current.min(held_from - 1).max(after);
        table.watchers.push(Watcher { filter: filter.clone(), sender, told });
        Ok(Subscription { missed, receiver, after })
    }

    /// How many objects and watchers each kind has.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&Kind, usize, usize)> {
        let kinds = self.kinds.all().iter().zip(&self.tables);
        kinds.filter(|(kind, _)| !kind.is_view()).map(|(kind, table)| {
            let open = table.watchers.iter().filter(|watcher| !watcher.sender.is_closed()).count();
            (kind.as_ref(), table.objects.len(), open)
        })
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
mod tests;
