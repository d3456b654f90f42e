//! CSI migration: drivers, annotations and finalizers, asked of the plans that correct them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pvbind::cluster::Object;
use pvbind::decide::controller::migration;
use pvbind::decide::{Plan, Reason, Settings};
use pvbind::objects::{Claim, Volume, annotations, translation, volume};
use serde_json::{Value, json};

use super::Row;

pub fn driver_of(row: &Row) -> String {
    let plugin: String = row.given("pluginName");
    let driver = translation::driver_among(translation::DRIVERS, &plugin);
    let expected = json!({
        "csiDriverName": driver.unwrap_or_default(),
        "error": row.unsaid(driver.is_none()),
        "migrationEnabled": driver.is_some(),
    });
    row.check(expected, json!({}));
    format!("{plugin:?} -> {}", driver.unwrap_or("not migrated"))
}

type Annotations = Option<BTreeMap<String, String>>;

pub fn annotations_of(row: &Row) -> String {
    let given = |field| ObjectMeta {
        name: Some("a".to_owned()),
        annotations: row.input(field),
        ..ObjectMeta::default()
    };
    let claim = Claim { metadata: given("claimAnnotations"), ..Claim::default() };
    let volume = Volume { metadata: given("volumeAnnotations"), ..Volume::default() };
    let mut claim_plan = Plan::nothing(Reason::Gone);
    let claim_after =
        migration::anneal_claim(&mut claim_plan, &Settings::default(), &Object::from(claim.clone()), &claim);
    let mut volume_plan = Plan::nothing(Reason::Gone);
    let volume_after = migration::anneal_volume(
        &mut volume_plan,
        &Settings::default(),
        &Object::from(volume.clone()),
        &volume,
    );
    let after = |object: &Object| object.metadata().annotations.clone();
    let (claim_after, volume_after) = (after(&claim_after), after(&volume_after));
    // Upstream is not asked about an object without a map of annotations.
    let modified = |plan: &Plan, before: &Annotations| {
        let modified = plan.writes().count() > 0;
        assert!(before.is_some() || !modified);
        before.is_some().then_some(modified)
    };
    let observed = json!({
        "claimModified": modified(&claim_plan, &claim.metadata.annotations),
        "volumeModified": modified(&volume_plan, &volume.metadata.annotations),
    });
    row.check(json!({"claimAnnotations": claim_after, "volumeAnnotations": volume_after}), observed);
    format!(
        "claim {} -> {}; volume {} -> {}",
        told(&claim.metadata.annotations),
        told(&claim_after),
        told(&volume.metadata.annotations),
        told(&volume_after)
    )
}

fn told(all: &Annotations) -> String {
    let Some(all) = all else { return "(no map)".to_owned() };
    let all: Vec<String> = all
        .iter()
        .map(|(key, value)| format!("{}={value}", key.split_once('/').map_or(key.as_str(), |(_, name)| name)))
        .collect();
    format!("[{}]", all.join(", "))
}

pub fn finalizers(row: &Row) -> String {
    let volume: Volume = row.given("volume");
    let mut plan = Plan::nothing(Reason::Gone);
    let after =
        migration::anneal_volume(&mut plan, &Settings::default(), &Object::from(volume.clone()), &volume);
    let before = volume.metadata.finalizers.clone().unwrap_or_default();
    let after = after.metadata().finalizers.clone().unwrap_or_default();
    assert_eq!(after, migration::finalizers(&Settings::default(), &volume), "the plan does what it says");
    // Upstream keeps no list and an empty one apart, but its comparison does not.
    let list = if after.is_empty() { Value::Null } else { json!(after) };
    let answer = json!({"finalizers": list, "modified": after != before});
    row.check(answer.clone(), answer);
    let annotation =
        |key| volume.metadata.annotations.iter().flatten().find(|(k, _)| *k == key).map(|(_, v)| v);
    let made_by = annotation(annotations::PROVISIONED_BY).map_or("nobody", String::as_str);
    let policy = volume::reclaim_policy(&volume);
    format!("made by {made_by}, {policy}, [{}] -> [{}]", before.join(", "), after.join(", "))
}
