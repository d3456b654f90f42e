//! `kubernetes.io/aws-ebs`: block storage of Amazon's cloud.
//!
//! Answers to upstream's `plugins/aws_ebs.go` of `csi-translation-lib`.

use k8s_openapi::api::core::v1::AWSElasticBlockStoreVolumeSource;

use super::{CSI_FS_TYPE, Class, CsiSource, FS_TYPE, Migration, Rename, Untranslatable, Volume, zones};

const DRIVER: &str = "ebs.csi.aws.com";
const ZONE: &str = "topology.ebs.csi.aws.com/zone";

pub(super) const MIGRATION: Migration = Migration {
    plugin: "kubernetes.io/aws-ebs",
    driver: DRIVER,
    is_placed: true,
    holds: |spec| spec.aws_elastic_block_store.is_some(),
    to_csi,
    to_in_tree,
    class,
};

fn to_csi(volume: &mut Volume) -> Result<CsiSource, Untranslatable> {
    let spec = volume.spec.get_or_insert_default();
    let source = spec.aws_elastic_block_store.take().ok_or(Untranslatable::NotMigrated)?;
    let volume_handle = handle(&source.volume_id)?.to_owned();
    zones::to_csi(volume, ZONE);
    let partition = source.partition.unwrap_or_default().to_string();
    Ok(CsiSource {
        driver: DRIVER.to_owned(),
        volume_handle,
        read_only: source.read_only,
        fs_type: source.fs_type,
        volume_attributes: super::attributes([("partition", Some(&partition))]),
        ..CsiSource::default()
    })
}

fn to_in_tree(volume: &mut Volume, source: CsiSource) -> Result<(), Untranslatable> {
    let partition = super::partition(&source)?;
    zones::to_in_tree(volume, ZONE, Some(region_of))?;
    volume.spec.get_or_insert_default().aws_elastic_block_store =
        Some(Box::new(AWSElasticBlockStoreVolumeSource {
            volume_id: source.volume_handle,
            fs_type: source.fs_type,
            read_only: source.read_only,
            partition,
        }));
    Ok(())
}

fn class(class: &mut Class) -> Result<(), Untranslatable> {
    zones::translate_class(class, ZONE)?;
    let names = class.parameters.iter().flatten().map(|(name, _)| name.to_lowercase());
    let is_scaled = names.into_iter().any(|name| name == "iopspergb");
    super::renamed(class, |name| match name {
        FS_TYPE => Rename::To(CSI_FS_TYPE),
        "zone" | "zones" => Rename::Drop,
        _ => Rename::Keep,
    });
    if is_scaled {
        // The plugin raised what a small volume gets to the least that there is; the driver does so when told.
        let parameters = class.parameters.get_or_insert_default();
        parameters.insert("allowautoiopspergbincrease".to_owned(), "true".to_owned());
    }
    Ok(())
}

/// The driver's name of a volume: `vol-1`, where the plugin also has `aws://ZONE/vol-1` and `aws:///vol-1`.
fn handle(volume_id: &str) -> Result<&str, Untranslatable> {
    let Some(rest) = volume_id.strip_prefix("aws://") else { return Ok(volume_id) };
    let path = rest.split(['?', '#']).next().and_then(|rest| rest.split_once('/'));
    let id = path.map_or("", |(_, path)| path.trim_matches('/'));
    if id.starts_with("vol-") && !id.contains('/') {
        Ok(id)
    } else {
        Err(Untranslatable::Handle(volume_id.to_owned()))
    }
}

/// `us-west-2` of `us-west-2a`, of the local zone `us-west-2-lax-1a` and of `us-west-2-wl1-las-wlz-1` at the edge.
fn region_of(all: &[String]) -> Result<String, Untranslatable> {
    zones::one_region(all, |zone| {
        let parts: Vec<&str> = zone.split('-').collect();
        match parts.as_slice() {
            [first @ .., last] if matches!(first.len(), 2 | 3) && last.len() == 2 => {
                let number: String = last.chars().take(1).collect();
                Some(format!("{}-{number}", first.join("-")))
            }
            [first, second, third, ..] if matches!(parts.len(), 5 | 7) => {
                Some([*first, *second, *third].join("-"))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("vol-02399794d890f9375", Some("vol-02399794d890f9375"))]
    #[case("aws:///vol-02399794d890f9375", Some("vol-02399794d890f9375"))]
    #[case("aws://us-west-2a/vol-02399794d890f9375", Some("vol-02399794d890f9375"))]
    #[case("aws://us-west-2a/02399794d890f9375", None)]
    #[case("aws://vol-1", None)]
    #[case("aws://us-west-2a/a/vol-1", None)]
    fn a_volume_goes_by_the_last_part_of_its_name(#[case] volume_id: &str, #[case] wanted: Option<&str>) {
        assert_eq!(handle(volume_id).ok(), wanted);
    }

    #[rstest::rstest]
    #[case(&["us-west-2a", "us-west-2b"], Some("us-west-2"))]
    #[case(&["us-gov-east-1a"], Some("us-gov-east-1"))]
    #[case(&["us-east-1-wl1-bos-wlz-1"], Some("us-east-1"))]
    #[case(&["us-west-2-lax-1a"], Some("us-west-2"))]
    #[case(&[], None)]
    #[case(&["us-west-2a", "us-east-1a"], None)]
    #[case(&["us-west-2"], None)]
    #[case(&["us-west-2ab"], None)]
    #[case(&["us-west"], None)]
    fn zones_are_of_one_region(#[case] zones: &[&str], #[case] wanted: Option<&str>) {
        let zones: Vec<String> = zones.iter().map(|zone| (*zone).to_owned()).collect();
        assert_eq!(region_of(&zones).ok().as_deref(), wanted);
    }
}
