//! Disks that stand in pods, and that two pods on one node must not have at once.
//!
//! Only volumes whose source stands in the pod itself; those of claims have access modes. Answers to upstream's plugin
//! `VolumeRestrictions` (`isVolumeConflict`).

use k8s_openapi::api::core::v1::Volume as PodVolume;

use super::unfit::Unfit;
use crate::cluster::Cluster;
use crate::objects::{Node, Pod, name};

/// The disks that stand in a pod.
#[derive(Debug)]
pub struct Disks<'a>(Vec<&'a PodVolume>);

fn volumes(pod: &Pod) -> &[PodVolume] {
    pod.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default()
}

/// Whether two pods must not have the two at once on one node.
fn clash(one: &PodVolume, other: &PodVolume) -> bool {
    let writes = |read_only: [Option<bool>; 2]| read_only.iter().any(|read_only| *read_only != Some(true));
    let gce = one.gce_persistent_disk.as_ref().zip(other.gce_persistent_disk.as_ref());
    let aws = one.aws_elastic_block_store.as_ref().zip(other.aws_elastic_block_store.as_ref());
    let iscsi = one.iscsi.as_ref().zip(other.iscsi.as_ref());
    let rbd = one.rbd.as_ref().zip(other.rbd.as_ref());
    let pool = |pool: &Option<String>| pool.clone().unwrap_or_else(|| "rbd".to_owned());
    gce.is_some_and(|(a, b)| a.pd_name == b.pd_name && writes([a.read_only, b.read_only]))
        || aws.is_some_and(|(a, b)| a.volume_id == b.volume_id)
        || iscsi.is_some_and(|(a, b)| a.iqn == b.iqn && writes([a.read_only, b.read_only]))
        || rbd.is_some_and(|(a, b)| {
            let is_same = a.image == b.image && pool(&a.pool) == pool(&b.pool);
            is_same
                && a.monitors.iter().any(|monitor| b.monitors.contains(monitor))
                && writes([a.read_only, b.read_only])
        })
}

impl<'a> Disks<'a> {
    /// The disks of the pod.
    #[must_use]
    pub fn of(pod: &'a Pod) -> Self {
        let is_disk = |volume: &&PodVolume| {
            volume.gce_persistent_disk.is_some()
                || volume.aws_elastic_block_store.is_some()
                || volume.iscsi.is_some()
                || volume.rbd.is_some()
        };
        Disks(volumes(pod).iter().filter(is_disk).collect())
    }

    /// Whether no pod on the node has one of them.
    ///
    /// # Errors
    /// The pod that has it.
    pub fn free<'s>(&self, cluster: &'s Cluster, node: &Node) -> Result<(), Unfit<'s>> {
        if self.0.is_empty() {
            return Ok(());
        }
        let in_use = cluster.in_use(name(&node.metadata));
        let mut pods = in_use.into_iter().flat_map(|in_use| &in_use.pods);
        let has_one = |pod: &Pod| volumes(pod).iter().any(|held| self.0.iter().any(|disk| clash(disk, held)));
        match pods.find(|key| cluster.pod(key).is_some_and(|pod| has_one(pod))) {
            Some(holder) => Err(Unfit::DiskInUse { holder }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::cluster::{Key, Object};

    fn gce(disk: &str, read_only: bool) -> Value {
        json!({"gcePersistentDisk": {"pdName": disk, "readOnly": read_only}})
    }

    fn iscsi(iqn: &str, read_only: bool) -> Value {
        json!({"iscsi": {"targetPortal": "127.0.0.1:3260", "lun": 0, "iqn": iqn, "readOnly": read_only}})
    }

    fn rbd(monitors: [&str; 2], pool: &str, read_only: bool) -> Value {
        json!({"rbd": {"monitors": monitors, "pool": pool, "image": "bar", "readOnly": read_only}})
    }

    fn aws(id: &str) -> Value {
        json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": true}})
    }

    /// The facts of upstream's `TestGCEDiskConflicts`, `TestAWSDiskConflicts`, `TestRBDDiskConflicts` and
    /// `TestISCSIDiskConflicts`, restated, and what only reads.
    #[rstest]
    #[case(json!({"emptyDir": {}}), gce("foo", false), true)]
    #[case(gce("foo", false), gce("foo", false), false)]
    #[case(gce("bar", false), gce("foo", false), true)]
    #[case(gce("foo", true), gce("foo", false), false)]
    #[case(gce("foo", true), gce("foo", true), true)]
    #[case(aws("foo"), aws("foo"), false)]
    #[case(aws("bar"), aws("foo"), true)]
    #[case(rbd(["a", "b"], "foo", false), rbd(["a", "b"], "foo", false), false)]
    #[case(rbd(["c", "d"], "foo", false), rbd(["a", "b"], "foo", false), true)]
    #[case(rbd(["b", "c"], "foo", false), rbd(["a", "b"], "foo", true), false)]
    #[case(rbd(["a", "b"], "bar", false), rbd(["a", "b"], "foo", false), true)]
    #[case(iscsi("iqn.2016-12.server:1", false), iscsi("iqn.2016-12.server:1", false), false)]
    #[case(iscsi("iqn.2017-12.server:1", false), iscsi("iqn.2016-12.server:1", false), true)]
    #[case(iscsi("iqn.2016-12.server:1", true), iscsi("iqn.2016-12.server:1", true), true)]
    fn a_disk_is_for_one_pod_or_for_readers(
        #[case] mut wanted: Value,
        #[case] mut held: Value,
        #[case] free: bool,
    ) {
        let pod = |name: &str, node: &str, volume: &mut Value| -> Pod {
            volume["name"] = json!("v");
            let spec = json!({"nodeName": node, "containers": [], "volumes": [volume]});
            from_value(json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})).unwrap()
        };
        let node: Node = from_value(json!({"metadata": {"name": "n"}})).unwrap();
        let mut cluster = Cluster::new();
        cluster.show(Object::from(pod("holder", "n", &mut held)));
        let wanting = pod("p", "", &mut wanted);
        let holder = Key::pod("default", "holder");
        let expected = if free { Ok(()) } else { Err(Unfit::DiskInUse { holder: &holder }) };
        assert_eq!(Disks::of(&wanting).free(&cluster, &node), expected);
    }
}
