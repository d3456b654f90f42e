//! Upstream's one question to the provisioner that is not about a world: with provisioning switched off it does nothing.

use std::sync::Arc;

use libtest_mimic::Trial;
use pvbind::cluster::{Cluster, Key};
use pvbind::decide::controller::provision;
use pvbind::decide::{Action, Plan, Reason, Settings};
use pvbind::objects::Claim;
use serde::Deserialize;

use crate::record;

const FILE: &str = "provision_test";

#[derive(Deserialize)]
struct Row {
    key: String,
    input: Input,
    expected: Outcome,
    observed: Outcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Input {
    claim: Option<Claim>,
    enable_dynamic_provisioning: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Outcome {
    error: Option<String>,
    scheduled_operations: Option<Vec<String>>,
}

/// One test for each row.
pub fn trials() -> Vec<Trial> {
    let rows: Vec<Row> = record::load_rows(FILE, |op| op == "provisionClaim");
    let trial = |row: Row| {
        Trial::test(format!("upstream::table::{FILE}/{}", row.key), move || {
            run(&row);
            Ok(())
        })
    };
    rows.into_iter().map(trial).collect()
}

fn run(row: &Row) {
    let settings = Settings { provisioning: row.input.enable_dynamic_provisioning, ..Settings::default() };
    let claim = Arc::new(row.input.claim.clone().unwrap_or_default());
    let mut plan = Plan::nothing(Reason::Gone);
    let key = Key::claim("default", "c");
    let reason = provision::provision(&Cluster::new(), &settings, &key, &claim, &mut plan);
    let failed = [&row.expected, &row.observed].iter().any(|outcome| outcome.error.is_some());
    assert_eq!(reason.is_failure(), failed, "{reason}");
    let started: Vec<String> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Start(operation) => Some(operation.key().to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(Some(started), row.observed.scheduled_operations);
    assert_eq!(plan.actions, [], "nothing at all is done");
}
