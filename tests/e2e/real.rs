//! A real control plane on this machine, without nodes: etcd, kube-apiserver, kube-controller-manager without the controller
//! that is ours, and our programs as processes. Scenarios stand in for kubelets, and say so.
//!
//! Our programs reach kube-apiserver through a proxy that can cut them off.

use std::sync::{Mutex, PoisonError};

use control_plane::{ControlPlane, Ending, assets, free_port};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::available;
use crate::processes::Processes;
use crate::proxy::Proxy;
use crate::target::{Fault, How, Nodes, Program, Row, Target};

/// The kube-scheduler that asks the extender.
const EXTENDED: &str = "kube-scheduler-extended";
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// What kube-controller-manager does: it lets go of volumes and claims that nobody uses any more, and empties namespaces.
const CONTROLLERS: [&str; 3] = [
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "namespace-controller",
];

pub const ROW: Row = Row {
    name: "control-plane",
    missing: || match assets(&PROGRAMS) {
        Some(_) => Ok(()),
        None => Err(format!("KUBEBUILDER_ASSETS names no folder with {}", PROGRAMS.join(", "))),
    },
    lacks: available::lacks,
    open: || Box::new(Real::open()),
};

struct Real {
    // Before the control plane goes.
    processes: Processes,
    proxy: Proxy,
    plane: Mutex<ControlPlane>,
    runtime: Runtime,
    config: Config,
}

impl Real {
    fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let programs = assets(&PROGRAMS).expect("they were there");
        // Without it, who is asked to end waits a minute for watches to end by themselves.
        let further = ["--shutdown-watch-termination-grace-period=2s"];
        let mut plane = runtime.block_on(ControlPlane::start_with(programs, &further));
        plane.start_controller_manager(&CONTROLLERS, &["--kube-api-qps=500", "--kube-api-burst=1000"]);
        let configuration = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {"kubeconfig": plane.argument("scheduler.conf")},
        });
        plane.start_scheduler(&configuration.to_string());
        let server = plane.server().trim_start_matches("https://").to_owned();
        let proxy = Proxy::start(server.clone());
        let file = std::fs::read_to_string(plane.path("admin.conf")).expect("a kubeconfig");
        plane.write("proxied.conf", &file.replace(&server, &proxy.address().to_string()));
        let admin = Kubeconfig::read_from(plane.path("admin.conf")).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config =
            runtime.block_on(Config::from_custom_kubeconfig(admin, &options)).expect("a configuration");
        let processes = Processes::new(&plane.path("proxied.conf"));
        Real { processes, proxy, plane: Mutex::new(plane), runtime, config }
    }

    /// kube-scheduler with the extender, as they are shipped, for pods that name `extended`.
    fn ensure_extender(&self) {
        let mut plane = self.plane.lock().unwrap_or_else(PoisonError::into_inner);
        if plane.path(&format!("{EXTENDED}.yaml")).exists() {
            return;
        }
        let port = free_port();
        let files = ["extender.crt", "extender.key", "ca.crt"];
        let [certificate, key, clients] = files.map(|file| plane.argument(&format!("pki/pvbind/{file}")));
        let listen = format!("--listen=127.0.0.1:{port}");
        let options = [
            &*listen,
            "--tls-cert-file",
            &certificate,
            "--tls-private-key-file",
            &key,
            "--client-ca-file",
            &clients,
        ];
        self.processes.ensure_with(Program::Extender, &options);
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/extender/kube-scheduler.yaml");
        let shipped = std::fs::read_to_string(shipped).expect("it is shipped");
        let configuration = shipped
            .replace("127.0.0.1:8888", &format!("127.0.0.1:{port}"))
            .replace("schedulerName: default-scheduler", "schedulerName: extended")
            .replace("/etc/kubernetes", plane.path("").to_str().expect("a plain path").trim_end_matches('/'));
        let configuration = configuration + "leaderElection:\n  leaderElect: false\n";
        plane.start_scheduler_as(EXTENDED, &configuration, &[]);
    }
}

impl Target for Real {
    fn config(&self) -> Config {
        self.config.clone()
    }

    fn nodes(&self) -> Nodes {
        Nodes::MadeUp
    }

    fn ensure(&self, program: Program) {
        match program {
            Program::Extender => self.ensure_extender(),
            Program::KubeScheduler => {
                // It runs from the start.
                let mut plane = self.plane.lock().unwrap_or_else(PoisonError::into_inner);
                let scheduler = plane.running("kube-scheduler");
                assert_eq!(scheduler.ended(), None, "kube-scheduler has ended: {}", scheduler.said());
            }
            Program::Controller | Program::Standby | Program::Scheduler | Program::Provisioner => {
                self.processes.ensure(program);
            }
        }
    }

    fn end(&self, program: Program, how: How) {
        self.processes.end(program, how);
    }

    fn metrics(&self, program: Program) -> Option<String> {
        self.processes.metrics(program)
    }

    fn fault(&self, fault: Fault) {
        let mut plane = self.plane.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Fault::RestartApiServer(how) => {
                match how {
                    How::Kill => plane.end("kube-apiserver"),
                    How::Terminate => {
                        let ending = plane.stop("kube-apiserver");
                        assert!(
                            matches!(ending, Ending::Exited(_)),
                            "kube-apiserver ends when it is asked to"
                        );
                    }
                }
                self.runtime.block_on(plane.start_apiserver());
            }
            Fault::RestartEtcd => {
                plane.end("etcd");
                plane.start_etcd();
                self.runtime.block_on(plane.wait_until_ready());
            }
            Fault::CutWatches => self.proxy.cut(),
            Fault::ReplaceLeader(how) => self.processes.replace_leader(how),
            Fault::Upgrade | Fault::RollBack => panic!("there is no release: {fault:?}"),
        }
    }

    fn said(&self) -> String {
        self.processes.said()
    }
}
