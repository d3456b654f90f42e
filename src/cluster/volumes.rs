//! The volumes that a claim could take, ordered so that the best one is found without looking at the others.
//!
//! A volume is free when it is Available, nobody's and not being deleted. Free volumes are grouped by class and
//! volume mode, then by set of access modes, then by the node label that they are pinned to, and are ordered by
//! capacity and name within a group. Cost: finding the least volume of at least some size is O(log n) in each
//! group that can fit; volumes refused by a label selector are stepped over. Answers to upstream's
//! `persistentVolumeOrderedIndex`, which looks at every volume.

use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use crate::objects::access::ModeSet;
use crate::objects::{Volume, is_deleting, quantity::Amount, topology, topology::Labels, volume};

/// Volumes by capacity and name.
type Sized = BTreeSet<(Amount, Key)>;

/// The free volumes of one class, volume mode and set of access modes.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    /// Those that are pinned to no label.
    anywhere: Sized,
    /// The others, by the label that they are pinned to and each value that will do.
    pinned: BTreeMap<String, BTreeMap<String, Sized>>,
}

/// Class and volume mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    class: String,
    mode: String,
}

/// The index.
#[derive(Clone, Debug, Default)]
pub struct FreeVolumes {
    groups: BTreeMap<Group, BTreeMap<ModeSet, Shelf>>,
}

/// Whether the volume may be given to a claim that did not ask for it by name.
#[must_use]
pub fn is_free(volume: &Volume) -> bool {
    volume::claim_ref(volume).is_none()
        && volume::phase(volume) == volume::AVAILABLE
        && !is_deleting(&volume.metadata)
}

impl Shelf {
    fn add(&mut self, key: &Key, volume: &Volume) {
        let entry = (volume::capacity(volume), key.clone());
        let Some((label, values)) = topology::pin(volume) else {
            self.anywhere.insert(entry);
            return;
        };
        let by_value = self.pinned.entry(label.to_owned()).or_default();
        for value in values {
            by_value.entry(value.clone()).or_default().insert(entry.clone());
        }
    }

    fn remove(&mut self, key: &Key, volume: &Volume) {
        let entry = (volume::capacity(volume), key.clone());
        let Some((label, values)) = topology::pin(volume) else {
            self.anywhere.remove(&entry);
            return;
        };
        let Some(by_value) = self.pinned.get_mut(label) else { return };
        for value in values {
            if let Some(volumes) = by_value.get_mut(value) {
                volumes.remove(&entry);
                if volumes.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        if by_value.is_empty() {
            self.pinned.remove(label);
        }
    }

    fn is_empty(&self) -> bool {
        self.anywhere.is_empty() && self.pinned.is_empty()
    }

    /// The volumes that a node with these labels may reach; all of them without a node.
    fn reachable(&self, node: Option<&Labels>) -> Vec<&Sized> {
        let mut runs = vec![&self.anywhere];
        for (label, by_value) in &self.pinned {
            match node {
                None => runs.extend(by_value.values()),
                Some(labels) => runs.extend(labels.get(label).and_then(|value| by_value.get(value))),
            }
        }
        runs
    }

    /// The volumes that hold at least `least`, smallest first and by name among equals. With a node's labels, only
    /// those that are not pinned elsewhere.
    pub fn at_least(&self, least: Amount, node: Option<&Labels>) -> impl Iterator<Item = &Key> + use<'_> {
        let runs = self.reachable(node).into_iter();
        let mut runs: Vec<_> =
            runs.map(|volumes| volumes.range((least, Key::volume(""))..).peekable()).collect();
        let mut given: Option<&(Amount, Key)> = None;
        std::iter::from_fn(move || {
            loop {
                let next = runs.iter_mut().filter_map(|run| run.peek().copied()).min()?;
                for run in &mut runs {
                    if run.peek() == Some(&next) {
                        run.next();
                    }
                }
                // A volume that is pinned to several values stands in several runs.
                if given != Some(next) {
                    given = Some(next);
                    return Some(&next.1);
                }
            }
        })
    }
}

impl FreeVolumes {
    /// Adds a volume, if it is free.
    pub fn add(&mut self, key: &Key, volume: &Volume) {
        if !is_free(volume) {
            return;
        }
        let shelves = self.groups.entry(Self::group(volume)).or_default();
        shelves.entry(ModeSet::new(volume::access_modes(volume))).or_default().add(key, volume);
    }

    /// Takes a volume out, as it was when it was added.
    pub fn remove(&mut self, key: &Key, volume: &Volume) {
        let group = Self::group(volume);
        let Some(shelves) = self.groups.get_mut(&group) else { return };
        let set = ModeSet::new(volume::access_modes(volume));
        if let Some(shelf) = shelves.get_mut(&set) {
            shelf.remove(key, volume);
            if shelf.is_empty() {
                shelves.remove(&set);
            }
        }
        if shelves.is_empty() {
            self.groups.remove(&group);
        }
    }

    fn group(volume: &Volume) -> Group {
        Group { class: volume::class(volume).to_owned(), mode: volume::mode(volume).to_owned() }
    }

    /// The free volumes of a class and mode, by their set of access modes: the sets that offer `wanted`, smallest
    /// first.
    pub fn offering<'a>(
        &'a self,
        class: &str,
        mode: &str,
        wanted: &'a [String],
    ) -> impl Iterator<Item = (&'a ModeSet, &'a Shelf)> + use<'a> {
        let group = Group { class: class.to_owned(), mode: mode.to_owned() };
        let shelves = self.groups.get(&group);
        shelves.into_iter().flatten().filter(move |(set, _)| set.offers(wanted))
    }
}
