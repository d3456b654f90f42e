//! `kubernetes.io/vsphere-volume`: virtual disks of `VMware`'s vSphere.
//!
//! Its driver has zones and regions of its own, and no volume is in several zones. Answers to upstream's
//! `plugins/vsphere_volume.go` of `csi-translation-lib`.

use k8s_openapi::api::core::v1::VsphereVirtualDiskVolumeSource;

use super::{CSI_FS_TYPE, Class, CsiSource, FS_TYPE, Migration, Rename, Untranslatable, Volume, zones};

const DRIVER: &str = "csi.vsphere.vmware.com";
const ZONE: &str = "topology.csi.vmware.com/zone";
const REGION: &str = "topology.csi.vmware.com/region";
const POLICY: &str = "storagepolicyname";

pub(super) const MIGRATION: Migration = Migration {
    plugin: "kubernetes.io/vsphere-volume",
    driver: DRIVER,
    is_placed: false,
    holds: |spec| spec.vsphere_volume.is_some(),
    to_csi,
    to_in_tree,
    class,
};

fn to_csi(volume: &mut Volume) -> Result<CsiSource, Untranslatable> {
    let spec = volume.spec.get_or_insert_default();
    let source = spec.vsphere_volume.take().ok_or(Untranslatable::NotMigrated)?;
    let labels = zones::labels_of(volume);
    for (label, key) in [(labels.zone, ZONE), (labels.region, REGION)] {
        if !zones::values(volume, label).is_empty() {
            zones::replace(volume, label, key);
        } else if let Some(value) = zones::label(volume, label).map(str::to_owned) {
            zones::add(volume, key, std::iter::once(value.as_str()));
        }
    }
    let policy = source.storage_policy_name.filter(|policy| !policy.is_empty());
    Ok(CsiSource {
        driver: DRIVER.to_owned(),
        volume_handle: source.volume_path,
        fs_type: source.fs_type,
        volume_attributes: super::attributes([(POLICY, policy.as_deref())]),
        ..CsiSource::default()
    })
}

#[expect(clippy::unnecessary_wraps, reason = "another plugin may refuse")]
fn to_in_tree(volume: &mut Volume, source: CsiSource) -> Result<(), Untranslatable> {
    let labels = zones::labels_of(volume);
    let both = [(labels.zone, ZONE), (labels.region, REGION)];
    for (label, key) in both {
        zones::replace(volume, key, label);
    }
    for (label, _) in both {
        if let Some(first) = zones::values(volume, label).into_iter().next() {
            zones::set_label(volume, label, first);
        }
    }
    // The driver's own name of a disk means nothing to the plugin; in its attributes is the path that does.
    let path = source.volume_attributes.unwrap_or_default().remove("initialvolumefilepath");
    volume.spec.get_or_insert_default().vsphere_volume = Some(Box::new(VsphereVirtualDiskVolumeSource {
        volume_path: path.unwrap_or_default(),
        fs_type: source.fs_type,
        ..VsphereVirtualDiskVolumeSource::default()
    }));
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "another plugin may refuse")]
fn class(class: &mut Class) -> Result<(), Untranslatable> {
    zones::translate_allowed(class, ZONE);
    super::renamed(class, |name| match name {
        FS_TYPE => Rename::To(CSI_FS_TYPE),
        POLICY => Rename::To(POLICY),
        "datastore" => Rename::To("datastore-migrationparam"),
        "diskformat" => Rename::To("diskformat-migrationparam"),
        "hostfailurestotolerate" => Rename::To("hostfailurestotolerate-migrationparam"),
        "forceprovisioning" => Rename::To("forceprovisioning-migrationparam"),
        "cachereservation" => Rename::To("cachereservation-migrationparam"),
        "diskstripes" => Rename::To("diskstripes-migrationparam"),
        "objectspacereservation" => Rename::To("objectspacereservation-migrationparam"),
        "iopslimit" => Rename::To("iopslimit-migrationparam"),
        _ => Rename::Drop,
    });
    // The driver then tells the path of each disk that it makes, without which there is no way back.
    class.parameters.get_or_insert_default().insert("csimigration".to_owned(), "true".to_owned());
    Ok(())
}
