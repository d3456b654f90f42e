//! `kubernetes.io/portworx-volume`: volumes of Portworx, reachable from every node that it runs on.
//!
//! Answers to upstream's `plugins/portworx.go` of `csi-translation-lib`.

use k8s_openapi::api::core::v1::{PortworxVolumeSource, SecretReference};

use super::super::annotation;
use super::{Class, CsiSource, Migration, Untranslatable, Volume};

const DRIVER: &str = "pxd.portworx.com";
const SECRET_NAME: &str = "openstorage.io/auth-secret-name";
const SECRET_NAMESPACE: &str = "openstorage.io/auth-secret-namespace";
/// What a CSI driver is given a secret for; the plugin has one for all.
const USES: [&str; 6] =
    ["provisioner", "controller-publish", "node-publish", "node-stage", "controller-expand", "node-expand"];

pub(super) const MIGRATION: Migration = Migration {
    plugin: "kubernetes.io/portworx-volume",
    driver: DRIVER,
    is_placed: true,
    holds: |spec| spec.portworx_volume.is_some(),
    to_csi,
    to_in_tree,
    class,
};

fn to_csi(volume: &mut Volume) -> Result<CsiSource, Untranslatable> {
    let spec = volume.spec.get_or_insert_default();
    let source = spec.portworx_volume.take().ok_or(Untranslatable::NotMigrated)?;
    let of = |key| annotation(&volume.metadata, key).map(str::to_owned);
    let secret = of(SECRET_NAME).zip(of(SECRET_NAMESPACE));
    let secret =
        secret.map(|(name, namespace)| SecretReference { name: Some(name), namespace: Some(namespace) });
    Ok(CsiSource {
        driver: DRIVER.to_owned(),
        volume_handle: source.volume_id,
        fs_type: source.fs_type,
        controller_publish_secret_ref: secret.clone(),
        node_stage_secret_ref: secret.clone(),
        node_publish_secret_ref: secret.clone(),
        controller_expand_secret_ref: secret.clone(),
        node_expand_secret_ref: secret,
        ..CsiSource::default()
    })
}

#[expect(clippy::unnecessary_wraps, reason = "another plugin may refuse")]
fn to_in_tree(volume: &mut Volume, source: CsiSource) -> Result<(), Untranslatable> {
    volume.spec.get_or_insert_default().portworx_volume = Some(Box::new(PortworxVolumeSource {
        volume_id: source.volume_handle,
        fs_type: source.fs_type,
        read_only: source.read_only,
    }));
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "another plugin may refuse")]
fn class(class: &mut Class) -> Result<(), Untranslatable> {
    let parameters = class.parameters.take().unwrap_or_default();
    for (key, value) in parameters {
        let part = match key.to_lowercase().as_str() {
            SECRET_NAME => Some("name"),
            SECRET_NAMESPACE => Some("namespace"),
            _ => None,
        };
        let translated = class.parameters.get_or_insert_default();
        match part {
            None => drop(translated.insert(key, value)),
            Some(part) => {
                let of_use = |of: &str| (format!("csi.storage.k8s.io/{of}-secret-{part}"), value.clone());
                translated.extend(USES.into_iter().map(of_use));
            }
        }
    }
    DRIVER.clone_into(&mut class.provisioner);
    Ok(())
}
