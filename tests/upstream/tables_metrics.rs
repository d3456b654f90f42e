//! Upstream's table of metrics: what is recorded, and the text that Prometheus then gets of it.

use libtest_mimic::Trial;
use pvbind::act::Metrics;
use serde::Deserialize;

use crate::record;

const FILE: &str = "metrics_test";

#[derive(Deserialize)]
struct Row {
    key: String,
    op: String,
    input: Input,
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Input {
    operation_name: String,
    plugin_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    exposition: String,
    metric_name: String,
}

/// One test for each row.
pub fn trials() -> Vec<Trial> {
    let rows: Vec<Row> = record::load(FILE);
    let trial = |row: Row| {
        Trial::test(format!("upstream::table::{FILE}/{}", row.key), move || {
            run(&row);
            Ok(())
        })
    };
    rows.into_iter().map(trial).collect()
}

fn run(row: &Row) {
    assert_eq!(row.op, "recordVolumeOperationErrorMetric", "{}: not understood", row.key);
    let metrics = Metrics::new().expect("metrics");
    metrics.operation_error(&row.input.plugin_name, &row.input.operation_name);
    let text = metrics.text().expect("a text");
    // Upstream compares one metric alone, as it is gathered.
    let name = &row.expected.metric_name;
    let of_metric = |line: &&str| line.split([' ', '{']).any(|word| word == name);
    let found: String = text.split_inclusive('\n').filter(of_metric).collect();
    assert_eq!(found, row.expected.exposition);
}
