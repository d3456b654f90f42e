//! `findPodVolumes`: what a pod's claims would get on a node.

use pvbind::cluster::{Cluster, Key, PodVolumes};
use pvbind::decide::Settings;
use pvbind::decide::binder::claims::{self, PodClaims, Used};
use pvbind::decide::binder::find::{Found, PodSearch};
use pvbind::objects::{Claim, Node, Pod, Volume, name, namespace, volume};
use serde_json::Value;

use crate::record::{Record, asserted, part, pod_volumes};
use crate::story::Story;

/// What upstream says of a pod with a claim that ought to be bound by now.
const IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

pub fn run(record: &Record) -> String {
    let mut story = Story::default();
    let (cluster, settings) = (record.state.cluster(), record.settings());
    let (pod, node): (Pod, Node) = (record.given("pod"), record.given("node"));
    story.state(&record.state);
    story.pod(&pod);
    story.node(&node);
    let key = Key::pod(namespace(&pod.metadata), name(&pod.metadata));
    let sorted = claims::sort(&cluster, &key, &pod).map_err(|why| why.to_string());
    check_sorted(record, &cluster, sorted.as_ref());
    let found = sorted.and_then(|claims| {
        if !claims.immediate.is_empty() {
            return Err(IMMEDIATE.to_owned());
        }
        let found = find(&cluster, &settings, &claims, &node);
        if claims.delayed.len() < 2 {
            let strictly = Settings { strict_capacity: true, ..settings };
            assert_eq!(find(&cluster, &strictly, &claims, &node), found, "one claim alone is counted alike");
        }
        found
    });
    check(record, found.as_ref());
    match found {
        Ok(found) => {
            story.volumes(&found.volumes);
            for conflict in found.conflicts {
                story.line(format_args!("-> {}", conflict.as_str()));
            }
        }
        Err(error) => story.line(format_args!("-> error: {error}")),
    }
    story.text()
}

/// What the claims get on the node.
pub fn find(
    cluster: &Cluster,
    settings: &Settings,
    claims: &PodClaims,
    node: &Node,
) -> Result<Found, String> {
    PodSearch::new(cluster, settings, claims).on_node(node).map_err(|why| why.to_string())
}

/// Compares how the claims were sorted.
fn check_sorted(record: &Record, cluster: &Cluster, sorted: Result<&PodClaims, &String>) {
    if !record.is_behaviour() {
        return;
    }
    let error: Option<String> = part(&record.got, "podVolumeClaimsError");
    assert_eq!(sorted.err().cloned(), error, "podVolumeClaimsError");
    let (Ok(claims), Some(wanted)) = (sorted, record.got.get("podVolumeClaims")) else { return };
    let of = |used: &[Used]| used.iter().map(|(_, claim)| Claim::clone(claim)).collect::<Vec<_>>();
    for (field, found) in [
        ("boundClaims", of(&claims.bound)),
        ("unboundClaimsDelayBinding", of(&claims.delayed)),
        ("unboundClaimsImmediate", of(&claims.immediate)),
    ] {
        assert_eq!(found, part::<Vec<Claim>>(wanted, field).expect("a list"), "{field}");
    }
    // Upstream lists the volumes of each class; here an index has them. Both have the same ones.
    let by_class = wanted.get("unboundVolumesDelayBinding").and_then(Value::as_object);
    for (class, volumes) in by_class.into_iter().flatten() {
        let volumes: Option<Vec<Volume>> = serde_json::from_value(volumes.clone()).expect("volumes");
        let mut names: Vec<_> = volumes.into_iter().flatten().map(|v| name(&v.metadata).to_owned()).collect();
        names.sort_unstable();
        let found = cluster.volumes().filter(|v| volume::class(v) == class.as_str());
        assert_eq!(found.map(|v| name(&v.metadata).to_owned()).collect::<Vec<_>>(), names, "{class}");
    }
}

/// Compares what was found.
fn check(record: &Record, found: Result<&Found, &String>) {
    let (want, got) = (&record.want, &record.got);
    assert_eq!(Some(found.is_err()), part(want, "fail"), "fail: {found:?}");
    let mut reasons: Vec<&str> =
        found.map(|found| found.conflicts.iter().map(|c| c.as_str()).collect()).unwrap_or_default();
    let error = found.err().cloned();
    if record.is_behaviour() {
        assert_eq!(error, part(got, "error"), "error");
        let recorded: Option<Vec<String>> = part(got, "reasons");
        assert_eq!(reasons, recorded.unwrap_or_default(), "reasons");
        if let Ok(found) = found {
            assert_eq!(found.volumes, pod_volumes(&got["podVolumes"]), "podVolumes");
        }
    }
    reasons.sort_unstable();
    let wanted: Option<Vec<String>> = part(want, "reasonsSorted");
    assert_eq!(reasons, wanted.unwrap_or_default(), "reasonsSorted");
    let nothing = PodVolumes::default();
    let volumes = found.map_or(&nothing, |found| &found.volumes);
    if let Some(bindings) = asserted(want, "staticBindings") {
        assert_eq!(volumes.bindings, bindings, "staticBindings");
    }
    let asserts_provisions = part(want, "dynamicProvisionsAsserted").unwrap_or(true);
    if let Some(provisions) = asserted(want, "dynamicProvisions").filter(|_| asserts_provisions) {
        let found = volumes.provisions.iter().map(|provision| record.as_recorded(provision));
        assert_eq!(found.collect::<Vec<_>>(), provisions, "dynamicProvisions");
    }
}
