//! `assumePodVolumes`, `assumeThenRevert` and `findAssumeFind`: taking what was found, and giving it back.

use std::collections::BTreeMap;

use pvbind::binder::{self, PodVolumes};
use pvbind::cluster::{Cluster, Key, Kind, Object};
use pvbind::decide::binder::claims;
use pvbind::decide::binder::reserve;
use pvbind::objects::{Claim, Node, Pod, name, namespace};

use crate::record::{Record, asserted, part, pod_volumes, with_choice};
use crate::story::Story;
use crate::{find, state};

/// What is taken, with the objects as they are assumed.
pub fn changed(node: &str, volumes: &PodVolumes) -> PodVolumes {
    let mut changed = volumes.clone();
    for (before, write) in reserve::writes(node, volumes) {
        match write.apply(&before) {
            Some(Object::Volume(after)) => {
                let mut bindings = changed.bindings.iter_mut();
                let binding = bindings.find(|binding| binding.volume_key() == before.key());
                binding.expect("the binding").volume = after;
            }
            Some(Object::Claim(after)) => {
                let mut provisions = changed.provisions.iter_mut();
                let provision = provisions.find(|provision| provision.claim_key() == before.key());
                provision.expect("the provision").claim = after;
            }
            _ => {}
        }
    }
    changed
}

pub fn assume(record: &Record) -> String {
    let mut story = Story::default();
    story.state(&record.state);
    let (pod, node): (Pod, String) = (record.given("pod"), record.given("nodeName"));
    let volumes = pod_volumes(&record.input["podVolumes"]);
    story.volumes(&volumes);
    let mut cluster = record.state.cluster();
    let before = cluster.clone();
    let done = binder::assume(&mut cluster, &pod, &node, &volumes);
    story.line(format_args!("-> on {node}: {done:?}"));
    let (want, got) = (&record.want, &record.got);
    assert_eq!(Some(done.is_err()), part(want, "fail"), "fail");
    assert_eq!(Some(done == Ok(true)), part(want, "allBound"), "allBound");
    // Whoever failed, or has nothing to do, keeps what was found.
    let after = if done == Ok(false) { changed(&node, &volumes) } else { volumes.clone() };
    assert_eq!(after.bindings, asserted(want, "staticBindings").expect("asserted"), "staticBindings");
    let provisions: Vec<_> = after.provisions.iter().map(|provision| record.as_recorded(provision)).collect();
    assert_eq!(provisions, asserted(want, "dynamicProvisions").expect("asserted"), "dynamicProvisions");
    if part(want, "cacheRestored").unwrap_or(false) {
        assert_eq!(overlay(&cluster), overlay(&before), "cacheRestored");
    }
    if record.is_behaviour() {
        assert_eq!(done.err().map(|error| error.to_string()), part(got, "error"), "error");
        assert_eq!(after, pod_volumes(&got["podVolumes"]), "podVolumes");
        state::check(record, &cluster, "stateAfter");
    }
    state::tell(&mut story, &cluster);
    story.text()
}

/// What is assumed.
pub fn overlay(cluster: &Cluster) -> BTreeMap<Key, Object> {
    let keys = cluster.known_keys(Kind::Volume).chain(cluster.known_keys(Kind::Claim));
    let assumed = keys.filter(|key| cluster.object(key) != cluster.known(key));
    assumed.filter_map(|key| Some((key.clone(), cluster.object(key)?.clone()))).collect()
}

pub fn revert(record: &Record) -> String {
    let mut story = Story::default();
    story.state(&record.state);
    let (pod, node): (Pod, String) = (record.given("pod"), record.given("nodeName"));
    let volumes = pod_volumes(&record.input["podVolumes"]);
    let mut cluster = record.state.cluster();
    let before = cluster.clone();
    let done = binder::assume(&mut cluster, &pod, &node, &volumes);
    let (want, got) = (&record.want, &record.got);
    assert_eq!(Some(done.is_err()), part(want, "fail"), "fail");
    assert_eq!(Some(done == Ok(true)), part(want, "allBound"), "allBound");
    let after = changed(&node, &volumes);
    assert_eq!(after.bindings, asserted(want, "staticBindingsAfterAssume").expect("asserted"));
    let provisions: Vec<&Claim> = after.provisions.iter().map(|provision| &*provision.claim).collect();
    let wanted: Vec<Claim> = part(want, "provisionedClaimsAfterAssume").expect("asserted");
    assert_eq!(provisions, wanted.iter().collect::<Vec<_>>());
    story.line("assumed:");
    state::tell(&mut story, &cluster);
    if record.is_behaviour() {
        assert_eq!(after, pod_volumes(&got["podVolumesAfterAssume"]), "podVolumesAfterAssume");
        state::check(record, &cluster, "stateAfterAssume");
    }
    binder::revert(&mut cluster, &volumes);
    assert_eq!(overlay(&cluster), overlay(&before), "cacheRestored");
    if record.is_behaviour() {
        state::check(record, &cluster, "stateAfter");
    }
    story.line("reverted:");
    state::tell(&mut story, &cluster);
    story.text()
}

pub fn find_again(record: &Record) -> String {
    let mut story = Story::default();
    story.state(&record.state);
    let (mut cluster, settings) = (record.state.cluster(), record.settings());
    let (pod, node): (Pod, Node) = (record.given("pod"), record.given("node"));
    let key = Key::pod(namespace(&pod.metadata), name(&pod.metadata));
    let search = |cluster: &Cluster| {
        let claims = claims::sort(cluster, &key, &pod).expect("the claims are there");
        find::find(cluster, &settings, &claims, &node).expect("nothing is wrong")
    };
    let found = search(&cluster);
    let reasons: Vec<String> = part(&record.want, "reasonsSorted").expect("asserted");
    assert_eq!((found.conflicts.len(), reasons.len()), (0, 0));
    assert_eq!(part(&record.want, "fail"), Some(false), "fail");
    assert_eq!(part(&record.want, "allBound"), Some(false), "allBound");
    story.volumes(&found.volumes);
    let node_name = name(&node.metadata);
    assert_eq!(binder::assume(&mut cluster, &pod, node_name, &found.volumes), Ok(false), "allBound");
    let taken = changed(node_name, &found.volumes);
    if record.is_behaviour() {
        let got = with_choice(&record.got, &found.volumes);
        assert_eq!(found.volumes, pod_volumes(&got["find"]["podVolumes"]), "find");
        assert_eq!(taken, pod_volumes(&got["podVolumesAfterAssume"]), "podVolumesAfterAssume");
        state::check(&Record { got, ..record.clone() }, &cluster, "stateAfter");
    }
    assert_eq!((taken.bindings.len(), taken.provisions.len()), (1, 0));
    for _ in 0..record.given::<usize>("repeatFind") {
        assert_eq!(search(&cluster).volumes, taken, "what is taken is found again");
    }
    state::tell(&mut story, &cluster);
    story.text()
}
