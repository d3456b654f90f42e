//! The facts of the test tables of upstream's `csi-translation-lib`.

mod class;
mod place;
mod volume;

use serde_json::{Value, json};

use super::super::CsiNode;
use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn plugins_and_drivers_name_each_other() {
    for migration in &MIGRATIONS {
        assert_eq!(driver_among(DRIVERS, migration.plugin), Some(migration.driver));
        assert_eq!(plugin_of(migration.driver), Some(migration.plugin));
    }
    assert_eq!((driver_among(DRIVERS, "kubernetes.io/nfs"), plugin_of("nfs.csi.k8s.io")), (None, None));
}

#[test]
fn a_volume_is_translated_only_where_its_plugin_is_migrated() {
    let ebs: Volume = read(json!({
        "metadata": {"labels": {"topology.kubernetes.io/zone": "us-east-1a"}},
        "spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    }));
    let file: Volume = read(json!({
        "spec": {"azureFile": {"shareName": "s", "secretName": "s", "secretNamespace": "n"}},
    }));
    let node = |plugins: &str| {
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": plugins});
        read::<CsiNode>(json!({"metadata": {"annotations": annotations}, "spec": {"drivers": []}}))
    };
    let all = node("kubernetes.io/gce-pd,kubernetes.io/aws-ebs,kubernetes.io/azure-file");
    let other = node("kubernetes.io/gce-pd");
    let on = |volume, node| OnNodes::new(volume).on(|| node).cloned().map_err(Clone::clone);
    assert_eq!(on(&ebs, Some(&all)), volume_to_csi(&ebs));
    assert_eq!(on(&ebs, Some(&other)), Ok(ebs.clone()));
    assert_eq!(on(&ebs, None), Ok(ebs.clone()));
    assert_eq!(on(&file, Some(&all)), Ok(file.clone()), "the scheduler leaves the plugin out");
}
