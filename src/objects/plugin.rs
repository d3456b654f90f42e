//! Which plugin handles a volume, by the name that upstream's metrics have.
//!
//! It names plugins and never decides whether one may act. Answers to upstream's
//! `GetFullQualifiedPluginNameForVolume` (`pkg/volume/util/metrics.go`).

use k8s_openapi::api::core::v1::Volume as PodVolume;

use super::Volume;

/// The in-tree plugin that knows the volume's source, for CSI with the driver: `kubernetes.io/csi:DRIVER`. `None`
/// when none of those that the controller is built with does: local volumes and the sources of migrated plugins
/// are such. Answers to upstream's `FindPluginBySpec`.
#[must_use]
pub fn name(volume: &Volume) -> Option<String> {
    let spec = volume.spec.as_ref()?;
    let sources = [
        (spec.host_path.is_some(), "kubernetes.io/host-path"),
        (spec.nfs.is_some(), "kubernetes.io/nfs"),
        (spec.fc.is_some(), "kubernetes.io/fc"),
        (spec.iscsi.is_some(), "kubernetes.io/iscsi"),
        (spec.csi.is_some(), "kubernetes.io/csi"),
    ];
    let mut found = sources.iter().filter(|(is_there, _)| *is_there).map(|(_, plugin)| *plugin);
    let first = found.next();
    // More than one is an error of upstream's, not a choice.
    if found.next().is_some() { None } else { first.map(|plugin| qualified(plugin, Some(volume), None)) }
}

/// The plugin's name as metrics have it: one that serves CSI volumes is told apart by the driver of the volume, be it
/// one of the cluster or one that stands in a pod.
#[must_use]
pub fn qualified(plugin: &str, volume: Option<&Volume>, in_pod: Option<&PodVolume>) -> String {
    let of_volume = volume.and_then(|v| v.spec.as_ref()?.csi.as_ref()).map(|csi| csi.driver.as_str());
    let driver = of_volume.or_else(|| in_pod?.csi.as_ref().map(|csi| csi.driver.as_str()));
    driver.map_or_else(|| plugin.to_owned(), |driver| format!("{plugin}:{driver}"))
}
