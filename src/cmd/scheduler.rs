//! `pvbind scheduler`.

use std::time::Duration;

use clap::Args;

use super::connection::Connection;
use super::counting::Counting;
use super::election::Election;
use super::observe::Observed;
use super::pacing::Pacing;
use super::{Exit, complain, duration, on_network, told_to_stop, work_for};
use crate::act::{self, Metrics, Options, Roles};
use crate::decide::{Settings, binder};

/// Which pods of which cluster.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The pods that name this scheduler (`spec.schedulerName`) are placed; the others are left to whom they name.
    #[arg(long, default_value = "pvbind", env = "PVBIND_SCHEDULER_NAME", value_name = "NAME")]
    scheduler_name: String,
    /// Which cluster.
    #[command(flatten)]
    connection: Connection,
    /// Which instance works.
    #[command(flatten)]
    election: Election,
    /// How long binding a pod's volumes may take before the pod is scheduled anew.
    #[arg(long, default_value = "10m", value_parser = duration, env = "PVBIND_BIND_TIMEOUT", value_name = "DURATION")]
    bind_timeout: Duration,
    /// How room is counted.
    #[command(flatten)]
    counting: Counting,
    /// How fast.
    #[command(flatten)]
    pacing: Pacing,
    /// How many plans may be carried out at once.
    #[arg(long, default_value_t = 64, env = "PVBIND_EXECUTORS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    executors: u16,
    /// Where /metrics, /healthz and /readyz are served; `:PORT` on every address, `off` nowhere.
    #[arg(long, default_value = ":8082", env = "PVBIND_METRICS_ADDR", value_name = "ADDRESS")]
    metrics_addr: String,
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    on_network(schedule(arguments))
}

async fn schedule(arguments: &Arguments) -> Exit {
    if arguments.scheduler_name.is_empty() {
        return complain(&"--scheduler-name is empty: no pod could name this scheduler", Exit::Usage);
    }
    if let Err(error) = arguments.election.check() {
        return complain(&error, Exit::Usage);
    }
    let observed = match Observed::on(&arguments.metrics_addr).await {
        Ok(observed) => observed,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let exit = schedule_observed(arguments, observed.metrics.clone()).await;
    observed.end().await;
    exit
}

async fn schedule_observed(arguments: &Arguments, metrics: Metrics) -> Exit {
    let cluster = match arguments.connection.connect().await {
        Ok(cluster) => cluster,
        Err(exit) => return exit,
    };
    let pods = binder::Pods::Naming(arguments.scheduler_name.clone());
    let options = Options {
        settings: Settings {
            bind_timeout: arguments.bind_timeout,
            strict_capacity: arguments.counting.strict_capacity,
            scoring: arguments.counting.scoring(),
            ..Settings::default()
        },
        roles: Roles { controller: false, scheduler: Some(pods) },
        executors: usize::from(arguments.executors),
        metrics: metrics.clone(),
        ..Options::controller()
    };
    let pace = arguments.pacing.pace(&metrics);
    work_for(cluster, &arguments.election, &metrics, async |client, lead| {
        act::run(client, Options { lead, pace, ..options }, told_to_stop()).await
    })
    .await
}
