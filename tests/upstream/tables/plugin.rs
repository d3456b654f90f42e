//! The names of plugins in metrics.

use k8s_openapi::api::core::v1::Volume as PodVolume;
use pvbind::objects::{Volume, plugin};
use serde_json::json;

use super::Row;

pub fn qualified(row: &Row) -> String {
    let name: String = row.given("pluginName");
    let (volume, in_pod): (Option<Volume>, Option<PodVolume>) =
        (row.input("persistentVolume"), row.input("podVolume"));
    // Upstream's function takes both in one; here what is not there is not given.
    assert!(row.given::<bool>("specGiven") || (volume.is_none() && in_pod.is_none()));
    let full = plugin::qualified(&name, volume.as_ref(), in_pod.as_ref());
    row.check(json!({"name": full}), json!({"name": full}));
    let of = match (&volume, &in_pod) {
        (Some(_), _) => "a volume of the cluster",
        (None, Some(_)) => "a volume in a pod",
        (None, None) => "no volume",
    };
    format!("{name}, {of} -> {full}")
}
