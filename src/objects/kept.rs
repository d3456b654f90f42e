//! A volume as it is kept: all that the API says of it, in as little memory as may be.
//!
//! A cluster has many volumes, and each has one of two dozen sources. The client library's type has room for all of
//! them in every volume, three times as much as the rest of it takes; here each stands behind a pointer. Nothing is
//! left out and nothing decided: a volume is read and written as the client library has it. Answers to no upstream
//! function.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, AzureFilePersistentVolumeSource,
    CSIPersistentVolumeSource, CephFSPersistentVolumeSource, CinderPersistentVolumeSource, FCVolumeSource,
    FlexPersistentVolumeSource, FlockerVolumeSource, GCEPersistentDiskVolumeSource,
    GlusterfsPersistentVolumeSource, HostPathVolumeSource, ISCSIPersistentVolumeSource, LocalVolumeSource,
    NFSVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus,
    PhotonPersistentDiskVolumeSource, PortworxVolumeSource, QuobyteVolumeSource, RBDPersistentVolumeSource,
    ScaleIOPersistentVolumeSource, StorageOSPersistentVolumeSource, VolumeNodeAffinity,
    VsphereVirtualDiskVolumeSource,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, ListableResource, Metadata, Resource};
use serde::{Deserialize, Serialize};

/// A `PersistentVolume`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(from = "PersistentVolume", into = "PersistentVolume")]
pub struct Volume {
    /// What every object has.
    pub metadata: ObjectMeta,
    /// What it offers, where it is, and whose it is.
    pub spec: Option<VolumeSpec>,
    /// What has become of it.
    pub status: Option<PersistentVolumeStatus>,
}

impl From<PersistentVolume> for Volume {
    fn from(volume: PersistentVolume) -> Self {
        let PersistentVolume { metadata, spec, status } = volume;
        Volume { metadata, spec: spec.map(VolumeSpec::from), status }
    }
}

impl From<Volume> for PersistentVolume {
    fn from(volume: Volume) -> Self {
        let Volume { metadata, spec, status } = volume;
        PersistentVolume { metadata, spec: spec.map(PersistentVolumeSpec::from), status }
    }
}

impl Resource for Volume {
    const API_VERSION: &'static str = PersistentVolume::API_VERSION;
    const GROUP: &'static str = PersistentVolume::GROUP;
    const KIND: &'static str = PersistentVolume::KIND;
    const VERSION: &'static str = PersistentVolume::VERSION;
    const URL_PATH_SEGMENT: &'static str = PersistentVolume::URL_PATH_SEGMENT;
    type Scope = ClusterResourceScope;
}

impl ListableResource for Volume {
    const LIST_KIND: &'static str = PersistentVolume::LIST_KIND;
}

