//! Classes: parameters and allowed topologies.

use super::*;

const AWS: &str = "kubernetes.io/aws-ebs";
const GCE: &str = "kubernetes.io/gce-pd";
const DISK: &str = "kubernetes.io/azure-disk";
const FILE: &str = "kubernetes.io/azure-file";
const CINDER: &str = "kubernetes.io/cinder";
const VSPHERE: &str = "kubernetes.io/vsphere-volume";
const PORTWORX: &str = "kubernetes.io/portworx-volume";

const BETA: &str = "failure-domain.beta.kubernetes.io/zone";
const STABLE: &str = "topology.kubernetes.io/zone";
const GCE_ZONE: &str = "topology.gke.io/zone";
const DISK_ZONE: &str = "topology.disk.csi.azure.com/zone";
const CINDER_ZONE: &str = "topology.cinder.csi.openstack.org/zone";
const VSPHERE_ZONE: &str = "topology.csi.vmware.com/zone";

/// A key with its values, separated by commas; no key stands for no topologies.
type Allowed<'a> = Option<(&'a str, &'a str)>;

fn class(provisioner: &str, parameters: &Value, allowed: Allowed) -> Class {
    let term = |(key, values): (&str, &str)| {
        let values: Vec<&str> = values.split(',').collect();
        json!([{"matchLabelExpressions": [{"key": key, "values": values}]}])
    };
    let mut class: Class = read(json!({"provisioner": provisioner, "parameters": parameters}));
    class.parameters.take_if(|parameters| parameters.is_empty());
    class.allowed_topologies = allowed.map(|allowed| read(term(allowed)));
    class
}

#[rstest::rstest]
#[case(AWS, json!({"foo": "bar"}), json!({"foo": "bar"}))]
#[case(AWS, json!({}), json!({}))]
#[case(AWS, json!({"fstype": "ext3"}), json!({"csi.storage.k8s.io/fstype": "ext3"}))]
#[case(AWS, json!({"iopsPerGB": "100"}), json!({"iopsPerGB": "100", "allowautoiopspergbincrease": "true"}))]
#[case(GCE, json!({"foo": "bar"}), json!({"foo": "bar"}))]
#[case(GCE, json!({"fsType": "myfs"}), json!({"csi.storage.k8s.io/fstype": "myfs"}))]
#[case(DISK, json!({"foo": "bar", "fstype": "ext4"}), json!({"foo": "bar", "fstype": "ext4"}))]
#[case(FILE, json!({"skuName": "a", "fstype": "b"}), json!({"skuName": "a", "fstype": "b"}))]
#[case(CINDER, json!({"fstype": "ext3"}), json!({"csi.storage.k8s.io/fstype": "ext3"}))]
#[case(CINDER, json!({"availability": "nova"}), json!({"availability": "nova"}))]
#[case(VSPHERE, json!({}), json!({"csimigration": "true"}))]
#[case(VSPHERE, json!({"unknownparam": "value"}), json!({"csimigration": "true"}))]
#[case(
    VSPHERE,
    json!({"storagepolicyname": "p", "datastore": "d", "fstype": "ext4", "diskformat": "thin", "iopslimit": "32",
        "hostfailurestotolerate": "1", "forceprovisioning": "yes", "cachereservation": "25", "diskstripes": "4",
        "objectspacereservation": "10"}),
    json!({"storagepolicyname": "p", "datastore-migrationparam": "d", "csi.storage.k8s.io/fstype": "ext4",
        "diskformat-migrationparam": "thin", "iopslimit-migrationparam": "32", "csimigration": "true",
        "hostfailurestotolerate-migrationparam": "1", "forceprovisioning-migrationparam": "yes",
        "cachereservation-migrationparam": "25", "diskstripes-migrationparam": "4",
        "objectspacereservation-migrationparam": "10"}),
)]
fn parameters(#[case] plugin: &str, #[case] before: Value, #[case] after: Value) {
    let translated = class_to_csi(plugin, &class(plugin, &before, None)).unwrap();
    assert_eq!(translated, class(plugin, &after, None));
}

