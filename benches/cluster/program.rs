//! Who binds.

use std::path::Path;

use control_plane::ControlPlane;

/// Whose programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Upstream's, as they are without being told.
    Limited,
    /// Upstream's, with as many requests as they like.
    Unlimited,
    Ours,
}

/// More requests than there are.
const UNLIMITED: &str = "100000";

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Who::Limited => "upstream, its limits",
            Who::Unlimited => "upstream, no limits",
            Who::Ours => "pvbind",
        }
    }

    /// The scheduler that pods name.
    pub fn scheduler(self) -> &'static str {
        match self {
            Who::Limited | Who::Unlimited => "default-scheduler",
            Who::Ours => "pvbind",
        }
    }

    /// Starts what binds claims, and what places pods if there are some. Returns the processes.
    pub fn start(self, plane: &mut ControlPlane, pods: bool) -> Vec<u32> {
        let started: &[&str] = match self {
            Who::Limited | Who::Unlimited => {
                self.start_upstream(plane, pods);
                &["kube-controller-manager", "kube-scheduler"]
            }
            Who::Ours => {
                start_ours(plane, pods);
                &["controller", "scheduler"]
            }
        };
        started[..if pods { 2 } else { 1 }].iter().map(|name| plane.running(name).id()).collect()
    }

    fn start_upstream(self, plane: &mut ControlPlane, pods: bool) {
        let limits = [format!("--kube-api-qps={UNLIMITED}"), format!("--kube-api-burst={UNLIMITED}")];
        let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
        let limits = if self == Who::Limited { &[] } else { limits.as_slice() };
        plane.start_controller_manager(&["persistentvolume-binder-controller"], limits);
        if pods {
            let limits = if self == Who::Limited {
                String::new()
            } else {
                format!(", qps: {UNLIMITED}, burst: {UNLIMITED}")
            };
            let kubeconfig = plane.argument("admin.conf");
            plane.start_scheduler(&format!(
                "apiVersion: kubescheduler.config.k8s.io/v1\n\
                 kind: KubeSchedulerConfiguration\n\
                 leaderElection: {{leaderElect: false}}\n\
                 clientConnection: {{kubeconfig: {kubeconfig:?}{limits}}}\n"
            ));
        }
    }
}

fn start_ours(plane: &mut ControlPlane, pods: bool) {
    for command in &["controller", "scheduler"][..if pods { 2 } else { 1 }] {
        let arguments = [
            (*command).to_owned(),
            format!("--kubeconfig={}", plane.argument("admin.conf")),
            "--metrics-addr=127.0.0.1:0".to_owned(),
            "--leader-elect=false".to_owned(),
        ];
        let _output = plane.run(command, Path::new(env!("CARGO_BIN_EXE_pvbind")), &arguments);
    }
}
