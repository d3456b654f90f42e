//! The newest known version of every object, and over it what our own writes are about to make of it.
//!
//! Of two versions of one object the newer wins, whatever order they come in; a late answer cannot bring back
//! an object that is gone while a write to it is under way. Answers to upstream's `storeObjectUpdate` and, for
//! the overlay, to the scheduler's assume cache.

use std::collections::BTreeMap;

use super::{Key, Kind, Object};

/// How long an assumed state lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lasts {
    /// Until the write that it stands for has been answered.
    #[default]
    UntilAnswered,
    /// Until the object is shown in another version.
    UntilShown,
}

/// A reservation that was made on another version of an object than the one that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfSync {
    /// There is no such object.
    #[error("{} {:?} not found", .0.kind().resource(), .0.path())]
    NotFound(Key),
    /// It has changed meanwhile.
    #[error("{:?} is out of sync (stored: {stored}, assume: {assumed})", .key.path())]
    Changed {
        /// The object.
        key: Key,
        /// The version that is known.
        stored: String,
        /// The version that the reservation was made on.
        assumed: String,
    },
}

#[derive(Clone, Debug, Default)]
struct Entry {
    known: Option<Object>,
    assumed: Option<Object>,
    lasts: Lasts,
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
        if entry.lasts == Lasts::UntilShown
            && entry.assumed.as_ref().is_some_and(|assumed| assumed.version() != version)
        {
            entry.assumed = None;
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

    /// Forgets an object that went as of this version, unless it has been made anew since and that is known already.
    pub fn went(&mut self, key: &Key, version: u64) {
        let known = self.known(key).map_or(0, Object::version);
        if known <= version {
            self.gone(key);
        }
    }

    /// Forgets an object, and whatever was assumed of it.
    pub fn gone(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.assumed.take().is_none() || entry.lasts == Lasts::UntilShown {
            self.entries.remove(key);
            return;
        }
        // A write to the object is under way: remember the version until it ends, see `restore`.
        entry.went = true;
        entry.gone_at = entry.known.take().map_or(entry.gone_at, |known| known.version());
    }

    /// Lays an assumed state over the known one.
    pub fn assume(&mut self, key: &Key, object: Object) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.assumed = Some(object);
        entry.lasts = Lasts::UntilAnswered;
    }

    /// Lays an assumed state over the known one, until that is shown in another version: for writes that are not sent
    /// at once. Whoever reserved it on the version that is known last has it.
    ///
    /// # Errors
    /// When it was not made on the version that is known.
    pub fn reserve(&mut self, key: &Key, object: Object) -> Result<(), OutOfSync> {
        let entry = self.entries.get_mut(key).filter(|entry| entry.known.is_some());
        let Some(entry) = entry else { return Err(OutOfSync::NotFound(key.clone())) };
        let version = |object: &Object| object.metadata().resource_version.clone().unwrap_or_default();
        let (stored, assumed) = (entry.known.as_ref().map(version).unwrap_or_default(), version(&object));
        if stored != assumed {
            return Err(OutOfSync::Changed { key: key.clone(), stored, assumed });
        }
        entry.assumed = Some(object);
        entry.lasts = Lasts::UntilShown;
        Ok(())
    }

    /// Takes a reservation away, unless it has been made anew on another version since.
    pub fn release(&mut self, object: &Object) {
        let Some(entry) = self.entries.get_mut(&object.key()) else { return };
        let same =
            |assumed: &Object| assumed.metadata().resource_version == object.metadata().resource_version;
        if entry.lasts == Lasts::UntilShown && entry.assumed.as_ref().is_some_and(same) {
            entry.assumed = None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Volume;
    use serde_json::{from_value, json};

    fn volume(uid: &str, version: &str) -> Object {
        let volume = json!({"metadata": {"name": "v", "uid": uid, "resourceVersion": version}});
        Object::from(from_value::<Volume>(volume).unwrap())
    }

    #[test]
    fn the_end_of_an_object_is_not_that_of_the_one_made_anew() {
        let (mut store, key) = (Store::default(), Key::volume("v"));
        store.show(&key, volume("old", "1"));
        // Somebody has read the new one before the watch tells of the end of the old one.
        store.answer(&key, volume("new", "5"));
        store.went(&key, 3);
        assert_eq!(store.known(&key), Some(&volume("new", "5")));
        store.went(&key, 6);
        assert_eq!(store.known(&key), None);
    }
}
