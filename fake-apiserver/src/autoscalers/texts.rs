//! Decides how metrics, behavior and conditions of an autoscaler are written into annotations and read from there. The order of
//! the fields is that of Go's types, because annotations are compared as texts.

use serde_json::{Map, Value, json};

use crate::object::{as_map_mut, text};
use crate::quantity::Quantity;

/// What a field is worth: its name, and its JSON where it is there.
type Written = (&'static str, Option<String>);

/// An object in JSON, its fields in this order.
fn object(fields: impl IntoIterator<Item = Written>) -> String {
    let fields = fields.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// JSON as Go writes it, where a browser may read it as a page.
fn json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A field that is there.
fn there(value: &Value, field: &str) -> Option<String> {
    value.get(field).filter(|value| !value.is_null()).map(json)
}

/// A field that is there, and is written as null where it is not.
fn or_null(value: &Value, field: &str) -> Option<String> {
    there(value, field).or_else(|| Some("null".to_owned()))
}

/// An amount that is nothing where it is not there.
fn amount(value: &Value, field: &str) -> Option<String> {
    there(value, field).or_else(|| Some("\"0\"".to_owned()))
}

/// A text, empty where there is none.
fn named(value: &Value, field: &str) -> String {
    json(&text(value, &[field]).into())
}

fn selector(metric: &Value) -> Option<String> {
    let selector = metric.get("selector").filter(|selector| selector.is_object())?;
    let expressions = selector["matchExpressions"].as_array().filter(|all| !all.is_empty());
    let expressions = expressions.map(|all| {
        list(all.iter().map(|one| {
            object([
                ("key", Some(named(one, "key"))),
                ("operator", Some(named(one, "operator"))),
                ("values", there(one, "values")),
            ])
        }))
    });
    Some(object([("matchLabels", there(selector, "matchLabels")), ("matchExpressions", expressions)]))
}

/// Metrics as the older version has them: what they are to be (`target`), or what they are (`current`).
pub(super) fn of_metrics(metrics: &[&Value], part: &str) -> String {
    list(metrics.iter().map(|metric| {
        let source = |name: &'static str| {
            let source = metric.get(name).filter(|source| source.is_object());
            (name, source.map(|source| of_source(name, source, part)))
        };
        let sources = ["object", "pods", "resource", "containerResource", "external"].map(source);
        object([("type", Some(named(metric, "type")))].into_iter().chain(sources))
    }))
}

fn of_source(name: &str, source: &Value, part: &str) -> String {
    let (metric, amounts) = (&source["metric"], &source[part]);
    let wanted = part == "target";
    let value = || if wanted { "targetValue" } else { "currentValue" };
    let average = || if wanted { "targetAverageValue" } else { "currentAverageValue" };
    let share = || if wanted { "targetAverageUtilization" } else { "currentAverageUtilization" };
    let whole = |field: &str| if wanted { there(amounts, field) } else { amount(amounts, field) };
    match name {
        "object" => {
            let about = &source["describedObject"];
            let version = there(about, "apiVersion").filter(|version| version != "\"\"");
            let about = object([
                ("kind", Some(named(about, "kind"))),
                ("name", Some(named(about, "name"))),
                ("apiVersion", version),
            ]);
            object([
                ("target", Some(about)),
                ("metricName", Some(named(metric, "name"))),
                (value(), amount(amounts, "value")),
                ("selector", selector(metric)),
                ("averageValue", there(amounts, "averageValue")),
            ])
        }
        "pods" => object([
            ("metricName", Some(named(metric, "name"))),
            (average(), amount(amounts, "averageValue")),
            ("selector", selector(metric)),
        ]),
        "external" => object([
            ("metricName", Some(named(metric, "name"))),
            ("metricSelector", selector(metric)),
            (value(), whole("value")),
            (average(), there(amounts, "averageValue")),
        ]),
        _ => object([
            ("name", Some(named(source, "name"))),
            (share(), there(amounts, "averageUtilization")),
            (average(), whole("averageValue")),
            ("container", (name == "containerResource").then(|| named(source, "container"))),
        ]),
    }
}

pub(super) fn of_conditions(conditions: &[Value]) -> String {
    list(conditions.iter().map(|one| {
        let words = |field: &str| there(one, field).filter(|words| words != "\"\"");
        object([
            ("type", Some(named(one, "type"))),
            ("status", Some(named(one, "status"))),
            ("lastTransitionTime", or_null(one, "lastTransitionTime")),
            ("reason", words("reason")),
            ("message", words("message")),
        ])
    }))
}

/// What an autoscaler does how fast, under the names that Go has for it.
pub(super) fn of_behavior(behavior: &Value) -> String {
    let direction = |field: &str| {
        let rules = behavior.get(field).filter(|rules| rules.is_object());
        let Some(rules) = rules else { return Some("null".to_owned()) };
        let policies = rules.get("policies").and_then(Value::as_array).map(|policies| {
            list(policies.iter().map(|policy| {
                let number = |field: &str| there(policy, field).or_else(|| Some("0".to_owned()));
                object([
                    ("Type", Some(named(policy, "type"))),
                    ("Value", number("value")),
                    ("PeriodSeconds", number("periodSeconds")),
                ])
            }))
        });
        Some(object([
            ("StabilizationWindowSeconds", or_null(rules, "stabilizationWindowSeconds")),
            ("SelectPolicy", or_null(rules, "selectPolicy")),
            ("Policies", policies.or_else(|| Some("null".to_owned()))),
            ("Tolerance", or_null(rules, "tolerance")),
        ]))
    };
    object([("ScaleUp", direction("scaleUp")), ("ScaleDown", direction("scaleDown"))])
}

/// The field of that name, be its letters large or small.
fn whatever_case<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let mut fields = value.as_object()?.iter();
    fields.find(|(field, value)| field.eq_ignore_ascii_case(name) && !value.is_null()).map(|(_, value)| value)
}

