//! `pvbind up`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fake_apiserver::Plugins;
use tokio::sync::watch;

use super::apiserver::{self, Prepared};
use super::counting::Counting;
use super::{Exit, announce, complain, runtime, told_to_stop};
use crate::manifest;
use crate::simulate::live::{self, Parts};

/// What a cluster of its own begins with, and what runs in it.
#[derive(Debug, Args)]
#[group(id = "Up")]
pub struct Arguments {
    /// What is there at the start: files, folders or `-` for stdin, in YAML, JSON and lists.
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// The namespace of objects that name none.
    #[arg(short, long, default_value = "default", env = "PVBIND_NAMESPACE")]
    namespace: String,
    /// Parts that somebody else plays, or nobody.
    #[arg(long, value_enum, value_delimiter = ',', env = "PVBIND_WITHOUT", value_name = "PART,...")]
    without: Vec<Part>,
    /// Refuse to bind a volume that differs from what its claim asks for, even if one names the other.
    #[arg(long, env = "PVBIND_STRICT")]
    strict: bool,
    /// How room is counted.
    #[command(flatten)]
    counting: Counting,
    /// The API server.
    #[command(flatten)]
    apiserver: apiserver::Arguments,
}

/// A part of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The PersistentVolume controller.
    Controller,
    /// The scheduler.
    Scheduler,
    /// What makes pods of stateful sets, deployments, replica sets, daemon sets and jobs, and claims of ephemeral volumes.
    Workloads,
    /// The kubelets, which let every pod with a node run.
    Kubelet,
    /// The protection of claims and volumes in use.
    Protection,
    /// The provisioner, for every class that is not built in.
    Provisioner,
    /// The garbage collector.
    Garbage,
    /// What every namespace has, and the end of one.
    Namespaces,
}

/// The parts that are left.
fn parts(without: &[Part]) -> Parts {
    let mut parts = Parts::default();
    for part in without {
        match part {
            Part::Controller => parts.controller = false,
            Part::Scheduler => parts.scheduler = false,
            Part::Workloads => parts.stand_ins.workloads = false,
            Part::Kubelet => parts.stand_ins.kubelet = false,
            Part::Protection => parts.stand_ins.protection = false,
            Part::Provisioner => parts.stand_ins.provisioner = false,
            Part::Garbage => parts.stand_ins.garbage = false,
            Part::Namespaces => parts.stand_ins.namespaces = false,
        }
    }
    parts
}

/// What admission does here: all that a real server does and something in this cluster undoes.
fn plugins(parts: Parts) -> Plugins {
    Plugins {
        // Nobody counts anew what a quota has been given back.
        quota: false,
        // Without accounts in namespaces no pod would be let in.
        service_account: parts.stand_ins.namespaces,
        // Nothing that is protected would ever go.
        claim_protection: parts.stand_ins.protection,
        volume_protection: parts.stand_ins.protection,
        ..Plugins::all()
    }
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    let prepared = match prepare(arguments) {
        Ok(prepared) => prepared,
        Err(problem) => return complain(&problem, Exit::Usage),
    };
    match runtime() {
        Ok(runtime) => runtime.block_on(play(arguments, &prepared)),
        Err(error) => complain(&error, Exit::Usage),
    }
}

/// A server that has what stands in the manifests.
fn prepare(arguments: &Arguments) -> Result<Prepared, Box<dyn std::error::Error>> {
    let stdin = || std::io::stdin().lock();
    let loaded = match arguments.files.as_slice() {
        [] => manifest::Loaded::default(),
        files => manifest::load(files, &arguments.namespace, stdin)?,
    };
    let prepared = arguments.apiserver.prepare(plugins(parts(&arguments.without)))?;
    for warning in live::prepare(&prepared.server, loaded)? {
        tracing::warn!("{warning}");
    }
    Ok(prepared)
}

async fn play(arguments: &Arguments, prepared: &Prepared) -> Exit {
    let listening = match arguments.apiserver.listen(prepared).await {
        Ok(listening) => listening,
        Err(error) => return complain(&arguments.apiserver.not_served(&error), Exit::Usage),
    };
    announce(&listening.url);
    if !arguments.apiserver.writes_kubeconfig() {
        match prepared.kubeconfig(&listening.url) {
            Ok(config) => announce(config.trim_end()),
            Err(error) => return complain(&error, Exit::Usage),
        }
    }
    let settings = arguments.counting.among_stand_ins(arguments.strict);
    // The parts end before the server that they ask.
    let (stop, stopped) = watch::channel(false);
    let (close, closed) = tokio::sync::oneshot::channel::<()>();
    let served = listening.serve(&prepared.server, async {
        // A sender that is gone means the same.
        let _ = closed.await;
    });
    let parts = parts(&arguments.without);
    let played = async {
        let played = live::play(&prepared.server, settings, parts, prepared.authority(), stopped);
        tokio::pin!(played);
        let ended = tokio::select! {
            ended = &mut played => ended,
            () = told_to_stop() => {
                // Parts that are gone have ended already.
                let _ = stop.send(true);
                played.await
            }
        };
        drop(close);
        ended.map_err(|error| error.to_string())
    };
    let served = async { served.await.map_err(|error| arguments.apiserver.not_served(&error)) };
    match tokio::try_join!(served, played) {
        Ok(((), ())) => Exit::Good,
        Err(error) => complain(&error, Exit::Usage),
    }
}
