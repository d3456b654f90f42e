//! The newest known version of every object, and over it what our own writes are about to make of it.
//!
//! Of two versions of one object the newer wins, whatever order they come in; a late answer cannot bring back
//! an object that is gone while a write to it is under way. Answers to upstream's `storeObjectUpdate` and, for
//! the overlay, to the scheduler's assume cache.

use std::collections::BTreeMap;

use super::{Key, Kind, Object};

#[derive(Clone, Debug, Default)]
struct Entry {
    known: Option<Object>,
    assumed: Option<Object>,
    /// The newest version that is known not to exist any more.
    gone_at: u64,
    /// Whether the object went while a write to it was under way.
    went: bool,
}

/// All objects by key.
#[derive(Clone, Debug, Default)]
pub struct Store {
    entries: BTreeMap<Key, Entry>,
}

impl Store {
    /// The object as decisions see it: as assumed, else as known.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Object> {
        let entry = self.entries.get(key)?;
        entry.assumed.as_ref().or(entry.known.as_ref())
    }

    /// The object as the API server last showed it.
    #[must_use]
    pub fn known(&self, key: &Key) -> Option<&Object> {
        self.entries.get(key)?.known.as_ref()
    }

    /// Every object of a kind as decisions see it, by namespace and name.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.keyed(kind).map(|(_, object)| object)
    }

    /// Every object of a kind as decisions see it, with its key, by namespace and name.
    pub fn keyed(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        self.entries
            .range(Key::new(kind, "", "")..)
            .take_while(move |(key, _)| key.kind() == kind)
            .filter_map(|(key, entry)| Some((key, entry.assumed.as_ref().or(entry.known.as_ref())?)))
    }

    /// The keys of the objects of a kind that the API server has shown.
    pub fn known_keys(&self, kind: Kind) -> impl Iterator<Item = &Key> {
        self.entries
            .range(Key::new(kind, "", "")..)
            .take_while(move |(key, _)| key.kind() == kind)
            .filter(|(_, entry)| entry.known.is_some())
            .map(|(key, _)| key)
    }

    /// Takes a version over if it is newer than the known one; says whether it did. A version that the server
    /// gave twice counts as new: it may carry the objects of a server that keeps no versions.
    pub fn show(&mut self, key: &Key, object: Object) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        let version = object.version();
        let newest = entry.known.as_ref().map_or(entry.gone_at, Object::version);
        if version < newest || (entry.known.is_none() && version == newest && version > 0) {
            return false;
        }
        entry.known = Some(object);
        entry.went = false;
        true
    }

    /// Takes the answer to a write over, unless the object went meanwhile: the answer is newer than what was known
    /// then, and older than the end of the object.
    pub fn answer(&mut self, key: &Key, object: Object) {
        // Where nothing was assumed, as of a deletion, nothing is left of an object that went.
        if self.entries.get(key).is_some_and(|entry| !entry.went) {
            self.show(key, object);
        }
    }

    /// Forgets an object, and whatever was assumed of it.
    pub fn gone(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.assumed.take().is_none() {
            self.entries.remove(key);
            return;
        }
        // A write to the object is under way: remember the version until it ends, see `restore`.
        entry.went = true;
        entry.gone_at = entry.known.take().map_or(entry.gone_at, |known| known.version());
    }

    /// Lays an assumed state over the known one.
    pub fn assume(&mut self, key: &Key, object: Object) {
        self.entries.entry(key.clone()).or_default().assumed = Some(object);
    }

    /// Takes the assumed state away; afterwards nothing is left of an object that is gone.
    pub fn restore(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.assumed = None;
        if entry.known.is_none() {
            self.entries.remove(key);
        }
    }
}
