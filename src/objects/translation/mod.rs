//! CSI migration: which in-tree plugins are served by which CSI drivers, and what their volumes and classes are to
//! those drivers.
//!
//! One file for each plugin; what they have in common, where a volume is, is in [`zones`]. Nothing here says whether a
//! plugin is migrated on some node; that is what the node's `CSINode` says ([`OnNodes`]). Of volumes that stand in a pod
//! only the source is translated: they are attached, but not bound. Answers to upstream's `csi-translation-lib` and `pkg/volume/csimigration`;
//! the rows are those whose migration is locked on in Kubernetes 1.36.

mod aws_ebs;
mod azure_disk;
mod azure_file;
mod cinder;
mod gce_pd;
mod node;
mod portworx;
mod vsphere;
pub mod zones;

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, CinderPersistentVolumeSource, Volume as PodVolume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Class, Volume, annotation, annotations, kept::VolumeSpec};

pub use node::{OnNodes, is_migrated_on};

/// Why a volume or class has no translation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untranslatable {
    /// No plugin, or no driver, of this table holds it.
    #[error("it is of no plugin that is migrated to CSI")]
    NotMigrated,
    /// The volume's name at the provider makes no sense.
    #[error("{0:?} is not the name of a volume at its provider")]
    Handle(String),
    /// The volume's zones are of no region, or of several.
    #[error("the zones {0:?} are not of one region")]
    Region(Vec<String>),
    /// The class says in two ways where its volumes go.
    #[error("a class can't have both allowed topologies and a parameter zone or zones")]
    ZonesTwice,
    /// The namespace of the secret is not to be found.
    #[error("neither the volume nor the claim it is for says in which namespace the secret is")]
    SecretNamespace,
    /// The driver knows managed disks only.
    #[error("disks of kind {0:?} are not migrated to CSI")]
    DiskKind(String),
    /// The partition is no number.
    #[error("partition {0:?} is not a number")]
    Partition(String),
}

type CsiSource = CSIPersistentVolumeSource;

/// One migrated in-tree plugin.
#[derive(Debug)]
pub struct Migration {
    /// The plugin's name, as classes and `provisioned-by` have it.
    pub plugin: &'static str,
    /// The CSI driver that took over.
    pub driver: &'static str,
    /// Whether the scheduler asks where a volume can be used, and counts it, as if it were the driver's. Upstream
    /// leaves two plugins out, though it translates their volumes elsewhere.
    is_placed: bool,
    /// Whether the volume is of the plugin.
    holds: fn(&VolumeSpec) -> bool,
    /// Takes the plugin's source out, says where the volume is in the driver's words, and returns the driver's source.
    to_csi: fn(&mut Volume) -> Result<CsiSource, Untranslatable>,
    /// Puts the plugin's source in, for the driver's, and says where the volume is in Kubernetes' words.
    to_in_tree: fn(&mut Volume, CsiSource) -> Result<(), Untranslatable>,
    /// Says in the driver's words what a class asks for.
    class: fn(&mut Class) -> Result<(), Untranslatable>,
}

/// Every migrated plugin.
pub const MIGRATIONS: [Migration; 7] = [
    aws_ebs::MIGRATION,
    gce_pd::MIGRATION,
    azure_disk::MIGRATION,
    azure_file::MIGRATION,
    cinder::MIGRATION,
    vsphere::MIGRATION,
    portworx::MIGRATION,
];

/// The parameter of in-tree classes that names the file system.
const FS_TYPE: &str = "fstype";
/// The same for CSI drivers.
const CSI_FS_TYPE: &str = "csi.storage.k8s.io/fstype";

fn row(found: impl Fn(&Migration) -> bool) -> Option<&'static Migration> {
    const { &MIGRATIONS }.iter().find(|migration| found(migration))
}

/// Which in-tree plugins are served by which CSI drivers: (plugin, driver).
pub type Drivers = &'static [(&'static str, &'static str)];

const fn served(migration: &Migration) -> (&'static str, &'static str) {
    (migration.plugin, migration.driver)
}

