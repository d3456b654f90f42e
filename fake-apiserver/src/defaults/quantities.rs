//! Decides where in an object the amounts stand, puts each into the form in which it is kept, and says which only changed their form.
//! Answers to the quantities of `k8s.io/apimachinery/pkg/api/{resource,equality}`.

use serde_json::Value;

use crate::kinds::Kind;
use crate::quantity::{self, Quantity};

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

/// The fields that hold amounts by resource, or one of them.
const HOLDERS: &[&str] = &[
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "maximumVolumeSize",
    "min",
    "overhead",
    "requests",
    "sizeLimit",
    "used",
];

/// The last version of an object with its amounts written as the next one writes them, where they are as much; nothing when
/// all of them are written alike. An amount in another form is no change.
pub(crate) fn as_written(old: &Value, new: &Value) -> Option<Value> {
    let changed = |part: &&str| old.get(part).is_some_and(|before| new.get(part) != Some(before));
    let parts: Vec<&str> =
        ["spec", "status", "capacity", "maximumVolumeSize"].into_iter().filter(changed).collect();
    if parts.is_empty() {
        return None;
    }
    let mut restated = old.clone();
    for part in parts {
        if let (Some(before), Some(after)) = (restated.get_mut(part), new.get(part)) {
            restate(before, after, HOLDERS.contains(&part));
        }
    }
    (restated != *old).then_some(restated)
}

/// Restates the amounts of a value in the words of another; `amounts` says whether it holds some.
fn restate(old: &mut Value, new: &Value, amounts: bool) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, before) in old {
                if let Some(after) = new.get(name) {
                    let holds = HOLDERS.contains(&name.as_str());
                    restate(before, after, if before.is_string() { amounts || holds } else { holds });
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            old.iter_mut().zip(new).for_each(|(before, after)| restate(before, after, false));
        }
        (Value::String(before), Value::String(after)) if amounts && before != after => {
            let nanos = |text: &str| Quantity::parse(text).map(Quantity::nanos);
            if nanos(before).is_ok_and(|amount| nanos(after) == Ok(amount)) {
                before.clone_from(after);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_amount_in_another_form_is_no_change() {
        let claim = |amount: &str| json!({"metadata": {"labels": {"limits": amount}}, "spec": {"resources": {"requests": {"storage": amount}}}});
        let restated = as_written(&claim("1Gi"), &claim("1073741824")).unwrap();
        assert_eq!(restated["spec"], claim("1073741824")["spec"]);
        assert_eq!(restated["metadata"], claim("1Gi")["metadata"]);
        assert_eq!(as_written(&claim("1Gi"), &claim("2Gi")), None);
        assert_eq!(as_written(&claim("1Gi"), &claim("1Gi")), None);
        assert_eq!(as_written(&claim("x"), &claim("1Gi")), None);
        let pod = |amount: &str| json!({"spec": {"nodeSelector": {"a": amount}, "containers": [{"resources": {"limits": {"cpu": amount}}}]}});
        let restated = as_written(&pod("1"), &pod("1e0")).unwrap();
        assert_eq!(restated["spec"]["containers"], pod("1e0")["spec"]["containers"]);
        assert_eq!(restated["spec"]["nodeSelector"], pod("1")["spec"]["nodeSelector"]);
    }
}
