//! Decides what is counted and under which names: those of kube-apiserver, so that its dashboards work. Counts
//! requests of connections alone: in one process nobody scrapes. Answers to
//! `k8s.io/apiserver/pkg/endpoints/metrics`.

use std::time::Duration;

use ::http::{Method, Uri};
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::request::Query;
use crate::routes::{Route, route};
use crate::server::Server;

/// Upstream's buckets for the duration of a request, in seconds.
const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
const ASKED: [&str; 8] =
    ["component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"];

/// What a request asks, as far as it is counted.
#[derive(Debug)]
pub(crate) struct Asked {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    dry: &'static str,
}

impl Asked {
    pub(crate) fn of(server: &Server, method: &Method, uri: &Uri) -> Self {
        let query = Query::parse(uri.query().unwrap_or_default());
        let target = match route(&server.lock().kinds, uri.path()) {
            Some(Route::Resource(target)) => Some(target),
            Some(Route::Other(_)) | None => None,
        };
        let collection = target.as_ref().is_some_and(|target| target.name.is_empty());
        let verb = match method.as_str() {
            "GET" if collection && query.flag("watch") => "WATCH",
            "GET" if collection => "LIST",
            "GET" => "GET",
            "HEAD" => "HEAD",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            "DELETE" if collection => "DELETECOLLECTION",
            "DELETE" => "DELETE",
            _ => "other",
        };
        let dry = if query.get("dryRun") == "All" { "All" } else { "" };
        let Some(target) = target else {
            let none = String::new;
            return Self {
                verb,
                group: none(),
                version: none(),
                resource: none(),
                subresource: none(),
                scope: "",
                dry,
            };
        };
        let scope = match (target.name.is_empty(), target.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        Self {
            verb,
            group: target.kind.group.to_string(),
            version: target.kind.version.to_string(),
            resource: target.kind.plural.to_string(),
            subresource: target.subresource,
            scope,
            dry,
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "WATCH"
    }

    /// In the order of the labels.
    fn labels(&self) -> [&str; 8] {
        [
            "apiserver",
            self.dry,
            &self.group,
            &self.resource,
            self.scope,
            &self.subresource,
            self.verb,
            &self.version,
        ]
    }
}

/// What was counted.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    in_flight: IntGaugeVec,
    objects: IntGaugeVec,
    watches: IntGaugeVec,
}

/// A request that is being served, as long as it lives.
pub(crate) struct Busy(prometheus::IntGauge);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Nothing counted yet. The names are constants, so that they are refused in no run or in each.
    pub(crate) fn new() -> Option<Self> {
        let gauge =
            |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels).ok();
        let mut counted = ASKED.to_vec();
        counted.insert(0, "code");
        let requests =
            Opts::new("apiserver_request_total", "Requests by verb, resource and code of the answer");
        let durations =
            HistogramOpts::new("apiserver_request_duration_seconds", "Time from a request to its answer");
        let metrics = Self {
            registry: Registry::new(),
            requests: IntCounterVec::new(requests, &counted).ok()?,
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &ASKED).ok()?,
            in_flight: gauge(
                "apiserver_current_inflight_requests",
                "Requests being served",
                &["request_kind"],
            )?,
            objects: gauge("apiserver_resource_objects", "Objects stored", &["group", "resource"])?,
            watches: gauge(
                "apiserver_longrunning_requests",
                "Open watches",
                &["component", "group", "resource", "verb", "version"],
            )?,
        };
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.requests.clone())).ok()?;
        registry.register(Box::new(metrics.durations.clone())).ok()?;
        registry.register(Box::new(metrics.in_flight.clone())).ok()?;
        registry.register(Box::new(metrics.objects.clone())).ok()?;
        registry.register(Box::new(metrics.watches.clone())).ok()?;
        Some(metrics)
    }

    fn count(&self, asked: &Asked, code: u16, took: Duration) {
        let code = code.to_string();
        let mut labels = vec![code.as_str()];
        labels.extend(asked.labels());
        self.requests.with_label_values(&labels).inc();
        self.durations.with_label_values(&asked.labels()).observe(took.as_secs_f64());
    }

    /// Everything, as Prometheus reads it.
    fn text(&self, server: &Server) -> Vec<u8> {
        self.objects.reset();
        self.watches.reset();
        for (kind, objects, watchers) in server.lock().sizes() {
            let size = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            self.objects.with_label_values(&[&*kind.group, &*kind.plural]).set(size(objects));
            let labels = ["apiserver", &*kind.group, &*kind.plural, "WATCH", &*kind.version];
            self.watches.with_label_values(&labels).set(size(watchers));
        }
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::warn!(%error, "metrics cannot be written");
        }
        text
    }
}

/// The metrics of a server that counts, or nothing.
#[derive(Default)]
pub(crate) struct Counting(std::sync::OnceLock<Option<Metrics>>);

impl Counting {
    fn metrics(&self) -> Option<&Metrics> {
        self.0.get_or_init(Metrics::new).as_ref()
    }

    /// Counts a request that was answered.
    pub(crate) fn count(&self, asked: &Asked, code: u16, took: Duration) {
        if let Some(metrics) = self.metrics() {
            metrics.count(asked, code, took);
        }
    }

    /// Counts a request as being served until what comes back is dropped.
    pub(crate) fn busy(&self, kind: &str) -> Option<Busy> {
        let gauge = self.metrics()?.in_flight.with_label_values(&[kind]);
        gauge.inc();
        Some(Busy(gauge))
    }

    pub(crate) fn text(&self, server: &Server) -> Vec<u8> {
        self.metrics().map(|metrics| metrics.text(server)).unwrap_or_default()
    }
}
