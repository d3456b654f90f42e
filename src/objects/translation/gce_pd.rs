//! `kubernetes.io/gce-pd`: disks of Google's cloud.
//!
//! Answers to upstream's `plugins/gce_pd.go` of `csi-translation-lib`.

use k8s_openapi::api::core::v1::GCEPersistentDiskVolumeSource;

use super::super::access::{READ_ONLY_MANY, READ_WRITE_MANY, READ_WRITE_ONCE};
use super::{CSI_FS_TYPE, Class, CsiSource, FS_TYPE, Migration, Rename, Untranslatable, Volume, zones};

const DRIVER: &str = "pd.csi.storage.gke.io";
const ZONE: &str = "topology.gke.io/zone";
/// Stands in a handle for what an in-tree volume does not say.
const UNSPECIFIED: &str = "UNSPECIFIED";

pub(super) const MIGRATION: Migration = Migration {
    plugin: "kubernetes.io/gce-pd",
    driver: DRIVER,
    is_placed: true,
    holds: |spec| spec.gce_persistent_disk.is_some(),
    to_csi,
    to_in_tree,
    class,
};

fn to_csi(volume: &mut Volume) -> Result<CsiSource, Untranslatable> {
    let spec = volume.spec.get_or_insert_default();
    let source = spec.gce_persistent_disk.take().ok_or(Untranslatable::NotMigrated)?;
    let volume_handle = handle(volume, &source.pd_name)?;
    zones::to_csi(volume, ZONE);
    let spec = volume.spec.get_or_insert_default();
    spec.access_modes = spec.access_modes.as_deref().map(access_modes);
    let partition = source.partition.filter(|number| *number != 0).map(|number| number.to_string());
    Ok(CsiSource {
        driver: DRIVER.to_owned(),
        volume_handle,
        read_only: source.read_only,
        fs_type: source.fs_type,
        volume_attributes: super::attributes([("partition", Some(&partition.unwrap_or_default()))]),
        ..CsiSource::default()
    })
}

/// The handle has the volume's zone, or for several zones their region, as its labels say.
fn handle(volume: &Volume, disk: &str) -> Result<String, Untranslatable> {
    let label = |key| zones::label(volume, key).filter(|label| !label.is_empty());
    let label = label(zones::BETA_ZONE).or_else(|| label(zones::ZONE)).unwrap_or(UNSPECIFIED);
    let all: Vec<String> = label.split(zones::BETWEEN_ZONES).map(str::to_owned).collect();
    let place = match all.as_slice() {
        [zone] => format!("zones/{zone}"),
        _ => format!("regions/{}", region_of(&all)?),
    };
    Ok(format!("projects/{UNSPECIFIED}/{place}/disks/{disk}"))
}

/// The plugin never cared: it took a disk that many may write to for one that one node writes to. The driver cares, and
/// refuses what it can't do.
fn access_modes(modes: &[String]) -> Vec<String> {
    let has = |wanted: &str| modes.iter().any(|mode| mode == wanted);
    let is_read_only = has(READ_ONLY_MANY) && !has(READ_WRITE_ONCE) && !has(READ_WRITE_MANY);
    vec![if is_read_only { READ_ONLY_MANY } else { READ_WRITE_ONCE }.to_owned()]
}

fn to_in_tree(volume: &mut Volume, source: CsiSource) -> Result<(), Untranslatable> {
    // projects/PROJECT/zones/ZONE/disks/DISK
    let pd_name = source.volume_handle.split('/').nth(5).map(str::to_owned);
    let pd_name = pd_name.ok_or_else(|| Untranslatable::Handle(source.volume_handle.clone()))?;
    let partition = super::partition(&source)?;
    zones::to_in_tree(volume, ZONE, Some(region_of))?;
    volume.spec.get_or_insert_default().gce_persistent_disk = Some(Box::new(GCEPersistentDiskVolumeSource {
        pd_name,
        fs_type: source.fs_type,
        read_only: source.read_only,
        partition,
    }));
    Ok(())
}

fn class(class: &mut Class) -> Result<(), Untranslatable> {
    zones::translate_class(class, ZONE)?;
    super::renamed(class, |name| match name {
        FS_TYPE => Rename::To(CSI_FS_TYPE),
        "zone" | "zones" => Rename::Drop,
        _ => Rename::Keep,
    });
    Ok(())
}

/// `us-east1` of `us-east1-a`.
fn region_of(all: &[String]) -> Result<String, Untranslatable> {
    zones::one_region(all, |zone| match zone.split('-').collect::<Vec<_>>().as_slice() {
        [locale, region, _] => Some(format!("{locale}-{region}")),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(&["ReadOnlyMany"], "ReadOnlyMany")]
    #[case(&["ReadWriteOnce"], "ReadWriteOnce")]
    #[case(&["ReadWriteMany"], "ReadWriteOnce")]
    #[case(&["ReadOnlyMany", "ReadWriteOnce"], "ReadWriteOnce")]
    #[case(&["ReadWriteOnce", "ReadWriteMany"], "ReadWriteOnce")]
    #[case(&["ReadWriteMany", "ReadOnlyMany"], "ReadWriteOnce")]
    #[case(&["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"], "ReadWriteOnce")]
    fn a_disk_is_for_one_writer_or_for_readers(#[case] modes: &[&str], #[case] wanted: &str) {
        let modes: Vec<String> = modes.iter().map(|mode| (*mode).to_owned()).collect();
        assert_eq!(access_modes(&modes), [wanted]);
    }

    #[rstest::rstest]
    #[case(Some((zones::BETA_ZONE, "us-east1-a")), "zones/us-east1-a")]
    #[case(Some((zones::ZONE, "us-east1-a")), "zones/us-east1-a")]
    #[case(Some((zones::BETA_ZONE, "us-central1-a__us-central1-c")), "regions/us-central1")]
    #[case(Some((zones::ZONE, "us-central1-a__us-central1-c")), "regions/us-central1")]
    #[case(None, "zones/UNSPECIFIED")]
    fn a_handle_says_where_the_disk_is(#[case] label: Option<(&str, &str)>, #[case] place: &str) {
        let mut volume = Volume::default();
        volume.metadata.labels = label.map(|(key, value)| [(key.to_owned(), value.to_owned())].into());
        assert_eq!(handle(&volume, "pd-name"), Ok(format!("projects/UNSPECIFIED/{place}/disks/pd-name")));
    }
}
