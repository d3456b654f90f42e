//! `kubernetes.io/azure-file`: file shares of Microsoft's cloud, reachable from everywhere.
//!
//! Answers to upstream's `plugins/azure_file.go` of `csi-translation-lib`.

use k8s_openapi::api::core::v1::{AzureFilePersistentVolumeSource, SecretReference};

use super::super::{annotation, name, volume};
use super::{CsiSource, Migration, Untranslatable, Volume};

const DRIVER: &str = "file.csi.azure.com";
const SHARE_NAME: &str = "sharename";
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
const SECRET_BEFORE: &str = "azure-storage-account-";
const SECRET_AFTER: &str = "-secret";

pub(super) const MIGRATION: Migration = Migration {
    plugin: "kubernetes.io/azure-file",
    driver: DRIVER,
    is_placed: false,
    holds: |spec| spec.azure_file.is_some(),
    to_csi,
    to_in_tree,
    class: |_| Ok(()),
};

fn to_csi(volume: &mut Volume) -> Result<CsiSource, Untranslatable> {
    let source = volume.spec.get_or_insert_default().azure_file.take().ok_or(Untranslatable::NotMigrated)?;
    let of_claim = volume::claim_ref(volume).map(|reference| volume::referred(reference).0.to_owned());
    let namespace = source.secret_namespace.or(of_claim).filter(|namespace| !namespace.is_empty());
    let namespace = namespace.ok_or(Untranslatable::SecretNamespace)?;
    let group = annotation(&volume.metadata, RESOURCE_GROUP).unwrap_or_default();
    let account = account(&source.secret_name).unwrap_or(&source.secret_name);
    Ok(CsiSource {
        driver: DRIVER.to_owned(),
        volume_handle: [group, account, &source.share_name, name(&volume.metadata), &namespace].join("#"),
        read_only: source.read_only,
        volume_attributes: super::attributes([(SHARE_NAME, Some(&source.share_name))]),
        node_stage_secret_ref: Some(SecretReference {
            name: Some(source.secret_name),
            namespace: Some(namespace),
        }),
        ..CsiSource::default()
    })
}

/// The storage account that a secret is for, by the secret's name.
fn account(secret: &str) -> Option<&str> {
    let (_, rest) = secret.split_once(SECRET_BEFORE)?;
    rest.rsplit_once(SECRET_AFTER).map(|(account, _)| account).filter(|account| !account.is_empty())
}

/// Share and secret are in the attributes, or else in the handle: `GROUP#ACCOUNT#SHARE`.
fn to_in_tree(volume: &mut Volume, source: CsiSource) -> Result<(), Untranslatable> {
    let (mut share, mut secret, mut namespace) = (String::new(), String::new(), None);
    for (key, value) in source.volume_attributes.unwrap_or_default() {
        match key.to_lowercase().as_str() {
            SHARE_NAME => share = value,
            "secretname" => secret = value,
            "secretnamespace" => namespace = Some(value),
            _ => {}
        }
    }
    let staged = source.node_stage_secret_ref.unwrap_or_default();
    if let Some(name) = staged.name.filter(|name| !name.is_empty()) {
        secret = name;
        namespace = Some(staged.namespace.unwrap_or_default());
    }
    if share.is_empty() || secret.is_empty() {
        let parts: Vec<&str> = source.volume_handle.split('#').collect();
        let [group, account, of_handle, ..] = parts.as_slice() else {
            return Err(Untranslatable::Handle(source.volume_handle));
        };
        if share.is_empty() {
            (*of_handle).clone_into(&mut share);
        }
        if secret.is_empty() {
            secret = [SECRET_BEFORE, account, SECRET_AFTER].concat();
        }
        if !group.is_empty() {
            let annotations = volume.metadata.annotations.get_or_insert_default();
            annotations.insert(RESOURCE_GROUP.to_owned(), (*group).to_owned());
        }
    }
    volume.spec.get_or_insert_default().azure_file = Some(Box::new(AzureFilePersistentVolumeSource {
        share_name: share,
        secret_name: secret,
        secret_namespace: namespace.or_else(|| Some("default".to_owned())),
        read_only: source.read_only,
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("azure-storage-account-accountname-secret", Some("accountname"))]
    #[case("azure-storage-account-accountname-dup-secret", Some("accountname-dup"))]
    #[case("invalid", None)]
    fn a_secret_is_named_after_its_account(#[case] secret: &str, #[case] wanted: Option<&str>) {
        assert_eq!(account(secret), wanted);
    }
}
