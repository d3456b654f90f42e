//! `kubernetes.io/cinder`: block storage of `OpenStack`.
//!
//! Answers to upstream's `plugins/openstack_cinder.go` of `csi-translation-lib`.

use k8s_openapi::api::core::v1::CinderPersistentVolumeSource;

use super::{CSI_FS_TYPE, Class, CsiSource, FS_TYPE, Migration, Rename, Untranslatable, Volume, zones};

const DRIVER: &str = "cinder.csi.openstack.org";
const ZONE: &str = "topology.cinder.csi.openstack.org/zone";

pub(super) const MIGRATION: Migration = Migration {
    plugin: "kubernetes.io/cinder",
    driver: DRIVER,
    is_placed: true,
    holds: |spec| spec.cinder.is_some(),
    to_csi,
    to_in_tree,
    class,
};

fn to_csi(volume: &mut Volume) -> Result<CsiSource, Untranslatable> {
    let source = volume.spec.get_or_insert_default().cinder.take().ok_or(Untranslatable::NotMigrated)?;
    zones::to_csi(volume, ZONE);
    Ok(CsiSource {
        driver: DRIVER.to_owned(),
        volume_handle: source.volume_id,
        read_only: source.read_only,
        fs_type: source.fs_type,
        ..CsiSource::default()
    })
}

fn to_in_tree(volume: &mut Volume, source: CsiSource) -> Result<(), Untranslatable> {
    // Nothing in the name of a zone says which region it is in.
    zones::to_in_tree(volume, ZONE, None)?;
    volume.spec.get_or_insert_default().cinder = Some(Box::new(CinderPersistentVolumeSource {
        volume_id: source.volume_handle,
        fs_type: source.fs_type,
        read_only: source.read_only,
        secret_ref: None,
    }));
    Ok(())
}

/// The parameter `availability` stays: the driver knows it.
#[expect(clippy::unnecessary_wraps, reason = "another plugin may refuse")]
fn class(class: &mut Class) -> Result<(), Untranslatable> {
    zones::translate_allowed(class, ZONE);
    super::renamed(class, |name| if name == FS_TYPE { Rename::To(CSI_FS_TYPE) } else { Rename::Keep });
    Ok(())
}
