//! Which scenarios there are, and where each is run. `docs/e2e.md` shows the same as a table.

use std::fmt::Write;
use std::path::Path;

use futures::future::LocalBoxFuture;

use crate::scenarios::{classes, delayed, dynamic, faults, migration, pods, prebound, reclaim, statics};
use crate::stage::Stage;
use crate::target::{Program, Row};
use crate::{fake, kind, kubeconfig, node, real};

/// The targets, in the order of the table.
pub fn targets() -> Vec<Row> {
    vec![fake::ROW, real::ROW, node::ROW, kind::ROW, kubeconfig::ROW]
}

/// Whom a scenario can be beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Others of its kind.
    Shared,
    /// Nobody: it breaks something.
    Alone,
}

/// One row of the table.
pub struct Scenario {
    /// The second half of its tests' names.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// Whom it can be beside.
    pub sharing: Sharing,
    /// What it needs beside the controller.
    pub needs: &'static [Program],
    /// The targets that cannot run it, and why.
    pub not_on: &'static [(&'static str, &'static str)],
    /// Plays it. What has to hold at the end of every scenario is checked afterwards.
    pub run: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, ()>,
}

impl Scenario {
    /// Why it is not run on a target, if so.
    pub fn reason_against(&self, target: &str) -> Option<&'static str> {
        self.not_on.iter().find(|(name, _)| *name == target).map(|(_, reason)| *reason)
    }
}

const NO_ETCD: &str = "the bundled API server keeps its objects in memory";
const NO_SCHEDULER: &str = "kube-scheduler needs a real API server";
const NO_CONFIGURATION: &str = "kube-scheduler's configuration is the cluster's";
const NOT_OURS: &str = "the cluster may be somebody's; nothing of it is broken on purpose";

/// Who runs no pods.
const NO_PODS: &[(&str, &str)] = &[
    ("fake", NO_KUBELET),
    ("control-plane", NO_KUBELET),
    ("kubeconfig", "the cluster's nodes need not have the image of these pods"),
];
/// Where our programs are processes of this machine.
const NO_RELEASE: &[(&str, &str)] =
    &[("fake", NO_DEPLOYMENT), ("control-plane", NO_DEPLOYMENT), ("kubeconfig", NO_DEPLOYMENT)];
