//! In-tree volume plugins: making, deleting and scrubbing storage.
//!
//! Decides nothing: it is told what to do, does it within a time limit, and hands the plugin's answer back to be decided
//! about. What is said of a plugin in [`crate::decide::plugin`] has to be true of it here. Answers to upstream's
//! `Provisioner`, `Deleter` and `Recycler`.

mod host_path;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::decide::plugin::{Answer, Call, Failure, Wanted};
use crate::objects::Volume;

pub use host_path::HostPath;

/// How long a plugin may take to answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// How often storage that nobody knows of is tried to be deleted, and a new volume to be saved. Upstream's number.
pub const ATTEMPTS: u32 = 5;
/// How long is waited between two of them. Upstream's pause.
pub const PAUSE: Duration = Duration::from_secs(10);

/// A plugin. Every method may be called again with the same arguments, by another process too, and must then lead to
/// the same storage as one call does.
pub trait VolumePlugin: Send + Sync {
    /// Its name, as classes have it.
    fn name(&self) -> &'static str;

    /// Makes a volume: its source, capacity, access modes and reclaim policy; what binds it is added by the caller.
    fn provision<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Volume, Failure>> {
        let _ = wanted;
        refuse(self.name(), "provision")
    }

    /// Deletes the storage of a volume; storage that is not there is deleted.
    fn delete<'a>(&'a self, volume: &'a Volume) -> BoxFuture<'a, Result<(), Failure>> {
        let _ = volume;
        refuse(self.name(), "delete")
    }

    /// Scrubs a volume.
    fn recycle<'a>(&'a self, volume: &'a Volume) -> BoxFuture<'a, Result<(), Failure>> {
        let _ = volume;
        refuse(self.name(), "recycle")
    }
}

fn refuse<'a, T: Send + 'a>(plugin: &str, what: &str) -> BoxFuture<'a, Result<T, Failure>> {
    let failure = Failure::Setup(format!("plugin {plugin:?} does not {what} volumes"));
    Box::pin(std::future::ready(Err(failure)))
}

/// The plugins that are there, by name. Cheap to clone.
#[derive(Clone, Default)]
pub struct Plugins(Arc<BTreeMap<&'static str, Arc<dyn VolumePlugin>>>);

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Plugins {
    /// These plugins.
    #[must_use]
    pub fn new(plugins: impl IntoIterator<Item = Arc<dyn VolumePlugin>>) -> Self {
        Plugins(Arc::new(plugins.into_iter().map(|plugin| (plugin.name(), plugin)).collect()))
    }

    /// The plugins that are always there. Those that scrub by a pod only are nowhere called.
    #[must_use]
    pub fn built_in() -> Self {
        Plugins::new([Arc::new(HostPath::real()) as Arc<dyn VolumePlugin>])
    }

    /// The same, touching nothing: everything succeeds.
    #[must_use]
    pub fn pretended() -> Self {
        Plugins::new([Arc::new(HostPath::pretended()) as Arc<dyn VolumePlugin>])
    }

    /// Calls a plugin.
    ///
    /// # Errors
    /// What the plugin says; or that it is not there, or did not answer in time.
    pub async fn call(&self, call: &Call) -> Answer {
        let Some(plugin) = self.0.get(call.plugin()) else {
            return Err(Failure::Setup(format!("there is no plugin {:?}", call.plugin())));
        };
        match call {
            Call::Provision(wanted) => {
                let volume = limited(plugin.provision(wanted)).await?;
                Ok(Some(Arc::new(volume)))
            }
            Call::Delete { volume, .. } => limited(plugin.delete(volume)).await.map(|()| None),
            Call::Recycle { volume, .. } => limited(plugin.recycle(volume)).await.map(|()| None),
            Call::CleanUp { volume, .. } => {
                let mut attempt = 1;
                loop {
                    match limited(plugin.delete(volume)).await {
                        Err(failure) if attempt < ATTEMPTS => {
                            tracing::debug!(?failure, attempt, "storage that nobody knows of is still there");
                        }
                        answer => return answer.map(|()| None),
                    }
                    attempt += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn limited<T>(call: BoxFuture<'_, Result<T, Failure>>) -> Result<T, Failure> {
    let late = |_| Failure::Failed(format!("no answer within {} s", CALL_TIMEOUT.as_secs()));
    tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(late)?
}
