//! Worlds come to rest, whatever the order, and a crash at any write changes nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use pvbind::cluster::{Key, Object};
use pvbind::decide::{self, Action, Reads};

use crate::pure::Run;
use crate::world::{World, worlds};
use crate::{Dice, check};

/// How many orders are tried before a world's end state counts as the only possible one.
const ORDERS: u64 = 4;

fn settled(world: &World, mut order: impl FnMut(&mut Vec<Key>)) -> Run {
    let mut run = Run::new(world);
    run.settle(&mut order);
    run
}

#[test]
fn a_settled_world_plans_no_write_in_any_order() {
    check(300, &(worlds(), any::<u64>()), |(world, seed)| {
        let mut dice = Dice::new(seed);
        let run = settled(&world, |keys| dice.shuffle(keys));
        for key in run.keys() {
            let mut reads = Reads::new();
            let mut plan = decide::sync(&run.cluster, &run.settings, &key, &reads);
            if let Some(Action::Read(read)) = plan.actions.last() {
                reads.insert(read.clone(), run.api.get(read).cloned());
                plan = decide::sync(&run.cluster, &run.settings, &key, &reads);
            }
            assert_eq!(plan.writes().next(), None, "{key} is not settled");
        }
    });
}

#[test]
fn a_fixed_order_gives_one_end_state_however_the_objects_came() {
    check(200, &(worlds(), any::<u64>()), |(world, seed)| {
        let mut shuffled = world.clone();
        Dice::new(seed).shuffle(&mut shuffled.objects);
        let (one, other) = (settled(&world, |_| ()), settled(&shuffled, |_| ()));
        assert_eq!(one.api.keys().collect::<Vec<_>>(), other.api.keys().collect::<Vec<_>>());
        assert_eq!(one.result(), other.result());
    });
}

/// The end state of a world, if it is the same in all orders that are tried. Where volumes are taken from claims, a
/// claim gets them or not depending on when that is.
fn only_outcome(world: &World, seed: u64) -> Option<BTreeMap<Key, Object>> {
    let first = settled(world, |_| ());
    let is_same = |run: &Run| !run.unbound && run.result() == first.result();
    let shuffled = (0..ORDERS).all(|n| {
        let mut dice = Dice::new(seed.wrapping_add(n));
        is_same(&settled(world, |keys| dice.shuffle(keys)))
    });
    // Whoever competes with another one shows it by coming last, when all else is done.
    let delayed = || {
        first.keys().iter().all(|last| {
            let mut run = settled(world, |keys| keys.retain(|key| key != last));
            run.settle(|_| ());
            is_same(&run)
        })
    };
    (!first.unbound && shuffled && delayed()).then(|| first.result())
}

#[test]
fn a_crash_after_any_write_leads_to_the_same_kind_of_end() {
    check(200, &(worlds(), any::<u64>()), |(world, seed)| {
        let only = only_outcome(&world, seed);
        let mut dice = Dice::new(seed);
        let total = settled(&world, |keys| dice.shuffle(keys)).writes;
        for limit in 0..=total {
            // The same dice as above: the run is the same up to its last write.
            let mut dice = Dice::new(seed);
            let mut run = Run::new(&world);
            run.limit = limit;
            run.settle(|keys| dice.shuffle(keys));
            run.crash();
            run.settle(|keys| dice.shuffle(keys));
            if let Some(only) = &only {
                assert_eq!(&run.result(), only, "after a crash behind write {limit}");
            }
        }
    });
}
