//! What is assumed leaves no trace, and what is stale changes nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use pvbind::cluster::{Assumption, Cluster, Key, Kind, Object, PodVolumes};
use pvbind::decide::{self, Reads, Settings};

use crate::pure::Run;
use crate::view::{check_indexes, view};
use crate::world::{World, cluster_of, with_version, worlds};
use crate::{Dice, check};

/// A world that has come to rest, with every version of every object that led there.
fn history(world: &World, seed: u64) -> Run {
    let mut dice = Dice::new(seed);
    let mut run = Run::new(world);
    run.settle(|keys| dice.shuffle(keys));
    run
}

#[test]
fn to_assume_and_to_restore_is_to_do_nothing() {
    check(100, &(worlds(), any::<u64>()), |(world, seed)| {
        let mut dice = Dice::new(seed);
        let mut later = history(&world, seed).history;
        let mut cluster = world.cluster();
        let before = view(&cluster);
        // States that some plan makes are assumed, in any order and over each other.
        dice.shuffle(&mut later);
        for object in &later {
            cluster.assume(object.clone());
            check_indexes(&cluster);
        }
        let pods: Vec<Key> = cluster.known_keys(Kind::Pod).cloned().collect();
        for pod in &pods {
            let assumption = Assumption::of("n0", PodVolumes::default());
            cluster.set_assumption(pod, Some(assumption));
        }
        let mut keys: Vec<Key> = later.iter().map(Object::key).collect();
        dice.shuffle(&mut keys);
        for key in &keys {
            cluster.restore(key);
            check_indexes(&cluster);
        }
        for pod in &pods {
            cluster.set_assumption(pod, None);
        }
        assert_eq!(view(&cluster), before);
    });
}

#[test]
fn a_plan_that_is_assumed_and_restored_leaves_the_cluster_as_it_was() {
    check(100, &worlds(), |world| {
        let mut cluster = world.cluster();
        let before = view(&cluster);
        for key in world.objects.iter().map(Object::key) {
            let plan = decide::sync(&cluster, &Settings::default(), &key, &Reads::new());
            let mut assumed = Vec::new();
            for write in plan.writes() {
                let object = cluster.object(write.target()).expect("an object");
                let after = write.apply(object).expect("a change");
                cluster.assume(after);
                assumed.push(write.target().clone());
            }
            for target in assumed {
                cluster.restore(&target);
            }
        }
        assert_eq!(view(&cluster), before);
    });
}

/// The newest version of each object.
fn newest(history: &[Object]) -> BTreeMap<Key, Object> {
    let mut newest: BTreeMap<Key, Object> = BTreeMap::new();
    for object in history {
        newest.insert(object.key(), object.clone());
    }
    newest
}

#[test]
fn stale_and_repeated_events_in_any_order_lead_to_the_newest_view() {
    check(100, &(worlds(), any::<u64>()), |(world, seed)| {
        let mut dice = Dice::new(seed);
        let versions = history(&world, seed).history;
        let mut events = versions.clone();
        events.extend(versions.iter().filter(|_| dice.once_in(3)).cloned().collect::<Vec<_>>());
        dice.shuffle(&mut events);
        let mut cluster = Cluster::new();
        let mut seen: BTreeMap<Key, u64> = BTreeMap::new();
        for event in &events {
            cluster.show(event.clone());
            let newest = seen.entry(event.key()).or_default();
            *newest = event.version().max(*newest);
            let known = cluster.known(&event.key()).map(Object::version);
            assert_eq!(known, Some(*newest), "{} moved back", event.key());
            check_indexes(&cluster);
        }
        assert_eq!(view(&cluster), view(&cluster_of(newest(&versions).values())));
    });
}

#[test]
fn an_object_that_is_gone_stays_gone_while_a_write_to_it_is_under_way() {
    check(100, &(worlds(), any::<u64>()), |(world, seed)| {
        let versions = history(&world, seed).history;
        let newest = newest(&versions);
        for key in newest.keys() {
            let mut cluster = cluster_of(newest.values());
            cluster.assume(newest[key].clone());
            cluster.gone(key);
            for late in versions.iter().filter(|version| version.key() == *key) {
                cluster.show(late.clone());
            }
            assert_eq!(cluster.known(key), None, "{key} came back");
            // The write was made before the object went.
            cluster.confirm(key, Some(with_version(&newest[key], newest[key].version() + 1)));
            assert_eq!(cluster.object(key), None, "{key} came back with the answer");
            let others = newest.iter().filter(|(other, _)| *other != key).map(|(_, object)| object);
            assert_eq!(view(&cluster), view(&cluster_of(others)));
        }
    });
}
