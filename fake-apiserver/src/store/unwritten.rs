//! Decides what the store shows, and what it takes back, while its writes are on their way to the disk. Watchers hear of a
//! write when it is there; a write that the disk refused is undone as if it had never been, but for its revision, which is
//! not given again. Never touches a file. Answers to etcd, whose readers see what is committed and nothing else.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::crds;
use crate::history::Event;
use crate::kinds::Kinds;
use crate::log::{Record, Signal};
use crate::object::{Key, Object};
use crate::store::{Objects, Store};

/// How a step is taken back.
#[derive(Debug)]
pub(crate) enum Undo {
    /// A write to a table: it goes out of the map and out of the history.
    Written(usize, Arc<Event>),
    /// An object that was dropped silently: it comes back.
    Forgotten(usize, Key, Arc<Object>),
    /// What does no harm where it is.
    Nothing,
}

#[derive(Debug)]
struct Step {
    position: u64,
    revision: u64,
    undo: Undo,
}

/// The records that are not handed to the disk yet, and the steps that are not on it.
#[derive(Debug)]
pub(crate) struct Unwritten {
    records: Vec<u8>,
    position: u64,
    steps: VecDeque<Step>,
    signal: Arc<Signal>,
}

/// Records for the disk.
pub(crate) struct Batch {
    pub(crate) records: Vec<u8>,
    /// How many records there were in all when this was taken.
    pub(crate) position: u64,
}

/// Everything that is stored, at one moment.
pub(crate) struct Image {
    pub(crate) kinds: Kinds,
    pub(crate) tables: Vec<Objects>,
    pub(crate) revision: u64,
    pub(crate) quiet: u64,
}

impl Store {
    /// From now on writes go to a disk.
    pub(crate) fn write_to(&mut self, signal: Arc<Signal>) {
        self.unwritten = Some(Unwritten { records: Vec::new(), position: 0, steps: VecDeque::new(), signal });
    }

    /// Puts a record into the next batch.
    pub(super) fn write_down(&mut self, record: &Record<'_>, undo: Undo) {
        let revision = self.revision;
        let Some(unwritten) = &mut self.unwritten else { return };
        record.encode(&mut unwritten.records);
        unwritten.position += 1;
        unwritten.steps.push_back(Step { position: unwritten.position, revision, undo });
        unwritten.signal.appended(unwritten.position);
    }

    /// Takes what the disk has not been given yet.
    pub(crate) fn take_batch(&mut self) -> Option<Batch> {
        let unwritten = self.unwritten.as_mut()?;
        let records = std::mem::take(&mut unwritten.records);
        Some(Batch { records, position: unwritten.position })
    }

    pub(crate) fn image(&self) -> Image {
        Image {
            kinds: self.kinds.clone(),
            tables: self.tables.iter().map(|table| table.objects.clone()).collect(),
            revision: self.revision,
            quiet: self.quiet_revision,
        }
    }

    /// The records up to there are on disk: watchers hear of them.
    pub(crate) fn written(&mut self, position: u64) {
        while let Some(step) = self.unwritten.as_mut().and_then(|unwritten| unwritten.next(position)) {
            if let Undo::Written(table, event) = step.undo {
                self.tables[table].show(event);
            }
        }
    }

    /// Takes back everything that is not on disk, newest first: what came later was decided upon what came before.
    pub(crate) fn take_back(&mut self) {
        let Some(unwritten) = &mut self.unwritten else { return };
        unwritten.records.clear();
        let mut definitions: Vec<Key> = Vec::new();
        for step in std::mem::take(&mut unwritten.steps).into_iter().rev() {
            match step.undo {
                Undo::Written(index, event) => {
                    if crds::is_definition(self.kinds.get(index)) {
                        definitions.push(event.key.clone());
                    }
                    let table = &mut self.tables[index];
                    if table.history.back().is_some_and(|last| last.revision == event.revision) {
                        table.history.pop_back();
                    }
                    match &event.previous {
                        Some(previous) => table.objects.insert(event.key.clone(), previous.clone()),
                        None => table.objects.remove(&event.key),
                    };
                }
                Undo::Forgotten(index, key, previous) => {
                    self.tables[index].objects.insert(key, previous);
                }
                Undo::Nothing => {}
            }
        }
        for name in definitions {
            self.serve_again(&name);
        }
    }

    /// Serves what a definition says now, after its last versions were taken back.
    fn serve_again(&mut self, name: &str) {
        let index = self.kinds.by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        match index.and_then(|index| self.get(index, name).cloned()) {
            Some(definition) => definition.look(|value| crds::serve(self, value)),
            None => self.serve(name, Vec::new()),
        }
    }

    /// The last revision that is on disk with all before it; the last one where there is no disk.
    pub(super) fn written_revision(&self) -> u64 {
        let first = self.unwritten.as_ref().and_then(|unwritten| unwritten.steps.front());
        first.map_or(self.revision, |step| step.revision.saturating_sub(1))
    }
}

impl Unwritten {
    /// The next step that is on disk now.
    fn next(&mut self, position: u64) -> Option<Step> {
        let first = self.steps.front()?;
        if first.position > position {
            return None;
        }
        self.steps.pop_front()
    }
}
