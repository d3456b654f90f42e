//! Where volumes are: affinity and labels, as in `zone=a,b region=r; zone=c`, which is two terms of affinity.

use super::*;

/// The keys by the short names that the cases use.
const KEYS: [(&str, &str); 9] = [
    ("zone", "topology.kubernetes.io/zone"),
    ("region", "topology.kubernetes.io/region"),
    ("beta-zone", "failure-domain.beta.kubernetes.io/zone"),
    ("beta-region", "failure-domain.beta.kubernetes.io/region"),
    ("gce", "topology.gke.io/zone"),
    ("aws", "topology.ebs.csi.aws.com/zone"),
    ("cinder", "topology.cinder.csi.openstack.org/zone"),
    ("vsphere", "topology.csi.vmware.com/zone"),
    ("vsphere-region", "topology.csi.vmware.com/region"),
];

fn pairs(text: &str) -> Vec<(&str, &str)> {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').expect("a pair"));
    let full = |short| KEYS.iter().find(|(key, _)| *key == short).map_or(short, |(_, full)| *full);
    pairs.map(|(key, value)| (full(key), value)).collect()
}

fn terms(text: &str) -> Value {
    let expression = |(key, values): (&str, &str)| {
        let values: Vec<&str> = values.split(',').collect();
        json!({"key": key, "operator": "In", "values": values})
    };
    let terms = text.split(';').map(|term| pairs(term).into_iter().map(expression).collect::<Vec<_>>());
    terms.map(|term| json!({"matchExpressions": term})).collect()
}

/// A volume with labels and, if there is any, affinity; `source` is part of its spec.
fn volume(source: Value, labels: &str, affinity: &str) -> Volume {
    let mut volume: Volume = read(Value::from_iter([("spec", source)]));
    let labels = pairs(labels).into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    volume.metadata.labels = Some(labels.collect()).filter(|labels: &BTreeMap<_, _>| !labels.is_empty());
    if !affinity.is_empty() {
        let required = json!({"required": {"nodeSelectorTerms": terms(affinity)}});
        volume.spec.as_mut().unwrap().node_affinity = Some(read(required));
    }
    volume
}

fn in_tree(plugin: &str) -> Value {
    match plugin {
        "gce" => json!({"gcePersistentDisk": {"pdName": "test-disk", "fsType": "ext4"}}),
        "aws" => json!({"awsElasticBlockStore": {"volumeID": "vol01", "partition": 1, "readOnly": true}}),
        "cinder" => json!({"cinder": {"volumeID": "vol1", "fsType": "ext4"}}),
        "vsphere" => json!({"vsphereVolume": {"volumePath": "[a] b.vmdk"}}),
        _ => panic!("{plugin}"),
    }
}

fn csi(plugin: &str) -> Value {
    let (driver, handle) = match plugin {
        "gce" => ("pd.csi.storage.gke.io", "projects/p/zones/z/disks/d"),
        "aws" => ("ebs.csi.aws.com", "vol01"),
        "cinder" => ("cinder.csi.openstack.org", "vol1"),
        "vsphere" => ("csi.vsphere.vmware.com", "h"),
        _ => panic!("{plugin}"),
    };
    json!({"csi": {"driver": driver, "volumeHandle": handle}})
}

fn affinity_of(volume: &Volume) -> Value {
    let terms = crate::objects::topology::required(volume).map(|selector| &selector.node_selector_terms);
    serde_json::to_value(terms).unwrap()
}

