//! Which of several processes works: the options of leader election, and the election beside the work.
//!
//! Decides nothing about the lease. The election has a thread, a runtime and connections of its own, so that neither a long
//! decision nor a queue of requests keeps it from renewing in time. Answers to `BindLeaderElectionFlags` and to what
//! Kubernetes' programs do around `RunOrDie`.

use std::thread;
use std::time::Duration;

use clap::{ArgAction, Args};
use kube::{Client, Config};
use tokio::sync::oneshot;

use super::connection::Connected;
use super::{duration, runtime};
use crate::act::lease::{Elector, Ended, Settings, Terms, elect};
use crate::act::{Lead, Metrics};

/// Where leases are when nobody says otherwise and the program runs outside of a cluster.
const NAMESPACE: &str = "kube-system";

/// See the [module's documentation](self).
#[expect(clippy::struct_field_names, reason = "they are the names of Kubernetes' options")]
#[derive(Clone, Debug, Args)]
pub struct Election {
    /// Take turns with other instances: the one that has the lease works, the others stand by.
    #[arg(
        long,
        value_name = "BOOL",
        default_value = "true",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        env = "PVBIND_LEADER_ELECT"
    )]
    pub(super) leader_elect: bool,
    /// How long the others wait after the last renewal of the lease.
    #[arg(long, default_value = "15s", value_parser = duration, env = "PVBIND_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION")]
    leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew the lease before it gives up and ends.
    #[arg(long, default_value = "10s", value_parser = duration, env = "PVBIND_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION")]
    leader_elect_renew_deadline: Duration,
    /// How long everybody waits between two tries to get or renew the lease.
    #[arg(long, default_value = "2s", value_parser = duration, env = "PVBIND_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION")]
    leader_elect_retry_period: Duration,
    /// The lease's name.
    #[arg(long, default_value = "pvbind", env = "PVBIND_LEADER_ELECT_RESOURCE_NAME", value_name = "NAME")]
    leader_elect_resource_name: String,
    /// The lease's namespace; otherwise the pod's own, and kube-system outside of a cluster.
    #[arg(long, env = "PVBIND_LEADER_ELECT_RESOURCE_NAMESPACE", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
}

/// The election, beside the work.
pub(super) struct Running {
    /// Whether this process leads.
    pub(super) lead: Lead,
    election: Option<(oneshot::Sender<()>, oneshot::Receiver<Ended>)>,
}

impl Election {
    /// How long and how hard the lease is held.
    fn terms(&self) -> Terms {
        Terms {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        }
    }

    /// Looks whether the options make sense together.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.leader_elect_resource_name.is_empty() {
            return Err("--leader-elect-resource-name is empty: a Lease has a name".to_owned());
        }
        self.terms().check().map_err(|error| error.to_string())
    }

    /// Starts the election, if there is to be one.
    pub(super) async fn start(&self, cluster: &Connected, metrics: &Metrics) -> Result<Running, String> {
        if !self.leader_elect {
            return Ok(Running { lead: Lead::always(), election: None });
        }
        let own = cluster.own_namespace.as_deref().unwrap_or(NAMESPACE);
        let settings = Settings {
            namespace: self.leader_elect_resource_namespace.as_deref().unwrap_or(own).to_owned(),
            name: self.leader_elect_resource_name.clone(),
            identity: elect::identity(&host()),
            terms: self.terms(),
        };
        let (config, metrics) = (cluster.config.clone(), metrics.clone());
        let (stop, stopped) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let (started, lead) = oneshot::channel();
        let elect = move || {
            let elected = elect_on_a_thread(config, settings, metrics, started, stopped);
            // Nobody listens when the work ends without asking.
            let _ = ended.send(elected);
        };
        thread::Builder::new().name("lease".to_owned()).spawn(elect).map_err(|error| error.to_string())?;
        let lead = lead.await.map_err(|_| "the election did not start".to_owned())??;
        Ok(Running { lead, election: Some((stop, end)) })
    }
}

impl Running {
    /// Ends the election: whoever has the lease gives it back.
    pub(super) async fn end(self) {
        let Some((stop, end)) = self.election else { return };
        drop(stop);
        // Its thread may have ended with the lease.
        let _ = end.await;
    }
}

/// Runs for the lease until it is lost, or until the sender is gone.
fn elect_on_a_thread(
    config: Config,
    settings: Settings,
    metrics: Metrics,
    started: oneshot::Sender<Result<Lead, String>>,
    stopped: oneshot::Receiver<()>,
) -> Ended {
    let elect = async {
        let client = match Client::try_from(config) {
            Ok(client) => client,
            Err(error) => {
                // Whoever waits for this is there.
                let _ = started.send(Err(error.to_string()));
                return Ended::Stopped;
            }
        };
        let (elector, lead) = Elector::new(client, settings);
        let _ = started.send(Ok(lead));
        let stop = async {
            // A sender that is gone means stop.
            let _ = stopped.await;
        };
        elector.with_metrics(metrics).run(stop).await
    };
    match runtime() {
        Ok(runtime) => runtime.block_on(elect),
        Err(_) => Ended::Stopped,
    }
}

/// What this machine, or this pod, is called.
fn host() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = from_kernel.ok().or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    if name.trim().is_empty() { "pvbind".to_owned() } else { name.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        election: Election,
    }

    fn check(arguments: &[&str]) -> Result<(), String> {
        let line = ["controller"].iter().chain(arguments);
        Line::parse_from(line).election.check()
    }

    #[test]
    fn options_as_users_write_them() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["--leader-elect=false"]), Ok(()));
        let refused = check(&["--leader-elect-renew-deadline", "15s"]).unwrap_err();
        assert!(refused.contains("--leader-elect-lease-duration 15s"), "{refused}");
        assert!(check(&["--leader-elect-resource-name", ""]).is_err());
        assert!(Line::try_parse_from(["controller", "--leader-elect-retry-period", "2"]).is_err());
    }
}
