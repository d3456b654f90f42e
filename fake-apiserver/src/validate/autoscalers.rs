//! Decides whether an autoscaler may be stored: its bounds, what it scales, what it measures and how fast it goes. Never looks
//! for what it scales. Answers to `kubernetes/pkg/apis/autoscaling/validation`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::pods::amounts;
use super::{metadata, names};
use crate::quantity::Quantity;

const LONGEST_PERIOD: i64 = 1800;
const LONGEST_WINDOW: i64 = 3600;
const POLICIES: &[&str] = &["Percent", "Pods"];
const SELECTIONS: &[&str] = &["Disabled", "Max", "Min"];
/// The sources of metrics and the fields that describe them, in the order in which they are looked at.
const SOURCES: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

pub(super) fn create(value: &Value) -> Causes {
    checked(None, value)
}

pub(super) fn update(old: &Value, new: &Value) -> Causes {
    checked(Some(old), new)
}

pub(super) fn status(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let status = Field::root(value).at("status");
    for field in ["currentReplicas", "desiredReplicas"] {
        status.at(field).at_least(0, &mut causes);
    }
    causes
}

/// Whether the version of what is referred to is looked at, and may be one of the oldest group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Versions {
    Any,
    WithGroup,
    WithoutGroup,
}

fn checked(old: Option<&Value>, value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    let (least, most) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    least.at_least(1, &mut causes);
    match most.number().unwrap_or(0) {
        0 => causes.push(most.required("must be set and greater than 0")),
        number if number < 0 => causes.push(most.invalid("must be greater than or equal to 1")),
        _ => {}
    }
    if least.number().is_some_and(|least| most.number().unwrap_or(0) < least) {
        causes.push(most.invalid("must be greater than or equal to `minReplicas`"));
    }
    let target = spec.at("scaleTargetRef");
    let same =
        |field: &str| old.is_some_and(|old| old["spec"]["scaleTargetRef"][field] == target.value[field]);
    let versions = match target.at("kind").text() {
        _ if same("apiVersion") && same("kind") => Versions::Any,
        "ReplicationController" => Versions::WithoutGroup,
        _ => Versions::WithGroup,
    };
    reference(&target, versions, &mut causes);
    let metrics = spec.at("metrics");
    for one in metrics.items() {
        metric(&one, &mut causes);
    }
    let outside = |one: &Field<'_>| matches!(one.at("type").text(), "Object" | "External");
    if least.number() == Some(0) && !metrics.items().iter().any(outside) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(metrics.forbidden(why));
    }
    for direction in ["scaleUp", "scaleDown"] {
        pace(&spec.at("behavior").at(direction), &mut causes);
    }
    causes
}

fn reference(object: &Field<'_>, versions: Versions, causes: &mut Causes) {
    for field in ["kind", "name"] {
        object.at(field).need_and_follow(metadata::path_segment, causes);
    }
    let version = object.at("apiVersion");
    let group = match version.text().split('/').collect::<Vec<_>>()[..] {
        [group, _] => group,
        [_] => "",
        _ if versions == Versions::Any => return,
        _ => {
            let why = format!("unexpected GroupVersion string: {}", version.text());
            return causes.push(version.invalid(&why));
        }
    };
    if group.is_empty() && versions == Versions::WithGroup {
        causes.push(version.invalid("apiVersion must specify API group"));
    }
}

fn metric(metric: &Field<'_>, causes: &mut Causes) {
    let kind = metric.at("type");
    if kind.is_empty() {
        causes.push(kind.required("must specify a metric source type"));
    }
    let known = SOURCES.iter().find(|(name, _)| *name == kind.text());
    if known.is_none() {
        let mut supported: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        supported.sort_unstable();
        // Upstream looks twice.
        causes.extend([kind.unsupported(&supported), kind.unsupported(&supported)]);
    }
    let present = SOURCES.iter().map(|(_, field)| metric.at(field)).filter(Field::is_set);
    let present: Vec<Field<'_>> = present.collect();
    if let Some(first) = present.first() {
        source(first, causes);
    }
    let expected = known.map(|(_, field)| metric.at(field));
    if let Some(missing) = expected.as_ref().filter(|expected| !expected.is_set()) {
        causes.push(missing.required("must populate information for the given metric source"));
    }
    if present.len() > 1 {
        let own = expected.map(|expected| expected.path);
        for other in present.iter().filter(|one| Some(&one.path) != own.as_ref()) {
            causes.push(other.forbidden("must populate the given metric source only"));
        }
    }
}

