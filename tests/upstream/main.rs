//! Upstream's own cases, each as a test of its own name: `pure::…` on the core, `live::…` through the executor
//! against the bundled API server. `testdata/upstream/README.md` says what is compared.

mod check;
mod live;
mod pure;
mod record;
mod story;
mod tables;

use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use record::Record;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for file in ["binder_test", "pv_controller_test"] {
        for record in record::load(file).into_iter().filter(record::is_run) {
            assert!(
                record.call.wrappers.is_empty() && record.api_errors.is_empty(),
                "{}: not understood",
                record.key
            );
            let key = record.key.clone();
            let record = Arc::new(record);
            let pure = record.clone();
            trials.push(Trial::test(format!("pure::{key}"), move || {
                run_pure(&pure);
                Ok(())
            }));
            trials.push(Trial::test(format!("live::{key}"), move || {
                live::run(&record);
                Ok(())
            }));
        }
    }
    trials.extend(tables::trials());
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
