//! What a place where scenarios run has to be able to do.
//!
//! There is one installation a target: a controller, and what else a scenario asks for. Scenarios that only use it run side by
//! side; one that breaks something is alone with it, and the next one finds it repaired by [`Target::ensure`].
//!
//! All of it blocks; scenarios call it by `Stage`, which keeps that off their thread.

use kube::Config;

/// A program that a target runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// `pvbind controller`, with the hostPath provisioner on.
    Controller,
    /// Another one, which goes on when that one does not. Only [`Fault::ReplaceLeader`] brings it.
    Standby,
    /// `pvbind scheduler`, for pods that name `pvbind`.
    Scheduler,
    /// The external provisioner of `tests/control-plane/provisioner`, for classes of `e2e.pvbind.dev/directory`.
    Provisioner,
    /// kube-scheduler without an extender, for pods that name `default-scheduler`.
    KubeScheduler,
    /// kube-scheduler with `pvbind extender`, for pods that name `extended`.
    Extender,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Without a chance to do anything about it.
    Kill,
    /// Asked to, by SIGTERM.
    Terminate,
}

/// What can go wrong around the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The API server ends and comes back, with what it had stored.
    RestartApiServer(How),
    /// The same for etcd, killed.
    RestartEtcd,
    /// Every watch of every program ends. Where nobody can do that alone, their connections end.
    CutWatches,
    /// The controller that leads ends, and another one does instead.
    ReplaceLeader(How),
    /// What was deployed is upgraded to an image of another name, and everything runs again.
    Upgrade,
    /// The upgrade is rolled back, and everything runs again.
    RollBack,
}

/// Where pods can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Nowhere: scenarios make objects that look like nodes, no pod runs, and none is confirmed to have ended.
    MadeUp,
    /// The cluster has nodes, with kubelets.
    Real,
}

/// See the module's documentation.
pub trait Target: Send + Sync {
    /// How an administrator reaches the API server.
    fn config(&self) -> Config;

    /// Where pods can go.
    fn nodes(&self) -> Nodes;

    /// The namespace and name of the lease by which controllers take turns.
    fn lease(&self) -> [&'static str; 2] {
        ["kube-system", "pvbind-controller"]
    }

    /// Whether programs see the files of this machine.
    fn shares_files(&self) -> bool {
        true
    }

    /// Starts the program unless it runs; it is ready when this returns.
    fn ensure(&self, program: Program);

    /// Ends a program that runs; it has ended when this returns, and stays away until [`Target::ensure`].
    fn end(&self, program: Program, how: How);

    /// What a program serves at `/metrics`, if it runs and serves any.
    fn metrics(&self, program: Program) -> Option<String>;

    /// Lets something go wrong; it is over when this returns.
    fn fault(&self, fault: Fault);

    /// What the programs said last, for whoever reads why a scenario failed.
    fn said(&self) -> String;
}

/// A target, before anybody needs it.
#[derive(Clone, Copy)]
pub struct Row {
    /// The first half of its tests' names.
    pub name: &'static str,
    /// Why it cannot be had here, if so. It is asked on each start, and has to be quick.
    pub missing: fn() -> Result<(), String>,
    /// Why a program cannot be had here, if so.
    pub lacks: fn(Program) -> Result<(), String>,
    /// Sets it up. Once a run, when the first scenario needs it.
    pub open: fn() -> Box<dyn Target>,
}
