//! Decides which parts of an object an endpoint may write: new objects start with an empty status, the main
//! endpoint leaves the status alone, the status endpoint leaves the rest alone, and the generation counts
//! changes of the spec. Never judges values. Answers to the `strategy.go` of each kind under
//! `kubernetes/pkg/registry`.

use serde_json::{Map, Value};

use crate::crds;
use crate::defaults;
use crate::kinds::{Kind, Trait};
use crate::object::{as_map_mut, at, metadata_mut, text};
use crate::routes::Target;
use crate::server::Server;
use crate::shapes;
use crate::status::{Result, Status};

/// Times that are shown even when there is none.
const KEPT_NULLS: &[&str] = &["lastProbeTime", "lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime"];

/// What the status endpoint takes from the metadata it is sent.
const METADATA_OF_STATUS: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

/// What happens to every object that comes in: empty fields go and missing ones get their default.
pub(crate) fn prepare(kind: &Kind, value: &mut Value) -> Result<()> {
    if crds::prepare(kind, value).map_err(|why| unreadable(kind, &why))? || kind.custom {
        prune_metadata(value);
        return Ok(());
    }
    // Before anything is removed: an amount that is null is nothing, not missing.
    defaults::canonicalise(kind, value).map_err(|why| unreadable(kind, why))?;
    prune(value, kind);
    prune_metadata(value);
    defaults::apply_first(kind, value);
    shapes::reduce(kind, value);
    defaults::apply(kind, value);
    shapes::complete(kind, value);
    Ok(())
}

/// How many labels the server gives the pods of a job.
const GENERATED_LABELS: usize = 4;

/// Whether the first write of an object stores more than it says: the real server stores a new claim without a phase, and a new
/// job without the labels of its template, and gives it those when it is read. So the first write that changes nothing is one.
pub(crate) fn settles_when_written(kind: &Kind, value: &Value) -> bool {
    match (&*kind.group, &*kind.kind) {
        ("", "PersistentVolumeClaim") => true,
        ("batch", "Job") => {
            let labels = at(value, &["metadata", "labels"]);
            let uid = labels.and_then(|labels| labels.get("batch.kubernetes.io/controller-uid"));
            let template = at(value, &["spec", "template", "metadata", "labels"]);
            // Labels that were given for the pods are stored as those of the job too.
            let bare = template.and_then(Value::as_object).is_some_and(|all| all.len() == GENERATED_LABELS);
            bare && labels == template && uid == at(value, &["metadata", "uid"])
        }
        _ => false,
    }
}

fn unreadable(kind: &Kind, why: &str) -> Box<Status> {
    let name = &kind.kind;
    Status::bad_request(format!(
        "{name} in version \"{}\" cannot be handled as a {name}: {why}",
        kind.version
    ))
}

/// Removes nulls, which mean "not set" in every typed field but a few times.
fn prune(value: &mut Value, kind: &Kind) {
    let keeps_times = kind.kind == "Event";
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, field| {
            prune_below(field);
            !field.is_null() || keeps_times && name.ends_with("Time") | name.ends_with("Timestamp")
        });
    }
}

fn prune_below(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            prune_below(field);
            !field.is_null() || KEPT_NULLS.contains(&name.as_str())
        }),
        Value::Array(items) => items.iter_mut().for_each(prune_below),
        _ => {}
    }
}