#[rstest::rstest]
#[case("gce", "beta-zone=us-east-1a beta-region=us-east-1", "", "gce=us-east-1a")]
#[case("gce", "zone=us-east-1a region=us-east-1", "", "gce=us-east-1a")]
#[case("gce", "", "beta-zone=us-east-2a", "gce=us-east-2a")]
#[case("gce", "", "gce=us-east-2a", "gce=us-east-2a")]
#[case("gce", "beta-zone=us-east-1a", "beta-zone=us-east-2a", "gce=us-east-2a")]
#[case("gce", "beta-zone=europe-west1-b__europe-west1-c", "", "gce=europe-west1-b,europe-west1-c")]
#[case("gce", "zone=europe-west1-c__europe-west1-b", "", "gce=europe-west1-b,europe-west1-c")]
#[case("gce", "", "zone=europe-west1-b,europe-west1-c", "gce=europe-west1-b,europe-west1-c")]
#[case("gce", "beta-zone=eu-west1-b__eu-west1-c", "beta-zone=eu-west1-f", "gce=eu-west1-f")]
#[case("gce", "zone=eu-west1-b__eu-west1-c", "zone=eu-west1-f,eu-west1-g", "gce=eu-west1-f,eu-west1-g")]
#[case("gce", "", "zone=europe-west1-f; zone=europe-west1-g", "gce=europe-west1-f; gce=europe-west1-g")]
#[case("gce", "zone=us-east1-a region=us-east1", "zone=a region=r", "gce=a region=r")]
#[case("gce", "zone=us-east1-a region=us-east1", "beta-zone=b beta-region=r", "gce=b region=r")]
#[case("aws", "beta-zone=us-east-1a beta-region=us-east-1", "", "aws=us-east-1a")]
#[case("aws", "beta-zone=us-east-1a", "beta-zone=us-east-2a", "aws=us-east-2a")]
#[case("aws", "zone=us-east-1a region=us-east-1", "", "aws=us-east-1a")]
#[case("aws", "zone=us-east-1a", "zone=us-east-2a", "aws=us-east-2a")]
#[case("cinder", "beta-zone=us-east-1a", "", "cinder=us-east-1a")]
#[case("cinder", "beta-zone=us-east-1a", "beta-zone=us-east-2a", "cinder=us-east-2a")]
#[case("cinder", "zone=f__a__c__b__a", "x=y; v=w", "x=y cinder=a,b,c,f; v=w cinder=a,b,c,f")]
#[case("cinder", "zone=__", "x=y", "x=y")]
#[case("vsphere", "beta-zone=z1 beta-region=r1", "", "vsphere=z1 vsphere-region=r1")]
#[case("vsphere", "zone=z1 region=r1", "", "vsphere=z1 vsphere-region=r1")]
#[case("vsphere", "zone=z1__z2", "", "vsphere=z1__z2")]
#[case("vsphere", "region=r2", "zone=z1", "vsphere=z1 vsphere-region=r2")]
fn to_the_driver(
    #[case] plugin: &str,
    #[case] labels: &str,
    #[case] affinity: &str,
    #[case] translated: &str,
) {
    let translation = volume_to_csi(&volume(in_tree(plugin), labels, affinity)).unwrap();
    assert_eq!(affinity_of(&translation), terms(translated));
    let unchanged = volume(in_tree(plugin), labels, "").metadata.labels;
    assert_eq!(translation.metadata.labels, unchanged);
}

#[rstest::rstest]
#[case(
    ("gce", "zone=us-east1-a region=us-east1", "region=us-east1 gce=us-east1-a"),
    ("zone=us-east1-a region=us-east1", "region=us-east1 zone=us-east1-a")
)]
#[case(
    ("gce", "beta-zone=us-west2-b beta-region=us-west2", "beta-region=us-west2 gce=us-west2-b"),
    ("beta-zone=us-west2-b beta-region=us-west2", "beta-region=us-west2 beta-zone=us-west2-b")
)]
#[case(
    ("gce", "zone=existing region=existing", "gce=us-east1-a"),
    ("zone=existing region=existing", "zone=us-east1-a region=us-east1")
)]
#[case(("gce", "", "gce=us-east1-a"), ("zone=us-east1-a region=us-east1", "zone=us-east1-a region=us-east1"))]
#[case(
    ("gce", "", "beta-zone=us-west2-b"),
    ("beta-zone=us-west2-b beta-region=us-west2", "beta-zone=us-west2-b beta-region=us-west2")
)]
#[case(
    ("gce", "", "gce=us-east1-a; gce=us-east1-c"),
    ("zone=us-east1-a__us-east1-c region=us-east1", "zone=us-east1-a region=us-east1; zone=us-east1-c region=us-east1")
)]
#[case(("aws", "", "aws=us-east-1a"), ("zone=us-east-1a region=us-east-1", "zone=us-east-1a region=us-east-1"))]
#[case(("cinder", "", "cinder=nova"), ("zone=nova", "zone=nova"))]
#[case(("cinder", "", "cinder=a zone=c"), ("zone=a__c", "zone=a zone=c"))]
#[case(
    ("vsphere", "", "vsphere=z1 vsphere-region=r1"),
    ("zone=z1 region=r1", "zone=z1 region=r1")
)]
fn to_the_plugin(#[case] before: (&str, &str, &str), #[case] after: (&str, &str)) {
    let (plugin, labels, affinity) = before;
    let translated = volume_to_in_tree(&volume(csi(plugin), labels, affinity)).unwrap();
    let wanted = volume(json!({}), after.0, after.1);
    assert_eq!(affinity_of(&translated), affinity_of(&wanted));
    assert_eq!(translated.metadata.labels, wanted.metadata.labels);
}

#[test]
fn without_affinity_there_is_no_region_to_find() {
    let translated = volume_to_in_tree(&volume(csi("gce"), "zone=z", "")).unwrap();
    assert_eq!(affinity_of(&translated), Value::Null);
    let elsewhere = volume(csi("gce"), "", "gce=us-east1-a,us-west1-a");
    assert!(matches!(volume_to_in_tree(&elsewhere), Err(Untranslatable::Region(_))));
}
