//! What decisions know of in-tree volume plugins, what they ask of them, and what plugins answer.
//!
//! A plugin makes, deletes or scrubs storage; it is called by the part of the program that may wait, and its answer is
//! decided about like everything else. Nothing here does anything. Answers to upstream's `VolumePluginMgr` and the
//! interfaces `ProvisionableVolumePlugin`, `DeletableVolumePlugin` and `RecyclableVolumePlugin`.

use std::sync::Arc;

use crate::objects::{Claim, Class, Node, Pod, Volume};

/// A plugin, as far as decisions go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plugin {
    /// Its name, as classes have it.
    pub name: &'static str,
    /// Which volumes are its.
    pub volumes: Source,
    /// Whether it makes volumes.
    pub provisions: bool,
    /// Whether it deletes them.
    pub deletes: bool,
    /// How it scrubs them.
    pub recycles: Recycling,
    /// Whether its volumes can have mount options.
    pub mount_options: bool,
}

/// Which volumes a plugin supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Those with `spec.hostPath`.
    HostPath,
    /// Those with `spec.nfs`.
    Nfs,
    /// All.
    Any,
}

/// How a plugin scrubs a volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recycling {
    /// Not at all.
    Never,
    /// By a pod that mounts the volume.
    Pod(Scrubber),
    /// By a call.
    Call,
}

/// A pod that scrubs volumes. Answers to upstream's `RecyclerPodTemplate` and its timeouts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scrubber {
    /// How long it may take at least, in seconds.
    pub at_least: i64,
    /// How long it may take for each GiB, in seconds, if that is more.
    pub per_gibibyte: i64,
    /// The pod, whose first volume is replaced; `None` for upstream's own.
    pub template: Option<&'static Pod>,
}

impl Scrubber {
    const fn of(at_least: i64) -> Self {
        Scrubber { at_least, per_gibibyte: 30, template: None }
    }
}

/// hostPath as upstream has it unless it is told to provision: it deletes and scrubs.
pub const HOST_PATH: Plugin = Plugin {
    name: "kubernetes.io/host-path",
    volumes: Source::HostPath,
    provisions: false,
    deletes: true,
    recycles: Recycling::Pod(Scrubber::of(60)),
    mount_options: false,
};

/// NFS: it scrubs.
pub const NFS: Plugin = Plugin {
    name: "kubernetes.io/nfs",
    volumes: Source::Nfs,
    provisions: false,
    deletes: false,
    recycles: Recycling::Pod(Scrubber::of(300)),
    mount_options: true,
};

/// The plugins that are always there.
pub const BUILT_IN: &[Plugin] = &[HOST_PATH, NFS];

/// The same, with hostPath provisioning, for tests on one machine.
pub const PROVISIONING: &[Plugin] = &[Plugin { provisions: true, ..HOST_PATH }, NFS];

impl Plugin {
    /// Whether the volume is one of the plugin's.
    #[must_use]
    pub fn supports(&self, volume: &Volume) -> bool {
        let spec = volume.spec.as_ref();
        match self.volumes {
            Source::HostPath => spec.is_some_and(|s| s.host_path.is_some()),
            Source::Nfs => spec.is_some_and(|s| s.nfs.is_some()),
            Source::Any => true,
        }
    }
}

/// What a plugin is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Make a volume. Asked again for the same name, it makes no second one.
    Provision(Box<Wanted>),
    /// Delete the storage of a volume, if it is there.
    Delete {
        /// The plugin's name.
        plugin: &'static str,
        /// The volume.
        volume: Arc<Volume>,
    },
    /// Delete the storage of a volume that could not be saved; tried several times.
    CleanUp {
        /// The plugin's name.
        plugin: &'static str,
        /// The volume that nobody knows of.
        volume: Arc<Volume>,
    },
    /// Scrub a volume.
    Recycle {
        /// The plugin's name.
        plugin: &'static str,
        /// The volume.
        volume: Arc<Volume>,
    },
}

impl Call {
    /// The name of the plugin that is called.
    #[must_use]
    pub fn plugin(&self) -> &'static str {
        match self {
            Call::Provision(wanted) => wanted.plugin,
            Call::Delete { plugin, .. } | Call::CleanUp { plugin, .. } | Call::Recycle { plugin, .. } => {
                plugin
            }
        }
    }
}

/// The volume that a plugin is to make. Answers to upstream's `VolumeOptions`.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The plugin's name.
    pub plugin: &'static str,
    /// The volume's name: always the same for a claim.
    pub name: String,
    /// The claim.
    pub claim: Arc<Claim>,
    /// The class, with its parameters, reclaim policy, mount options and allowed topologies.
    pub class: Arc<Class>,
    /// The node that was selected for the claim's pod.
    pub node: Option<Arc<Node>>,
}

/// Why a plugin did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It could not even begin.
    Setup(String),
    /// The volume is still in use: it may work later.
    InUse(String),
    /// It failed.
    Failed(String),
}

/// What a plugin answers: the volume that it made, or none when it was asked for something else.
pub type Answer = Result<Option<Arc<Volume>>, Failure>;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[rstest::rstest]
    #[case(json!({"hostPath": {"path": "/a"}}), [true, false])]
    #[case(json!({"nfs": {"server": "s", "path": "/a"}}), [false, true])]
    #[case(json!({"csi": {"driver": "d", "volumeHandle": "h"}}), [false, false])]
    fn a_plugin_knows_its_volumes_by_their_source(
        #[case] source: serde_json::Value,
        #[case] of_plugins: [bool; 2],
    ) {
        let volume: Volume = from_value(json!({"metadata": {"name": "v"}, "spec": source})).unwrap();
        assert_eq!([HOST_PATH, NFS].map(|plugin| plugin.supports(&volume)), of_plugins);
    }
}
