//! The entries of one YAML mapping: which text a key is, that none is there twice, and what merge keys add.
//!
//! What the mapping says itself wins over what it merges, and an earlier merge over a later one. Never reads text.

use std::borrow::Cow;
use std::collections::HashSet;

use super::node::{Data, Entry, Node};
use super::scalar;
use super::yaml::{Unreadable, unreadable};

/// Text in double braces is nearly always a template.
const NOT_A_KEY: &str = "key is a list or a mapping, and must be a string; if {{ … }} is a template, render it first, as with helm template";

/// A mapping with fewer keys is searched faster than hashed.
const HASH_FROM: usize = 16;

/// Entries as they come.
#[derive(Default)]
pub(super) struct MappingBuilder<'a> {
    entries: Vec<Entry<'a>>,
    /// The keys of all entries, once there are many or some are merged.
    seen: HashSet<Cow<'a, str>>,
    merges: Vec<Node<'a>>,
}

impl<'a> MappingBuilder<'a> {
    /// Takes a key and its value.
    pub(super) fn insert(&mut self, key: Node<'a>, value: Node<'a>) -> Result<(), Unreadable> {
        let line = key.line;
        let key = key_text(key)?;
        if let Some(first) = self.earlier(&key) {
            return unreadable(line, format!("key {key:?} is there twice, first on line {first}; keep one"));
        }
        if self.entries.len() >= HASH_FROM {
            self.seen.insert(key.clone());
        }
        self.entries.push(Entry { key, line, value });
        Ok(())
    }

    /// Takes the value of a merge key.
    pub(super) fn merge(&mut self, value: Node<'a>) {
        self.merges.push(value);
    }

    /// All entries of the mapping that starts on this line.
    pub(super) fn finish(mut self, line: u32) -> Result<Vec<Entry<'a>>, Unreadable> {
        if !self.merges.is_empty() {
            self.remember_all();
        }
        for merge in std::mem::take(&mut self.merges) {
            self.add_missing(&merge, line)?;
        }
        Ok(self.entries)
    }

    fn remember_all(&mut self) {
        self.seen.extend(self.entries.iter().map(|entry| entry.key.clone()));
    }

    /// The line of an earlier entry with this key.
    fn earlier(&mut self, key: &str) -> Option<u32> {
        if self.entries.len() >= HASH_FROM {
            if self.seen.is_empty() {
                self.remember_all();
            }
            if !self.seen.contains(key) {
                return None;
            }
        }
        self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.line)
    }

    fn add_missing(&mut self, merge: &Node<'a>, line: u32) -> Result<(), Unreadable> {
        match merge.data() {
            Data::Mapping(merged) => {
                let missing = merged.iter().filter(|entry| self.seen.insert(entry.key.clone()));
                self.entries.extend(missing.cloned());
                Ok(())
            }
            Data::List(several) if several.iter().all(|one| matches!(one.data(), Data::Mapping(_))) => {
                several.iter().try_for_each(|one| self.add_missing(one, line))
            }
            _ => unreadable(
                merge.line.max(line),
                "merge key << takes a mapping, an alias to one, or a list of these",
            ),
        }
    }
}

/// A key as JSON has it: kubectl writes numbers and booleans as their text.
fn key_text(key: Node<'_>) -> Result<Cow<'_, str>, Unreadable> {
    let line = key.line;
    let text = match key.data {
        Data::Text(text) => return Ok(text),
        Data::Plain(text) => text,
        Data::Shared(ref node) => match &node.data {
            Data::Text(text) => return Ok(text.clone()),
            Data::Plain(text) => text.clone(),
            _ => return unreadable(line, NOT_A_KEY),
        },
        _ => return unreadable(line, NOT_A_KEY),
    };
    match scalar::resolve(&text) {
        None => Ok(text),
        Some(serde_json::Value::Null) => unreadable(line, "key is null; a key must be a string"),
        Some(value) => Ok(Cow::Owned(value.to_string())),
    }
}
