//! Which cluster a command works for.
//!
//! Decides nothing but where the configuration comes from. Answers to `--kubeconfig` and `--master` of Kubernetes' programs.

use std::path::PathBuf;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::{Exit, complain};

/// See the [module's documentation](self).
#[derive(Debug, Args)]
pub struct Connection {
    /// The kubeconfig; otherwise `KUBECONFIG`, `~/.kube/config` or the pod's service account.
    #[arg(long, env = "PVBIND_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, env = "PVBIND_CONTEXT")]
    context: Option<String>,
}

impl Connection {
    /// A client of an API server that answers, or how the command ends, its user told why.
    pub(super) async fn client(&self) -> Result<Client, Exit> {
        let config = self.config().await.map_err(|error| complain(&error, Exit::Usage))?;
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|error| complain(&error, Exit::Usage))?;
        if let Err(error) = client.apiserver_version().await {
            return Err(complain(&format!("cannot reach {server}: {error}"), Exit::Unreachable));
        }
        tracing::info!(server, "running");
        Ok(client)
    }

    async fn config(&self) -> Result<Config, Box<dyn std::error::Error>> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Ok(match &self.kubeconfig {
            Some(file) => Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?,
            None if self.context.is_some() => Config::from_kubeconfig(&options).await?,
            None => Config::infer().await?,
        })
    }
}