/// Removes what is empty from the metadata, as Go's encoder does.
fn prune_metadata(value: &mut Value) {
    let metadata = metadata_mut(value);
    metadata.retain(|_, field| match field {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
    if metadata.get("generation").and_then(Value::as_i64) == Some(0) {
        metadata.remove("generation");
    }
    if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
        let mut seen: Vec<Value> = Vec::new();
        owners.retain(|owner| {
            let new = !seen.contains(&owner["uid"]);
            seen.push(owner["uid"].clone());
            new
        });
    }
}

/// The status that a new object has, whatever it came with.
pub(crate) fn prepare_create(server: &Server, target: &Target, value: &mut Value) {
    let kind = &*target.kind;
    crate::verbs::addresses::normalise(target, None, value);
    drop_topology(kind, None, value);
    if kind.kind == "PersistentVolumeClaim" && !kind.custom {
        defaults::claim_sources(None, value);
    }
    count_templates(kind, None, value);
    if kind.has(Trait::Generation) {
        metadata_mut(value).insert("generation".into(), 1.into());
    }
    if kind.definition.is_some() || crds::is_definition(kind) {
        crds::reset_status(kind, value);
        return;
    }
    if kind.custom {
        as_map_mut(value).remove("status");
        return;
    }
    defaults::reset_status(kind, value, &server.timestamp());
    shapes::complete(kind, value);
}

/// Restores the parts that the endpoint does not write.
pub(crate) fn keep_other_parts(target: &Target, old: &Value, value: &mut Value) -> Result<()> {
    let kind = &target.kind;
    if !kind.has_subresource("status") {
        return Ok(());
    }
    match target.subresource.as_str() {
        "" | "resize" | "ephemeralcontainers" => restore(old, value, "status"),
        "status" => {
            keep_all_but_status(kind, old, value);
            return apply_status(kind, value);
        }
        "finalize" => {
            let finalizers = at(value, &["spec", "finalizers"]).cloned();
            *value = old.clone();
            let spec = crate::object::map_mut(value, "spec");
            match finalizers {
                Some(finalizers) => spec.insert("finalizers".into(), finalizers),
                None => spec.remove("finalizers"),
            };
        }
        _ => {}
    }
    Ok(())
}

/// Restores everything but the status and what of the metadata may come with it. Most writers send the rest
/// as it is, so each part is compared before it is copied.
fn keep_all_but_status(kind: &Kind, old: &Value, value: &mut Value) {
    restore_others(old, value, &["status", "metadata"]);
    // Two kinds' status endpoints take nothing else at all.
    let taken: &[&str] = match &*kind.kind {
        "VolumeAttachment" | "ResourceClaim" => &[],
        _ if kind.definition.is_some() => &[],
        "Deployment" => &["annotations", "finalizers", "ownerReferences"],
        _ => METADATA_OF_STATUS,
    };
    let empty = Value::Object(Map::new());
    let metadata = as_map_mut(value).entry("metadata").or_insert_with(|| empty.clone());
    let kept: Vec<&str> = taken.iter().copied().chain(["resourceVersion"]).collect();
    restore_others(old.get("metadata").unwrap_or(&empty), metadata, &kept);
}

/// Restores the fields of a map but those named.
fn restore_others(old: &Value, value: &mut Value, but: &[&str]) {
    let fields = as_map_mut(value);
    fields.retain(|name, _| but.contains(&name.as_str()) || old.get(name).is_some());
    for (name, before) in old.as_object().into_iter().flatten() {
        if !but.contains(&name.as_str()) && fields.get(name) != Some(before) {
            fields.insert(name.clone(), before.clone());
        }
    }
}

/// Completes a status that was written alone.
pub(crate) fn apply_status(kind: &Kind, value: &mut Value) -> Result<()> {
    shapes::reduce(kind, value);
    defaults::apply_status(kind, value).map_err(|why| unreadable(kind, why))?;
    shapes::complete(kind, value);
    Ok(())
}

fn restore(old: &Value, value: &mut Value, field: &str) {
    let fields = as_map_mut(value);
    if fields.get(field) == old.get(field) {
        return;
    }
    match old.get(field) {
        Some(old) => fields.insert(field.into(), old.clone()),
        None => fields.remove(field),
    };
}

/// What a kind's update does besides; a place for the kinds that stamp times.
pub(crate) fn prepare_update(server: &Server, target: &Target, old: &Value, value: &mut Value) {
    crate::verbs::addresses::normalise(target, Some(old), value);
    drop_topology(&target.kind, Some(old), value);
    if target.kind.kind == "PersistentVolumeClaim" && !target.kind.custom && target.subresource.is_empty() {
        defaults::claim_sources(Some(old), value);
    }
    count_templates(&target.kind, Some(old), value);
    if target.kind.kind == "Pod" && target.subresource == "status" {
        let kept = old["status"].get("qosClass").cloned();
        let status = crate::object::map_mut(value, "status");
        if let Some(kept) = kept.filter(|_| !status.contains_key("qosClass")) {
            status.insert("qosClass".into(), kept);
        }
    }
    crds::prepare_update(target, value);
    if target.kind.kind == "PersistentVolume" && target.subresource == "status" {
        let (before, after) = (text(old, &["status", "phase"]), text(value, &["status", "phase"]));
        let (was, is) = (
            at(old, &["status", "lastPhaseTransitionTime"]),
            at(value, &["status", "lastPhaseTransitionTime"]),
        );
        if before == after {
            if let Some(was) = was.filter(|_| is.is_none()) {
                let kept = was.clone();
                crate::object::map_mut(value, "status").insert("lastPhaseTransitionTime".into(), kept);
            }
        } else if is.is_none() || is == was {
            let now = server.timestamp();
            crate::object::map_mut(value, "status").insert("lastPhaseTransitionTime".into(), now.into());
        }
    }
}

/// Takes away what slices said of their endpoints' places in a version that is gone. To say it counts as a change.
fn drop_topology(kind: &Kind, old: Option<&Value>, value: &mut Value) {
    if kind.kind != "EndpointSlice" || kind.custom {
        return;
    }
    let mut said = false;
    for endpoint in value.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        said |= as_map_mut(endpoint).remove("deprecatedTopology").is_some();
    }
    if let Some(generation) = old.and_then(|old| old["metadata"]["generation"].as_i64()).filter(|_| said) {
        metadata_mut(value).insert("generation".into(), generation.saturating_add(1).into());
    }
}

