//! A cluster as it is seen through its questions.

use std::collections::BTreeSet;

use pvbind::cluster::{Cluster, Key, Kind};
use pvbind::objects::quantity::Amount;
use pvbind::objects::{claim, volume};

const KINDS: [Kind; 5] = [Kind::Node, Kind::Class, Kind::Volume, Kind::Claim, Kind::Pod];

/// Every answer that the cluster gives, one a line.
pub fn view(cluster: &Cluster) -> Vec<String> {
    let mut lines = Vec::new();
    let mut keys: Vec<Key> = KINDS.iter().flat_map(|kind| cluster.known_keys(*kind)).cloned().collect();
    for i in 0..6 {
        // Those that do not exist are asked for, too.
        keys.extend([Key::claim("default", &format!("c{i}")), Key::volume(&format!("p{i}"))]);
        keys.push(Key::pod("default", &format!("w{i}")));
    }
    keys.extend(["", "now", "late", "odd", "local", "fast"].map(Key::class));
    for key in keys.into_iter().collect::<BTreeSet<_>>() {
        lines.push(format!("{key}: {:?}; known {:?}", cluster.object(&key), cluster.known(&key)));
        lines.push(format!("{key}: volumes {:?}", keys_of(cluster.volumes_for(&key))));
        lines.push(format!("{key}: pods {:?}", keys_of(cluster.pods_using(&key))));
        lines.push(format!("{key}: assumption {:?}", cluster.assumption(&key)));
        // What a change would wake shows the indexes that no question asks.
        lines.push(format!("{key}: wakes {:?}", cluster.clone().gone(&key)));
    }
    for i in 0..3 {
        lines.push(format!("n{i}: in use {:?}", cluster.in_use(&format!("n{i}"))));
    }
    lines.push(format!("default {:?}", cluster.default_class()));
    lines.push(format!("speaking of others {:?}", keys_of(cluster.pods_with_affinity())));
    for class in ["", "now", "late", "odd", "local"] {
        for mode in ["Filesystem", "Block"] {
            groups(cluster, class, mode, &mut lines);
        }
    }
    lines
}

fn keys_of<'a, T>(pairs: impl Iterator<Item = (&'a Key, T)>) -> Vec<&'a Key> {
    pairs.map(|(key, _)| key).collect()
}

/// The indexes of free volumes and of waiting claims.
fn groups(cluster: &Cluster, class: &str, mode: &str, lines: &mut Vec<String>) {
    let free = cluster.free_volumes();
    for (set, shelf) in free.offering(class, mode, &[]) {
        let of_set: Vec<&Key> = shelf.at_least(Amount::ZERO, None).collect();
        lines.push(format!("{class} {mode} {set:?}: free {of_set:?}"));
        for node in cluster.nodes() {
            let labels = node.metadata.labels.as_ref();
            let on_node: Vec<&Key> = shelf.at_least(Amount::ZERO, labels).collect();
            lines.push(format!("{class} {mode} {set:?} on {:?}: free {on_node:?}", node.metadata.name));
        }
    }
    let most = Amount::units(i64::MAX);
    let waiting: Vec<&Key> = cluster.waiting_claims().at_most(class, mode, most).collect();
    lines.push(format!("{class} {mode}: waiting {waiting:?}"));
}

/// The indexes hold exactly what a look at every object says they should.
pub fn check_indexes(cluster: &Cluster) {
    let free = cluster.free_volumes();
    for class in ["", "now", "late", "odd", "local"] {
        for mode in ["Filesystem", "Block"] {
            let indexed: BTreeSet<String> = free
                .offering(class, mode, &[])
                .flat_map(|(_, shelf)| shelf.at_least(Amount::ZERO, None))
                .map(|key| key.name().to_owned())
                .collect();
            let scanned: BTreeSet<String> = cluster
                .volumes()
                .filter(|v| volume::class(v) == class && volume::mode(v) == mode)
                .filter(|v| volume::claim_ref(v).is_none() && volume::phase(v) == volume::AVAILABLE)
                .filter(|v| v.metadata.deletion_timestamp.is_none())
                .filter_map(|v| v.metadata.name.clone())
                .collect();
            assert_eq!(indexed, scanned, "free volumes of {class:?} {mode}");
            let waiting = cluster.waiting_claims().at_most(class, mode, Amount::units(i64::MAX));
            let indexed: BTreeSet<String> = waiting.map(|key| key.name().to_owned()).collect();
            let scanned: BTreeSet<String> = cluster
                .claims()
                .filter(|c| claim::class(c) == class && claim::mode(c) == mode)
                .filter(|c| claim::volume_name(c).is_empty() && !claim::is_bind_completed(c))
                .filter(|c| c.metadata.deletion_timestamp.is_none())
                .filter_map(|c| c.metadata.name.clone())
                .collect();
            assert_eq!(indexed, scanned, "waiting claims of {class:?} {mode}");
        }
    }
}
