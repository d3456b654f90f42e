//! Which volume a claim gets: asked of the Cluster and its index of free volumes.

use std::collections::{BTreeMap, BTreeSet};

use pvbind::cluster::volumes::is_free;
use pvbind::cluster::{Cluster, Key, Object};
use pvbind::decide::matching::{self, For, Mismatch, NodeSearch};
use pvbind::objects::access::ModeSet;
use pvbind::objects::quantity::Amount;
use pvbind::objects::{Claim, Node, Volume, claim, name, namespace, uid, volume};
use serde_json::{Value, json};

use super::Row;
use crate::story;

/// Knows the volumes. Upstream's index keeps the last of those that have one name, and so does the Cluster.
fn knowing(volumes: Vec<Volume>) -> Cluster {
    let mut cluster = Cluster::new();
    for volume in volumes {
        cluster.show(Object::from(volume));
    }
    cluster
}

fn key(claim: &Claim) -> Key {
    Key::claim(namespace(&claim.metadata), name(&claim.metadata))
}

/// Compares the answer as the record asks for it: by uid, by name, or only that there is one.
fn check_match(row: &Row, answer: Result<Option<(&str, &str)>, String>) -> String {
    let (found, error) = match answer {
        Ok(found) => (found, None),
        Err(error) => (None, Some(error)),
    };
    let observed = found.map(|(name, uid)| json!({"name": name, "uid": uid}));
    let expected = found.map(|(name, uid)| match row.expected["match"]["by"].as_str() {
        Some("uid") => json!({"by": "uid", "value": uid}),
        Some("name") => json!({"by": "name", "value": name}),
        _ => json!({"by": "any"}),
    });
    row.check(
        json!({"match": expected, "error": error.is_some()}),
        json!({"match": observed, "error": error}),
    );
    error.unwrap_or_else(|| found.map_or("none".to_owned(), |(name, uid)| format!("{name} (uid {uid:?})")))
}

pub fn find(row: &Row) -> String {
    let (claim, volumes): (Claim, Vec<Volume>) = (row.given("claim"), row.given("volumes"));
    let count = volumes.len();
    let cluster = knowing(volumes);
    let delayed = row.given("delayBinding");
    let found = matching::find(&cluster, &row.settings(), &key(&claim), &claim, delayed);
    let found = found.map(|found| found.map(|volume| (name(&volume.metadata), uid(&volume.metadata))));
    let answer = check_match(row, found.map_err(|reason| reason.to_string()));
    let delayed = if delayed { ", binding delayed" } else { "" };
    format!(
        "{}{} among {count} volumes{delayed} -> {answer}",
        story::describe_claim(&claim),
        selector(&claim)
    )
}

pub fn find_on_node(row: &Row) -> String {
    let (claim, node): (Claim, Node) = (row.given("claim"), row.given("node"));
    let excluded: BTreeSet<String> = row.given("excludedVolumeNames");
    let mut volumes: Vec<Volume> = row.given("volumes");
    // Upstream's function takes a list, in which two volumes may have one name; a Cluster can't hold both.
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for volume in &mut volumes {
        let known = seen.entry(name(&volume.metadata).to_owned()).or_default();
        if *known > 0 {
            volume.metadata.name = Some(format!("{}#{known}", name(&volume.metadata)));
        }
        *known += 1;
    }
    let cluster = knowing(volumes);
    let key = key(&claim);
    assert!(row.given::<bool>("delayBinding"), "a claim is bound on a node only when binding is delayed");
    assert_eq!(row.given::<bool>("vacEnabled"), row.settings().volume_attributes_class);
    let excluded_keys: BTreeSet<Key> = excluded.iter().map(|name| Key::volume(name)).collect();
    let settings = row.settings();
    let labels = node.metadata.labels.as_ref();
    let search = NodeSearch::new(&cluster, &settings, &key, &claim);
    let found = search.map(|search| search.on_node((name(&node.metadata), labels), &excluded_keys));
    let found = found.map(|found| {
        found.map(|volume| {
            let name = name(&volume.metadata);
            (name.split_once('#').map_or(name, |(name, _)| name), uid(&volume.metadata))
        })
    });
    let answer = check_match(row, found.map_err(|reason| reason.to_string()));
    let without = if excluded.is_empty() { String::new() } else { format!(" without {excluded:?}") };
    let labels = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let labels = labels.collect::<Vec<_>>().join(",");
    format!("{} on a node with {labels}{without} -> {answer}", story::describe_claim(&claim))
}

fn selector(claim: &Claim) -> String {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = selector.and_then(|selector| selector.match_labels.as_ref()).into_iter().flatten();
    labels.map(|(key, value)| [" with ", key, "=", value].concat()).collect()
}

