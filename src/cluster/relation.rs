//! An index from one key to many.
//!
//! It holds no objects, and an entry that leads nowhere does no harm: whoever asks looks the objects up. Its pairs stand
//! in one set, since most keys lead to one other, for which a set of its own takes several times the memory.

use std::collections::BTreeSet;

use super::{Key, Kind};

/// From one key to many.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pairs: BTreeSet<(Key, Key)>,
    /// The key that is before all others.
    first: Key,
}

impl Default for Relation {
    fn default() -> Self {
        Relation { pairs: BTreeSet::new(), first: Key::new(Kind::Node, "", "") }
    }
}

impl Relation {
    /// Adds a pair.
    pub(super) fn add(&mut self, from: Key, to: &Key) {
        self.pairs.insert((from, to.clone()));
    }

    /// Takes a pair out.
    pub(super) fn remove(&mut self, from: Key, to: &Key) {
        self.pairs.remove(&(from, to.clone()));
    }

    /// All that a key leads to.
    pub(super) fn of(&self, from: &Key) -> impl Iterator<Item = &Key> {
        let all = self.pairs.range((from.clone(), self.first.clone())..);
        all.take_while(move |(other, _)| other == from).map(|(_, to)| to)
    }
}
