//! How full the storage of each class would become if a pod ran on a node, and what that is worth.
//!
//! [`Scoring`] says whether it counts at all. What is promised to others is in use already; upstream counts what the pod
//! itself requests, and sends one pod after the other to the same storage until its driver has reported.
//! It scores nodes that fit and never looks at whether they do. Answers to upstream's `buildScorerFunction`,
//! `BuildBrokenLinearFunction` and the `Score` of the plugin, which stand behind its feature gate
//! `StorageCapacityScoring`.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::cluster::{Cluster, Key, Kind, PodVolumes};
use crate::decide::Settings;
use crate::objects::quantity::Amount;
use crate::objects::{capacity, claim, name, namespace, volume};

/// The highest score, and full utilization in percent.
const MOST: u8 = 100;
/// What the highest score is where users write it.
const MOST_CONFIGURED: u8 = 10;

/// What the volumes that a pod would get on a node say for the node, beside what is preferred otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scoring {
    /// The less the pod's claims waste of the volumes that they take the better, among nodes that are equal otherwise.
    #[default]
    BestFit,
    /// How full the storage of each class would become, scored by a shape and weighed against what is preferred, as
    /// upstream does behind its gate.
    Capacity(Shape),
}

impl Scoring {
    /// The score of what the pod's claims would get on a node, from 0 to 100.
    #[must_use]
    pub fn score(&self, cluster: &Cluster, settings: &Settings, volumes: &PodVolumes) -> u64 {
        let promised = |report: &Key| {
            if settings.strict_capacity { cluster.debits().on(report) } else { Amount::ZERO }
        };
        match self {
            Scoring::BestFit => 0,
            Scoring::Capacity(shape) => shape.score(&StorageResources::with(volumes, promised)),
        }
    }
}

/// A point of a [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// How full the storage is, in percent.
    pub utilization: u8,
    /// The score of that.
    pub score: u8,
}

/// Why points make no shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Shapeless {
    /// There are none.
    #[error("shape: at least one point must be specified")]
    Empty,
    /// One is not behind the one before it.
    #[error("shape[{0}].utilization: values must be sorted in increasing order")]
    Unsorted(usize),
    /// One is more than full.
    #[error("shape[{0}].utilization: {1} is not in valid range [0, {MOST}]")]
    Overfull(usize, u8),
    /// A score is too high.
    #[error("shape[{0}].score: {1} is not in valid range [0, {2}]")]
    TooHigh(usize, u8, u8),
}

/// The score of each utilization, 0 to 100 percent: given at some points, on a straight line between two of them, and
/// constant before the first and after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape([u8; MOST as usize + 1]);

impl Default for Shape {
    /// Upstream's: the emptier the storage, the better.
    fn default() -> Self {
        Shape(std::array::from_fn(|utilization| MOST - u8::try_from(utilization).unwrap_or(MOST)))
    }
}

impl Shape {
    /// The shape with these points; scores go up to 100.
    ///
    /// # Errors
    /// What is wrong with the points.
    pub fn new(points: &[Point]) -> Result<Self, Shapeless> {
        check(points, MOST)?;
        Ok(Shape::through(points))
    }

    /// The shape that a user writes, as upstream's `VolumeBindingArgs.shape` has it: scores go up to 10.
    ///
    /// # Errors
    /// What is wrong with the points.
    pub fn configured(points: &[Point]) -> Result<Self, Shapeless> {
        check(points, MOST_CONFIGURED)?;
        let scaled = |point: &Point| Point { score: point.score * (MOST / MOST_CONFIGURED), ..*point };
        Ok(Shape::through(&points.iter().map(scaled).collect::<Vec<_>>()))
    }

    fn through(points: &[Point]) -> Self {
        Shape(std::array::from_fn(|utilization| between(points, utilization)))
    }

    /// The score of storage of which so much will be in use.
    #[must_use]
    fn of(&self, resource: &StorageResource) -> u8 {
        let StorageResource { requested, capacity } = *resource;
        let utilization = if capacity == 0 || requested > capacity {
            i128::from(MOST)
        } else {
            i128::from(requested) * i128::from(MOST) / i128::from(capacity)
        };
        let utilization = usize::try_from(utilization).unwrap_or_default();
        self.0.get(utilization).or(self.0.last()).copied().unwrap_or_default()
    }