#[rstest::rstest]
#[case(GCE, Some((GCE_ZONE, "foo")), Some((GCE_ZONE, "foo")))]
#[case(GCE, Some((BETA, "foo")), Some((GCE_ZONE, "foo")))]
#[case(GCE, Some(("test", "foo,bar")), Some(("test", "foo,bar")))]
#[case(AWS, Some((STABLE, "foo")), Some(("topology.ebs.csi.aws.com/zone", "foo")))]
#[case(DISK, Some((DISK_ZONE, "foo")), Some((DISK_ZONE, "foo")))]
#[case(DISK, Some((STABLE, "foo")), Some((DISK_ZONE, "foo")))]
#[case(DISK, Some((BETA, "foo")), Some((DISK_ZONE, "foo")))]
#[case(DISK, Some((STABLE, "0")), Some((DISK_ZONE, "")))]
#[case(DISK, Some((STABLE, "1234")), Some((DISK_ZONE, "")))]
#[case(DISK, Some((STABLE, "centralus-1")), Some((DISK_ZONE, "centralus-1")))]
#[case(FILE, Some((STABLE, "foo")), Some((STABLE, "foo")))]
#[case(CINDER, Some((BETA, "nova")), Some((CINDER_ZONE, "nova")))]
fn allowed_topologies(#[case] plugin: &str, #[case] before: Allowed, #[case] after: Allowed) {
    let translated = class_to_csi(plugin, &class(plugin, &json!({}), before)).unwrap();
    assert_eq!(translated, class(plugin, &json!({}), after));
}

#[rstest::rstest]
#[case(STABLE)]
#[case(BETA)]
fn allowed_topologies_and_parameters_of_vsphere(#[case] key: &str) {
    let before = class(VSPHERE, &json!({"storagepolicyname": "p"}), Some((key, "zone-a")));
    let after = json!({"storagepolicyname": "p", "csimigration": "true"});
    assert_eq!(class_to_csi(VSPHERE, &before), Ok(class(VSPHERE, &after, Some((VSPHERE_ZONE, "zone-a")))));
}

#[test]
fn a_term_may_have_the_key_twice() {
    let expressions = |first: &str| {
        let second = json!({"key": GCE_ZONE, "values": ["boo", "baz"]});
        let terms = json!([{"matchLabelExpressions": [{"key": first, "values": ["foo"]}, second]}]);
        Class { allowed_topologies: Some(read(terms)), ..Class::default() }
    };
    assert_eq!(class_to_csi(GCE, &expressions(BETA)), Ok(expressions(GCE_ZONE)));
}

#[rstest::rstest]
#[case(AWS, "topology.ebs.csi.aws.com/zone")]
#[case(GCE, GCE_ZONE)]
#[case(DISK, DISK_ZONE)]
fn the_parameters_zone_and_zones_become_allowed_topologies(#[case] plugin: &str, #[case] key: &str) {
    let translated = |parameters, allowed| class_to_csi(plugin, &class(plugin, &parameters, allowed));
    let wanted = |zones| Ok(class(plugin, &json!({}), Some((key, zones))));
    assert_eq!(translated(json!({"zone": "foo"}), None), wanted("foo"));
    assert_eq!(translated(json!({"Zones": "foo,bar,baz"}), None), wanted("foo,bar,baz"));
    let twice = translated(json!({"zone": "foo"}), Some((key, "foo")));
    assert_eq!(twice, Err(Untranslatable::ZonesTwice));
}

#[test]
fn portworx_gives_one_secret_to_every_use() {
    let secret = json!({
        "repl": "1", "openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n",
    });
    let mut wanted = json!({"repl": "1"});
    for of in [
        "provisioner",
        "controller-publish",
        "node-stage",
        "node-publish",
        "controller-expand",
        "node-expand",
    ] {
        wanted[format!("csi.storage.k8s.io/{of}-secret-name")] = json!("s");
        wanted[format!("csi.storage.k8s.io/{of}-secret-namespace")] = json!("n");
    }
    let translated = |parameters| class_to_csi(PORTWORX, &class(PORTWORX, &parameters, None));
    assert_eq!(translated(secret), Ok(class("pxd.portworx.com", &wanted, None)));
    assert_eq!(translated(json!({})), Ok(class("pxd.portworx.com", &json!({}), None)));
    let plain = json!({"repl": "1", "fs": "ext4", "shared": "true", "priority_io": "high"});
    assert_eq!(translated(plain.clone()), Ok(class("pxd.portworx.com", &plain, None)));
}

#[test]
fn a_plugin_that_is_not_migrated_has_no_translation() {
    let none = class_to_csi("kubernetes.io/nfs", &Class::default());
    assert_eq!(none, Err(Untranslatable::NotMigrated));
}
