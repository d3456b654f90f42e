//! The metrics themselves: names, help, types and labels, all of them in `docs/metrics.md`.
//!
//! Upstream's are what kube-controller-manager v1.36.3 has (`pkg/controller/volume/persistentvolume/metrics` and
//! `pkg/volume/util/metrics.go`, with the marks that `component-base` puts before the help); ours begin with
//! `pvbind_`. Records nothing by itself.
//!
//! Types and text are the `prometheus` crate's, without its protobuf: that adds one small crate to those that are
//! there anyway. `prometheus-client` speaks `OpenMetrics`, which ends every counter in `_total`; upstream's
//! `volume_operation_total_errors` could not be spelled.

use std::collections::BTreeMap;

use prometheus::core::Collector;
use prometheus::{Error, HistogramOpts, HistogramVec, Opts, Registry};
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::census::Sort;
use super::process::Process;
use super::scheduling::Scheduling;

/// Upstream's buckets for operations.
const OPERATION_BUCKETS: [f64; 13] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];
/// Binding takes four round trips where nothing has to be made, and minutes where a volume is awaited.
pub(super) const BIND_BUCKETS: [f64; 15] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];

const VOLUME_LABELS: [&str; 2] = ["plugin_name", "volume_mode"];
const CLASS_LABEL: [&str; 1] = ["storage_class"];
const CLAIM_LABELS: [&str; 3] = ["namespace", "storage_class", "volume_attributes_class"];
const OPERATION_LABELS: [&str; 2] = ["plugin_name", "operation_name"];

/// Every metric there is.
#[derive(Clone, Debug)]
pub(super) struct Families {
    registry: Registry,
    volumes: IntGaugeVec,
    bound_volumes: IntGaugeVec,
    unbound_volumes: IntGaugeVec,
    bound_claims: IntGaugeVec,
    unbound_claims: IntGaugeVec,
    pub(super) operation_seconds: HistogramVec,
    pub(super) operation_errors: IntCounterVec,
    pub(super) operation_errors_before_1_36: IntCounterVec,
    pub(super) retroactive: IntCounter,
    pub(super) retroactive_errors: IntCounter,
    pub(super) writes: IntCounterVec,
    pub(super) conflicts: IntCounter,
    pub(super) self_conflicts: IntCounter,
    pub(super) queue_depth: IntGauge,
    pub(super) bind_seconds: Histogram,
    pub(super) process: Process,
    pub(super) scheduling: Scheduling,
}

/// Adds a metric to those that are shown.
pub(super) fn shown<M: Collector + Clone + 'static>(registry: &Registry, metric: M) -> Result<M, Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl Families {
    /// All of them, at zero.
    pub(super) fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let gauges = |name: &str, what: &str, labels: &[&str]| {
            let opts = Opts::new(format!("pv_collector_{name}"), format!("[ALPHA] Gauge measuring {what}"));
            shown(&registry, IntGaugeVec::new(opts, labels)?)
        };
        let errors = |name: &str, mark: &str| {
            let opts = Opts::new(name, format!("[ALPHA] {mark}Total volume operation errors"));
            shown(&registry, IntCounterVec::new(opts, &OPERATION_LABELS)?)
        };
        let counter = |name: &str, help: &str| shown(&registry, IntCounter::new(name, help)?);
        let assigned = |name: &str, what: &str| {
            let what = format!("{what}retroactive StorageClass assignments to persistent volume claim");
            counter(name, &format!("[ALPHA] Total number of {what}"))
        };
        let number = "number of persistent volume";
        let writes = "Requests that write to the API server, events aside, by what came of them";
        let writes = Opts::new("pvbind_api_writes_total", writes);
        let seconds = "[ALPHA] Storage operation end to end duration in seconds";
        let seconds = HistogramOpts::new("volume_operation_total_seconds", seconds);
        let seconds = HistogramVec::new(seconds.buckets(OPERATION_BUCKETS.to_vec()), &OPERATION_LABELS)?;
        let bind = "Time from when a claim was first seen unbound until it was bound";
        let bind = HistogramOpts::new("pvbind_bind_seconds", bind).buckets(BIND_BUCKETS.to_vec());
        let depth = IntGauge::new("pvbind_queue_depth", "Objects that are to be decided about now")?;
        Ok(Families {
            volumes: gauges("total_pv_count", "total number of persistent volumes", &VOLUME_LABELS)?,
            bound_volumes: gauges("bound_pv_count", &format!("{number} currently bound"), &CLASS_LABEL)?,
            unbound_volumes: gauges(
                "unbound_pv_count",
                &format!("{number} currently unbound"),
                &CLASS_LABEL,
            )?,
            bound_claims: gauges(
                "bound_pvc_count",
                &format!("{number} claim currently bound"),
                &CLAIM_LABELS,
            )?,
            unbound_claims: gauges(
                "unbound_pvc_count",
                &format!("{number} claim currently unbound"),
                &CLAIM_LABELS,
            )?,
            operation_seconds: shown(&registry, seconds)?,
            operation_errors: errors("volume_operation_errors_total", "")?,
            operation_errors_before_1_36: errors(
                "volume_operation_total_errors",
                "(Deprecated since 1.36.0) ",
            )?,
            retroactive: assigned("retroactive_storageclass_total", "")?,
            retroactive_errors: assigned("retroactive_storageclass_errors_total", "failed ")?,
            writes: shown(&registry, IntCounterVec::new(writes, &["verb", "kind", "result"])?)?,
            conflicts: counter(
                "pvbind_conflicts_total",
                "Writes refused because the object was newer than the decision",
            )?,
            self_conflicts: counter(
                "pvbind_self_conflicts_total",
                "Conflicts with a write that this process had made itself; each is a defect",
            )?,
            queue_depth: shown(&registry, depth)?,
            bind_seconds: shown(&registry, Histogram::with_opts(bind)?)?,
            process: Process::new(&registry)?,
            scheduling: Scheduling::new(&registry)?,
            registry,
        })
    }

    /// Everything in Prometheus' text format, with these numbers of objects. Callers take turns: the numbers are
    /// put in place first.
    pub(super) fn text(&self, counts: &[(impl AsRef<Sort>, i64)]) -> Result<String, Error> {
        let (mut volumes, mut claims) =
            ([BTreeMap::new(), BTreeMap::new()], [BTreeMap::new(), BTreeMap::new()]);
        let mut all = BTreeMap::new();
        for (sort, count) in counts {
            match sort.as_ref() {
                Sort::Volume { plugin, mode, class, bound } => {
                    *all.entry([plugin.as_str(), mode]).or_default() += count;
                    *volumes[usize::from(*bound)].entry([class.as_str()]).or_default() += count;
                }
                Sort::Claim { namespace, class, attributes_class, bound } => {
                    let labels = [namespace.as_str(), class, attributes_class];
                    *claims[usize::from(*bound)].entry(labels).or_default() += count;
                }
            }
        }
        set(&self.volumes, &all);
        set(&self.unbound_volumes, &volumes[0]);
        set(&self.bound_volumes, &volumes[1]);
        set(&self.unbound_claims, &claims[0]);
        set(&self.bound_claims, &claims[1]);
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Makes a gauge show these numbers and no others: of what there is none, upstream shows nothing.
fn set<const N: usize>(gauge: &IntGaugeVec, numbers: &BTreeMap<[&str; N], i64>) {
    gauge.reset();
    for (labels, number) in numbers {
        gauge.with_label_values(labels).set(*number);
    }
}
