//! Upstream's own cases, each as a test of its own name: `pure::…` on the core, `live::…` through the executor
//! against the bundled API server. `testdata/upstream/README.md` says what is compared.

mod check;
mod live;
mod mock;
mod pure;
mod record;
mod story;
mod tables;
mod tables_metrics;
mod tables_provision;

use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use record::Record;

/// The files that hold controller cases.
const CASES: [&str; 5] =
    ["binder_test", "pv_controller_test", "recycle_test", "delete_test", "provision_test"];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for record in CASES.into_iter().flat_map(record::load::<Record>).filter(record::is_run) {
        let key = record.key.clone();
        let record = Arc::new(record);
        let pure = record.clone();
        trials.push(Trial::test(format!("upstream::pure::{key}"), move || {
            run_pure(&pure);
            Ok(())
        }));
        trials.push(Trial::test(format!("upstream::live::{key}"), move || {
            live::run(&record);
            Ok(())
        }));
    }
    trials.extend(tables::trials());
    trials.extend(tables_metrics::trials());
    trials.extend(tables_provision::trials());
    // A controller case is named `…::pure::KEY` and `…::live::KEY`, a row of a table `…::table::FILE/KEY`.
    let is_record =
        |name: &str| name.contains("::pure::") || name.contains("::table::") && name.contains('/');
    let run = trials.iter().filter(|trial| is_record(trial.name())).count();
    trials.push(Trial::test("upstream::every_record_is_run", move || {
        assert_eq!(run, record::count());
        Ok(())
    }));
    libtest_mimic::run(&arguments, trials).exit();
}

fn run_pure(record: &Record) {
    let story = pure::run(record);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots/upstream");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(file_name(&record.key), story.text()));
}

/// The key as a file name.
fn file_name(key: &str) -> String {
    key.replace('/', "__").replace(['@', '=', '#'], "-")
}
