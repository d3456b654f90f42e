//! The in-tree hostPath plugin: volumes that are directories of the machine that this program runs on.
//!
//! For tests on one machine only, as upstream says of it, and off unless asked for. A directory is named after its
//! claim's uid, so that making it again after a failure makes no second one. Answers to upstream's
//! `pkg/volume/hostpath`.

use k8s_openapi::api::core::v1::{HostPathVolumeSource, PersistentVolumeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::decide::Storage;
use crate::decide::write::{ClaimIdentity, reference};
use crate::objects::{Claim, Class, Volume, annotations, claim, class, name, uid, volume};

/// The plugin's name.
pub const PLUGIN: &str = "kubernetes.io/host-path";
/// Where the directories are.
const BASE: &str = "/tmp/hostpath_pv";
/// On a volume: what made it.
const CREATED_BY: &str = "kubernetes.io/createdby";

/// The volume that the plugin makes for a claim, and what has to be done for it.
///
/// # Errors
/// Why it makes none.
pub fn provision(claim: &Claim, class: &Class) -> Result<(Volume, Storage), String> {
    if claim::mode(claim) != volume::FILESYSTEM {
        return Err(format!("{PLUGIN} does not support block volume provisioning"));
    }
    let claim_uid = uid(&claim.metadata);
    let path = format!("{BASE}/{claim_uid}");
    let policy = class::reclaim_policy(class);
    let marks = [
        (CREATED_BY, "hostpath-dynamic-provisioner"),
        (annotations::BOUND_BY_CONTROLLER, "yes"),
        (annotations::PROVISIONED_BY, PLUGIN),
    ];
    let capacity = claim.spec.as_ref().and_then(|s| s.resources.as_ref()).and_then(|r| r.requests.clone());
    let volume = Volume {
        metadata: ObjectMeta {
            name: Some(format!("pvc-{claim_uid}")),
            annotations: Some(marks.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            finalizers: (policy == volume::DELETE).then(|| vec![annotations::IN_TREE_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(claim::access_modes(claim).to_vec()),
            capacity: capacity.map(|requests| requests.into_iter().filter(|(k, _)| k == "storage").collect()),
            claim_ref: Some(reference(&ClaimIdentity::of(claim))),
            host_path: Some(HostPathVolumeSource { path: path.clone(), type_: None }),
            persistent_volume_reclaim_policy: Some(policy.to_owned()),
            storage_class_name: Some(name(&class.metadata).to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    };
    Ok((volume, Storage::MakeDirectory { path }))
}

/// What has to be done to delete the volume's storage. Unlike upstream's, which also takes a path that only has
/// `/tmp/` somewhere in it, the directory must really lie below `/tmp`.
///
/// # Errors
/// Why that is not done.
pub fn delete(volume: &Volume) -> Result<Storage, String> {
    let source = volume.spec.as_ref().and_then(|s| s.host_path.as_ref());
    let path = source.map(|source| source.path.clone()).unwrap_or_default();
    let below = path.strip_prefix("/tmp/").is_some_and(|rest| {
        !rest.is_empty() && rest.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
    });
    if below {
        Ok(Storage::RemoveDirectory { path })
    } else {
        Err(format!("host_path deleter only supports /tmp/.+ but received provided {path}"))
    }
}
