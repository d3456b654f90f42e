//! Decides whether the sources of volumes whose plugins live elsewhere now are well formed, beyond naming what they must
//! name. Answers to the `validate…PersistentVolumeSource` functions of `kubernetes/pkg/apis/core/validation`.

use crate::status::Cause;
use crate::validate::field::{Causes, Field};
use crate::validate::names;

/// What a source of a persistent volume is refused for; `volume` is the volume's name.
pub(super) fn check(kind: &str, source: &Field<'_>, volume: &str, causes: &mut Causes) {
    match kind {
        "iscsi" => iscsi(source, volume, causes),
        "glusterfs" => {
            let namespace = source.at("endpointsNamespace");
            if namespace.is_set() && namespace.is_empty() {
                let why = "if the endpointnamespace is set, it must be a valid namespace name";
                causes.push(namespace.invalid(why));
            } else if namespace.is_set() {
                namespace.follow(names::label, causes);
            }
        }
        "quobyte" => quobyte(source, causes),
        "cinder" => secret(source, causes),
        "azureFile" => {
            let namespace = source.at("secretNamespace");
            if namespace.is_set() {
                namespace.need(causes);
            }
        }
        "azureDisk" => azure_disk(source, causes),
        "storageos" => {
            for field in ["volumeName", "volumeNamespace"] {
                if !source.at(field).is_empty() {
                    source.at(field).follow(names::label, causes);
                }
            }
            secret(source, causes);
        }
        "flocker" if source.at("datasetName").text().contains('/') => {
            causes.push(source.at("datasetName").invalid("must not contain '/'"));
        }
        _ => {}
    }
}

/// A secret of another namespace, which is named with it.
fn secret(source: &Field<'_>, causes: &mut Causes) {
    let secret = source.at("secretRef");
    if secret.is_set() {
        secret.at("name").need(causes);
        secret.at("namespace").need(causes);
    }
}

fn quobyte(source: &Field<'_>, causes: &mut Causes) {
    let (registry, tenant) = (source.at("registry"), source.at("tenant"));
    if registry.is_empty() {
        return;
    }
    if tenant.text().len() >= 65 {
        causes.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
        return;
    }
    for _ in registry.text().split(',').filter(|pair| pair.matches(':').count() != 1) {
        causes.push(registry.invalid("must be a host:port pair or multiple pairs separated by commas"));
    }
}

fn azure_disk(source: &Field<'_>, causes: &mut Causes) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (caching, kind, uri) = (source.at("cachingMode"), source.at("kind"), source.at("diskURI"));
    if caching.is_set() {
        caching.must_be_one_of(&["None", "ReadOnly", "ReadWrite"], causes);
    }
    if !kind.is_set() {
        return;
    }
    kind.must_be_one_of(&["Dedicated", "Managed", "Shared"], causes);
    let (start, form) =
        if kind.text() == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    if !uri.text().starts_with(start) {
        causes.push(Cause::unsupported(uri.path.as_str(), uri.text(), &[form]));
    }
}

fn iscsi(source: &Field<'_>, volume: &str, causes: &mut Causes) {
    let (portal, initiator) = (source.at("targetPortal"), source.at("initiatorName"));
    if initiator.is_set() && volume.len() + 1 + portal.text().len() > 64 {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        causes.push(Cause::invalid(format!("{}.targetportal", source.path), portal.text(), why));
    }
    let (discovers, sessions) = (source.at("chapAuthDiscovery"), source.at("chapAuthSession"));
    let secret = source.at("secretRef");
    if (discovers.is_true() || sessions.is_true()) && !secret.is_set() {
        causes.push(secret.required(""));
    }
    if secret.is_set() {
        secret.at("name").need(causes);
    }
    if initiator.is_set() && !is_iscsi_name(initiator.text()) {
        let field = format!("{}.initiatorname", source.path);
        causes.push(Cause::invalid(field, initiator.text(), "must be valid format"));
    }
}

/// `iqn.2001-04.com.example:disk`, or one of the two numbers that name the same.
pub(super) fn is_iscsi_name(name: &str) -> bool {
    let number = |rest: &str, digits: usize| {
        let mut letters = rest.chars();
        letters.next().is_some() && letters.as_str().len() == digits && is_word(letters.as_str(), "")
    };
    if let Some(rest) = name.strip_prefix("eui") {
        return number(rest, 16);
    }
    if let Some(rest) = name.strip_prefix("naa") {
        return number(rest, 32);
    }
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_date = date.split_once('-').is_some_and(|(year, month)| {
        let digits =
            |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(year, 4) && digits(month, 2)
    });
    let Some((authority, own)) = rest.split_once(':') else { return false };
    let fits = !own.is_empty()
        && !own.contains([',', ';', '*', '&', '$', '|'])
        && !own.contains(char::is_whitespace);
    is_date && is_word(authority, "-.") && fits
}

fn is_word(text: &str, more: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the table below is read more easily")]
    fn refused(kind: &str, source: Value, count: usize) {
        let mut causes = Causes::new();
        check(kind, &Field::new(&source, kind), "volume", &mut causes);
        assert_eq!(causes.len(), count, "{kind}: {source}: {causes:?}");
    }

    #[test]
    fn older_sources_are_well_formed() {
        refused("glusterfs", json!({"endpointsNamespace": "ok"}), 0);
        refused("glusterfs", json!({"endpointsNamespace": ""}), 1);
        refused("quobyte", json!({"registry": "a:1,b:2"}), 0);
        refused("quobyte", json!({"registry": "a,b"}), 2);
        refused("quobyte", json!({"registry": "a", "tenant": "x".repeat(65)}), 1);
        refused("cinder", json!({"secretRef": {}}), 2);
        refused("azureFile", json!({"secretNamespace": ""}), 1);
        refused("azureDisk", json!({"kind": "Managed", "diskURI": "/subscriptions/a"}), 0);
        refused("azureDisk", json!({"kind": "Other", "cachingMode": "", "diskURI": "a"}), 3);
        refused("storageos", json!({"volumeName": "Bad_", "secretRef": {"name": "s"}}), 2);
        refused("flocker", json!({"datasetName": "a/b"}), 1);
        refused("iscsi", json!({"chapAuthSession": true}), 1);
        refused("iscsi", json!({"initiatorName": "x", "targetPortal": "p".repeat(60), "secretRef": {}}), 3);
    }

    #[test]
    fn names_of_iscsi_have_three_forms() {
        for name in
            ["iqn.2001-04.com.example:storage", "eui.0123456789abcdef", &format!("naa.{}", "0".repeat(32))]
        {
            assert!(is_iscsi_name(name), "{name}");
        }
        for name in
            ["", "iqn", "iqn.2001-04.com.example", "iqn.01-04.com:a", "iqn.2001-04.com:a b", "eui.0", "other"]
        {
            assert!(!is_iscsi_name(name), "{name}");
        }
    }
}
