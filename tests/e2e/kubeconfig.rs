//! Any cluster that a kubeconfig leads to, with our programs as processes of this machine. Its own PersistentVolume controller
//! has to be off. Nothing of the cluster is broken on purpose, and whatever was made is removed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

use crate::available;
use crate::objects::volume;
use crate::processes::Processes;
use crate::target::{Fault, How, Nodes, Program, Row, Target};

/// The variable that names the file.
const VARIABLE: &str = "PVBIND_E2E_KUBECONFIG";
/// How long somebody else's controller may take to show itself.
const OTHERS: Duration = Duration::from_secs(5);

pub const ROW: Row = Row {
    name: "kubeconfig",
    missing: || match file() {
        Some(file) if file.is_file() => Ok(()),
        Some(file) => Err(format!("{VARIABLE} is {}, which is no file", file.display())),
        None => Err(format!("{VARIABLE} names no kubeconfig")),
    },
    lacks: available::lacks,
    open: || Box::new(Cluster::open(&file().expect("it was there"))),
};

fn file() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

struct Cluster {
    processes: Processes,
    config: Config,
    nodes: Nodes,
}

impl Cluster {
    fn open(file: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (config, nodes) = runtime.expect("a runtime").block_on(async {
            let kubeconfig = Kubeconfig::read_from(file).expect("a kubeconfig");
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
            let config = config.expect("a configuration");
            let client = Client::try_from(config.clone()).expect("a client");
            nobody_else_binds(&client).await;
            let nodes =
                Api::<Node>::all(client).list(&ListParams::default()).await.expect("nodes can be listed");
            (config, if nodes.items.is_empty() { Nodes::MadeUp } else { Nodes::Real })
        });
        Cluster { processes: Processes::new(file), config, nodes }
    }
}

/// Makes a volume, and looks whether anybody says that it can be had.
async fn nobody_else_binds(client: &Client) {
    let name = &*format!("e2e-is-anybody-there-{}", std::process::id());
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let lone = serde_json::from_value(volume(name, name, &json!({}))).expect("a volume");
    volumes.create(&PostParams::default(), &lone).await.expect("a volume can be created");
    tokio::time::sleep(OTHERS).await;
    let found = volumes.get(name).await.expect("the volume is there");
    volumes.delete(name, &DeleteParams::default()).await.expect("the volume can be deleted");
    let phase = found.status.and_then(|status| status.phase).unwrap_or_default();
    assert!(
        matches!(phase.as_str(), "" | "Pending"),
        "somebody looks after volumes on this cluster already: a new one is {phase}; switch its controller off: \
         kube-controller-manager --controllers=*,-persistentvolume-binder-controller"
    );
}

impl Target for Cluster {
    fn config(&self) -> Config {
        self.config.clone()
    }

    fn nodes(&self) -> Nodes {
        self.nodes
    }

    fn ensure(&self, program: Program) {
        match program {
            Program::Controller | Program::Standby | Program::Scheduler | Program::Provisioner => {
                self.processes.ensure(program);
            }
            // Whether it runs shows.
            Program::KubeScheduler => {}
            Program::Extender => panic!("no scenario with the extender is run here"),
        }
    }

    fn end(&self, program: Program, how: How) {
        self.processes.end(program, how);
    }

    fn metrics(&self, program: Program) -> Option<String> {
        self.processes.metrics(program)
    }

    fn fault(&self, fault: Fault) {
        match fault {
            Fault::ReplaceLeader(how) => self.processes.replace_leader(how),
            Fault::RestartApiServer(_)
            | Fault::RestartEtcd
            | Fault::CutWatches
            | Fault::Upgrade
            | Fault::RollBack => panic!("nobody breaks a cluster that may be somebody's: {fault:?}"),
        }
    }

    fn said(&self) -> String {
        self.processes.said()
    }
}
