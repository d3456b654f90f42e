//! An index from one key to many.
//!
//! It holds no objects, and an entry that leads nowhere does no harm: whoever asks looks the objects up.

use std::collections::{BTreeMap, BTreeSet};

use super::Key;

/// From one key to many.
#[derive(Clone, Debug, Default)]
pub(super) struct Relation(BTreeMap<Key, BTreeSet<Key>>);

impl Relation {
    /// Adds a pair.
    pub(super) fn add(&mut self, from: Key, to: &Key) {
        self.0.entry(from).or_default().insert(to.clone());
    }

    /// Takes a pair out.
    pub(super) fn remove(&mut self, from: &Key, to: &Key) {
        if let Some(set) = self.0.get_mut(from) {
            set.remove(to);
            if set.is_empty() {
                self.0.remove(from);
            }
        }
    }

    /// All that a key leads to.
    pub(super) fn of(&self, from: &Key) -> impl Iterator<Item = &Key> {
        self.0.get(from).into_iter().flatten()
    }
}
