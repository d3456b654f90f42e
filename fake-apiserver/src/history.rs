//! Decides how a write looks to a watcher: which type of event, and the line that goes over the wire, made
//! once for all who see the same. Never remembers anything: the store does. Answers to the watch cache's
//! event transformation.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use crate::object::{Key, Object};
use crate::selectors::Filter;
use crate::store::set_revision;

/// How an event looks to one watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Added,
    Modified,
    Deleted,
    /// The object stopped matching: the watcher sees the last state that did, deleted.
    Left,
}

/// One write.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    /// The state after the write, or the last one of a deleted object with the revision of the delete.
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
    pub(crate) deleted: bool,
    /// The event as it goes to every watcher that sees it unchanged, made by the first that needs it.
    pub(crate) line: OnceLock<Bytes>,
}

impl Event {
    /// What a watcher with that filter sees of it.
    pub(crate) fn shown_to(&self, filter: &Filter) -> Option<Shown> {
        if !self.key.starts_with(&filter.prefix) {
            return None;
        }
        let picks = |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|object| filter.picks(object));
        if self.deleted {
            return picks(&self.previous).then_some(Shown::Deleted);
        }
        match (picks(&self.previous), filter.picks(&self.object)) {
            (true, true) => Some(Shown::Modified),
            (false, true) => Some(Shown::Added),
            (true, false) => Some(Shown::Left),
            (false, false) => None,
        }
    }

    /// How it looks to a watcher that sees everything.
    fn plainly(&self) -> Shown {
        match (self.deleted, &self.previous) {
            (true, _) => Shown::Deleted,
            (false, Some(_)) => Shown::Modified,
            (false, None) => Shown::Added,
        }
    }

    /// The line for a watcher, shared whenever the watcher sees what most see.
    pub(crate) fn line(&self, shown: Shown) -> Bytes {
        match (shown, &self.previous) {
            (Shown::Left, Some(previous)) => {
                let mut value = previous.look(Value::clone);
                set_revision(&mut value, self.revision);
                event_line("DELETED", Object::new(value, self.revision).bytes())
            }
            _ if shown == self.plainly() => {
                self.line.get_or_init(|| event_line(shown.name(), self.object.bytes())).clone()
            }
            _ => event_line(shown.name(), self.object.bytes()),
        }
    }
}

impl Shown {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted | Self::Left => "DELETED",
        }
    }
}

pub(crate) fn event_line(name: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    write_event(&mut line, name, object);
    line.into()
}

pub(crate) fn write_event(line: &mut Vec<u8>, name: &str, object: &[u8]) {
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
}