fn source(source: &Field<'_>, causes: &mut Causes) {
    let target = source.at("target");
    let name = source.path.rsplit('.').next().unwrap_or_default();
    match name {
        "resource" | "containerResource" => {
            resource(source, name, causes);
        }
        _ => {
            if name == "object" {
                reference(&source.at("describedObject"), Versions::WithoutGroup, causes);
            }
            let metric = source.at("metric.name");
            if metric.is_empty() {
                causes.push(metric.required("must specify a metric name"));
            } else {
                metric.follow(metadata::path_segment, causes);
            }
        }
    }
    goal(&target, causes);
    let has = |field: &str| target.at(field).is_set();
    match name {
        "object" | "external" => {
            if !has("value") && !has("averageValue") {
                causes.push(
                    target.at("averageValue").required("must set either a target value or averageValue"),
                );
            }
            if name == "external" && has("value") && has("averageValue") {
                let why = "may not set both a target value for metric and a per-pod target";
                causes.push(target.at("value").forbidden(why));
            }
        }
        "pods" if !has("averageValue") => {
            causes.push(target.at("averageValue").required("must specify a positive target averageValue"));
        }
        "pods" => {}
        _ => match (has("averageUtilization"), has("averageValue")) {
            (false, false) => {
                let why = "must set either a target raw value or a target utilization";
                causes.push(target.at("averageUtilization").required(why));
            }
            (true, true) => {
                let why = "may not set both a target raw value and a target utilization";
                causes.push(target.at("averageValue").forbidden(why));
            }
            _ => {}
        },
    }
}

fn resource(source: &Field<'_>, kind: &str, causes: &mut Causes) {
    let name = source.at("name");
    if name.is_empty() {
        causes.push(name.required("must specify a resource name"));
    } else if kind == "containerResource" {
        amounts::resource_name(name.text(), &name, causes);
    }
    let container = source.at("container");
    if kind == "containerResource" {
        if container.is_empty() {
            causes.push(container.required("must specify a container"));
        } else {
            container.follow(names::label, causes);
        }
    }
}

/// What a metric is to come to.
fn goal(target: &Field<'_>, causes: &mut Causes) {
    let kind = target.at("type");
    if kind.is_empty() {
        causes.push(kind.required("must specify a metric target type"));
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        causes.push(kind.invalid("must be either Utilization, Value, or AverageValue"));
    }
    for amount in ["value", "averageValue"].map(|field| target.at(field)) {
        if quantity(&amount).is_some_and(|quantity| !quantity.is_positive()) {
            causes.push(amount.invalid("must be positive"));
        }
    }
    target.at("averageUtilization").at_least(1, causes);
}

fn quantity(field: &Field<'_>) -> Option<Quantity> {
    Quantity::parse(field.value.as_str()?).ok()
}

/// How fast it goes in one direction.
fn pace(rules: &Field<'_>, causes: &mut Causes) {
    if !rules.is_set() {
        return;
    }
    let window = rules.at("stabilizationWindowSeconds");
    window.at_least(0, causes);
    at_most(&window, LONGEST_WINDOW, causes);
    let select = rules.at("selectPolicy");
    if select.is_set() {
        select.must_be_one_of(SELECTIONS, causes);
    }
    let policies = rules.at("policies");
    if policies.is_empty() {
        causes.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        policy.at("type").must_be_one_of(POLICIES, causes);
        for amount in [policy.at("value"), policy.at("periodSeconds")] {
            if amount.number().unwrap_or(0) <= 0 {
                causes.push(amount.invalid("must be greater than zero"));
            }
        }
        at_most(&policy.at("periodSeconds"), LONGEST_PERIOD, causes);
    }
    let tolerance = rules.at("tolerance");
    if quantity(&tolerance).is_some_and(Quantity::is_negative) {
        causes.push(tolerance.invalid("must be greater than or equal to 0"));
    }
}

fn at_most(field: &Field<'_>, most: i64, causes: &mut Causes) {
    if field.number().is_some_and(|number| number > most) {
        causes.push(field.invalid(&format!("must be less than or equal to {most}")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(causes: &Causes) -> Vec<&str> {
        causes.iter().filter_map(|cause| cause.sentence().split(": ").next()).collect()
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the tables below are read more easily")]
    fn check(metric: Value, expected: &[&str]) {
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        let spec = json!({"maxReplicas": 2, "scaleTargetRef": target, "metrics": [metric]});
        let causes = create(&json!({"spec": spec}));
        let expected: Vec<String> = expected.iter().map(|field| format!("spec.metrics[0]{field}")).collect();
        assert_eq!(fields(&causes), expected);
    }

    #[test]
    fn a_metric_has_the_source_of_its_type_and_no_other() {
        let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
        let pods = json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}});
        check(json!({"type": "Resource", "resource": cpu}), &[]);
        check(json!({"type": "Resource"}), &[".resource"]);
        check(json!({"type": "Resource", "resource": cpu, "pods": pods}), &[".pods"]);
        check(json!({"type": "Pods", "resource": cpu}), &[".pods"]);
        check(json!({"type": "Bad", "pods": pods}), &[".type", ".type"]);
    }

    #[test]
    fn what_is_scaled_is_looked_at_when_it_changes() {
        let scales = |version: &str| json!({"spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "A", "name": "a", "apiVersion": version}}});
        assert_eq!(fields(&create(&scales("v1"))), ["spec.scaleTargetRef.apiVersion"]);
        assert!(update(&scales("v1"), &scales("v1")).is_empty());
        assert_eq!(fields(&update(&scales("a.b/v1"), &scales("v1"))), ["spec.scaleTargetRef.apiVersion"]);
    }
}