    /// The score of a node: the mean over the classes, 0 without any.
    #[must_use]
    pub fn score(&self, resources: &StorageResources) -> u64 {
        let classes = u64::try_from(resources.0.len()).unwrap_or(u64::MAX);
        let sum: u64 = resources.0.values().map(|resource| u64::from(self.of(resource))).sum();
        // A half is rounded up.
        (2 * sum + classes).checked_div(2 * classes).unwrap_or_default()
    }
}

fn check(points: &[Point], most: u8) -> Result<(), Shapeless> {
    if points.is_empty() {
        return Err(Shapeless::Empty);
    }
    for (index, point) in points.iter().enumerate() {
        if index > 0 && points[index - 1].utilization >= point.utilization {
            return Err(Shapeless::Unsorted(index));
        }
        if point.utilization > MOST {
            return Err(Shapeless::Overfull(index, point.utilization));
        }
        if point.score > most {
            return Err(Shapeless::TooHigh(index, point.score, most));
        }
    }
    Ok(())
}

/// The value at one place of the broken line through the points; in whole numbers, cut off towards the point before.
fn between(points: &[Point], utilization: usize) -> u8 {
    let next = points.iter().position(|point| utilization <= usize::from(point.utilization));
    let Some(next) = next else { return points.last().map_or(0, |last| last.score) };
    let to = points[next];
    let Some(from) = next.checked_sub(1).map(|before| points[before]) else { return to.score };
    let [from_score, to_score] = [from, to].map(|point| i64::from(point.score));
    let [from_utilization, to_utilization] = [from, to].map(|point| i64::from(point.utilization));
    let along = i64::try_from(utilization).unwrap_or(to_utilization) - from_utilization;
    let score = from_score + (to_score - from_score) * along / (to_utilization - from_utilization);
    u8::try_from(score).unwrap_or_default()
}

/// What will be in use of some storage, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageResource {
    /// What is requested of it.
    pub requested: i64,
    /// All of it.
    pub capacity: i64,
}

/// The storage of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageResources(pub BTreeMap<String, StorageResource>);

impl StorageResources {
    /// What a pod's claims use on a node: of the free volumes that they take or, where they take none, of the storage
    /// from which their volumes are to be made, as far as drivers report it.
    #[must_use]
    pub fn of(volumes: &PodVolumes) -> Self {
        StorageResources::with(volumes, |_| Amount::ZERO)
    }

    /// The same, beside what is promised of each report to others.
    fn with(volumes: &PodVolumes, promised: impl Fn(&Key) -> Amount) -> Self {
        let mut resources = StorageResources::default();
        for binding in &volumes.bindings {
            let capacity = volume::capacity(&binding.volume).value();
            resources.add(volume::class(&binding.volume), claim::requested(&binding.claim), capacity);
        }
        if !volumes.bindings.is_empty() {
            return resources;
        }
        let mut counted = BTreeSet::new();
        for provision in &volumes.provisions {
            let Some(report) = &provision.capacity else { continue };
            // One that tells the size of the largest volume alone says nothing of the whole.
            let Some(whole) = capacity::whole(report).map(Amount::value) else { continue };
            let (namespace, name) = (namespace(&report.metadata), name(&report.metadata));
            let key = Key::new(Kind::Capacity, namespace, name);
            let class = claim::class(&provision.claim);
            resources.add(class, claim::requested(&provision.claim), 0);
            if !counted.contains(&key) {
                resources.add(class, promised(&key), whole);
                counted.insert(key);
            }
        }
        resources
    }

