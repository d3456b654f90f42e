//! Sources of volumes: names at the provider, file systems, secrets.

use super::*;

const DISK: &str = "/subscriptions/12/resourceGroups/23/providers/Microsoft.Compute/disks/name";
const VMDK: &str = "[vsanDatastore] 6785a85e/kubernetes-dynamic-pvc-68734c9f.vmdk";

fn volume(metadata: Value, spec: Value) -> Volume {
    read(Value::from_iter([("metadata", metadata), ("spec", spec)]))
}

#[rstest::rstest]
#[case::ebs(
    json!({"awsElasticBlockStore": {"volumeID": "aws:///vol-1", "fsType": "ext3", "partition": 1, "readOnly": true}}),
    json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext3", "readOnly": true,
        "volumeAttributes": {"partition": "1"}}),
)]
#[case::pd(
    json!({"gcePersistentDisk": {"pdName": "d", "fsType": "ext4", "partition": 2}}),
    json!({"driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        "fsType": "ext4", "volumeAttributes": {"partition": "2"}}),
)]
#[case::azure_disk(
    json!({"azureDisk": {"cachingMode": "cachingmode", "diskName": "", "diskURI": DISK, "fsType": "fstype", "readOnly": true}}),
    json!({"driver": "disk.csi.azure.com", "volumeHandle": DISK, "fsType": "fstype", "readOnly": true,
        "volumeAttributes": {"cachingmode": "cachingmode", "fstype": "fstype", "kind": "Managed"}}),
)]
#[case::cinder(
    json!({"cinder": {"volumeID": "v", "fsType": "ext4"}}),
    json!({"driver": "cinder.csi.openstack.org", "volumeHandle": "v", "fsType": "ext4"}),
)]
#[case::vsphere(
    json!({"vsphereVolume": {"volumePath": VMDK, "fsType": "ext4", "storagePolicyName": "vSAN Default Storage Policy"}}),
    json!({"driver": "csi.vsphere.vmware.com", "volumeHandle": VMDK, "fsType": "ext4",
        "volumeAttributes": {"storagepolicyname": "vSAN Default Storage Policy"}}),
)]
#[case::portworx(
    json!({"portworxVolume": {"volumeID": "ID1111", "fsType": "type"}}),
    json!({"driver": "pxd.portworx.com", "volumeHandle": "ID1111", "fsType": "type"}),
)]
fn to_the_driver(#[case] spec: Value, #[case] csi: Value) {
    let translated = volume_to_csi(&volume(json!({"name": "v"}), spec)).unwrap();
    assert_eq!(translated, volume(json!({"name": "v"}), json!({"csi": csi})));
}

#[rstest::rstest]
#[case::caching("cachingmode", "fstype", "ReadOnly")]
#[case::none("cachingMode", "fsType", "None")]
#[case::both("cachingMode", "fsType", "ReadWrite")]
fn azure_disk_to_the_plugin(#[case] caching: &str, #[case] fs_type: &str, #[case] mode: &str) {
    let csi = json!({"driver": "disk.csi.azure.com", "volumeHandle": DISK, "fsType": "fstype", "readOnly": true,
        "volumeAttributes": {caching: mode, fs_type: "fstype", "kind": "managed"}});
    let disk = json!({"cachingMode": mode, "diskURI": DISK, "diskName": "name", "fsType": "fstype", "readOnly": true,
        "kind": "Managed"});
    let translated = volume_to_in_tree(&volume(json!({}), json!({"csi": csi})));
    assert_eq!(translated, Ok(volume(json!({}), json!({"azureDisk": disk}))));
}

#[test]
fn a_disk_that_is_not_managed_has_no_translation() {
    let blob = json!({"azureDisk": {"diskName": "n", "diskURI": "u", "kind": "Dedicated"}});
    let refused = volume_to_csi(&volume(json!({}), blob));
    assert_eq!(refused, Err(Untranslatable::DiskKind("Dedicated".to_owned())));
}

#[rstest::rstest]
#[case::of_the_volume(None, Some("sn"), None, Some("#secretname#sharename#uuid#sn"))]
#[case::in_a_group(Some("rg"), Some("sn"), None, Some("rg#secretname#sharename#uuid#sn"))]
#[case::of_the_claim(Some("rg"), None, Some("sn"), Some("rg#secretname#sharename#uuid#sn"))]
#[case::of_nobody(Some("rg"), None, None, None)]
fn azure_file_to_the_driver(
    #[case] group: Option<&str>,
    #[case] namespace: Option<&str>,
    #[case] of_claim: Option<&str>,
    #[case] handle: Option<&str>,
) {
    let annotations = group.map(|group| json!({"kubernetes.io/azure-file-resource-group": group}));
    let metadata = json!({"name": "uuid", "annotations": annotations});
    let claim = of_claim.map(|namespace| json!({"namespace": namespace}));
    let share = json!({"shareName": "sharename", "secretName": "secretname", "secretNamespace": namespace,
        "readOnly": true});
    let translated = volume_to_csi(&volume(metadata.clone(), json!({"azureFile": share, "claimRef": claim})));
    let wanted = handle.map(|handle| {
        let csi = json!({"driver": "file.csi.azure.com", "readOnly": true, "volumeHandle": handle,
            "nodeStageSecretRef": {"name": "secretname", "namespace": "sn"},
            "volumeAttributes": {"sharename": "sharename"}});
        volume(metadata, json!({"csi": csi, "claimRef": claim}))
    });
    assert_eq!(translated, wanted.ok_or(Untranslatable::SecretNamespace));
}

