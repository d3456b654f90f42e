//! `pvbind controller`.

use clap::Args;

use super::connection::Connection;
use super::election::Election;
use super::observe::Observed;
use super::pacing::Pacing;
use super::recycler::Recycler;
use super::{Exit, complain, on_network, told_to_stop, work_for};
use crate::act::{self, Metrics, Options};
use crate::decide::Settings;

/// Which cluster, and how.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Which cluster.
    #[command(flatten)]
    connection: Connection,
    /// Which instance works.
    #[command(flatten)]
    election: Election,
    /// Let the in-tree hostPath plugin make volumes, as directories of this machine; for tests on one machine.
    #[arg(long, env = "PVBIND_ENABLE_HOSTPATH_PROVISIONER")]
    enable_hostpath_provisioner: bool,
    /// Refuse to bind a volume that a user reserved for a claim and that is not what the claim asks for.
    #[arg(long, env = "PVBIND_STRICT")]
    strict: bool,
    /// The pods that scrub volumes.
    #[command(flatten)]
    recycler: Recycler,
    /// How fast.
    #[command(flatten)]
    pacing: Pacing,
    /// How many plans may be carried out at once.
    #[arg(long, default_value_t = 64, env = "PVBIND_EXECUTORS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    executors: u16,
    /// Where /metrics, /healthz and /readyz are served; `:PORT` on every address, `off` nowhere.
    #[arg(long, default_value = ":8080", env = "PVBIND_METRICS_ADDR", value_name = "ADDRESS")]
    metrics_addr: String,
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    on_network(control(arguments))
}

async fn control(arguments: &Arguments) -> Exit {
    let observed = match Observed::on(&arguments.metrics_addr).await {
        Ok(observed) => observed,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let exit = control_observed(arguments, observed.metrics.clone()).await;
    observed.end().await;
    exit
}

async fn control_observed(arguments: &Arguments, metrics: Metrics) -> Exit {
    let plugins = arguments.recycler.plugins(arguments.enable_hostpath_provisioner);
    let plugins = match plugins.and_then(|plugins| arguments.election.check().map(|()| plugins)) {
        Ok(plugins) => plugins,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let cluster = match arguments.connection.connect().await {
        Ok(cluster) => cluster,
        Err(exit) => return exit,
    };
    let settings = Settings { plugins, strict: arguments.strict, ..Settings::default() };
    let executors = usize::from(arguments.executors);
    let options = Options { settings, executors, metrics: metrics.clone(), ..Options::controller() };
    let pace = arguments.pacing.pace(&metrics);
    work_for(cluster, &arguments.election, &metrics, async |client, lead| {
        act::run(client, Options { lead, pace, ..options }, told_to_stop()).await
    })
    .await
}
