//! The volumes that a claim could take, ordered so that the best one is found without looking at the others.
//!
//! A volume is free when it is Available, nobody's and not being deleted. Free volumes are grouped by class and
//! volume mode, then by set of access modes, then by the node label that they are pinned to, and are ordered by
//! capacity and name within a group. Cost: finding the least volume of at least some size is O(log n) in each
//! group that can fit; volumes refused by a label selector are stepped over. Answers to upstream's
//! `persistentVolumeOrderedIndex`, which looks at every volume.

use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use crate::objects::{Volume, is_deleting, quantity::Amount, topology, topology::Labels, volume};

/// A set of access modes. Sets compare by size first: smaller sets are tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModeSet {
    size: usize,
    modes: BTreeSet<String>,
}

impl ModeSet {
    /// The set of these modes; repeated ones count once.
    #[must_use]
    pub fn new(modes: &[String]) -> Self {
        let modes: BTreeSet<String> = modes.iter().cloned().collect();
        ModeSet { size: modes.len(), modes }
    }

    /// Whether every one of `wanted` is in the set.
    #[must_use]
    pub fn offers(&self, wanted: &[String]) -> bool {
        wanted.iter().all(|mode| self.modes.contains(mode))
    }
}

/// A node label, or none, that a volume is pinned to.
type Pin = Option<(String, String)>;
/// Volumes by capacity and name.
type Sized = BTreeSet<(Amount, Key)>;

/// Class and volume mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    class: String,
    mode: String,
}

/// The index.
#[derive(Clone, Debug, Default)]
pub struct FreeVolumes {
    groups: BTreeMap<Group, BTreeMap<ModeSet, BTreeMap<Pin, Sized>>>,
}

fn pins(volume: &Volume) -> Vec<Pin> {
    match topology::pin(volume) {
        None => vec![None],
        Some((key, values)) => values.iter().map(|value| Some((key.to_owned(), value.clone()))).collect(),
    }
}

/// Whether the volume may be given to a claim that did not ask for it by name.
#[must_use]
pub fn is_free(volume: &Volume) -> bool {
    volume::claim_ref(volume).is_none()
        && volume::phase(volume) == volume::AVAILABLE
        && !is_deleting(&volume.metadata)
}

impl FreeVolumes {
    /// Adds a volume, if it is free.
    pub fn add(&mut self, key: &Key, volume: &Volume) {
        if !is_free(volume) {
            return;
        }
        let sets = self.groups.entry(Self::group(volume)).or_default();
        let by_pin = sets.entry(ModeSet::new(volume::access_modes(volume))).or_default();
        for pin in pins(volume) {
            by_pin.entry(pin).or_default().insert((volume::capacity(volume), key.clone()));
        }
    }

    /// Takes a volume out, as it was when it was added.
    pub fn remove(&mut self, key: &Key, volume: &Volume) {
        let group = Self::group(volume);
        let Some(sets) = self.groups.get_mut(&group) else { return };
        let set = ModeSet::new(volume::access_modes(volume));
        if let Some(by_pin) = sets.get_mut(&set) {
            for pin in pins(volume) {
                if let Some(volumes) = by_pin.get_mut(&pin) {
                    volumes.remove(&(volume::capacity(volume), key.clone()));
                    if volumes.is_empty() {
                        by_pin.remove(&pin);
                    }
                }
            }
            if by_pin.is_empty() {
                sets.remove(&set);
            }
        }
        if sets.is_empty() {
            self.groups.remove(&group);
        }
    }

    fn group(volume: &Volume) -> Group {
        Group { class: volume::class(volume).to_owned(), mode: volume::mode(volume).to_owned() }
    }

    /// The sets of access modes among the free volumes of a class and mode that offer `wanted`, smallest first.
    pub fn sets(&self, class: &str, mode: &str, wanted: &[String]) -> impl Iterator<Item = &ModeSet> {
        let group = Group { class: class.to_owned(), mode: mode.to_owned() };
        let sets = self.groups.get(&group);
        sets.into_iter().flatten().map(|(set, _)| set).filter(move |set| set.offers(wanted))
    }

    /// The free volumes of a class, mode and set of access modes that hold at least `least`, smallest first and
    /// by name among equals. With a node's labels, only those that are not pinned elsewhere.
    pub fn at_least<'a>(
        &'a self,
        class: &str,
        mode: &str,
        set: &ModeSet,
        least: Amount,
        node: Option<&'a Labels>,
    ) -> impl Iterator<Item = &'a Key> + 'a {
        let group = Group { class: class.to_owned(), mode: mode.to_owned() };
        let by_pin = self.groups.get(&group).and_then(|sets| sets.get(set));
        let mut runs: Vec<_> = by_pin
            .into_iter()
            .flat_map(|by_pin| reachable(by_pin, node))
            .map(|volumes| volumes.range((least, Key::volume(""))..).peekable())
            .collect();
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

/// The runs of volumes that a node with these labels may reach; all of them without a node.
fn reachable<'a>(by_pin: &'a BTreeMap<Pin, Sized>, node: Option<&Labels>) -> Vec<&'a Sized> {
    let Some(labels) = node else { return by_pin.values().collect() };
    let pinned = labels.iter().filter_map(|(k, v)| by_pin.get(&Some((k.clone(), v.clone()))));
    by_pin.get(&None).into_iter().chain(pinned).collect()
}
