//! Side by side with upstream, on a real API server: the same worlds once with upstream's volume controller and kube-scheduler,
//! once with ours in its place, and once with our scheduler too. Every field of every end state is compared.
//!
//! Runs where the environment variable `KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver, kube-controller-manager
//! and kube-scheduler, and says so where it does not. `docs/compare.md` tells more.

mod cluster;
mod differ;
mod empty;
mod explain;
mod load;
mod normal;
mod quiet;
mod stack;
mod table;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use crate::differ::{Difference, differences};
use crate::explain::Rules;
use crate::load::World;
use crate::normal::Normal;
use crate::stack::{Side, Stack};

/// The worlds that are compared each time; the others only when everything is asked for (`--include-ignored`).
const OFTEN: [&str; 12] = [
    "claimref-lost-uid",
    "default-retroactive",
    "dynamic-two-claims",
    "ephemeral-volume",
    "local-two-claims-one-pod",
    "misbound-two-claims",
    "prebound-by-volume",
    "release-delete-dynamic",
    "release-recycle",
    "static-pair",
    "volumename-mismatches",
    "zonal-nodeselector-conflict",
];

/// The three stacks, and what drives their clients.
struct Stage {
    runtime: Runtime,
    stacks: [Stack; 3],
}

impl Stage {
    fn start(assets: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let start = |side| Stack::start(side, assets.to_owned());
        let (upstream, controller, scheduler) = runtime.block_on(async {
            tokio::join!(start(Side::Upstream), start(Side::Controller), start(Side::Scheduler))
        });
        Stage { runtime, stacks: [upstream, controller, scheduler] }
    }
}

/// The stages that are up; each trial takes one and gives it back.
struct Pool {
    assets: PathBuf,
    idle: Mutex<Vec<Stage>>,
}

impl Pool {
    fn take(&self) -> Stage {
        let idle = self.idle.lock().expect("no trial panics here").pop();
        idle.unwrap_or_else(|| Stage::start(&self.assets))
    }

    fn give_back(&self, stage: Stage) {
        self.idle.lock().expect("no trial panics here").push(stage);
    }
}

fn worlds() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/worlds");
    let entries = std::fs::read_dir(&root).expect("the worlds are there");
    let mut worlds: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    worlds.retain(|path| path.is_dir());
    worlds.sort();
    worlds
}

/// What all trials share.
struct Comparison {
    pool: Pool,
    rules: Rules,
    /// The differences that are explained, each with its row.
    explained: Mutex<Vec<(Difference, String)>>,
}

impl Comparison {
    /// Compares one of our sides with upstream's; what is not explained comes back.
    fn compare(&self, world: &str, side: Side, upstream: &Normal, ours: &Normal) -> Vec<String> {
        let mut unexplained = Vec::new();
        for difference in differences(world, side, upstream, ours) {
            match self.rules.explain(&difference, [upstream, ours]) {
                Some(row) => {
                    let row = row.to_owned();
                    self.explained.lock().expect("no trial panics here").push((difference, row));
                }
                None => unexplained.push(difference.to_string()),
            }
        }
        unexplained
    }

    fn run(&self, name: &str, folder: &Path) -> Result<(), Failed> {
        let world = World::read(folder);
        let mut stage = self.pool.take();
        let [upstream, controller, scheduler] = &mut stage.stacks;
        let with_pods = world.has_pods();
        let (upstream, controller, scheduler) = stage.runtime.block_on(async {
            let third = async { if with_pods { Some(scheduler.run(&world).await) } else { None } };
            tokio::join!(upstream.run(&world), controller.run(&world), third)
        });
        self.pool.give_back(stage);
        let upstream = upstream.map_err(|error| format!("upstream: {error}"))?;
        let controller = controller.map_err(|error| format!("our controller: {error}"))?;
        let mut unexplained = self.compare(name, Side::Controller, &upstream, &controller);
        if let Some(scheduler) = scheduler {
            let scheduler = scheduler.map_err(|error| format!("our scheduler: {error}"))?;
            unexplained.extend(self.compare(name, Side::Scheduler, &upstream, &scheduler));
        }
        if unexplained.is_empty() { Ok(()) } else { Err(unexplained.join("\n").into()) }
    }
}

/// Whether every rule names a row that is there.
fn founded(rules: &Rules) -> Result<(), Failed> {
    match rules.unfounded().as_slice() {
        [] => Ok(()),
        rows => Err(format!("not in ARCHITECTURE.md's table of differences: {rows:#?}").into()),
    }
}

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let rules = Rules::read();
    let mut trials = vec![Trial::test("rules", || founded(&Rules::read()))];
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let assets = control_plane::assets(&programs);
    let compared = assets.is_some();
    let pool = Pool { assets: assets.unwrap_or_default(), idle: Mutex::default() };
    let comparison = Arc::new(Comparison { pool, rules, explained: Mutex::default() });
    if compared {
        trials.extend(worlds().into_iter().map(|folder| {
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            let (rare, comparison) = (!OFTEN.contains(&name.as_str()), Arc::clone(&comparison));
            Trial::test(name.clone(), move || comparison.run(&name, &folder)).with_ignored_flag(rare)
        }));
    } else {
        let needed = programs.join(", ");
        control_plane::not_run(&format!(
            "KUBEBUILDER_ASSETS names no folder with {needed}; nothing was compared with upstream"
        ));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Programs end with what holds them.
    comparison.pool.idle.lock().expect("no trial panics here").clear();
    table::write(&comparison.explained.lock().expect("no trial panics here"));
    let everything = compared && arguments.include_ignored && arguments.filter.is_none();
    let idle = if everything { comparison.rules.idle() } else { Vec::new() };
    assert!(idle.is_empty() || conclusion.has_failed(), "these rules explain nothing: {idle:#?}");
    conclusion.exit();
}
