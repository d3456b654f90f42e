//! Which plugin handles a volume, by the name that upstream's metrics have.
//!
//! It names plugins and never decides whether one may act. Answers to upstream's
//! `GetFullQualifiedPluginNameForVolume` (`pkg/volume/util/metrics.go`).

use k8s_openapi::api::core::v1::Volume as PodVolume;

use super::Volume;

/// The plugin's name as metrics have it: one that serves CSI volumes is told apart by the driver of the volume, be it
/// one of the cluster or one that stands in a pod.
#[must_use]
pub fn qualified(plugin: &str, volume: Option<&Volume>, in_pod: Option<&PodVolume>) -> String {
    let of_volume = volume.and_then(|v| v.spec.as_ref()?.csi.as_ref()).map(|csi| csi.driver.as_str());
    let driver = of_volume.or_else(|| in_pod?.csi.as_ref().map(|csi| csi.driver.as_str()));
    driver.map_or_else(|| plugin.to_owned(), |driver| format!("{plugin}:{driver}"))
}
