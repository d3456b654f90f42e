//! Decides the rows of autoscalers. Answers to `printHorizontalPodAutoscaler`.

use serde_json::Value;

use super::{AGE, Column, Entry, NAME, Row, string};
use crate::object::{at, text as string_at};

/// How many targets are named.
const NAMED: usize = 2;
const COLUMNS: &[Column] = &[
    NAME,
    string("Reference"),
    string("Targets"),
    string("MinPods"),
    string("MaxPods"),
    string("Replicas"),
    AGE,
];

pub(super) const ENTRIES: &[Entry] = &[("autoscaling", "HorizontalPodAutoscaler", COLUMNS, cells)];

fn cells(row: &Row<'_>) -> Vec<Value> {
    let target = |field: &str| row.text(&["spec", "scaleTargetRef", field]);
    let least = at(row.value, &["spec", "minReplicas"]).and_then(Value::as_i64);
    vec![
        row.name(),
        format!("{}/{}", target("kind"), target("name")).into(),
        targets(row).into(),
        least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
        row.number(&["spec", "maxReplicas"]).into(),
        row.number(&["status", "currentReplicas"]).into(),
        row.age(),
    ]
}

fn targets(row: &Row<'_>) -> String {
    let (wanted, found) = (row.list(&["spec", "metrics"]), row.list(&["status", "currentMetrics"]));
    if wanted.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = wanted
        .iter()
        .take(NAMED)
        .enumerate()
        .map(|(place, metric)| target(metric, found.get(place).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    if wanted.len() > NAMED { format!("{shown} + {} more...", wanted.len() - NAMED) } else { shown }
}

/// What one metric is, and what it is to be.
fn target(metric: &Value, found: &Value) -> String {
    let (kind, field) = match string_at(metric, &["type"]) {
        "External" => ("value", "external"),
        "Object" => ("value", "object"),
        "Pods" => ("average", "pods"),
        "Resource" => ("share", "resource"),
        "ContainerResource" => ("share", "containerResource"),
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |name: &str| at(metric, &[field, "target", name]);
    let amount = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("<nil>").to_owned();
    let share = |value: Option<&Value>| value.and_then(Value::as_i64).map(|share| format!("{share}%"));
    let averaged = wanted("averageValue").is_some() || kind == "average";
    let name = if averaged { "averageValue" } else { "value" };
    let source = found.get(field).filter(|source| !source.is_null());
    let current = source.and_then(|source| source.get("current"));
    // Where an average is optional, one that is missing is unknown; elsewhere it is nothing.
    let known = source.is_some()
        && (!(averaged && kind == "value") || current.is_some_and(|one| one.get(name).is_some()));
    let measured = if known { amount(current.and_then(|one| one.get(name))) } else { "<unknown>".to_owned() };
    if kind != "share" {
        let mark = if averaged && kind == "value" { " (avg)" } else { "" };
        return format!("{measured}/{}{mark}", amount(wanted(name)));
    }
    let resource = string_at(metric, &[field, "name"]);
    if averaged {
        return format!("{resource}: {measured}/{}", amount(wanted(name)));
    }
    let measured = share(current.and_then(|one| one.get("averageUtilization")));
    let measured = measured.unwrap_or_else(|| "<unknown>".to_owned());
    let wanted = share(wanted("averageUtilization")).unwrap_or_else(|| "<auto>".to_owned());
    format!("{resource}: {measured}/{wanted}")
}
