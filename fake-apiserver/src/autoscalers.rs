//! Decides how an autoscaler of `autoscaling/v1` is stored as one of `autoscaling/v2` and shown again. What the older version
//! has no fields for it carries in annotations, as JSON in the order of Go's fields. Never judges an autoscaler. Answers to
//! `kubernetes/pkg/apis/autoscaling/v1/conversion.go`.

mod texts;

use serde_json::{Map, Value, json};

use crate::defaults::autoscalers::{cpu, drop_carried};
use crate::kinds::Kind;
use crate::object::{as_map_mut, at, map_mut, metadata_mut, text};
use crate::schema::Link;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// The share of the processors that an autoscaler of the older version keeps to when it says nothing.
const DEFAULT_SHARE: i64 = 80;
const SPEC: &[&str] = &["scaleTargetRef", "minReplicas", "maxReplicas"];
const STATUS: &[&str] = &["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];

type Convert = fn(&Value) -> Value;

/// The other version of an autoscaler: its name, its fields, and the ways there and back. Nothing for other kinds.
pub(crate) fn other(kind: &Kind) -> Option<(&'static str, Link, Convert, Convert)> {
    if (&*kind.group, &*kind.kind) != ("autoscaling", "HorizontalPodAutoscaler") {
        return None;
    }
    let (version, to, from): (_, Convert, Convert) = if kind.is_view() {
        ("autoscaling/v2", to_newer, to_older)
    } else {
        ("autoscaling/v1", to_older, to_newer)
    };
    Some((version, crate::schema::of(version, &kind.kind)?, to, from))
}

/// The autoscaler as `v2` has it, in which it is stored.
pub(crate) fn to_newer(older: &Value) -> Value {
    let mut newer = older.clone();
    if newer.get("apiVersion").is_some() {
        as_map_mut(&mut newer).insert("apiVersion".into(), "autoscaling/v2".into());
    }
    let carried = |name: &str| {
        let text = older["metadata"]["annotations"].get(name)?.as_str()?;
        serde_json::from_str::<Value>(text).ok()
    };
    let spec = part(older, "spec", SPEC);
    as_map_mut(&mut newer).insert("spec".into(), spec.into());
    let listed = carried(METRICS).and_then(|list| texts::metrics(&list, "target"));
    let mut metrics = listed.unwrap_or_default();
    metrics.extend(older["spec"]["targetCPUUtilizationPercentage"].as_i64().map(cpu));
    if metrics.is_empty() {
        metrics.push(cpu(DEFAULT_SHARE));
    }
    let spec = map_mut(&mut newer, "spec");
    spec.insert("metrics".into(), metrics.into());
    if let Some(behavior) = carried(BEHAVIOR).and_then(|behavior| texts::behavior(&behavior)) {
        spec.insert("behavior".into(), behavior);
    }
    let mut status = part(older, "status", STATUS);
    let share = older["status"]["currentCPUUtilizationPercentage"].as_i64();
    let share = share.map(|share| {
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": share}}}])
    });
    let listed = carried(CURRENT_METRICS).and_then(|list| texts::metrics(&list, "current"));
    if let Some(metrics) = listed.map(Value::from).or(share) {
        status.insert("currentMetrics".into(), metrics);
    }
    if let Some(conditions) = carried(CONDITIONS).filter(Value::is_array) {
        status.insert("conditions".into(), conditions);
    }
    if !status.is_empty() || older.get("status").is_some() {
        as_map_mut(&mut newer).insert("status".into(), status.into());
    }
    drop_carried(&mut newer);
    newer
}

/// Some of the fields of a part of an object.
fn part(object: &Value, name: &str, fields: &[&str]) -> Map<String, Value> {
    let all = object[name].as_object().into_iter().flatten();
    all.filter(|(name, _)| fields.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The autoscaler as `v1` shows it.
pub(crate) fn to_older(newer: &Value) -> Value {
    let mut older = newer.clone();
    drop_carried(&mut older);
    if older.get("apiVersion").is_some() {
        as_map_mut(&mut older).insert("apiVersion".into(), "autoscaling/v1".into());
    }
    let list = |path: &[&str]| at(newer, path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (metrics, found) = (list(&["spec", "metrics"]), list(&["status", "currentMetrics"]));
    let mut spec = part(newer, "spec", SPEC);
    spec.extend(
        metrics.iter().find_map(share).map(|share| ("targetCPUUtilizationPercentage".to_owned(), share)),
    );
    as_map_mut(&mut older).insert("spec".into(), spec.into());
    let mut status = part(newer, "status", STATUS);
    status.entry("currentReplicas").or_insert_with(|| 0.into());
    status.entry("desiredReplicas").or_insert_with(|| 0.into());
    let of_cpu = |metric: &&Value| {
        text(metric, &["type"]) == "Resource" && text(metric, &["resource", "name"]) == "cpu"
    };
    let used = found.iter().filter(of_cpu);
    let used = used.filter_map(|metric| metric.pointer("/resource/current/averageUtilization")).next_back();
    status.extend(used.map(|used| ("currentCPUUtilizationPercentage".to_owned(), used.clone())));
    as_map_mut(&mut older).insert("status".into(), status.into());
    let others: Vec<&Value> = metrics.iter().filter(|metric| share(metric).is_none()).collect();
    let conditions = list(&["status", "conditions"]);
    let behavior = at(newer, &["spec", "behavior"]);
    for (name, carried) in [
        (METRICS, (!others.is_empty()).then(|| texts::of_metrics(&others, "target"))),
        (
            CURRENT_METRICS,
            (!found.is_empty()).then(|| texts::of_metrics(&found.iter().collect::<Vec<_>>(), "current")),
        ),
        (BEHAVIOR, behavior.map(texts::of_behavior)),
        (CONDITIONS, (!conditions.is_empty()).then(|| texts::of_conditions(conditions))),
    ] {
        if let Some(carried) = carried {
            let annotations =
                metadata_mut(&mut older).entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            as_map_mut(annotations).insert(name.into(), carried.into());
        }
    }
    older
}

/// The share of the processors that a metric is about, which is all that the older version has a field for.
fn share(metric: &Value) -> Option<Value> {
    let of_cpu = text(metric, &["type"]) == "Resource" && text(metric, &["resource", "name"]) == "cpu";
    metric.pointer("/resource/target/averageUtilization").filter(|_| of_cpu).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newer() -> Value {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a", "annotations": {"k": "v"}},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "minReplicas": 1, "maxReplicas": 3,
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
                    cpu(50),
                ],
                "behavior": {"scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
            },
            "status": {
                "currentReplicas": 2, "desiredReplicas": 3,
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "100m"}}}],
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": null, "reason": "<r>"}],
            },
        })
    }

    #[test]
    fn what_the_older_version_has_no_fields_for_is_carried() {
        let older = to_older(&newer());
        assert_eq!(older["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(older["status"]["currentCPUUtilizationPercentage"], 40);
        let annotations = &older["metadata"]["annotations"];
        let carried = r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]"#;
        assert_eq!(annotations[METRICS], carried);
        let carried =
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":null,"reason":"\u003cr\u003e"}]"#;
        assert_eq!(annotations[CONDITIONS], carried);
        assert_eq!(to_newer(&older), newer(), "and comes back");
    }

    #[test]
    fn an_older_one_that_says_nothing_keeps_to_a_share() {
        let stored = to_newer(&json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 2}}));
        assert_eq!(stored["spec"]["metrics"], json!([cpu(80)]));
        let broken = json!({"metadata": {"annotations": {METRICS: "{", BEHAVIOR: "1", "k": "v"}}});
        assert_eq!(to_newer(&broken)["metadata"]["annotations"], json!({"k": "v"}));
    }
}
