//! `pvbind extender`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::connection::Connection;
use super::counting::Counting;
use super::election::Election;
use super::observe::{Observed, listen};
use super::pacing::Pacing;
use super::{Exit, announce, complain, duration, on_network, told_to_stop, work_for};
use crate::act::extender::{Extender, pages};
use crate::act::serve::serve;
use crate::act::tls::Identity;
use crate::act::{self, Metrics, Options, Roles};
use crate::decide::{Settings, binder};

/// Where to serve, and for which cluster.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Where kube-scheduler reaches the extender; `:PORT` on every address, port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8888", env = "PVBIND_LISTEN", value_name = "ADDRESS")]
    listen: String,
    /// The certificate with its chain, in PEM form; without it, plain HTTP.
    #[arg(long, env = "PVBIND_TLS_CERT_FILE", value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The certificate's key, in PEM form.
    #[arg(long, env = "PVBIND_TLS_PRIVATE_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Serve those only who have a certificate that one of these vouches for, in PEM form.
    #[arg(long, env = "PVBIND_CLIENT_CA_FILE", value_name = "FILE", requires = "tls_cert_file")]
    client_ca_file: Option<PathBuf>,
    /// Which cluster.
    #[command(flatten)]
    connection: Connection,
    /// Which instance works: behind one address, only the one that leads is ready.
    #[command(flatten)]
    election: Election,
    /// How long binding a pod and its volumes may take; kube-scheduler's httpTimeout has to be longer.
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
    #[arg(long, default_value = ":8081", env = "PVBIND_METRICS_ADDR", value_name = "ADDRESS")]
    metrics_addr: String,
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    on_network(extend(arguments))
}

async fn extend(arguments: &Arguments) -> Exit {
    let identity = match arguments.identity() {
        Ok(identity) => identity,
        Err(error) => return complain(&error, Exit::Usage),
    };
    if let Err(error) = arguments.election.check() {
        return complain(&error, Exit::Usage);
    }
    let listener = match listen(&arguments.listen).await {
        Ok(listener) => listener,
        Err(error) => {
            return complain(&format!("cannot serve on {}: {error}", arguments.listen), Exit::Usage);
        }
    };
    let observed = match Observed::on(&arguments.metrics_addr).await {
        Ok(observed) => observed,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let exit = extend_observed(arguments, listener, identity, observed.metrics.clone()).await;
    observed.end().await;
    exit
}

async fn extend_observed(
    arguments: &Arguments,
    listener: TcpListener,
    identity: Option<Identity>,
    metrics: Metrics,
) -> Exit {
    let cluster = match arguments.connection.connect().await {
        Ok(cluster) => cluster,
        Err(exit) => return exit,
    };
    if let Err(error) = arguments.announce(&listener) {
        return complain(&error, Exit::Usage);
    }
    let (extender, asker) = Extender::new(arguments.bind_timeout);
    let settings = Settings {
        bind_timeout: arguments.bind_timeout,
        strict_capacity: arguments.counting.strict_capacity,
        scoring: arguments.counting.scoring(),
        ..Settings::default()
    };
    let options = Options {
        settings,
        roles: Roles { controller: false, scheduler: Some(binder::Pods::Requested(BTreeMap::new())) },
        executors: usize::from(arguments.executors),
        metrics: metrics.clone(),
        ..Options::controller()
    };
    let stop = told_to_stop().boxed().shared();
    let (loop_ends, loop_ended) = oneshot::channel::<()>();
    // Nothing is answered once there is nobody to ask.
    let server_stops = futures::future::select(stop.clone(), loop_ended).map(|_| ());
    let server = serve(pages::router(asker), listener, identity, pages::LIMITS, server_stops);
    let pace = arguments.pacing.pace(&metrics);
    work_for(cluster, &arguments.election, &metrics, async |client, lead| {
        metrics.ready_while(lead.clone());
        let work = async {
            let done = act::run_extender(client, Options { lead, pace, ..options }, extender, stop).await;
            drop(loop_ends);
            done
        };
        tokio::join!(server, work).1
    })
    .await
}

impl Arguments {
    fn identity(&self) -> Result<Option<Identity>, act::tls::Error> {
        let Some((certificate, key)) = self.tls_cert_file.as_ref().zip(self.tls_private_key_file.as_ref())
        else {
            return Ok(None);
        };
        Identity::read(certificate, key, self.client_ca_file.as_deref()).map(Some)
    }

    fn announce(&self, listener: &TcpListener) -> std::io::Result<()> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && self.client_ca_file.is_none() {
            tracing::warn!(%address, "whoever reaches this address can have pods bound; --client-ca-file closes it");
        }
        let scheme = if self.tls_cert_file.is_some() { "https" } else { "http" };
        announce(&format!("{scheme}://{address}"));
        Ok(())
    }
}
