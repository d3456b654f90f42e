//! Decides whether the source of a persistent volume says enough to be found. Answers to the
//! `validate…VolumeSource` functions of `kubernetes/pkg/apis/core/validation`.

use crate::status::Cause;
use crate::validate::claims;
use crate::validate::field::{Causes, Field};
use crate::validate::names;
use crate::validate::volumes::legacy;

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Every kind of volume source, in the order in which upstream looks; exactly one must be there.
pub(crate) const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) fn check(spec: &Field<'_>, volume: &str, causes: &mut Causes) {
    let present: Vec<&str> = SOURCES.iter().copied().filter(|source| spec.at(source).is_set()).collect();
    let Some((first, more)) = present.split_first() else {
        causes.push(spec.required("must specify a volume type"));
        return;
    };
    let source = spec.at(first);
    match *first {
        "hostPath" => host_path(&source, causes),
        "local" => {
            source.at("path").need(causes);
            backsteps(&source.at("path"), causes);
        }
        "nfs" => {
            source.at("server").need(causes);
            source.at("path").need(causes);
            if !source.at("path").text().starts_with('/') {
                causes.push(source.at("path").invalid("must be an absolute path"));
            }
        }
        "csi" => csi(&source, causes),
        "gcePersistentDisk" => {
            let named = Field::new(source.value, format!("{}.persistentDisk", spec.path));
            required_fields(first, &named, causes);
        }
        _ => required_fields(first, &source, causes),
    }
    legacy::check(first, &source, volume, causes);
    if *first == "local" && !spec.at("nodeAffinity").is_set() {
        causes.push(spec.at("nodeAffinity").required("Local volume requires node affinity"));
    }
    let why = "may not specify more than 1 volume type";
    for kind in more.iter().filter(|kind| **kind != "flexVolume") {
        let shown = if *kind == "cephfs" { "cephFS" } else { kind };
        causes.push(Cause::forbidden(format!("{}.{shown}", spec.path), why));
    }
    let root = spec.at("hostPath.path").text();
    let is_root = !root.is_empty() && root.split('/').all(|part| part.is_empty() || part == ".");
    if is_root && spec.at("persistentVolumeReclaimPolicy").text() == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        causes.push(spec.at("persistentVolumeReclaimPolicy").forbidden(why));
    }
}

/// A path on the node, of a volume or a pod.
pub(crate) fn host_path(source: &Field<'_>, causes: &mut Causes) {
    let path = source.at("path");
    if path.is_empty() {
        causes.push(path.required(""));
        return;
    }
    backsteps(&path, causes);
    if source.at("type").is_set() {
        source.at("type").must_be_one_of(HOST_PATH_TYPES, causes);
    }
}

fn backsteps(path: &Field<'_>, causes: &mut Causes) {
    if path.text().split('/').any(|part| part == "..") {
        causes.push(path.invalid("must not contain '..'"));
    }
}

fn csi(source: &Field<'_>, causes: &mut Causes) {
    claims::driver_name(&source.at("driver"), causes);
    source.at("volumeHandle").need(causes);
    for secret in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.at(secret);
        if secret.is_set() {
            secret.at("name").need_and_follow(names::subdomain, causes);
            secret.at("namespace").need_and_follow(names::label, causes);
        }
    }
}

/// The fields without which a source of the older plugins names nothing.
pub(crate) fn required_fields(kind: &str, source: &Field<'_>, causes: &mut Causes) {
    let fields: &[&str] = match kind {
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => &["volumeID"],
        "glusterfs" => &["endpoints", "path"],
        "rbd" => &["monitors", "image"],
        "quobyte" => &["registry", "volume"],
        "cephfs" => &["monitors"],
        "iscsi" => &["targetPortal", "iqn"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "azureDisk" => &["diskName", "diskURI"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        "storageos" => &["volumeName"],
        _ => &[],
    };
    for field in fields {
        source.at(field).need(causes);
    }
    if matches!(kind, "gcePersistentDisk" | "awsElasticBlockStore") {
        let partition = source.at("partition");
        if partition.is_set() && !(0..=255).contains(&partition.number().unwrap_or(0)) {
            causes.push(partition.invalid("must be between 0 and 255, inclusive"));
        }
    }
    match kind {
        "iscsi" => iscsi(source, causes),
        "fc" => fibre(source, causes),
        "flocker" => {
            let (name, id) = (source.at("datasetName"), source.at("datasetUUID"));
            if name.is_empty() && id.is_empty() {
                causes.push(source.required("one of datasetName and datasetUUID is required"));
            } else if !name.is_empty() && !id.is_empty() {
                causes
                    .push(source.invalid(
                        "resource: datasetName and datasetUUID can not be specified simultaneously",
                    ));
            }
        }
        _ => {}
    }
}

fn iscsi(source: &Field<'_>, causes: &mut Causes) {
    let (name, lun) = (source.at("iqn"), source.at("lun"));
    let known = ["iqn", "eui", "naa"].iter().any(|start| name.text().starts_with(start));
    if !name.is_empty() && !known {
        causes.push(name.invalid("must be valid format starting with iqn, eui, or naa"));
    } else if !name.is_empty() && !legacy::is_iscsi_name(name.text()) {
        causes.push(name.invalid("must be valid format"));
    }
    if !(0..=255).contains(&lun.number().unwrap_or(0)) {
        causes.push(lun.invalid("must be between 0 and 255, inclusive"));
    }
}

fn fibre(source: &Field<'_>, causes: &mut Causes) {
    let (ports, ids, lun) = (source.at("targetWWNs"), source.at("wwids"), source.at("lun"));
    if ports.is_empty() && ids.is_empty() {
        causes.push(ports.required("must specify either targetWWNs or wwids, but not both"));
    }
    if !ports.is_empty() && !ids.is_empty() {
        causes.push(ports.invalid("targetWWNs and wwids can not be specified simultaneously"));
    }
    if !ports.is_empty() {
        if !lun.is_set() {
            causes.push(lun.required("lun is required if targetWWNs is specified"));
        } else if !(0..=255).contains(&lun.number().unwrap_or(0)) {
            causes.push(lun.invalid("must be between 0 and 255, inclusive"));
        }
    }
}