/// Where a daemon set counts the changes of its template.
const COUNT: &str = "deprecated.daemonset.template.generation";

/// Takes out of metadata that are shown alone what a real server keeps elsewhere than in annotations: a daemon set's count, and
/// what the older autoscalers carry.
pub(crate) fn forget_carried(kind: &Kind, metadata: &mut Value) {
    let carried: &[&str] = match &*kind.kind {
        "DaemonSet" if !kind.custom => &[COUNT],
        "HorizontalPodAutoscaler" if kind.is_view() => defaults::autoscalers::CARRIED,
        _ => return,
    };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !carried.contains(&name.as_str()));
        if annotations.is_empty() {
            as_map_mut(metadata).remove("annotations");
        }
    }
}

/// An object that only says up to where a watch has come has counted nothing yet.
pub(crate) fn count_nothing(kind: &Kind, value: &mut Value) {
    if kind.kind == "DaemonSet" && kind.group == "apps" {
        let annotations =
            metadata_mut(value).entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        as_map_mut(annotations).insert(COUNT.into(), "0".into());
    }
}

/// A daemon set counts the changes of its template in an annotation that nobody else writes.
pub(crate) fn count_templates(kind: &Kind, old: Option<&Value>, value: &mut Value) {
    if kind.kind != "DaemonSet" || kind.group != "apps" {
        return;
    }
    let before = old.and_then(|old| text(old, &["metadata", "annotations", COUNT]).parse::<i64>().ok());
    let changed = old.is_some_and(|old| old["spec"]["template"] != value["spec"]["template"]);
    let count = before.map_or(1, |before| before.saturating_add(i64::from(changed)));
    let annotations = metadata_mut(value).entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    as_map_mut(annotations).insert(COUNT.into(), count.to_string().into());
}

/// Counts a change of the spec.
pub(crate) fn count_generation(target: &Target, old: &Value, value: &mut Value) {
    let kind = &target.kind;
    let counts = kind.has(Trait::Generation) || kind.kind == "CSIDriver";
    if !counts || target.subresource == "status" {
        return;
    }
    let changed = if kind.custom {
        let with_status = kind.definition.as_ref().is_some_and(|version| !version.status);
        main_part(old, with_status) != main_part(value, with_status)
    } else {
        counted(kind, old) != counted(kind, value)
    };
    if changed {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        metadata_mut(value).insert("generation".into(), generation.saturating_add(1).into());
    }
}

/// The parts whose change the generation counts; a deployment's annotations are copied to its replica sets,
/// and count too, as do the labels of a slice, by which its service is found.
fn counted<'a>(kind: &Kind, value: &'a Value) -> Vec<Option<&'a Value>> {
    let of_metadata = |field| at(value, &["metadata", field]);
    match &*kind.kind {
        "Deployment" => vec![value.get("spec"), of_metadata("annotations")],
        "PodTemplate" => vec![value.get("template")],
        "EndpointSlice" => {
            let all = ["addressType", "endpoints", "ports"].map(|field| value.get(field));
            all.into_iter().chain([of_metadata("labels")]).collect()
        }
        _ => vec![value.get("spec")],
    }
}

/// Everything but metadata, and but the status where that is written alone.
fn main_part(value: &Value, with_status: bool) -> Vec<(&String, &Value)> {
    let fields = value.as_object().into_iter().flatten();
    fields.filter(|(name, _)| *name != "metadata" && (with_status || *name != "status")).collect()
}
