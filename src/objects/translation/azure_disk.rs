//! `kubernetes.io/azure-disk`: disks of Microsoft's cloud.
//!
//! Its volumes keep their affinity as it is. Answers to upstream's `plugins/azure_disk.go` of `csi-translation-lib`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::AzureDiskVolumeSource;

use super::{Class, CsiSource, FS_TYPE, Migration, Rename, Untranslatable, Volume, zones};

const DRIVER: &str = "disk.csi.azure.com";
const ZONE: &str = "topology.disk.csi.azure.com/zone";
const MANAGED: &str = "Managed";
const KIND: &str = "kind";
const CACHING_MODE: &str = "cachingmode";

pub(super) const MIGRATION: Migration = Migration {
    plugin: "kubernetes.io/azure-disk",
    driver: DRIVER,
    is_placed: true,
    holds: |spec| spec.azure_disk.is_some(),
    to_csi,
    to_in_tree,
    class,
};

fn to_csi(volume: &mut Volume) -> Result<CsiSource, Untranslatable> {
    let source = volume.spec.get_or_insert_default().azure_disk.take().ok_or(Untranslatable::NotMigrated)?;
    if let Some(kind) = source.kind.filter(|kind| !kind.eq_ignore_ascii_case(MANAGED)) {
        return Err(Untranslatable::DiskKind(kind));
    }
    let (caching, fs_type) = (source.caching_mode.as_deref(), source.fs_type.as_deref());
    Ok(CsiSource {
        driver: DRIVER.to_owned(),
        volume_attributes: super::attributes([
            (KIND, Some(MANAGED)),
            (CACHING_MODE, caching),
            (FS_TYPE, fs_type),
        ]),
        volume_handle: source.disk_uri,
        read_only: source.read_only,
        fs_type: source.fs_type,
        ..CsiSource::default()
    })
}

fn to_in_tree(volume: &mut Volume, source: CsiSource) -> Result<(), Untranslatable> {
    let disk_name = disk_name(&source.volume_handle);
    let disk_name = disk_name.ok_or_else(|| Untranslatable::Handle(source.volume_handle.clone()))?.to_owned();
    let attributes = source.volume_attributes.unwrap_or_default();
    let attributes: BTreeMap<String, String> =
        attributes.into_iter().map(|(key, value)| (key.to_lowercase(), value)).collect();
    let attribute = |key| attributes.get(key).filter(|value| !value.is_empty()).cloned();
    volume.spec.get_or_insert_default().azure_disk = Some(Box::new(AzureDiskVolumeSource {
        disk_name,
        disk_uri: source.volume_handle,
        fs_type: attribute(FS_TYPE).or_else(|| Some(source.fs_type.unwrap_or_default())),
        read_only: Some(source.read_only.unwrap_or_default()),
        kind: Some(MANAGED.to_owned()),
        caching_mode: attribute(CACHING_MODE),
    }));
    Ok(())
}

fn class(class: &mut Class) -> Result<(), Untranslatable> {
    zones::translate_class(class, ZONE)?;
    // A region without zones has numbered failure domains instead; to the driver all of them are the zone "".
    let terms = class.allowed_topologies.iter_mut().flatten();
    for expression in terms.flat_map(|term| term.match_label_expressions.iter_mut().flatten()) {
        if expression.key == ZONE {
            let is_number = |value: &str| !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            expression.values.iter_mut().filter(|value| is_number(value)).for_each(String::clear);
        }
    }
    super::renamed(class, |name| match name {
        "zone" | "zones" => Rename::Drop,
        _ => Rename::Keep,
    });
    Ok(())
}

/// The last part of the path of a managed disk, or of the address of one that is a blob.
fn disk_name(uri: &str) -> Option<&str> {
    let is_blob = uri.len() > 4 && uri.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    let (before, name) = if is_blob {
        uri.rsplit_once("/vhds/").filter(|(before, _)| before.starts_with("http") && before.contains("://"))
    } else {
        uri.rsplit_once("/providers/Microsoft.Compute/disks/")
    }?;
    let group = before.split_once("/subscriptions/").map(|(_, rest)| rest);
    let is_whole = is_blob || group.is_some_and(|group| group.contains("/resourceGroups/"));
    (is_whole && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("testurl/subscriptions/12/resourceGroups/23/providers/Microsoft.Compute/disks/name", Some("name"))]
    #[case("testurl/subscriptions/23/providers/Microsoft.Compute/disks/name", None)]
    #[case("http://test.com/vhds/name", Some("name"))]
    #[case("http://test.io/name", None)]
    #[case("HTTP://test.com/vhds/name", None)]
    #[case("test.com", None)]
    fn a_disk_goes_by_the_last_part_of_its_address(#[case] uri: &str, #[case] wanted: Option<&str>) {
        assert_eq!(disk_name(uri), wanted);
    }
}