#[rstest::rstest]
#[case::staged(json!({"shareName": "s"}), Some("ut"), "", Some(("s", "ut", "sn", None)))]
#[case::no_secret(json!({"shareName": "s"}), None, "s", None)]
#[case::handle_for_secret(json!({"shareName": "s"}), None, "rg#st#p#d.vhd",
    Some(("s", "azure-storage-account-st-secret", "default", Some("rg"))))]
#[case::attributes(json!({"shareName": "s", "secretName": "n", "secretNamespace": "sn"}), None, "rg#st#p#d.vhd",
    Some(("s", "n", "sn", None)))]
#[case::staged_first(json!({"shareName": "s"}), Some("n"), "rg#st#p#d.vhd", Some(("s", "n", "sn", None)))]
#[case::handle(json!({}), None, "rg#st#p#d.vhd", Some(("p", "azure-storage-account-st-secret", "default", Some("rg"))))]
fn azure_file_to_the_plugin(
    #[case] attributes: Value,
    #[case] staged: Option<&str>,
    #[case] handle: &str,
    #[case] wanted: Option<(&str, &str, &str, Option<&str>)>,
) {
    let staged = staged.map(|name| json!({"name": name, "namespace": "sn"}));
    let csi = json!({"driver": "file.csi.azure.com", "volumeHandle": handle, "readOnly": true,
        "volumeAttributes": attributes, "nodeStageSecretRef": staged});
    let translated = volume_to_in_tree(&volume(json!({}), json!({"csi": csi})));
    let wanted = wanted.map(|(share, secret, namespace, group)| {
        let annotations = group.map(|group| json!({"kubernetes.io/azure-file-resource-group": group}));
        let share =
            json!({"shareName": share, "secretName": secret, "secretNamespace": namespace, "readOnly": true});
        volume(json!({"annotations": annotations}), json!({"azureFile": share}))
    });
    assert_eq!(translated, wanted.ok_or_else(|| Untranslatable::Handle(handle.to_owned())));
}

#[test]
fn vsphere_to_the_plugin() {
    let csi = json!({"driver": "csi.vsphere.vmware.com", "volumeHandle": "e4073a6d", "fsType": "ext4",
        "volumeAttributes": {"storagepolicyname": "p", "initialvolumefilepath": VMDK}});
    let translated = volume_to_in_tree(&volume(json!({"name": "v"}), json!({"csi": csi})));
    let disk = json!({"vsphereVolume": {"volumePath": VMDK, "fsType": "ext4"}});
    assert_eq!(translated, Ok(volume(json!({"name": "v"}), disk)));
}

#[test]
fn portworx_takes_its_secret_from_annotations() {
    let annotations =
        json!({"openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n"});
    let disk = json!({"portworxVolume": {"volumeID": "i"}});
    let translated = volume_to_csi(&volume(json!({"annotations": annotations}), disk)).unwrap();
    let secret = json!({"name": "s", "namespace": "n"});
    let csi = json!({"driver": "pxd.portworx.com", "volumeHandle": "i", "nodeExpandSecretRef": secret,
        "controllerPublishSecretRef": secret, "nodeStageSecretRef": secret, "nodePublishSecretRef": secret,
        "controllerExpandSecretRef": secret});
    assert_eq!(translated, volume(json!({"annotations": annotations}), json!({"csi": csi})));
}

#[rstest::rstest]
#[case::pd(json!({"gcePersistentDisk": {"pdName": "test-disk", "fsType": "ext4"}, "accessModes": ["ReadWriteOnce"]}))]
#[case::ebs(json!({"awsElasticBlockStore": {"volumeID": "vol01", "fsType": "ext3", "partition": 1, "readOnly": true}}))]
#[case::cinder(json!({"cinder": {"volumeID": "v", "fsType": "ext4"}}))]
#[case::portworx(json!({"portworxVolume": {"volumeID": "v", "fsType": "ext4"}}))]
fn there_and_back_nothing_has_changed(#[case] spec: Value) {
    let before = volume(json!({}), spec);
    assert_eq!(volume_to_in_tree(&volume_to_csi(&before).unwrap()), Ok(before));
}

#[rstest::rstest]
#[case(json!({"hostPath": {"path": "/a"}}))]
#[case(json!({"csi": {"driver": "a.example.com", "volumeHandle": "h"}}))]
#[case(json!({}))]
fn what_is_of_no_migrated_plugin_has_no_translation(#[case] spec: Value) {
    let volume = volume(json!({}), spec);
    assert_eq!(volume_to_csi(&volume), Err(Untranslatable::NotMigrated));
    assert_eq!(volume_to_in_tree(&volume), Err(Untranslatable::NotMigrated));
}

#[test]
fn a_partition_is_a_number() {
    let csi =
        json!({"driver": "ebs.csi.aws.com", "volumeHandle": "v", "volumeAttributes": {"partition": "one"}});
    let refused = volume_to_in_tree(&volume(json!({}), json!({"csi": csi})));
    assert_eq!(refused, Err(Untranslatable::Partition("one".to_owned())));
}
