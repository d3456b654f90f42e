//! Decides what an autoscaler measures and how fast it goes where it does not say.

use serde_json::{Value, json};

use super::{default_in, map};
use crate::object::{as_map_mut, metadata_mut};

/// Where the older version keeps what it has no fields for; the newer one has them, and no such annotations.
pub(crate) const CARRIED: &[&str] = &[
    "autoscaling.alpha.kubernetes.io/metrics",
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/conditions",
];

/// What the newer version has defaults for; one of the older version has got its own when it was read as a newer one.
pub(super) fn apply(value: &mut Value, is_older: bool) {
    drop_carried(value);
    let spec = map(value, "spec");
    default_in(spec, "minReplicas", 1.into());
    if is_older {
        return;
    }
    if spec.get("metrics").is_none_or(|metrics| *metrics == json!([])) {
        as_map_mut(spec).insert("metrics".into(), json!([cpu(80)]));
    }
    let Some(behavior) = spec.get_mut("behavior") else { return };
    let policy = |kind: &str, value: u8| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = map(behavior, "scaleUp");
    default_in(up, "stabilizationWindowSeconds", 0.into());
    for (direction, policies) in [
        ("scaleUp", json!([policy("Pods", 4), policy("Percent", 100)])),
        ("scaleDown", json!([policy("Percent", 100)])),
    ] {
        let rules = map(behavior, direction);
        default_in(rules, "selectPolicy", "Max".into());
        default_in(rules, "policies", policies);
    }
}

/// A target for the share of the requested processors that is used.
pub(crate) fn cpu(share: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": share});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

pub(crate) fn drop_carried(value: &mut Value) {
    let metadata = metadata_mut(value);
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !CARRIED.contains(&name.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}