impl Metadata for Volume {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Amounts by resource: those of a volume, which are seldom more than one, where a tree has room for eleven.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amounts(Box<[(String, Quantity)]>);

impl Amounts {
    /// The amount of a resource.
    #[must_use]
    pub fn get(&self, resource: &str) -> Option<&Quantity> {
        self.0.iter().find(|(name, _)| name == resource).map(|(_, amount)| amount)
    }
}

impl From<BTreeMap<String, Quantity>> for Amounts {
    fn from(amounts: BTreeMap<String, Quantity>) -> Self {
        Amounts(amounts.into_iter().collect())
    }
}

impl From<Amounts> for BTreeMap<String, Quantity> {
    fn from(amounts: Amounts) -> Self {
        amounts.0.into_iter().collect()
    }
}

/// Every field of the client library's type is named here, or this does not compile.
macro_rules! spec {
    (plain { $($plain:ident: $type:ty,)* } shorter { $($shorter:ident: $short:ty,)* } sources { $($source:ident: $of:ty,)* }) => {
        /// A `PersistentVolumeSpec`; each field is the API's, and documented there.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[expect(missing_docs, reason = "each field is the API's, and documented there")]
        pub struct VolumeSpec {
            $(pub $plain: Option<$type>,)*
            $(pub $shorter: Option<$short>,)*
            $(pub $source: Option<Box<$of>>,)*
        }

        impl From<PersistentVolumeSpec> for VolumeSpec {
            fn from(spec: PersistentVolumeSpec) -> Self {
                let PersistentVolumeSpec { $($plain,)* $($shorter,)* $($source,)* } = spec;
                VolumeSpec {
                    $($plain,)*
                    $($shorter: $shorter.map(Into::into),)*
                    $($source: $source.map(Box::new),)*
                }
            }
        }

        impl From<VolumeSpec> for PersistentVolumeSpec {
            fn from(spec: VolumeSpec) -> Self {
                let VolumeSpec { $($plain,)* $($shorter,)* $($source,)* } = spec;
                PersistentVolumeSpec {
                    $($plain,)*
                    $($shorter: $shorter.map(Into::into),)*
                    $($source: $source.map(|source| *source),)*
                }
            }
        }
    };
}

spec! {
    plain {
        access_modes: Vec<String>,
        claim_ref: ObjectReference,
        mount_options: Vec<String>,
        node_affinity: VolumeNodeAffinity,
        persistent_volume_reclaim_policy: String,
        storage_class_name: String,
        volume_attributes_class_name: String,
        volume_mode: String,
    }
    shorter {
        capacity: Amounts,
    }
    sources {
        aws_elastic_block_store: AWSElasticBlockStoreVolumeSource,
        azure_disk: AzureDiskVolumeSource,
        azure_file: AzureFilePersistentVolumeSource,
        cephfs: CephFSPersistentVolumeSource,
        cinder: CinderPersistentVolumeSource,
        csi: CSIPersistentVolumeSource,
        fc: FCVolumeSource,
        flex_volume: FlexPersistentVolumeSource,
        flocker: FlockerVolumeSource,
        gce_persistent_disk: GCEPersistentDiskVolumeSource,
        glusterfs: GlusterfsPersistentVolumeSource,
        host_path: HostPathVolumeSource,
        iscsi: ISCSIPersistentVolumeSource,
        local: LocalVolumeSource,
        nfs: NFSVolumeSource,
        photon_persistent_disk: PhotonPersistentDiskVolumeSource,
        portworx_volume: PortworxVolumeSource,
        quobyte: QuobyteVolumeSource,
        rbd: RBDPersistentVolumeSource,
        scale_io: ScaleIOPersistentVolumeSource,
        storageos: StorageOSPersistentVolumeSource,
        vsphere_volume: VsphereVirtualDiskVolumeSource,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, from_value, json, to_value};

    #[rstest]
    #[case("awsElasticBlockStore", json!({"volumeID": "v", "partition": 1}))]
    #[case("azureDisk", json!({"diskName": "d", "diskURI": "u"}))]
    #[case("azureFile", json!({"secretName": "s", "shareName": "n", "secretNamespace": "x"}))]
    #[case("cephfs", json!({"monitors": ["m"]}))]
    #[case("cinder", json!({"volumeID": "v"}))]
    #[case("csi", json!({"driver": "d", "volumeHandle": "h", "volumeAttributes": {"a": "b"}}))]
    #[case("fc", json!({"wwids": ["w"]}))]
    #[case("flexVolume", json!({"driver": "d"}))]
    #[case("flocker", json!({"datasetName": "d"}))]
    #[case("gcePersistentDisk", json!({"pdName": "p"}))]
    #[case("glusterfs", json!({"endpoints": "e", "path": "p"}))]
    #[case("hostPath", json!({"path": "/p", "type": "Directory"}))]
    #[case("iscsi", json!({"targetPortal": "t", "iqn": "q", "lun": 3}))]
    #[case("local", json!({"path": "/p"}))]
    #[case("nfs", json!({"server": "s", "path": "/p"}))]
    #[case("photonPersistentDisk", json!({"pdID": "p"}))]
    #[case("portworxVolume", json!({"volumeID": "v"}))]
    #[case("quobyte", json!({"registry": "r", "volume": "v"}))]
    #[case("rbd", json!({"monitors": ["m"], "image": "i"}))]
    #[case("scaleIO", json!({"gateway": "g", "system": "s", "secretRef": {"name": "n"}}))]
    #[case("storageos", json!({"volumeName": "v"}))]
    #[case("vsphereVolume", json!({"volumePath": "p"}))]
    fn nothing_of_a_volume_is_lost(#[case] source: &str, #[case] of: Value) {
        let whole = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": "v", "labels": {"l": "x"}, "annotations": {"a": "y"}, "resourceVersion": "7"},
            "spec": {
                source: of, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": "n", "name": "c", "uid": "u"}, "mountOptions": ["ro"],
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": []}]}},
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "s",
                "volumeAttributesClassName": "a", "volumeMode": "Block",
            },
            "status": {"phase": "Released", "message": "m", "reason": "r"},
        });
        let kept = from_value::<Volume>(whole.clone()).unwrap();
        let by_client = from_value::<PersistentVolume>(whole).unwrap();
        assert_eq!(to_value(kept).unwrap(), to_value(by_client).unwrap());
    }

    #[test]
    fn a_volume_takes_a_third_of_what_the_client_library_makes_of_it() {
        assert!(size_of::<Volume>() * 3 <= size_of::<PersistentVolume>(), "{} B", size_of::<Volume>());
    }
}
