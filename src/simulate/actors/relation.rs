//! Two small index structures: a many-to-many relation and a set of integers kept as runs.
//!
//! Both answer in logarithmic time what a scan would answer in linear time; neither knows what it indexes.

use std::collections::{BTreeMap, BTreeSet};

/// Which `B`s belong to an `A`.
#[derive(Debug, Clone)]
pub struct Relation<A, B>(BTreeMap<A, BTreeSet<B>>);

impl<A, B> Default for Relation<A, B> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<A: Ord, B: Ord> Relation<A, B> {
    /// Records that `b` belongs to `a`.
    pub fn insert(&mut self, a: A, b: B) {
        self.0.entry(a).or_default().insert(b);
    }

    /// Forgets that `b` belongs to `a`.
    pub fn remove(&mut self, a: &A, b: &B) {
        if let Some(set) = self.0.get_mut(a) {
            set.remove(b);
            if set.is_empty() {
                self.0.remove(a);
            }
        }
    }

    /// What belongs to `a`, in order.
    pub fn of<'a>(&'a self, a: &A) -> impl Iterator<Item = &'a B> + use<'a, A, B> {
        self.0.get(a).into_iter().flatten()
    }
}

/// A set of integers, stored as maximal runs `first..=last`, so that the first missing one is found without a scan.
#[derive(Debug, Clone, Default)]
pub struct Runs(BTreeMap<i64, i64>);

impl Runs {
    fn run_of(&self, x: i64) -> Option<(i64, i64)> {
        self.0.range(..=x).next_back().map(|(a, b)| (*a, *b)).filter(|(_, last)| *last >= x)
    }

    /// Adds `x`.
    pub fn insert(&mut self, x: i64) {
        if self.run_of(x).is_some() {
            return;
        }
        let before = x.checked_sub(1).and_then(|p| self.run_of(p));
        let after = x.checked_add(1).and_then(|n| self.run_of(n));
        if let Some((first, _)) = after {
            self.0.remove(&first);
        }
        self.0.insert(before.map_or(x, |(first, _)| first), after.map_or(x, |(_, last)| last));
    }

    /// Takes `x` out.
    pub fn remove(&mut self, x: i64) {
        let Some((first, last)) = self.run_of(x) else { return };
        self.0.remove(&first);
        if first < x {
            self.0.insert(first, x - 1);
        }
        if x < last {
            self.0.insert(x + 1, last);
        }
    }

    /// The first integer from `from` on that is not in the set.
    #[must_use]
    pub fn first_gap(&self, from: i64) -> i64 {
        self.run_of(from).map_or(from, |(_, last)| last.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_and_split() {
        let mut runs = Runs::default();
        for x in [0, 2, 1, 5] {
            runs.insert(x);
        }
        assert_eq!((runs.first_gap(0), runs.first_gap(3), runs.first_gap(5)), (3, 3, 6));
        assert_eq!(runs.0.len(), 2);
        runs.remove(1);
        assert_eq!((runs.first_gap(0), runs.first_gap(1), runs.first_gap(2)), (1, 1, 3));
        runs.remove(7);
        runs.insert(i64::MAX);
        assert_eq!(runs.first_gap(i64::MAX), i64::MAX);
    }

    #[test]
    fn a_relation_forgets_empty_sets() {
        let mut relation = Relation::default();
        relation.insert(1, 'b');
        relation.insert(1, 'a');
        assert_eq!(relation.of(&1).copied().collect::<String>(), "ab");
        relation.remove(&1, &'a');
        relation.remove(&1, &'b');
        relation.remove(&2, &'b');
        assert!(relation.0.is_empty());
    }
}