/// Upstream's index holds every volume, ours the free ones. Asked is which set of access modes a volume is in and
/// which is the smaller one; then that the index has the free ones of them in the same order.
pub fn of_set(row: &Row) -> String {
    let modes: Vec<String> = row.given("accessModes");
    assert_eq!(row.given::<String>("sortBy"), "storage capacity, ascending");
    let set = ModeSet::new(&modes);
    let cluster = knowing(row.given("volumes"));
    let all = cluster.volumes().filter(|volume| ModeSet::new(volume::access_modes(volume)) == set);
    let mut all: Vec<&Volume> = all.map(|volume| &**volume).collect();
    let uids: BTreeSet<&str> = all.iter().map(|volume| uid(&volume.metadata)).collect();
    let prefix = row.expected["uidPrefix"].as_array().expect("a list").len();
    all.sort_by_key(|volume| volume::capacity(volume));
    let first: Vec<&str> = all.iter().take(prefix).map(|volume| uid(&volume.metadata)).collect();
    row.check(json!({"error": false, "uidPrefix": first}), json!({"error": Value::Null, "uidSet": uids}));
    let group = |volume: &Volume| (volume::class(volume).to_owned(), volume::mode(volume).to_owned());
    for (class, mode) in all.iter().map(|volume| group(volume)).collect::<BTreeSet<_>>() {
        let free = all.iter().filter(|v| is_free(v) && group(v) == (class.clone(), mode.clone()));
        let free: Vec<&str> = free.map(|volume| name(&volume.metadata)).collect();
        let shelves = cluster.free_volumes().offering(&class, &mode, &modes);
        let shelf = shelves.filter(|(of_shelf, _)| **of_shelf == set).map(|(_, shelf)| shelf);
        let indexed: Vec<&str> =
            shelf.flat_map(|shelf| shelf.at_least(Amount::ZERO, None)).map(Key::name).collect();
        assert_eq!(indexed, free, "class {class:?}");
    }
    let all: Vec<String> =
        all.iter().map(|v| format!("{} {}", uid(&v.metadata), volume::capacity_text(v))).collect();
    format!("{set} -> {}", all.join(", "))
}

pub fn sets_that_offer(row: &Row) -> String {
    let wanted: Vec<String> = row.given("requestedModes");
    let [wanted_mode] = wanted.as_slice() else { panic!("one mode is asked for") };
    let cluster = knowing(row.given("volumes"));
    let shelves = cluster.free_volumes().offering("", volume::FILESYSTEM, &wanted);
    let sets: Vec<ModeSet> = shelves.map(|(set, _)| *set).collect();
    let modes: Vec<Vec<&str>> = sets.iter().map(|set| set.modes().collect()).collect();
    let short: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let common = modes.iter().all(|modes| modes.contains(&wanted_mode.as_str()));
    row.check(
        json!({"count": sets.len(), "eachContains": common.then_some(wanted_mode)}),
        json!({"indexKeys": short, "modes": modes}),
    );
    format!("{wanted_mode} -> {}", short.join(" and then "))
}

pub fn volume_modes_differ(row: &Row) -> String {
    let (claim, volume): (Claim, Volume) = (row.given("claim"), row.given("volume"));
    let wanted = For { claim: &claim, node: None, attributes_class: true };
    let result = matches!(matching::judge(&volume, &wanted), Err(Mismatch::Mode { .. }));
    let named = matching::check_named(&volume, &claim, &row.settings());
    assert_eq!(named == Err("incompatible volumeMode".to_owned()), result);
    row.check(json!({"result": result}), json!({"result": result}));
    let said = |mode: Option<String>| mode.unwrap_or_else(|| "nothing".to_owned());
    let of_claim = said(claim.spec.and_then(|spec| spec.volume_mode));
    format!(
        "the claim says {of_claim}, the volume {} -> {result}",
        said(volume.spec.and_then(|s| s.volume_mode))
    )
}

pub fn satisfies(row: &Row) -> String {
    let (claim, volume): (Claim, Volume) = (row.given("claim"), row.given("volume"));
    let answer = matching::check_named(&volume, &claim, &row.settings());
    let mut observed = json!({"result": answer.is_ok()});
    if let Err(error) = &answer {
        observed["error"] = json!(error);
    }
    row.check(json!({"result": answer.is_ok()}), observed);
    let (claim, volume) = (story::describe_claim(&claim), story::describe_volume(&volume));
    format!("{claim}; {volume} -> {}", answer.map_or_else(|error| error, |()| "it does".to_owned()))
}

pub fn access_modes_fit(row: &Row) -> String {
    let (claim, volume): (Claim, Volume) = (row.given("claim"), row.given("volume"));
    let result = claim::access_modes_fit(&claim, &volume);
    row.check(json!({"result": result}), json!({"result": result}));
    let (asked, offered) =
        (ModeSet::new(claim::access_modes(&claim)), ModeSet::new(volume::access_modes(&volume)));
    format!("{asked} of {offered} -> {result}")
}
