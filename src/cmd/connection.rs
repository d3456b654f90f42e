//! Which cluster a command works for.
//!
//! Decides nothing but where the configuration comes from. Answers to `--kubeconfig` and `--master` of Kubernetes' programs.

use std::path::PathBuf;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::{Exit, complain};

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
        if let Err(error) = client.apiserver_version().await {
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
