//! Where a command serves its metrics and its health, if anywhere.
//!
//! Decides nothing but what an address means. Answers to kube-controller-manager's `--bind-address` and
//! `--secure-port`, for its metrics and health endpoints.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::act::Metrics;
use crate::act::metrics::serve::serve;

/// How long a name may take to be looked up.
const LOOKUP: Duration = Duration::from_secs(10);

/// The server of a command's metrics.
pub(super) struct Observed {
    /// What is served.
    pub(super) metrics: Metrics,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Observed {
    /// Serves on the address until [`Observed::end`]; `off` or `0` serves and records nothing.
    pub(super) async fn on(address: &str) -> Result<Self, Box<dyn std::error::Error>> {
        if matches!(address, "" | "0" | "off") {
            return Ok(Observed { metrics: Metrics::off(), server: None });
        }
        let listener =
            listen(address).await.map_err(|error| format!("cannot serve metrics on {address}: {error}"))?;
        let metrics = Metrics::new()?;
        tracing::info!("metrics on http://{}/metrics", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let server = serve(metrics.clone(), listener, async {
            // A sender that is gone means stop as well.
            let _ = stopped.await;
        });
        Ok(Observed { metrics, server: Some((stop, tokio::spawn(server))) })
    }

    /// Answers who has asked already, and nobody else.
    pub(super) async fn end(self) {
        let Some((stop, server)) = self.server else { return };
        drop(stop);
        if let Err(error) = server.await {
            tracing::warn!(%error, "metrics");
        }
    }
}

/// Listens on an address. `:PORT` means every address of this machine, as it does in Kubernetes' programs.
pub(super) async fn listen(address: &str) -> std::io::Result<TcpListener> {
    match tokio::time::timeout(LOOKUP, bind(address)).await {
        Ok(listener) => listener,
        Err(_) => Err(std::io::Error::new(ErrorKind::TimedOut, "the address was not found in time")),
    }
}

async fn bind(address: &str) -> std::io::Result<TcpListener> {
    let Some(port) = address.strip_prefix(':') else { return TcpListener::bind(address).await };
    match TcpListener::bind(format!("[::]:{port}")).await {
        // A machine without IPv6.
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind(format!("0.0.0.0:{port}")).await
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_is_a_port_a_host_with_a_port_or_off() {
        for address in ["", "0", "off"] {
            assert!(Observed::on(address).await.unwrap().server.is_none(), "{address}");
        }
        for address in [":0", "127.0.0.1:0", "localhost:0"] {
            let observed = Observed::on(address).await.unwrap();
            assert!(observed.server.is_some(), "{address}");
            tokio::time::timeout(LOOKUP, observed.end()).await.unwrap();
        }
        for address in ["8080", ":port", "nowhere:", "127.0.0.1:99999"] {
            assert!(Observed::on(address).await.is_err(), "{address}");
        }
    }
}