    fn add(&mut self, class: &str, requested: Amount, capacity: i64) {
        let resource = self.0.entry(class.to_owned()).or_default();
        resource.requested = resource.requested.saturating_add(requested.value());
        resource.capacity = resource.capacity.saturating_add(capacity);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::{Binding, Provision};
    use crate::objects::Capacity;
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    fn points(points: &[(u8, u8)]) -> Vec<Point> {
        points.iter().map(|(utilization, score)| Point { utilization: *utilization, score: *score }).collect()
    }

    #[rstest]
    #[case(&[], "shape: at least one point must be specified")]
    #[case(&[(0, 1), (0, 2)], "shape[1].utilization: values must be sorted in increasing order")]
    #[case(&[(0, 1), (101, 2)], "shape[1].utilization: 101 is not in valid range [0, 100]")]
    #[case(&[(0, 11)], "shape[0].score: 11 is not in valid range [0, 10]")]
    fn points_that_make_no_shape(#[case] given: &[(u8, u8)], #[case] why: &str) {
        assert_eq!(Shape::configured(&points(given)).unwrap_err().to_string(), why);
    }

    #[test]
    fn scores_that_are_scaled_already_go_up_to_100() {
        let scaled = Shape::new(&points(&[(0, 100), (100, 0)])).unwrap();
        assert_eq!(scaled, Shape::configured(&points(&[(0, 10), (100, 0)])).unwrap());
        assert_eq!(scaled, Shape::default());
        assert_eq!(Shape::new(&points(&[(0, 101)])), Err(Shapeless::TooHigh(0, 101, 100)));
    }

    /// A falling line is cut off towards its beginning, as a rising one.
    #[rstest]
    #[case(&[(0, 0), (3, 1)], &[0, 0, 0, 1, 1])]
    #[case(&[(0, 1), (3, 0)], &[1, 1, 1, 0, 0])]
    #[case(&[(2, 5)], &[5, 5, 5, 5, 5])]
    #[case(&[(1, 4), (2, 8), (4, 0)], &[4, 4, 8, 4, 0])]
    fn lines_between_points(#[case] given: &[(u8, u8)], #[case] first: &[u8]) {
        assert_eq!(Shape::new(&points(given)).unwrap().0[..5], *first);
    }

    #[rstest]
    #[case(0, 0, 100)]
    #[case(11, 10, 100)]
    #[case(10, 10, 100)]
    #[case(1, 3, 33)]
    #[case(i64::MAX / 2, i64::MAX, 49)]
    fn how_full_storage_is(#[case] requested: i64, #[case] capacity: i64, #[case] percent: u8) {
        let shape = Shape::new(&points(&[(0, 0), (100, 100)])).unwrap();
        assert_eq!(shape.of(&StorageResource { requested, capacity }), percent);
    }

    #[test]
    fn the_mean_is_rounded() {
        let shape = Shape::new(&points(&[(0, 0), (100, 100)])).unwrap();
        let class = |name: &str, requested| (name.to_owned(), StorageResource { requested, capacity: 100 });
        let score = |classes: &[(String, StorageResource)]| {
            shape.score(&StorageResources(classes.iter().cloned().collect()))
        };
        assert_eq!(score(&[class("a", 1), class("b", 2)]), 2);
        assert_eq!(score(&[class("a", 1), class("b", 1), class("c", 2)]), 1);
        assert_eq!(score(&[]), 0);
    }

    fn claim(class: &str, size: &str) -> Arc<crate::objects::Claim> {
        let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": size}}});
        Arc::new(from_value(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": spec})).unwrap())
    }

    fn binding(size: &str, capacity: &str) -> Binding {
        let spec = json!({"storageClassName": "local", "capacity": {"storage": capacity}});
        let volume = from_value(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap();
        Binding { claim: claim("local", size), volume: Arc::new(volume) }
    }

    fn provision(class: &str, size: &str, report: &Value) -> Provision {
        let report: Option<Capacity> = from_value(report.clone()).unwrap();
        Provision { claim: claim(class, size), capacity: report.map(Arc::new) }
    }

    fn report(name: &str, capacity: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "ns"}, "storageClassName": "made", "capacity": capacity})
    }

    /// Each with what is requested and what there is, by class.
    #[rstest]
    #[case::volumes(vec![binding("1", "4"), binding("2", "3")], vec![provision("made", "1", &report("r", "9"))], &[("local", 3, 7)])]
    #[case::storage_counts_once(vec![], vec![provision("made", "1", &report("r", "9")), provision("made", "2", &report("r", "9"))], &[("made", 3, 9)])]
    #[case::two_reports(vec![], vec![provision("made", "1", &report("r", "9")), provision("made", "2", &report("s", "5"))], &[("made", 3, 14)])]
    #[case::by_class(vec![], vec![provision("made", "1", &report("r", "9")), provision("b", "2", &report("s", "5"))], &[("b", 2, 5), ("made", 1, 9)])]
    #[case::untold(vec![], vec![provision("made", "1", &json!(null))], &[])]
    #[case::largest_alone(vec![], vec![provision("made", "1", &json!({"metadata": {"name": "r"}, "storageClassName": "made", "maximumVolumeSize": "9"}))], &[])]
    fn what_a_pod_uses_of_storage(
        #[case] bindings: Vec<Binding>,
        #[case] provisions: Vec<Provision>,
        #[case] classes: &[(&str, i64, i64)],
    ) {
        let resources = StorageResources::of(&PodVolumes { bindings, provisions });
        let found: Vec<_> =
            resources.0.iter().map(|(class, r)| (class.as_str(), r.requested, r.capacity)).collect();
        assert_eq!(found, classes);
    }
}
