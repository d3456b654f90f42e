//! Upstream's own cases, each as a test of its own name: `pure::…` on the core, `live::…` through the executor
//! against the bundled API server. `testdata/upstream/README.md` says what is compared.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

mod check;
mod pure;
mod record;
mod story;

use libtest_mimic::{Arguments, Failed, Trial};

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
            trials.push(Trial::test(format!("pure::{key}"), move || run_pure(&record)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

#[expect(clippy::unnecessary_wraps, reason = "libtest-mimic wants a result")]
fn run_pure(record: &Record) -> Result<(), Failed> {
    let story = pure::run(record);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots/upstream");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(file_name(&record.key), story.text()));
    Ok(())
}

/// The key as a file name.
fn file_name(key: &str) -> String {
    key.replace('/', "__").replace(['@', '=', '#'], "-")
}
