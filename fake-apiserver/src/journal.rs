//! Decides what is remembered of a request, for tests that ask what a client did. Never changes anything, and never remembers
//! more than it may. Answers to the audit log of `k8s.io/apiserver/pkg/audit`, reduced to what a test asserts.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::faults::glob;

/// One request, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Counts the requests of this server, from 1.
    pub number: u64,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; outside resources the method.
    pub verb: String,
    /// The API group, empty for core.
    pub group: String,
    /// The plural, such as `persistentvolumes`; outside resources the path.
    pub resource: String,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Empty outside namespaces.
    pub namespace: String,
    /// Empty for the collection.
    pub name: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// The parameters, as they came: those of a list or watch say how it was asked for.
    pub query: Vec<(String, String)>,
    /// The type of the body: of a patch, its kind.
    pub content_type: String,
    /// The code of the answer; 0 when the connection was lost.
    pub code: u16,
    /// Until the answer, of a watch until its head.
    pub duration: Duration,
}

impl Entry {
    /// The value of a parameter, or "".
    #[must_use]
    pub fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5} {} {}", self.number, self.verb, self.resource)?;
        for part in [&self.namespace, &self.name, &self.subresource] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        for (index, (name, value)) in self.query.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "?" } else { "&" })?;
        }
        write!(f, " -> {} in {:?}", self.code, self.duration)?;
        if self.user_agent.is_empty() { Ok(()) } else { write!(f, " by {}", self.user_agent) }
    }
}

/// What a server remembers while it runs.
pub(crate) struct Log {
    limit: usize,
    entries: Mutex<VecDeque<Entry>>,
    last: AtomicU64,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, entries: Mutex::default(), last: AtomicU64::new(0) }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.limit > 0
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a request; the oldest goes when there are too many.
    pub(crate) fn push(&self, mut entry: Entry) {
        let mut entries = self.lock();
        entry.number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        if entries.len() >= self.limit {
            entries.pop_front();
        }
        if self.limit > 0 {
            entries.push_back(entry);
        }
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    pub(crate) fn read(&self) -> Journal {
        Journal { entries: self.lock().iter().cloned().collect() }
    }
}

/// Requests that a server has answered, oldest first; those that a test asks about are picked one condition at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Journal {
    entries: Vec<Entry>,
}

impl Journal {
    /// The requests.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Those that a condition holds for.
    #[must_use]
    pub fn only(mut self, condition: impl Fn(&Entry) -> bool) -> Self {
        self.entries.retain(condition);
        self
    }

    /// Those with that verb.
    #[must_use]
    pub fn verb(self, verb: &str) -> Self {
        self.only(|entry| entry.verb == verb)
    }

    /// Those that write, refused or not.
    #[must_use]
    pub fn writes(self) -> Self {
        self.only(|entry| !matches!(entry.verb.as_str(), "get" | "list" | "watch" | "GET" | "HEAD"))
    }

    /// Those for a resource, by its plural.
    #[must_use]
    pub fn resource(self, plural: &str) -> Self {
        self.only(|entry| entry.resource == plural)
    }

    /// Those for one object; the namespace is empty for those outside namespaces.
    #[must_use]
    pub fn object(self, namespace: &str, name: &str) -> Self {
        self.only(|entry| entry.namespace == namespace && entry.name == name)
    }

    /// Those by clients that call themselves so; `*` stands for any letters.
    #[must_use]
    pub fn by(self, user_agent: &str) -> Self {
        self.only(|entry| glob(user_agent, &entry.user_agent))
    }

    /// Those with that answer.
    #[must_use]
    pub fn code(self, code: u16) -> Self {
        self.only(|entry| entry.code == code)
    }

    /// Asserts that there are so many.
    ///
    /// # Panics
    /// When there are more or fewer; it shows them.
    #[track_caller]
    pub fn assert_count(&self, expected: usize) {
        assert!(self.count() == expected, "{expected} requests were expected, and these came:\n{self}");
    }

    /// Asserts that there is none.
    ///
    /// # Panics
    /// When there is one; it shows them.
    #[track_caller]
    pub fn assert_none(&self) {
        self.assert_count(0);
    }

    /// Asserts that there is at least one.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn assert_some(&self) {
        assert!(self.count() > 0, "no such request came");
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}
