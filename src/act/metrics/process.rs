//! Metrics of the process itself: whether it leads, and how fast it sends requests.
//!
//! Those of leader election are `component-base`'s, `metrics/prometheus/clientgo/leaderelection`. Records nothing by itself.

use prometheus::{Error, Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::families::{BIND_BUCKETS, shown};

const LEADS: &str = "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.";
const LEADS_SLOWLY: &str = "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.";

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) api_limit: IntGauge,
    pub(super) api_in_flight: IntGauge,
    pub(super) api_wait_seconds: Histogram,
    pub(super) leads: IntGaugeVec,
    pub(super) leads_slowly: IntCounterVec,
}

impl Process {
    pub(super) fn new(registry: &Registry) -> Result<Self, Error> {
        let gauge = |name: &str, help: &str| shown(registry, IntGauge::new(name, help)?);
        let wait = "Time for which requests to the API server were held back, of those that were";
        let wait = HistogramOpts::new("pvbind_api_wait_seconds", wait).buckets(BIND_BUCKETS.to_vec());
        let leads = Opts::new("leader_election_master_status", LEADS);
        let slowly = Opts::new("leader_election_slowpath_total", LEADS_SLOWLY);
        Ok(Process {
            api_limit: gauge(
                "pvbind_api_limit",
                "Requests that may be under way at once, lists and watches aside",
            )?,
            api_in_flight: gauge(
                "pvbind_api_in_flight",
                "Requests that are under way, lists and watches aside",
            )?,
            api_wait_seconds: shown(registry, Histogram::with_opts(wait)?)?,
            leads: shown(registry, IntGaugeVec::new(leads, &["name"])?)?,
            leads_slowly: shown(registry, IntCounterVec::new(slowly, &["name"])?)?,
        })
    }
}
