//! The index finds what upstream finds by looking at every volume.

use std::collections::BTreeSet;

use proptest::prelude::*;
use pvbind::cluster::{Cluster, Key};
use pvbind::decide::matching::{self, NodeSearch};
use pvbind::decide::{Reason, Settings};
use pvbind::objects::topology;
use pvbind::objects::{Claim, Node, Volume, claim, is_deleting, name, volume};

use crate::check;
use crate::world::{World, worlds};

/// What upstream's `FindMatchingVolume` is asked.
struct Asked<'a> {
    claim: &'a Claim,
    node: Option<&'a Node>,
    excluded: &'a BTreeSet<Key>,
    delayed: bool,
    attributes_class: bool,
}

/// Upstream's `FindMatchingVolume`, step by step.
fn find_matching_volume<'a>(volumes: &[&'a Volume], asked: &Asked) -> Option<&'a Volume> {
    let claim = asked.claim;
    let selector = claim.spec.as_ref().and_then(|s| s.selector.as_ref());
    let mut smallest: Option<&Volume> = None;
    for &volume in volumes {
        let bound = volume::is_for(volume, claim);
        if asked.excluded.contains(&Key::volume(name(&volume.metadata)))
            || (volume::claim_ref(volume).is_some() && !bound)
            || volume::capacity(volume) < claim::requested(claim)
            || volume::mode(volume) != claim::mode(claim)
        {
            continue;
        }
        let of_volume = volume::attributes_class(volume);
        let wanted = if asked.attributes_class { claim::attributes_class(claim) } else { "" };
        if of_volume != wanted || is_deleting(&volume.metadata) {
            continue;
        }
        let reached = asked.node.is_none_or(|node| topology::reaches(volume, node.metadata.labels.as_ref()));
        if bound {
            return reached.then_some(volume);
        }
        if (asked.node.is_none() && asked.delayed)
            || volume::phase(volume) != volume::AVAILABLE
            || selector
                .is_some_and(|s| topology::selector_matches(s, volume.metadata.labels.as_ref()) != Some(true))
            || volume::class(volume) != claim::class(claim)
            || !reached
            || (asked.node.is_some() && !claim::access_modes_fit(claim, volume))
        {
            continue;
        }
        if smallest.is_none_or(|s| volume::capacity(s) > volume::capacity(volume)) {
            smallest = Some(volume);
        }
    }
    smallest
}

fn modes(volume: &Volume) -> BTreeSet<&str> {
    volume::access_modes(volume).iter().map(String::as_str).collect()
}

/// Upstream's `findByClaim`: the sets of access modes that offer what is asked for, the smallest first.
fn find_by_claim<'a>(cluster: &'a Cluster, asked: &Asked) -> Option<&'a Volume> {
    let wanted: BTreeSet<&str> = claim::access_modes(asked.claim).iter().map(String::as_str).collect();
    let all: BTreeSet<BTreeSet<&str>> = cluster.volumes().map(|volume| modes(volume)).collect();
    let mut sets: Vec<BTreeSet<&str>> = all.into_iter().filter(|set| set.is_superset(&wanted)).collect();
    // Upstream leaves the order of sets of one size to chance.
    sets.sort_by_key(BTreeSet::len);
    sets.iter().find_map(|set| {
        let of_set: Vec<&Volume> = cluster.volumes().map(|v| &**v).filter(|v| modes(v) == *set).collect();
        find_matching_volume(&of_set, asked)
    })
}

/// Whether upstream looks for no volume at all.
fn is_refused(claim: &Claim, attributes_class: bool) -> bool {
    let selector = claim.spec.as_ref().and_then(|s| s.selector.as_ref());
    (!attributes_class && !claim::attributes_class(claim).is_empty())
        || selector.is_some_and(|s| topology::selector_matches(s, None).is_none())
}

fn names(found: Result<Option<&Volume>, Reason>) -> Result<Option<&str>, ()> {
    found.map(|volume| volume.map(|v| name(&v.metadata))).map_err(|_| ())
}

#[test]
fn the_controller_finds_what_a_walk_over_all_volumes_finds() {
    check(1000, &(worlds(), any::<bool>(), any::<bool>()), |(world, delayed, attributes_class)| {
        let cluster = world.cluster();
        let settings = Settings { volume_attributes_class: attributes_class, ..Settings::default() };
        for object in &world.objects {
            let Some(claim) = object.as_claim() else { continue };
            let asked = Asked { claim, node: None, excluded: &BTreeSet::new(), delayed, attributes_class };
            let walked = if is_refused(claim, attributes_class) {
                Err(())
            } else {
                Ok(find_by_claim(&cluster, &asked).map(|v| name(&v.metadata)))
            };
            let found = matching::find(&cluster, &settings, &object.key(), claim, delayed);
            assert_eq!(names(found.map(|v| v.map(|v| &**v))), walked, "for {}", object.key());
        }
    });
}

/// What upstream's scheduler finds among the volumes of the claim's class.
fn walk_on_node<'a>(cluster: &'a Cluster, asked: &Asked) -> Option<&'a Volume> {
    let class = claim::class(asked.claim);
    let of_class: Vec<&Volume> =
        cluster.volumes().map(|v| &**v).filter(|v| volume::class(v) == class).collect();
    find_matching_volume(&of_class, asked)
}

fn on_every_node(world: &World, excluded: &BTreeSet<Key>) {
    let cluster = world.cluster();
    let claims = world.objects.iter().filter_map(|o| Some((o.key(), o.as_claim()?)));
    for (key, claim) in claims {
        for node in cluster.nodes() {
            let labels = node.metadata.labels.as_ref();
            let search = NodeSearch::new(&cluster, &Settings::default(), &key, claim);
            let found = search.map(|search| search.on_node((name(&node.metadata), labels), excluded));
            let asked = Asked { claim, node: Some(node), excluded, delayed: true, attributes_class: true };
            let walked = if is_refused(claim, true) {
                Err(())
            } else {
                Ok(walk_on_node(&cluster, &asked).map(|v| name(&v.metadata)))
            };
            assert_eq!(
                names(found.map(|v| v.map(|v| &**v))),
                walked,
                "for {key} on {:?}",
                node.metadata.name
            );
        }
    }
}

#[test]
fn the_scheduler_finds_what_a_walk_over_all_volumes_finds() {
    let excluded =
        proptest::collection::btree_set((0usize..6).prop_map(|i| Key::volume(&format!("p{i}"))), 0..3);
    check(1000, &(worlds(), excluded), |(world, excluded)| on_every_node(&world, &excluded));
}
