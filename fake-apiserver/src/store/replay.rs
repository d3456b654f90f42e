//! Decides how stored records become a store again: the same tables, revisions and histories, without asking anybody. Never
//! judges an object: it was judged before it was written down. Answers to etcd's replay of its write-ahead log.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::crds;
use crate::history::Event;
use crate::kinds::split_api_version;
use crate::log::Record;
use crate::object::{Key, Object};
use crate::store::Store;

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// All that there was at one moment: nothing before it is remembered.
    Snapshot,
    /// One write after another: later watches can start between them.
    Log,
}

impl Store {
    /// Does again what a record says; the error says what does not fit.
    pub(crate) fn replay(&mut self, record: &Record<'_>, from: From) -> Result<(), String> {
        match *record {
            Record::Put { revision, kind, key, object } => {
                let index = self.kind_of(kind)?;
                let value: Value = serde_json::from_slice(object)
                    .map_err(|error| format!("the object {key} of {kind} is no JSON: {error}"))?;
                let object = Arc::new(Object::new(value, revision));
                self.restore(index, key.into(), object.packed(), from);
                if crds::is_definition(self.kinds.get(index)) {
                    crds::serve(self, &object.value);
                }
            }
            Record::Remove { revision, kind, key } => {
                let index = self.kind_of(kind)?;
                let previous = self.table(index).objects.get(key);
                let previous =
                    previous.ok_or_else(|| format!("{key} of {kind} is deleted, but was never made"))?;
                let mut value = previous.look(Value::clone);
                super::set_revision(&mut value, revision);
                self.unmake(index, key, Arc::new(Object::new(value, revision)).packed());
                if crds::is_definition(self.kinds.get(index)) {
                    self.serve(key, Vec::new());
                }
            }
            Record::Forget { kind, key } => {
                let index = self.kind_of(kind)?;
                self.table_mut(index).objects.remove(key);
            }
            Record::Register { api_version, kind, namespaced } => {
                self.register(api_version, kind, namespaced);
            }
            Record::Revision { revision, quiet } => {
                self.revision = self.revision.max(revision);
                self.quiet_revision = self.quiet_revision.max(quiet);
            }
            Record::End { .. } => {}
        }
        Ok(())
    }

    /// A snapshot was read to its end: watches can start after it.
    pub(crate) fn forget_before_now(&mut self) {
        for table in &mut self.tables {
            table.history.clear();
            table.forgotten = self.revision;
        }
    }

    fn kind_of(&self, id: &str) -> Result<usize, String> {
        let (api_version, kind) = id.rsplit_once('/').unwrap_or_default();
        let (group, version) = split_api_version(api_version);
        self.kinds.known(group, version, kind).ok_or_else(|| format!("the kind {id} is not served"))
    }

    fn restore(&mut self, kind: usize, key: Key, object: Arc<Object>, from: From) {
        let revision = object.revision;
        self.advance(kind, revision);
        let previous = self.table_mut(kind).objects.insert(key.clone(), object.clone());
        if from == From::Log {
            self.publish(
                kind,
                Event { key, revision, object, previous, deleted: false, line: OnceLock::new() },
            );
        }
    }

    fn unmake(&mut self, kind: usize, key: &str, object: Arc<Object>) {
        let revision = object.revision;
        self.advance(kind, revision);
        if let Some((key, previous)) = self.table_mut(kind).objects.remove_with_key(key) {
            let previous = Some(previous);
            self.publish(
                kind,
                Event { key, revision, object, previous, deleted: true, line: OnceLock::new() },
            );
        }
    }

    fn advance(&mut self, kind: usize, revision: u64) {
        self.revision = self.revision.max(revision);
        if !self.kinds.get(kind).is_noise() {
            self.quiet_revision = self.quiet_revision.max(revision);
        }
    }
}
