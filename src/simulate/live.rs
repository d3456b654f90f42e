//! The cast of a simulation, live: on this machine's clock, against a server that others reach too, until it is told to stop.
//!
//! Decides which parts run and nothing else: controller, scheduler and stand-ins are those of [`super::run`]. What a namespace
//! needs beside what the stand-ins know of it is for `super::namespaces`. Answers to kube-controller-manager, kube-scheduler
//! and kubelet as far as a claim depends on them.

use std::sync::Arc;

use fake_apiserver::FakeApiServer;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;

use super::run::{Error, shared_watches};
use super::{Progress, actors, load, namespaces};
use crate::act;
use crate::cluster::Kind;
use crate::decide::{Settings, binder};
use crate::manifest::Loaded;

/// Which parts of a cluster run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The PersistentVolume controller.
    pub controller: bool,
    /// The scheduler, for every pod.
    pub scheduler: bool,
    /// The stand-ins for everything else.
    pub stand_ins: actors::Roles,
}

impl Default for Parts {
    fn default() -> Self {
        Parts { controller: true, scheduler: true, stand_ins: actors::Roles::default() }
    }
}

/// Puts manifests into the server, and a node where there is none; returns what there is to say about that.
///
/// # Errors
/// When the server refuses a manifest.
pub fn prepare(server: &FakeApiServer, loaded: Loaded) -> Result<Vec<String>, Error> {
    let Loaded { mut documents, mut warnings } = loaded;
    warnings.extend(load::leave_out_known(server, &mut documents));
    load::load(server, documents, &mut warnings, &Progress::default())?;
    Ok(warnings)
}

/// Plays the parts until `stop` says true or is dropped. `authority` is what pods have to trust to reach the server.
///
/// # Errors
/// When a part ends by itself.
pub async fn play(
    server: &FakeApiServer,
    settings: Settings,
    parts: Parts,
    authority: Option<&str>,
    stop: watch::Receiver<bool>,
) -> Result<(), Error> {
    let client = Client::new(server.trusted_router(), "default");
    let scheduler = parts.scheduler.then_some(binder::Pods::All);
    let roles = act::Roles { controller: parts.controller, scheduler };
    let options =
        act::Options { settings, roles, plugins: act::Plugins::pretended(), ..act::Options::controller() };
    let until = |mut stop: watch::Receiver<bool>| async move {
        // A channel whose sender is gone means stop as well.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    // The stand-ins look at all of them, whoever else runs.
    let (watches, shared) = shared_watches(&client, &Kind::ALL);
    let program = async {
        let done = act::run_on(client.clone(), watches, options, until(stop.clone())).await;
        done.map(drop).map_err(|error| Error::Failed(error.to_string()))
    };
    // A namespace of the stand-ins has what they look at; here it may have anything.
    let stand_ins = actors::Roles { namespaces: false, ..parts.stand_ins };
    let cast = async {
        let done =
            actors::run(client.clone(), shared, stand_ins, Arc::new(Timestamp::now), stop.clone()).await;
        done.map_err(|error| Error::Failed(error.to_string()))
    };
    let keeping = async {
        if parts.stand_ins.namespaces {
            tokio::select! {
                () = namespaces::keep(server, &client, authority) => {}
                () = until(stop.clone()) => {}
            }
        }
        Ok(())
    };
    tokio::try_join!(program, cast, keeping).map(drop)
}
