//! Upstream's own cases of the scheduler's volume binder, each as a test of its own name, `binder::SOURCE/FUNC/CASE`.
//!
//! A record says what the binder sees, what it is asked and what it answered; `testdata/upstream/README.md` says how
//! they are compared. Each operation of the records has its module here.

mod assume;
mod bind;
mod cache;
mod eligible;
mod find;
mod hints;
mod plugin;
mod record;
mod score;
mod state;
mod story;

use std::fmt::Write as _;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use record::Record;

/// Runs a record: fails where the answer is not the recorded one, and returns the story for the snapshot.
type Run = fn(&Record) -> String;

/// The operations, by their name in the records.
const OPERATIONS: [(&str, Run); 17] = [
    ("assumeCacheTrace", cache::run),
    ("assumePodVolumes", assume::assume),
    ("assumeThenRevert", assume::revert),
    ("bindAPIUpdate", bind::api_update),
    ("bindPodVolumes", bind::bind),
    ("checkBindings", bind::check),
    ("findAssumeFind", assume::find_again),
    ("findPodVolumes", find::run),
    ("getEligibleNodes", eligible::nodes),
    ("isSchedulableAfterCSIDriverChange", hints::csi_driver),
    ("isSchedulableAfterCSINodeChange", hints::csi_node),
    ("isSchedulableAfterCSIStorageCapacityChange", hints::capacity),
    ("isSchedulableAfterPersistentVolumeClaimChange", hints::claim),
    ("isSchedulableAfterStorageClassChange", hints::class),
    ("plugin", plugin::run),
    ("preBindPreFlight", plugin::pre_flight),
    ("score", score::score),
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for record in record::load() {
        let run = OPERATIONS.iter().find(|(name, _)| *name == record.op);
        let (_, run) = run.unwrap_or_else(|| panic!("{}: nobody runs {}", record.id, record.op));
        let record = Arc::new(record);
        let apart = if record.differs.is_some() { "differs::" } else { "" };
        trials.push(Trial::test(format!("binder::{apart}{}", record.id), move || {
            let mut story = run(&record);
            if let Some(wanted) = &record.differs {
                let _ = writeln!(story, "this source wants {wanted}");
            }
            snapshot(&record, &story);
            Ok(())
        }));
    }
    let (run, recorded) = (trials.len(), record::count());
    trials.push(Trial::test("binder::every_record_is_run", move || {
        assert_eq!(run, recorded);
        Ok(())
    }));
    libtest_mimic::run(&arguments, trials).exit();
}

fn snapshot(record: &Record, story: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots/binder");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(file_name(&record.id), story));
}

/// The record's name as a file name.
fn file_name(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    id.replace('/', "__").chars().map(plain).collect()
}