/// The drivers of every migrated plugin.
pub const DRIVERS: Drivers = &[
    served(&MIGRATIONS[0]),
    served(&MIGRATIONS[1]),
    served(&MIGRATIONS[2]),
    served(&MIGRATIONS[3]),
    served(&MIGRATIONS[4]),
    served(&MIGRATIONS[5]),
    served(&MIGRATIONS[6]),
];

/// The driver among these that serves the plugin.
#[must_use]
pub fn driver_among(drivers: Drivers, plugin: &str) -> Option<&'static str> {
    drivers.iter().find(|(served, _)| *served == plugin).map(|(_, driver)| *driver)
}

/// The in-tree plugin that the driver serves, if it is one of those that took over.
#[must_use]
pub fn plugin_of(driver: &str) -> Option<&'static str> {
    row(|migration| migration.driver == driver).map(|migration| migration.plugin)
}

/// The migrated plugin whose volume it is. Answers to upstream's `CanSupport` and `GetInTreePluginNameFromSpec`.
#[must_use]
pub fn migration_of(volume: &Volume) -> Option<&'static Migration> {
    let spec = volume.spec.as_ref()?;
    row(|migration| (migration.holds)(spec))
}

/// An in-tree volume as its CSI driver has it. Answers to upstream's `TranslateInTreePVToCSI`.
///
/// # Errors
/// It is of no migrated plugin, or makes no sense to the driver.
pub fn volume_to_csi(volume: &Volume) -> Result<Volume, Untranslatable> {
    let migration = migration_of(volume).ok_or(Untranslatable::NotMigrated)?;
    let mut volume = volume.clone();
    let source = (migration.to_csi)(&mut volume)?;
    volume.spec.get_or_insert_default().csi = Some(Box::new(source));
    Ok(volume)
}

/// A CSI volume as the in-tree plugin has it. Answers to upstream's `TranslateCSIPVToInTree`.
///
/// # Errors
/// Its driver took over from no plugin, or it makes no sense to the plugin.
pub fn volume_to_in_tree(volume: &Volume) -> Result<Volume, Untranslatable> {
    let mut volume = volume.clone();
    let source = volume.spec.get_or_insert_default().csi.take().ok_or(Untranslatable::NotMigrated)?;
    let migration = row(|migration| migration.driver == source.driver);
    (migration.ok_or(Untranslatable::NotMigrated)?.to_in_tree)(&mut volume, *source)?;
    Ok(volume)
}

/// What attaches the volume to a node: its own CSI source, or that of the driver that took over from its plugin.
#[must_use]
pub fn attached(volume: &Volume) -> Option<Cow<'_, CSIPersistentVolumeSource>> {
    let spec = volume.spec.as_ref()?;
    if let Some(source) = &spec.csi {
        return Some(Cow::Borrowed(source));
    }
    let migration = row(|migration| migration.is_placed && (migration.holds)(spec))?;
    (migration.to_csi)(&mut volume.clone()).ok().map(Cow::Owned)
}

/// The driver that attaches the volumes of classes with this provisioner; `None` for a plugin whose volumes are not
/// counted.
#[must_use]
pub fn attaching_driver(provisioner: &str) -> Option<&str> {
    match row(|migration| migration.plugin == provisioner) {
        None => Some(provisioner),
        Some(migration) => migration.is_placed.then_some(migration.driver),
    }
}

/// A volume that stands in a pod, with its in-tree source alone, as if it were one of the cluster.
fn alone(volume: &PodVolume) -> VolumeSpec {
    let cinder = volume.cinder.as_ref().map(|source| CinderPersistentVolumeSource {
        volume_id: source.volume_id.clone(),
        fs_type: source.fs_type.clone(),
        read_only: source.read_only,
        secret_ref: None,
    });
    VolumeSpec {
        aws_elastic_block_store: volume.aws_elastic_block_store.clone().map(Box::new),
        azure_disk: volume.azure_disk.clone().map(Box::new),
        cinder: cinder.map(Box::new),
        gce_persistent_disk: volume.gce_persistent_disk.clone().map(Box::new),
        portworx_volume: volume.portworx_volume.clone().map(Box::new),
        ..VolumeSpec::default()
    }
}

