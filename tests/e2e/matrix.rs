//! Which scenarios there are, and where each is run. `docs/e2e.md` shows the same as a table.

use std::fmt::Write;
use std::path::Path;

use futures::future::LocalBoxFuture;

use crate::scenarios::{faults, statics};
use crate::stage::Stage;
use crate::target::{Program, Row};
use crate::{fake, kubeconfig, real};

/// The targets, in the order of the table.
pub fn targets() -> Vec<Row> {
    vec![fake::ROW, real::ROW, kubeconfig::ROW]
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
const NOT_OURS: &str = "the cluster may be somebody's; nothing of it is broken on purpose";

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
        name: "controller-restart",
        shows: "300 claims are bound while the controller is killed twice and once asked to end",
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
        shows: "1,000 claims are bound while the API server is killed and once asked to end, and comes back each time",
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
        write!(table, "{}{}. {reason}\n", if index == 0 { "\n" } else { "" }, index + 1)
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
