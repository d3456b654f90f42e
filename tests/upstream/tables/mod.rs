//! Upstream's function tables: each record is a question to one function, asked of the code here that answers it.
//!
//! A record is a test of its own, `table::FILE/KEY`; the questions and answers of a file are a snapshot,
//! `table::FILE`. `testdata/upstream/README.md` says what is compared and what is not.

mod access;
mod cache;
mod class;
mod matching;
mod migration;
mod place;
mod plugin;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use libtest_mimic::Trial;
use pvbind::decide::Settings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::record;

/// The upstream test files that have such records.
const FILES: [&str; 7] = [
    "component_helpers_nodeselector_test",
    "component_helpers_volume_test",
    "core_helper_test",
    "derived",
    "index_test",
    "pv_controller_test",
    "volume_util_test",
];

/// Asks the question of a record, fails where the answer is not the recorded one, and returns both in one line.
type Ask = fn(&Row) -> String;

/// The functions, by upstream's name.
const FUNCTIONS: [(&str, Ask); 19] = [
    ("allPossibleMatchingAccessModes", matching::sets_that_offer),
    ("checkAccessModes", matching::access_modes_fit),
    ("checkNodeAffinity", place::reaches),
    ("checkVolumeModeMismatches", matching::volume_modes_differ),
    ("checkVolumeSatisfyClaim", matching::satisfies),
    ("csiMigrationOfPlugin", migration::driver_of),
    ("findBestMatchForClaim", matching::find),
    ("findMatchingVolume", matching::find_on_node),
    ("getAccessModesAsString", access::to_short),
    ("getAccessModesFromString", access::from_short),
    ("getDefaultClass", class::default),
    ("getFullQualifiedPluginNameForVolume", plugin::qualified),
    ("isDelayBindingMode", class::delays_binding),
    ("listByAccessModes", matching::of_set),
    ("matchNodeSelectorTerms", place::selector_matches),
    ("modifyDeletionFinalizers", migration::finalizers),
    ("persistentVolumeClaimHasClass", class::is_named),
    ("storeObjectUpdate", cache::show),
    ("updateMigrationAnnotations", migration::annotations_of),
];

/// Functions whose records other tests of this program hold: (name, where).
const ELSEWHERE: [(&str, &str); 2] = [
    ("provisionClaim", "asked of the controller as a whole, with the cases of provision_test"),
    ("recordVolumeOperationErrorMetric", "asked of the metrics"),
];

/// One record.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    key: String,
    op: String,
    #[serde(default)]
    feature_gates: BTreeMap<String, bool>,
    input: BTreeMap<String, Value>,
    expected: BTreeMap<String, Value>,
    #[serde(default)]
    observed: BTreeMap<String, Value>,
}

impl Row {
    /// A part of the question; `null` and what is absent are nothing.
    fn input<T: DeserializeOwned>(&self, field: &str) -> Option<T> {
        let value = self.input.get(field).filter(|value| !value.is_null())?;
        Some(serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{field}: {error}")))
    }

    /// A part of the question that is always there.
    fn given<T: DeserializeOwned>(&self, field: &str) -> T {
        self.input(field).unwrap_or_else(|| panic!("no {field}"))
    }

    fn settings(&self) -> Settings {
        let gate = self.feature_gates.get("VolumeAttributesClass").copied();
        Settings { volume_attributes_class: gate.unwrap_or(true), ..Settings::default() }
    }

    /// Fails where one of the expectations is not among the answers, or the reverse; likewise what was observed.
    fn check(&self, expected: Value, observed: Value) {
        let object = |value: Value| match value {
            Value::Object(fields) => fields.into_iter().collect::<BTreeMap<_, _>>(),
            other => panic!("{other} has no fields"),
        };
        assert_eq!(object(expected), self.expected, "expected");
        assert_eq!(object(observed), self.observed, "observed");
    }

    /// Upstream's error text, where this program has nobody to say it to: only whether there is one is compared.
    fn unsaid(&self, is_error: bool) -> Value {
        let text =
            self.observed.get("error").or_else(|| self.expected.get("error")).cloned().unwrap_or_default();
        assert_eq!(!text.is_null(), is_error, "{text}");
        text
    }

    fn ask(&self) -> String {
        let function = FUNCTIONS.iter().find(|(name, _)| *name == self.op);
        let (_, ask) = function.unwrap_or_else(|| panic!("{} is asked of nobody", self.op));
        ask(self)
    }
}

/// The tables of one upstream test file.
fn load(file: &str) -> Vec<Row> {
    record::load_rows(file, |_| true)
}

/// All tests of the tables.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("upstream::table::all", || {
        all_are_asked();
        Ok(())
    })];
    for file in FILES {
        let rows = Arc::new(load(file));
        for (index, row) in rows.iter().enumerate() {
            let rows = rows.clone();
            trials.push(Trial::test(format!("upstream::table::{file}/{}", row.key), move || {
                rows[index].ask();
                Ok(())
            }));
        }
        trials.push(Trial::test(format!("upstream::table::{file}"), move || {
            snapshot(file, &rows);
            Ok(())
        }));
    }
    trials
}

fn snapshot(file: &str, rows: &[Row]) {
    let mut text = String::new();
    let mut function = "";
    for row in rows {
        if function != row.op {
            function = &row.op;
            let _ = writeln!(text, "{function}");
        }
        let _ = writeln!(text, "  {}: {}", row.key, row.ask());
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../snapshots/upstream/tables");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(file, text));
}

/// Fails where a file has tables that are not asked, or a function is asked nothing.
fn all_are_asked() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/upstream/pv-controller");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the records are there") {
        let path = entry.expect("an entry").path();
        let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
        for row in load(&file) {
            if !ELSEWHERE.iter().any(|(name, _)| *name == row.op) {
                assert!(FILES.contains(&file.as_str()), "{file}: {} is not run", row.key);
                *counts.entry(row.op).or_default() += 1;
            }
        }
    }
    let asked: Vec<&str> = counts.keys().map(String::as_str).collect();
    let known: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(asked, known);
    assert_eq!(counts.values().sum::<usize>(), 229);
}
