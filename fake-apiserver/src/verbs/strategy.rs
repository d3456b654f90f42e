//! Decides which parts of an object an endpoint may write: new objects start with an empty status, the main endpoint leaves
//! the status alone, the status endpoint leaves the rest alone, and the generation counts changes of the spec. Never judges
//! values. Answers to the `strategy.go` of each kind under `kubernetes/pkg/registry`.

use serde_json::{Map, Value};

use crate::defaults;
use crate::kinds::{Kind, Trait};
use crate::object::{as_map_mut, metadata_mut, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};

/// What the status endpoint takes from the metadata it is sent.
const METADATA_OF_STATUS: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

/// What happens to every object that comes in: empty fields go and missing ones get their default.
pub(crate) fn prepare(kind: &Kind, value: &mut Value) -> Result<()> {
    if kind.custom {
        prune_metadata(value);
        return Ok(());
    }
    prune(value, kind);
    prune_metadata(value);
    defaults::apply(kind, value).map_err(|why| unreadable(kind, why))
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
            !field.is_null() || matches!(name.as_str(), "lastProbeTime" | "lastTransitionTime")
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
pub(crate) fn prepare_create(server: &Server, kind: &Kind, value: &mut Value) {
    if kind.has(Trait::Generation) {
        metadata_mut(value).insert("generation".into(), 1.into());
    }
    if kind.custom {
        as_map_mut(value).remove("status");
        return;
    }
    defaults::reset_status(kind, value, &server.timestamp());
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
            let status = value.get("status").cloned();
            let metadata = value.get("metadata").cloned().unwrap_or_default();
            let version = text(value, &["metadata", "resourceVersion"]).to_owned();
            *value = old.clone();
            let fields = as_map_mut(value);
            match status {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
            let new = metadata_mut(value);
            new.insert("resourceVersion".into(), version.into());
            for field in METADATA_OF_STATUS {
                match metadata.get(*field) {
                    Some(field_value) => new.insert((*field).into(), field_value.clone()),
                    None => new.remove(*field),
                };
            }
            if kind.kind == "Deployment" {
                let labels = old.pointer("/metadata/labels").cloned();
                new.remove("labels");
                new.extend(labels.map(|labels| ("labels".to_owned(), labels)));
            }
            if kind.kind == "VolumeAttachment" {
                // The one kind here whose status endpoint takes nothing else at all.
                *new = old.get("metadata").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
            }
            return apply_status(kind, value);
        }
        "finalize" => {
            let finalizers = value.pointer("/spec/finalizers").cloned();
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

/// Completes a status that was written alone.
pub(crate) fn apply_status(kind: &Kind, value: &mut Value) -> Result<()> {
    defaults::apply_status(kind, value).map_err(|why| unreadable(kind, why))
}

fn restore(old: &Value, value: &mut Value, field: &str) {
    let fields = as_map_mut(value);
    match old.get(field) {
        Some(old) => fields.insert(field.into(), old.clone()),
        None => fields.remove(field),
    };
}

/// What a kind's update does besides; a place for the kinds that stamp times.
pub(crate) fn prepare_update(server: &Server, target: &Target, old: &Value, value: &mut Value) {
    if target.kind.kind == "PersistentVolume" && target.subresource == "status" {
        let (before, after) = (text(old, &["status", "phase"]), text(value, &["status", "phase"]));
        if before != after
            && value.pointer("/status/lastPhaseTransitionTime")
                == old.pointer("/status/lastPhaseTransitionTime")
        {
            let now = server.timestamp();
            crate::object::map_mut(value, "status").insert("lastPhaseTransitionTime".into(), now.into());
        }
    }
}

/// Counts a change of the spec.
pub(crate) fn count_generation(target: &Target, old: &Value, value: &mut Value) {
    let kind = &target.kind;
    let counts = kind.has(Trait::Generation) || kind.kind == "CSIDriver";
    if !counts || target.subresource == "status" {
        return;
    }
    let changed = if kind.custom {
        main_part(old) != main_part(value)
    } else {
        counted(kind, old) != counted(kind, value)
    };
    if changed {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        metadata_mut(value).insert("generation".into(), generation.saturating_add(1).into());
    }
}

/// The parts whose change the generation counts; a deployment's annotations are copied to its replica sets, and count too.
fn counted<'a>(kind: &Kind, value: &'a Value) -> (Option<&'a Value>, Option<&'a Value>) {
    let annotations = value.pointer("/metadata/annotations").filter(|_| kind.kind == "Deployment");
    (value.get("spec"), annotations)
}

/// Everything but metadata and status.
fn main_part(value: &Value) -> Vec<(&String, &Value)> {
    let fields = value.as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status")).collect()
}
