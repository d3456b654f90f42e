//! How full the storage of each class may become: `score`.

use std::collections::BTreeMap;
use std::fmt::Write;

use pvbind::decide::binder::storage::{Point, Shape, StorageResource, StorageResources};
use serde::Deserialize;

use crate::record::{Record, part};

#[derive(Debug, Deserialize)]
struct RecordedPoint {
    utilization: u8,
    score: u8,
}

#[derive(Debug, Deserialize)]
struct RecordedResource {
    requested: i64,
    capacity: i64,
}

/// The scores of one map of classes after the other.
pub fn score(record: &Record) -> String {
    let points: Vec<RecordedPoint> = record.given("shape");
    let points = points.iter().map(|p| Point { utilization: p.utilization, score: p.score });
    let points: Vec<_> = points.collect();
    let shape = Shape::new(&points).expect("upstream builds it");
    let line = points.iter().map(|p| format!("{}% gives {}", p.utilization, p.score));
    let mut story = format!("{}\n\n", line.collect::<Vec<_>>().join(", "));
    let mut scores = Vec::new();
    for classes in record.given::<Vec<BTreeMap<String, RecordedResource>>>("classResources") {
        let resources = classes.into_iter().map(|(class, RecordedResource { requested, capacity })| {
            (class, StorageResource { requested, capacity })
        });
        let resources = StorageResources(resources.collect());
        let score = shape.score(&resources);
        let used = resources.0.iter().map(|(class, r)| format!("{} of {} {class}", r.requested, r.capacity));
        writeln!(story, "{}: {score}", used.collect::<Vec<_>>().join(", ")).expect("a string grows");
        scores.push(score);
    }
    let asserted: Vec<u64> = part(&record.want, "scores").expect("each asserts them");
    assert_eq!(scores, asserted);
    assert_eq!(part(&record.got, "scores"), Some(scores));
    story
}