/// Whether the volume stands in a pod and is of a plugin that is migrated.
#[must_use]
pub fn is_migrated_in_pod(volume: &PodVolume) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.cinder.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.portworx_volume.is_some()
}

/// What attaches a volume that stands in a pod, if it is of a plugin that is migrated. Answers to upstream's
/// `TranslateInTreeInlineVolumeToCSI`.
#[must_use]
pub fn attached_in_pod(volume: &PodVolume) -> Option<CSIPersistentVolumeSource> {
    if !is_migrated_in_pod(volume) {
        return None;
    }
    let spec = Some(alone(volume));
    attached(&Volume { spec, ..Volume::default() }).map(Cow::into_owned)
}

/// A class of an in-tree plugin as its CSI driver has it. Answers to upstream's `TranslateInTreeStorageClassToCSI`.
///
/// # Errors
/// The plugin is not migrated, or the class contradicts itself.
pub fn class_to_csi(plugin: &str, class: &Class) -> Result<Class, Untranslatable> {
    let migration = row(|migration| migration.plugin == plugin).ok_or(Untranslatable::NotMigrated)?;
    let mut class = class.clone();
    (migration.class)(&mut class)?;
    Ok(class)
}

/// The class's parameters, each renamed or left out as `rename` says; its argument is in lower case, as plugins read
/// the names of parameters.
fn renamed(class: &mut Class, rename: impl Fn(&str) -> Rename) {
    let parameters = std::mem::take(&mut class.parameters).unwrap_or_default();
    let mut renamed = BTreeMap::new();
    for (key, value) in parameters {
        match rename(&key.to_lowercase()) {
            Rename::Keep => {
                renamed.insert(key, value);
            }
            Rename::To(new) => {
                renamed.insert(new.to_owned(), value);
            }
            Rename::Drop => {}
        }
    }
    class.parameters = (!renamed.is_empty()).then_some(renamed);
}

/// What becomes of a parameter.
enum Rename {
    Keep,
    To(&'static str),
    Drop,
}

/// No attributes rather than an empty map: the API leaves it out.
fn attributes<const N: usize>(pairs: [(&str, Option<&str>); N]) -> Option<BTreeMap<String, String>> {
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
    let attributes: BTreeMap<_, _> = pairs.collect();
    (!attributes.is_empty()).then_some(attributes)
}

/// The partition in a driver's attributes; none stands for the whole disk.
fn partition(source: &CsiSource) -> Result<Option<i32>, Untranslatable> {
    let text = source.volume_attributes.as_ref().and_then(|attributes| attributes.get("partition"));
    match text.map(String::as_str) {
        None | Some("") => Ok(None),
        Some(text) => {
            let number: i32 = text.parse().map_err(|_| Untranslatable::Partition(text.to_owned()))?;
            Ok(Some(number).filter(|number| *number != 0))
        }
    }
}

/// What the `migrated-to` annotation should be on an object that `provisioner` serves: the driver of a migrated
/// plugin, else none; without a provisioner it stays as it is. Answers to `updateMigrationAnnotations`.
fn annealed(drivers: Drivers, meta: &ObjectMeta, provisioner: Option<&str>) -> Option<String> {
    let now = annotation(meta, annotations::MIGRATED_TO);
    match provisioner {
        None => now,
        Some(provisioner) => driver_among(drivers, provisioner).or(now.filter(|now| now.is_empty())),
    }
    .map(str::to_owned)
}

/// What a volume's `migrated-to` annotation should be.
#[must_use]
pub fn annealed_volume(drivers: Drivers, meta: &ObjectMeta) -> Option<String> {
    annealed(drivers, meta, annotation(meta, annotations::PROVISIONED_BY))
}

/// What a claim's `migrated-to` annotation should be.
#[must_use]
pub fn annealed_claim(drivers: Drivers, meta: &ObjectMeta) -> Option<String> {
    let provisioner = annotation(meta, annotations::STORAGE_PROVISIONER)
        .or_else(|| annotation(meta, annotations::BETA_STORAGE_PROVISIONER));
    annealed(drivers, meta, provisioner)
}

#[cfg(test)]
mod tests;
