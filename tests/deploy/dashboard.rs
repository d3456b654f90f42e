//! The dashboard shows metrics that exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::shipped::{list, text};

/// What an expression calls that is no metric.
const LANGUAGE: [&str; 12] = [
    "sum",
    "rate",
    "increase",
    "max",
    "by",
    "le",
    "histogram_quantile",
    "clamp_min",
    "or",
    "vector",
    "topk",
    "time",
];

/// The names in an expression, without labels and what they are grouped by.
fn names(expression: &str) -> BTreeSet<String> {
    let mut bare = String::new();
    let mut depth = 0_usize;
    for character in expression.chars() {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => bare.push(character),
            _ => {}
        }
    }
    let bare = bare.replace("without (", "by (");
    let mut without_groups = String::new();
    for (index, part) in bare.split("by (").enumerate() {
        let part = if index == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) };
        without_groups.push_str(part);
        without_groups.push(' ');
    }
    let words = without_groups.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let words = words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    words.filter(|word| !LANGUAGE.contains(word)).map(str::to_owned).collect()
}

/// The metrics that are documented, with the names under which a histogram is read.
fn documented() -> BTreeSet<String> {
    let page = text("docs/metrics.md");
    let mut known = BTreeSet::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let mut cells = row.split('|').map(str::trim);
        let name = cells.next().unwrap_or_default().trim_end_matches('`');
        match cells.next() {
            Some("histogram") => {
                known.extend(["bucket", "sum", "count"].map(|suffix| format!("{name}_{suffix}")));
            }
            _ => {
                known.insert(name.to_owned());
            }
        }
    }
    known
}

#[test]
fn every_panel_asks_for_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/pvbind.json")).expect("a dashboard");
    let known = documented();
    assert!(known.contains("pvbind_bind_seconds_bucket"), "{known:?}");
    let panels = list(&dashboard, "/panels").iter().filter(|panel| panel["type"] != "row");
    let mut shown = BTreeSet::new();
    for panel in panels {
        for target in list(panel, "/targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let names = names(expression);
            assert!(!names.is_empty(), "{}: {expression}", panel["title"]);
            for name in names {
                assert!(known.contains(&name), "{}: nobody serves {name}", panel["title"]);
                shown.insert(name);
            }
        }
    }
    for must in ["pvbind_bind_seconds_bucket", "pvbind_self_conflicts_total", "volume_operation_errors_total"]
    {
        assert!(shown.contains(must), "{must} is nowhere to be seen");
    }
}

#[test]
fn names_are_told_from_the_language() {
    let expression = "histogram_quantile(0.99, sum by (le, x) (rate(a_bucket{job=~\"$job\"}[5m]))) or max without (y) (b) - time()";
    assert_eq!(names(expression), BTreeSet::from(["a_bucket".to_owned(), "b".to_owned()]));
}