/// The fields of a map that are there, under their names in JSON.
fn renamed(value: &Value, names: &[&str]) -> Map<String, Value> {
    let found =
        names.iter().filter_map(|name| Some(((*name).to_owned(), whatever_case(value, name)?.clone())));
    found.collect()
}

/// What `of_behavior` wrote; nothing where it says nothing.
pub(super) fn behavior(written: &Value) -> Option<Value> {
    let mut behavior = Map::new();
    for direction in ["scaleUp", "scaleDown"] {
        let Some(rules) = whatever_case(written, direction).filter(|rules| rules.is_object()) else {
            continue;
        };
        let mut read = renamed(rules, &["stabilizationWindowSeconds", "selectPolicy", "tolerance"]);
        if let Some(policies) = whatever_case(rules, "policies").and_then(Value::as_array) {
            let policies = policies.iter().map(|one| renamed(one, &["type", "value", "periodSeconds"]));
            read.insert("policies".into(), policies.map(Value::Object).collect());
        }
        behavior.insert(direction.into(), read.into());
    }
    (!behavior.is_empty()).then_some(Value::Object(behavior))
}

/// What `of_metrics` wrote; nothing where it is no list of metrics.
pub(super) fn metrics(written: &Value, part: &str) -> Option<Vec<Value>> {
    let metrics = written.as_array()?.iter();
    metrics.map(|metric| metric.is_object().then(|| read_metric(metric, part))).collect()
}

fn read_metric(metric: &Value, part: &str) -> Value {
    let mut read = json!({"type": text(metric, &["type"])});
    for name in ["object", "pods", "resource", "containerResource", "external"] {
        if let Some(source) = metric.get(name).filter(|source| source.is_object()) {
            as_map_mut(&mut read).insert(name.into(), read_source(name, source, part));
        }
    }
    read
}

fn read_source(name: &str, source: &Value, part: &str) -> Value {
    let wanted = part == "target";
    let field =
        |names: [&str; 2]| source.get(names[usize::from(!wanted)]).filter(|value| !value.is_null()).cloned();
    let mut value = field(["targetValue", "currentValue"]);
    let mut average = match name {
        "object" => field(["averageValue", "averageValue"]),
        _ => field(["targetAverageValue", "currentAverageValue"]),
    };
    let share = field(["targetAverageUtilization", "currentAverageUtilization"]);
    let nothing = || Some(Value::from("0"));
    let is_nothing = |value: &Value| {
        value.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|amount| amount.nanos() == 0)
    };
    // What is no pointer in Go is there, be it nothing.
    match name {
        "object" if wanted && average.is_some() => value = value.filter(|value| !is_nothing(value)),
        "object" => value = value.or_else(nothing),
        "pods" => average = average.or_else(nothing),
        "external" if !wanted => value = value.or_else(nothing),
        "resource" | "containerResource" if !wanted => average = average.or_else(nothing),
        _ => {}
    }
    let kind = match name {
        "pods" => "AverageValue",
        "object" if average.is_none() => "Value",
        "external" if value.is_some() => "Value",
        "resource" | "containerResource" if share.is_some() => "Utilization",
        _ => "AverageValue",
    };
    let mut amounts = Map::new();
    if wanted {
        amounts.insert("type".into(), kind.into());
    }
    for (field, amount) in [("value", value), ("averageValue", average), ("averageUtilization", share)] {
        amounts.extend(amount.map(|amount| (field.to_owned(), amount)));
    }
    let mut read = json!({ part: amounts });
    let fields = as_map_mut(&mut read);
    if matches!(name, "resource" | "containerResource") {
        fields.extend(renamed(source, &["name", "container"]));
        return read;
    }
    let mut metric = json!({"name": text(source, &["metricName"])});
    let selects = if name == "external" { "metricSelector" } else { "selector" };
    if let Some(selector) = source.get(selects).filter(|selector| selector.is_object()) {
        as_map_mut(&mut metric).insert("selector".into(), selector.clone());
    }
    fields.insert("metric".into(), metric);
    if name == "object" {
        fields.insert("describedObject".into(), source.get("target").cloned().unwrap_or_else(|| json!({})));
    }
    read
}
