//! Decides where in an object the amounts stand, and puts each into the form in which it is kept.

use serde_json::Value;

use crate::kinds::Kind;
use crate::quantity;

/// The paths of maps from resource to amount; `*` is each item of a list.
const IN_POD_SPEC: &[&str] = &[
    "containers/*/resources/requests",
    "containers/*/resources/limits",
    "initContainers/*/resources/requests",
    "initContainers/*/resources/limits",
    "volumes/*/ephemeral/volumeClaimTemplate/spec/resources/requests",
    "volumes/*/ephemeral/volumeClaimTemplate/spec/resources/limits",
    "overhead",
    "resources/requests",
    "resources/limits",
];

pub(crate) fn canonicalise(kind: &Kind, value: &mut Value) -> Result<(), &'static str> {
    let in_spec = |value: &mut Value, path: &str| {
        IN_POD_SPEC.iter().try_for_each(|rest| amounts(value, &format!("{path}/{rest}")))
    };
    match &*kind.kind {
        "PersistentVolume" => amounts(value, "spec/capacity"),
        "PersistentVolumeClaim" => [
            "spec/resources/requests",
            "spec/resources/limits",
            "status/capacity",
            "status/allocatedResources",
        ]
        .iter()
        .try_for_each(|path| amounts(value, path)),
        "Node" => ["status/capacity", "status/allocatable"].iter().try_for_each(|path| amounts(value, path)),
        "CSIStorageCapacity" => ["capacity", "maximumVolumeSize"]
            .iter()
            .filter(|field| value.get(**field).is_some_and(|amount| !amount.is_null()))
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|field| value.get_mut(field).map_or(Ok(()), quantity::canonicalise)),
        "ResourceQuota" => {
            ["spec/hard", "status/hard", "status/used"].iter().try_for_each(|path| amounts(value, path))
        }
        "LimitRange" => ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
            .iter()
            .try_for_each(|field| amounts(value, &format!("spec/limits/*/{field}"))),
        "Pod" => {
            in_spec(value, "spec")?;
            size_limits(value, "spec/volumes/*")
        }
        "StatefulSet" => {
            amounts(value, "spec/volumeClaimTemplates/*/spec/resources/requests")?;
            amounts(value, "spec/volumeClaimTemplates/*/spec/resources/limits")?;
            in_spec(value, "spec/template/spec")
        }
        "Deployment" | "ReplicaSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            in_spec(value, "spec/template/spec")
        }
        "PodTemplate" => in_spec(value, "template/spec"),
        "RuntimeClass" => amounts(value, "overhead/podFixed"),
        "HorizontalPodAutoscaler" => of_metrics(value),
        "CronJob" => in_spec(value, "spec/jobTemplate/spec/template/spec"),
        _ => Ok(()),
    }
}

/// What an autoscaler measures, and how much of a difference makes no difference to it.
fn of_metrics(value: &mut Value) -> Result<(), &'static str> {
    const SOURCES: &[&str] = &["object", "pods", "external", "resource", "containerResource"];
    let mut one = |path: &str| {
        each(value, path, &mut |found| if found.is_null() { Ok(()) } else { quantity::canonicalise(found) })
    };
    for source in SOURCES {
        for field in ["value", "averageValue"] {
            one(&format!("spec/metrics/*/{source}/target/{field}"))?;
            one(&format!("status/currentMetrics/*/{source}/current/{field}"))?;
        }
    }
    one("spec/behavior/scaleUp/tolerance")?;
    one("spec/behavior/scaleDown/tolerance")
}

/// Every amount of the maps at a path.
fn amounts(value: &mut Value, path: &str) -> Result<(), &'static str> {
    each(value, path, &mut |found| match found {
        Value::Object(amounts) => amounts.values_mut().try_for_each(quantity::canonicalise),
        _ => Ok(()),
    })
}

fn size_limits(value: &mut Value, path: &str) -> Result<(), &'static str> {
    each(value, path, &mut |volume| match volume.pointer_mut("/emptyDir/sizeLimit") {
        Some(limit) => quantity::canonicalise(limit),
        None => Ok(()),
    })
}

fn each(
    value: &mut Value,
    path: &str,
    visit: &mut impl FnMut(&mut Value) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let (step, rest) = path.split_once('/').unwrap_or((path, ""));
    match (step, value) {
        ("", value) => visit(value),
        ("*", Value::Array(items)) => items.iter_mut().try_for_each(|item| each(item, rest, visit)),
        (step, Value::Object(fields)) => {
            fields.get_mut(step).map_or(Ok(()), |field| each(field, rest, visit))
        }
        _ => Ok(()),
    }
}
