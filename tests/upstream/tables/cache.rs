//! Which of two versions the controller's cache keeps: asked of the store.

use pvbind::cluster::store::Store;
use pvbind::cluster::{Kind, Object};
use pvbind::objects::Volume;
use serde_json::json;

use super::Row;

/// Upstream gives an error for a version that is no number; here it is older than any other. Either way the cache
/// stays as it is, and that is what is compared.
pub fn show(row: &Row) -> String {
    let (cache, shown): (Vec<Volume>, Volume) = (row.given("cache"), row.given("object"));
    let versions = |volumes: &[Volume]| {
        let versions = volumes.iter().map(|v| v.metadata.resource_version.clone().unwrap_or_default());
        versions.collect::<Vec<_>>().join(", ")
    };
    let mut store = Store::default();
    for volume in &cache {
        let object = Object::from(volume.clone());
        assert!(store.show(&object.key(), object), "the cache is empty");
    }
    let object = Object::from(shown.clone());
    let stored = store.show(&object.key(), object);
    let kept = store.of_kind(Kind::Volume).map(|object| (**object.as_volume().expect("a volume")).clone());
    let kept: Vec<Volume> = kept.collect();
    let is_number = versions(std::slice::from_ref(&shown)).parse::<u64>().is_ok();
    let expected =
        if is_number { json!({"error": false, "stored": stored}) } else { json!({"error": !stored}) };
    row.check(expected, json!({"error": row.unsaid(!is_number), "stored": stored, "cache": kept}));
    let (before, shown) = (versions(&cache), versions(&[shown]));
    format!("version [{before}] is known, {shown} is shown -> [{}]", versions(&kept))
}