const NO_DEPLOYMENT: &str = "our programs run as processes: there is no release";
const NO_KUBELET: &str = "no kubelet runs pods";

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "static",
        shows: "claims get the volumes whose size, access modes, class and labels fit, and no others",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(statics::volumes_that_fit(stage)),
    },
    Scenario {
        name: "pre-bound",
        shows: "claims and volumes that name each other, from either side or both, get each other; nobody else gets what is reserved",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(prebound::from_either_side(stage)),
    },
    Scenario {
        name: "default-class",
        shows: "a claim without a class gets the default one when it is created, or when the class comes",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(classes::default_class(stage)),
    },
    Scenario {
        name: "migration",
        shows: "in-tree EBS and PD volumes, classes and claims are handed to the CSI drivers that have taken over",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(migration::to_csi(stage)),
    },
    Scenario {
        name: "retain",
        shows: "a volume that is kept is nobody's until an administrator says so",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(reclaim::retain(stage)),
    },
    Scenario {
        name: "delete-host-path",
        shows: "directories are made, and go with their volumes; what is outside of reach is left",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(reclaim::delete_host_path(stage)),
    },
    Scenario {
        name: "recycle",
        shows: "a volume is scrubbed by a pod and free again; where no kubelet runs the pod, the scenario says that it ended well",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(reclaim::recycle(stage)),
    },
    Scenario {
        name: "dynamic",
        shows: "a provisioner on sig-storage-lib makes a volume at once, and deletes it and its storage with the claim",
        sharing: Sharing::Shared,
        needs: &[Program::Provisioner],
        not_on: &[],
        run: |stage| Box::pin(dynamic::at_once(stage)),
    },
    Scenario {
        name: "dynamic-delayed",
        shows: "the same for a pod that `pvbind scheduler` places: the volume is made for its node",
        sharing: Sharing::Shared,
        needs: &[Program::Provisioner, Program::Scheduler],
        not_on: &[],
        run: |stage| Box::pin(dynamic::for_a_pod(stage)),
    },
    Scenario {
        name: "delayed",
        shows: "pods go where their volumes are, placed by `pvbind scheduler`; claims wait for their pods",
        sharing: Sharing::Shared,
        needs: &[Program::Scheduler],
        not_on: &[],
        run: |stage| Box::pin(delayed::with(stage, "pvbind")),
    },
    Scenario {
        name: "delayed-kube-scheduler",
        shows: "the same, placed by kube-scheduler with its own volume binder",
        sharing: Sharing::Shared,
        needs: &[Program::KubeScheduler],
        not_on: &[("fake", NO_SCHEDULER)],
        run: |stage| Box::pin(delayed::with(stage, "default-scheduler")),
    },
    Scenario {
        name: "extender",
        shows: "the same, placed by kube-scheduler with `pvbind extender`, as they are shipped",
        sharing: Sharing::Shared,
        needs: &[Program::Extender],
        not_on: &[("fake", NO_SCHEDULER), ("kubeconfig", NO_CONFIGURATION)],
        run: |stage| Box::pin(delayed::with(stage, "extended")),
    },
    Scenario {
        name: "pods-rescheduled",
        shows: "pods of a StatefulSet write to their volumes, and find it there after they were deleted and made again",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: NO_PODS,
        run: |stage| Box::pin(pods::rescheduled(stage)),
    },
    Scenario {
        name: "pods-made",
        shows: "a directory that the controller made keeps what a pod wrote for the next one, and is removed from the node with its claim",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: NO_PODS,
        run: |stage| Box::pin(pods::made_and_deleted(stage)),
    },
    Scenario {
        name: "pods-scrubbed",
        shows: "what a pod wrote to a volume that is recycled is not there for who has it next",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: NO_PODS,
        run: |stage| Box::pin(pods::scrubbed(stage)),
    },
    Scenario {
        name: "pods-kept",
        shows: "what a pod wrote to a volume that is kept is there for whoever an administrator gives it to",
        sharing: Sharing::Shared,
        needs: &[],
        not_on: NO_PODS,
        run: |stage| Box::pin(pods::kept(stage)),
    },
    Scenario {
        name: "pods-delayed",
        shows: "pods that kube-scheduler, `pvbind scheduler` and the extender place write to the local volumes that were bound for them",
        sharing: Sharing::Shared,
        needs: &[Program::Scheduler, Program::Extender],
        not_on: NO_PODS,
        run: |stage| Box::pin(pods::delayed(stage)),
    },
    Scenario {
        name: "scheduler-restart",
        shows: "60 pods are placed where their volumes are while `pvbind scheduler` is killed and, later, asked to end, and started again each time",
        sharing: Sharing::Alone,
        needs: &[Program::Scheduler],
        not_on: &[],
        run: |stage| Box::pin(delayed::scheduler_restarts(stage)),
    },
    Scenario {
        name: "controller-restart",
        shows: "300 claims are bound while the controller is killed and, later, asked to end, and started again each time",
        sharing: Sharing::Alone,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(faults::controller_restarts(stage)),
    },
    Scenario {
        name: "watch-loss",
        shows: "250 claims are bound while watches end five times",
        sharing: Sharing::Alone,
        needs: &[],
        not_on: &[("kubeconfig", NOT_OURS)],
        run: |stage| Box::pin(faults::watches_end(stage)),
    },
    Scenario {
        name: "api-server-restart",
        shows: "1,000 claims are bound while the API server is killed and, later, asked to end, and comes back each time",
        sharing: Sharing::Alone,
        needs: &[],
        not_on: &[("kubeconfig", NOT_OURS)],
        run: |stage| Box::pin(faults::api_server_restarts(stage)),
    },
    Scenario {
        name: "etcd-restart",
        shows: "300 claims are bound while etcd is killed twice",
        sharing: Sharing::Alone,
        needs: &[],
        not_on: &[("fake", NO_ETCD), ("kubeconfig", NOT_OURS)],
        run: |stage| Box::pin(faults::etcd_restarts(stage)),
    },
    Scenario {
        name: "leader-failover",
        shows: "300 claims are bound while the controller that leads is killed and, later, asked to end; another one leads within the lease's time and a second",
        sharing: Sharing::Alone,
        needs: &[],
        not_on: &[],
        run: |stage| Box::pin(faults::leaders_change(stage)),
    },
    Scenario {
        name: "upgrade",
        shows: "300 claims are bound while the release is upgraded by `helm upgrade` and goes back by `helm rollback`",
        sharing: Sharing::Alone,
        needs: &[Program::Scheduler, Program::Extender],
        not_on: NO_RELEASE,
        run: |stage| Box::pin(faults::upgraded_and_back(stage)),
    },
];

/// The table, as `docs/e2e.md` has it.
fn table() -> String {
    let targets = targets();
    let mut reasons: Vec<&str> = Vec::new();
    let mut table = String::from("| scenario | what it shows |");
    for target in &targets {
        write!(table, " {} |", target.name).expect("a text grows");
    }
    writeln!(table, "\n|---|---|{}", "---|".repeat(targets.len())).expect("a text grows");
    for scenario in SCENARIOS {
        write!(table, "| `{}` | {} |", scenario.name, scenario.shows).expect("a text grows");
        for target in &targets {
            let cell = match scenario.reason_against(target.name) {
                None => "runs".to_owned(),
                Some(reason) => {
                    let known = reasons.iter().position(|known| *known == reason);
                    let number = known.unwrap_or_else(|| {
                        reasons.push(reason);
                        reasons.len() - 1
                    });
                    format!("no ({})", number + 1)
                }
            };
            write!(table, " {cell} |").expect("a text grows");
        }
        table.push('\n');
    }
    for (index, reason) in reasons.iter().enumerate() {
        writeln!(table, "{}{}. {reason}", if index == 0 { "\n" } else { "" }, index + 1)
            .expect("a text grows");
    }
    table
}

/// Compares the document's table with this one; with `UPDATE_READMES` set it is written.
pub fn check_docs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/e2e.md");
    let text = std::fs::read_to_string(&file).expect("docs/e2e.md is there");
    let (begin, end) = ("<!-- matrix -->\n", "<!-- end of matrix -->");
    let (before, rest) = text.split_once(begin).expect("docs/e2e.md has a line <!-- matrix -->");
    let (found, after) = rest.split_once(end).expect("docs/e2e.md has a line <!-- end of matrix -->");
    let table = table();
    if std::env::var_os("UPDATE_READMES").is_some() {
        std::fs::write(&file, [before, begin, &table, end, after].concat()).expect("it is written");
        return;
    }
    assert_eq!(found, table, "UPDATE_READMES=1 cargo test --test e2e docs:: writes the table");
}
