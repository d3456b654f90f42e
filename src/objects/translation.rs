//! CSI migration: which in-tree plugins are served by which CSI drivers.
//!
//! Answers to upstream's `csi-translation-lib` and `pkg/volume/csimigration`; the rows are those whose
//! migration is locked on in Kubernetes 1.36.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{annotation, annotations};

/// One migrated in-tree plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The plugin's name, as classes and `provisioned-by` have it.
    pub plugin: &'static str,
    /// The CSI driver that took over.
    pub driver: &'static str,
}

/// Every migrated plugin.
pub const MIGRATIONS: [Migration; 7] = [
    Migration { plugin: "kubernetes.io/aws-ebs", driver: "ebs.csi.aws.com" },
    Migration { plugin: "kubernetes.io/gce-pd", driver: "pd.csi.storage.gke.io" },
    Migration { plugin: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com" },
    Migration { plugin: "kubernetes.io/azure-file", driver: "file.csi.azure.com" },
    Migration { plugin: "kubernetes.io/cinder", driver: "cinder.csi.openstack.org" },
    Migration { plugin: "kubernetes.io/vsphere-volume", driver: "csi.vsphere.vmware.com" },
    Migration { plugin: "kubernetes.io/portworx-volume", driver: "pxd.portworx.com" },
];

/// The CSI driver that serves the plugin, if it is migrated.
#[must_use]
pub fn driver_of(migrations: &[Migration], plugin: &str) -> Option<&'static str> {
    migrations.iter().find(|migration| migration.plugin == plugin).map(|migration| migration.driver)
}

/// What the `migrated-to` annotation should be on an object that `provisioner` serves: the driver of a migrated
/// plugin, else none; without a provisioner it stays as it is. Answers to `updateMigrationAnnotations`.
fn annealed(migrations: &[Migration], meta: &ObjectMeta, provisioner: Option<&str>) -> Option<String> {
    let now = annotation(meta, annotations::MIGRATED_TO);
    match provisioner {
        None => now,
        Some(provisioner) => driver_of(migrations, provisioner).or(now.filter(|now| now.is_empty())),
    }
    .map(str::to_owned)
}

/// What a volume's `migrated-to` annotation should be.
#[must_use]
pub fn annealed_volume(migrations: &[Migration], meta: &ObjectMeta) -> Option<String> {
    annealed(migrations, meta, annotation(meta, annotations::PROVISIONED_BY))
}

/// What a claim's `migrated-to` annotation should be.
#[must_use]
pub fn annealed_claim(migrations: &[Migration], meta: &ObjectMeta) -> Option<String> {
    let provisioner = annotation(meta, annotations::STORAGE_PROVISIONER)
        .or_else(|| annotation(meta, annotations::BETA_STORAGE_PROVISIONER));
    annealed(migrations, meta, provisioner)
}
