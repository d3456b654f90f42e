//! A volume as each node has it: as a CSI volume where its plugin is migrated, else as it is.
//!
//! It never says whether a node reaches the volume; that is [`super::super::topology::reaches`], asked of what is found
//! here. Answers to upstream's `tryTranslatePVToCSI` and `isPluginMigratedToCSIOnNode`
//! (`pkg/scheduler/framework/plugins/volumebinding/binder.go`).

use super::super::{CsiNode, Volume, annotation, annotations};
use super::{Untranslatable, migration_of, volume_to_csi};

/// Whether the plugin is migrated on the node.
#[must_use]
pub fn is_migrated_on(plugin: &str, node: &CsiNode) -> bool {
    let plugins = annotation(&node.metadata, annotations::MIGRATED_PLUGINS);
    plugins.is_some_and(|plugins| plugins.split(',').any(|migrated| migrated == plugin))
}

/// A volume, translated once for all nodes.
#[derive(Debug)]
pub struct OnNodes<'a> {
    volume: &'a Volume,
    /// The plugin, and what the volume is where that is migrated.
    migrated: Option<(&'static str, Result<Box<Volume>, Untranslatable>)>,
}

impl<'a> OnNodes<'a> {
    /// Translates the volume, if it is of a plugin that may be migrated.
    #[must_use]
    pub fn new(volume: &'a Volume) -> Self {
        let migration = migration_of(volume).filter(|migration| migration.is_placed);
        let migrated = migration.map(|migration| (migration.plugin, volume_to_csi(volume).map(Box::new)));
        OnNodes { volume, migrated }
    }

    /// The volume as the node has it. The node's `CSINode` is looked up only where it matters.
    ///
    /// # Errors
    /// It makes no sense to the driver that serves it there.
    pub fn on<'n>(&self, node: impl FnOnce() -> Option<&'n CsiNode>) -> Result<&Volume, &Untranslatable> {
        match &self.migrated {
            Some((plugin, translated)) if node().is_some_and(|node| is_migrated_on(plugin, node)) => {
                translated.as_ref().map(AsRef::as_ref)
            }
            _ => Ok(self.volume),
        }
    }
}
