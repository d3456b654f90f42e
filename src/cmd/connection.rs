//! Which cluster a command works for.
//!
//! Decides where the configuration comes from, and how long to wait for an API server that is not there yet. Never asks it for
//! more than its version. Answers to `--kubeconfig` and `--master` of Kubernetes' programs, and to `WaitForAPIServer` of
//! `k8s.io/cloud-provider/app`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::{Instant, sleep};

use super::{Exit, complain};

/// How long a pod waits for the API server of its cluster before it ends. Each end makes the kubelet wait longer before it starts
/// the pod again, until that is five minutes, long after the API server has come back.
const PATIENCE_OF_A_POD: Duration = Duration::from_secs(300);
/// How often it asks.
const PAUSE: Duration = Duration::from_secs(1);

/// See the [module's documentation](self).
#[derive(Clone, Debug, Args)]
pub struct Connection {
    /// The kubeconfig; otherwise `KUBECONFIG`, `~/.kube/config` or the pod's service account.
    #[arg(long, env = "PVBIND_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, env = "PVBIND_CONTEXT")]
    context: Option<String>,
}

/// A cluster that answers.
pub(super) struct Connected {
    /// For the work.
    pub(super) client: Client,
    /// For further clients.
    pub(super) config: Config,
    /// The namespace of the pod in which this runs, if it is that pod's own cluster.
    pub(super) own_namespace: Option<String>,
}

impl Connection {
    /// A cluster whose API server answers, or how the command ends, its user told why.
    pub(super) async fn connect(&self) -> Result<Connected, Exit> {
        let (mut config, is_own) = self.config().await.map_err(|error| complain(&error, Exit::Usage))?;
        // A write that fails is decided about again, and never repeated as it was.
        config.default_retry = false;
        let server = config.cluster_url.to_string();
        let own_namespace = is_own.then(|| config.default_namespace.clone());
        let client = Client::try_from(config.clone()).map_err(|error| complain(&error, Exit::Usage))?;
        // Whoever has typed a command wants to know at once.
        let patience = if is_own { PATIENCE_OF_A_POD } else { Duration::ZERO };
        if let Err(error) = wait_for(&client, patience).await {
            return Err(complain(&format!("cannot reach {server}: {error}"), Exit::Unreachable));
        }
        tracing::info!(server, "running");
        Ok(Connected { client, config, own_namespace })
    }

    /// The configuration, and whether it is that of the pod in which this runs.
    async fn config(&self) -> Result<(Config, bool), Box<dyn std::error::Error>> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        if let Some(file) = &self.kubeconfig {
            let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?;
            return Ok((config, false));
        }
        if self.context.is_some() {
            return Ok((Config::from_kubeconfig(&options).await?, false));
        }
        // What `Config::infer` does, which does not say what it has found.
        match Config::from_kubeconfig(&options).await {
            Ok(config) => Ok((config, false)),
            Err(no_file) => match Config::incluster() {
                Ok(config) => Ok((config, true)),
                Err(no_pod) => Err(format!("no cluster to work for: {no_file}; {no_pod}").into()),
            },
        }
    }
}

/// Waits until an API server answers; one that refuses does answer.
async fn wait_for(client: &Client, patience: Duration) -> Result<(), kube::Error> {
    let start = Instant::now();
    loop {
        match client.apiserver_version().await {
            Ok(_) => return Ok(()),
            Err(error @ kube::Error::Api(_)) => return Err(error),
            Err(error) if start.elapsed() >= patience => return Err(error),
            Err(error) => tracing::warn!(%error, "the API server does not answer yet"),
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::body::Body;
    use http::{Request, Response};

    use super::*;

    /// A client whose connections fail so many times before an API server answers with this status, and how often it was asked.
    fn away(times: u32, status: u16) -> (Client, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            let turn = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                if turn < times {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
                }
                let version = r#"{"major":"1","minor":"36","gitVersion":"v1.36.3","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
                let answer = Response::builder().status(status).body(Body::from(version));
                Ok(answer.expect("an answer"))
            }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_for_its_api_server_and_no_one_else_does() {
        let (client, asked) = away(3, 200);
        assert!(wait_for(&client, Duration::ZERO).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let start = Instant::now();
        assert!(wait_for(&client, PATIENCE_OF_A_POD).await.is_ok());
        assert_eq!((asked.load(Ordering::Relaxed), start.elapsed()), (4, 2 * PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends() {
        let (client, asked) = away(u32::MAX, 200);
        let start = Instant::now();
        assert!(wait_for(&client, PATIENCE_OF_A_POD).await.is_err());
        assert_eq!((asked.load(Ordering::Relaxed), start.elapsed()), (301, PATIENCE_OF_A_POD));
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_refuses_is_there() {
        let (client, asked) = away(0, 403);
        assert!(wait_for(&client, PATIENCE_OF_A_POD).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
