//! The in-tree hostPath plugin: volumes that are directories of the machine that this program runs on.
//!
//! For tests on one machine only, as upstream says of it, and off unless asked for. A directory is named after its
//! claim's uid, so that making it again after a failure makes no second one. It scrubs nothing: that is done by a pod.
//! Answers to upstream's `pkg/volume/hostpath`.

use std::io;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::HostPathVolumeSource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::VolumePlugin;
use crate::decide::plugin::{Failure, HOST_PATH, Wanted};
use crate::objects::{Volume, claim, class, kept::VolumeSpec, uid, volume};

/// Where the directories are.
const BASE: &str = "/tmp/hostpath_pv";
/// On a volume: what made it.
const CREATED_BY: (&str, &str) = ("kubernetes.io/createdby", "hostpath-dynamic-provisioner");

/// The plugin.
#[derive(Clone, Copy, Debug)]
pub struct HostPath {
    real: bool,
}

impl HostPath {
    /// One that makes and removes directories.
    #[must_use]
    pub fn real() -> Self {
        HostPath { real: true }
    }

    /// One that touches nothing.
    #[must_use]
    pub fn pretended() -> Self {
        HostPath { real: false }
    }

    async fn touch(self, done: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), Failure> {
        if !self.real {
            return Ok(());
        }
        match tokio::task::spawn_blocking(done).await {
            Ok(done) => done.map_err(|error| Failure::Failed(error.to_string())),
            Err(error) => Err(Failure::Failed(error.to_string())),
        }
    }
}

impl VolumePlugin for HostPath {
    fn name(&self) -> &'static str {
        HOST_PATH.name
    }

    fn provision<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Volume, Failure>> {
        Box::pin(async move {
            let (volume, path) = made(wanted).map_err(Failure::Failed)?;
            self.touch(|| std::fs::create_dir_all(path)).await?;
            Ok(volume)
        })
    }

    fn delete<'a>(&'a self, volume: &'a Volume) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let path = removed(volume).map_err(Failure::Failed)?;
            let remove = || match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            };
            self.touch(remove).await
        })
    }
}

/// The volume for a claim, and its directory.
fn made(wanted: &Wanted) -> Result<(Volume, String), String> {
    let claim = &*wanted.claim;
    if claim::mode(claim) != volume::FILESYSTEM {
        return Err(format!("{} does not support block volume provisioning", HOST_PATH.name));
    }
    let path = format!("{BASE}/{}", uid(&claim.metadata));
    let capacity = claim.spec.as_ref().and_then(|s| s.resources.as_ref()).and_then(|r| r.requests.clone());
    let volume = Volume {
        metadata: ObjectMeta {
            name: Some(wanted.name.clone()),
            annotations: Some([CREATED_BY].map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec: Some(VolumeSpec {
            access_modes: Some(claim::access_modes(claim).to_vec()),
            capacity: capacity.map(|mut requests| {
                requests.retain(|resource, _| resource == "storage");
                requests.into()
            }),
            host_path: Some(Box::new(HostPathVolumeSource { path: path.clone(), type_: None })),
            persistent_volume_reclaim_policy: Some(class::reclaim_policy(&wanted.class).to_owned()),
            ..VolumeSpec::default()
        }),
        status: None,
    };
    Ok((volume, path))
}

/// The directory that goes with a volume. Unlike upstream's, which also takes a path that only has `/tmp/` somewhere
/// in it, the directory must really lie below `/tmp`.
fn removed(volume: &Volume) -> Result<String, String> {
    let source = volume.spec.as_ref().and_then(|s| s.host_path.as_ref());
    let path = source.map(|source| source.path.clone()).unwrap_or_default();
    let below = path.strip_prefix("/tmp/").is_some_and(|rest| {
        !rest.is_empty() && rest.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
    });
    if below {
        Ok(path)
    } else {
        Err(format!("host_path deleter only supports /tmp/.+ but received provided {path}"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use rstest::rstest;
    use serde_json::{from_value, json};

    fn wanted(uid: &str, mode: &str) -> Wanted {
        let claim = json!({
            "metadata": {"namespace": "default", "name": "c", "uid": uid},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeMode": mode,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        let class =
            json!({"metadata": {"name": "s"}, "provisioner": HOST_PATH.name, "reclaimPolicy": "Delete"});
        Wanted {
            plugin: HOST_PATH.name,
            name: format!("pvc-{uid}"),
            claim: Arc::new(from_value(claim).unwrap()),
            class: Arc::new(from_value(class).unwrap()),
            node: None,
        }
    }

    #[tokio::test]
    async fn a_directory_is_made_and_removed_any_number_of_times() {
        let wanted = wanted(&format!("test-{}", std::process::id()), "Filesystem");
        let volume = HostPath::pretended().provision(&wanted).await.unwrap();
        let path = volume.spec.as_ref().unwrap().host_path.as_ref().unwrap().path.clone();
        assert!(!Path::new(&path).exists());
        for _ in 0..2 {
            assert_eq!(HostPath::real().provision(&wanted).await, Ok(volume.clone()));
            assert!(Path::new(&path).is_dir());
        }
        HostPath::pretended().delete(&volume).await.unwrap();
        assert!(Path::new(&path).is_dir());
        for _ in 0..2 {
            HostPath::real().delete(&volume).await.unwrap();
            assert!(!Path::new(&path).exists());
        }
    }

    #[tokio::test]
    async fn there_are_no_block_devices() {
        let answer = HostPath::real().provision(&wanted("u", "Block")).await;
        let why = "kubernetes.io/host-path does not support block volume provisioning";
        assert_eq!(answer, Err(Failure::Failed(why.to_owned())));
    }

    #[rstest]
    #[case("/etc")]
    #[case("/tmp/")]
    #[case("/tmp/../etc")]
    #[case("/home/tmp/a")]
    #[case("")]
    #[tokio::test]
    async fn nothing_but_directories_below_tmp_is_removed(#[case] path: &str) {
        let volume = json!({"metadata": {"name": "v"}, "spec": {"hostPath": {"path": path}}});
        let volume = from_value(volume).unwrap();
        assert!(matches!(HostPath::pretended().delete(&volume).await, Err(Failure::Failed(_))));
    }
}
