//! The claims that wait for any volume, so that a volume that becomes free finds them.
//!
//! Upstream has no such index: there every claim is looked at again at each resync, and with it every volume.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use crate::objects::{Claim, claim, is_deleting, quantity::Amount};

/// A claim's place: read from the end, the largest request comes first, and the first name among equals.
type Place = (Amount, Reverse<Key>);

/// Waiting claims by class and volume mode, then by requested size.
#[derive(Clone, Debug, Default)]
pub struct WaitingClaims {
    groups: BTreeMap<(String, String), BTreeSet<Place>>,
}

/// Whether the claim waits for any volume that fits.
#[must_use]
pub fn is_waiting(claim: &Claim) -> bool {
    !claim::is_bind_completed(claim) && claim::volume_name(claim).is_empty() && !is_deleting(&claim.metadata)
}

fn place(key: &Key, claim: &Claim) -> ((String, String), Place) {
    let group = (claim::class(claim).to_owned(), claim::mode(claim).to_owned());
    (group, (claim::requested(claim), Reverse(key.clone())))
}

impl WaitingClaims {
    /// Adds a claim, if it waits.
    pub fn add(&mut self, key: &Key, claim: &Claim) {
        if is_waiting(claim) {
            let (group, entry) = place(key, claim);
            self.groups.entry(group).or_default().insert(entry);
        }
    }

    /// Takes a claim out, as it was when it was added.
    pub fn remove(&mut self, key: &Key, claim: &Claim) {
        let (group, entry) = place(key, claim);
        if let Some(claims) = self.groups.get_mut(&group) {
            claims.remove(&entry);
            if claims.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// Whether the claim is waiting.
    #[must_use]
    pub fn contains(&self, key: &Key, claim: &Claim) -> bool {
        let (group, entry) = place(key, claim);
        self.groups.get(&group).is_some_and(|claims| claims.contains(&entry))
    }

    /// The claims of a class and volume mode that ask for no more than `most`, the largest request first: it
    /// wastes the least. Among equals the first by name.
    pub fn at_most(&self, class: &str, mode: &str, most: Amount) -> impl Iterator<Item = &Key> {
        let claims = self.groups.get(&(class.to_owned(), mode.to_owned()));
        // Reversed, the first of all keys lies behind every claim of the same size.
        let end = (most, Reverse(Key::node("")));
        claims.into_iter().flat_map(move |claims| claims.range(..end.clone()).rev()).map(|(_, key)| &key.0)
    }
}
