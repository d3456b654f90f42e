//! Decides whether a pod's volumes and their mounts make sense. Volumes that only plugins of long ago know
//! are not looked into. Answers to `ValidateVolumes`, `ValidateVolumeMounts` and `ValidateVolumeDevices`.

use serde_json::Value;

use super::env;
use crate::object::text;
use crate::status::Cause;
use crate::validate::field::{Causes, Field};
use crate::validate::{claims, names};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const FILE_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The volumes that containers may mount: those in which nothing is wrong.
pub(super) struct Volumes<'a>(Vec<(&'a str, bool)>);

impl<'a> Volumes<'a> {
    pub(super) fn check(spec: &Field<'a>, pod: &str, causes: &mut Causes) -> Self {
        let mut good = Vec::new();
        let volumes = spec.at("volumes").items();
        let made: Vec<String> = volumes
            .iter()
            .filter(|volume| !pod.is_empty() && volume.at("ephemeral").is_set())
            .map(|volume| format!("{pod}-{}", volume.at("name").text()))
            .collect();
        for volume in &volumes {
            let before = causes.len();
            sources(volume, pod, causes);
            let name = volume.at("name");
            name.need_and_follow(names::label, causes);
            if good.iter().any(|(one, _)| *one == name.text()) {
                causes.push(name.duplicate());
            }
            if causes.len() == before {
                let block = volume.at("persistentVolumeClaim").is_set() || volume.at("ephemeral").is_set();
                good.push((name.text(), block));
            }
            let claim = volume.at("persistentVolumeClaim.claimName");
            if made.iter().any(|one| one == claim.text()) {
                causes.push(
                    claim.invalid("must not reference a PVC that gets created for an ephemeral volume"),
                );
            }
        }
        Self(good)
    }

    pub(super) fn mounts(&self, container: &Field<'_>, causes: &mut Causes) {
        let all = container.at("volumeMounts");
        let devices = container.at("volumeDevices").items();
        let mut paths = Vec::new();
        for mount in all.items() {
            let (name, path) = (mount.at("name"), mount.at("mountPath"));
            name.need(causes);
            if !self.0.iter().any(|(one, _)| *one == name.text()) {
                causes.push(Cause::not_found(name.path.as_str(), name.text()));
            }
            path.need(causes);
            if paths.contains(&path.text()) {
                causes.push(path.invalid("must be unique"));
            }
            paths.push(path.text());
            if devices.iter().any(|device| device.at("name").text() == name.text()) {
                causes.push(name.invalid("must not already exist in volumeDevices"));
            }
            if devices.iter().any(|device| device.at("devicePath").text() == path.text()) {
                causes.push(path.invalid("must not already exist as a path in volumeDevices"));
            }
            // Upstream leaves the index out of these.
            for part in ["subPath", "subPathExpr"] {
                descending(&Field::new(mount.at(part).value, format!("{}.{part}", all.path)), causes);
            }
            if !mount.at("subPath").is_empty() && !mount.at("subPathExpr").is_empty() {
                causes
                    .push(mount.at("subPathExpr").invalid("subPathExpr and subPath are mutually exclusive"));
            }
            propagation(&mount, &all.path, container, causes);
        }
    }

    pub(super) fn devices(&self, container: &Field<'_>, causes: &mut Causes) {
        let mounts = container.at("volumeMounts").items();
        let (mut names, mut paths) = (Vec::new(), Vec::new());
        for device in container.at("volumeDevices").items() {
            let (name, path) = (device.at("name"), device.at("devicePath"));
            name.need(causes);
            if names.contains(&name.text()) {
                causes.push(name.invalid("must be unique"));
            }
            match self.0.iter().find(|(one, _)| *one == name.text()) {
                Some((_, true)) => {}
                Some(_) => causes.push(name.invalid(
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                )),
                None => causes.push(Cause::not_found(name.path.as_str(), name.text())),
            }
            path.need(causes);
            if paths.contains(&path.text()) {
                causes.push(path.invalid("must be unique"));
            }
            if path.text().split('/').any(|part| part == "..") {
                causes.push(path.invalid("can not contain backsteps ('..')"));
            } else {
                paths.push(path.text());
            }
            if mounts.iter().any(|mount| mount.at("name").text() == name.text()) {
                causes.push(name.invalid("must not already exist in volumeMounts"));
            }
            if mounts.iter().any(|mount| mount.at("mountPath").text() == path.text()) {
                causes.push(path.invalid("must not already exist as a path in volumeMounts"));
            }
            if !name.is_empty() {
                names.push(name.text());
            }
        }
    }
}

fn propagation(mount: &Field<'_>, all: &str, container: &Field<'_>, causes: &mut Causes) {
    let mode = Field::new(mount.at("mountPropagation").value, format!("{all}.mountPropagation"));
    if mode.is_set() {
        mode.must_be_one_of(&["Bidirectional", "HostToContainer", "None"], causes);
        if mode.text() == "Bidirectional" && !container.at("securityContext.privileged").is_true() {
            causes.push(
                mode.forbidden("Bidirectional mount propagation is available only to privileged containers"),
            );
        }
    }
    let recursive = Field::new(mount.at("recursiveReadOnly").value, format!("{all}.recursiveReadOnly"));
    if recursive.is_set() {
        match recursive.text() {
            "Disabled" => {}
            "Enabled" | "IfPossible" => {
                if !mount.at("readOnly").is_true() {
                    causes.push(recursive.forbidden("may only be specified when readOnly is true"));
                }
                if !matches!(mount.at("mountPropagation").text(), "" | "None") {
                    causes.push(
                        recursive.forbidden(
                            "may only be specified when mountPropagation is None or not specified",
                        ),
                    );
                }
            }
            _ => causes.push(recursive.unsupported(&["Disabled", "Enabled", "IfPossible"])),
        }
    }
}

/// A path that stays below where it starts.
fn descending(path: &Field<'_>, causes: &mut Causes) {
    if path.text().starts_with('/') {
        causes.push(path.invalid("must be a relative path"));
    }
    if path.text().split('/').any(|part| part == "..") {
        causes.push(path.invalid("must not contain '..'"));
    }
}

/// A path below a volume that the kubelet does not keep for itself.
fn unreserved(path: &Field<'_>, causes: &mut Causes) {
    descending(path, causes);
    let text = path.text();
    if text.starts_with("..") && !text.starts_with("../") {
        causes.push(path.invalid("must not start with '..'"));
    }
}

fn mode(field: &Field<'_>, causes: &mut Causes) {
    if field.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        causes.push(field.invalid(MODE));
    }
}

/// The kinds of sources in the order in which upstream looks for them.
const ORDER: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn sources(volume: &Field<'_>, pod: &str, causes: &mut Causes) {
    let kinds: Vec<&str> = ORDER.iter().copied().filter(|kind| volume.at(kind).is_set()).collect();
    let Some((first, more)) = kinds.split_first() else {
        causes.push(volume.required("must specify a volume type"));
        return;
    };
    source(first, &volume.at(first), causes);
    for kind in more {
        // Two of them are named otherwise there.
        let shown = match *kind {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            kind => kind,
        };
        let field = format!("{}.{shown}", volume.path);
        causes.push(Cause::forbidden(field, "may not specify more than 1 volume type"));
    }
    if kinds.contains(&"ephemeral") && !pod.is_empty() && !volume.at("name").is_empty() {
        let name = format!("{pod}-{}", volume.at("name").text());
        let why: Vec<String> = names::subdomain(&name);
        causes.extend(why.iter().map(|why| {
            Cause::invalid(
                volume.at("name").path,
                volume.at("name").text(),
                &format!("PVC name \"{name}\": {why}"),
            )
        }));
    }
}

fn source(kind: &str, source: &Field<'_>, causes: &mut Causes) {
    match kind {
        "emptyDir" => {
            let limit = source.at("sizeLimit");
            if limit.text().starts_with('-') {
                causes.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
            }
        }
        "hostPath" => crate::validate::volumes::host_path(source, causes),
        "nfs" => {
            source.at("server").need(causes);
            source.at("path").need(causes);
            if !source.at("path").text().starts_with('/') {
                causes.push(source.at("path").invalid("must be an absolute path"));
            }
        }
        "secret" | "configMap" => {
            source.at(if kind == "secret" { "secretName" } else { "name" }).need(causes);
            mode(&source.at("defaultMode"), causes);
            key_paths(&source.at("items"), causes);
        }
        "persistentVolumeClaim" => source.at("claimName").need(causes),
        "downwardAPI" => {
            mode(&source.at("defaultMode"), causes);
            for file in source.at("items").items() {
                // Upstream leaves the list and the index out of these.
                downward(&Field::new(file.value, source.path.as_str()), causes);
            }
        }
        "projected" => {
            mode(&source.at("defaultMode"), causes);
            projections(source, causes);
        }
        "csi" => {
            claims::driver_name(&source.at("driver"), causes);
            let secret = source.at("nodePublishSecretRef");
            if secret.is_set() {
                let name = secret.at("name");
                name.need(causes);
                if !name.is_empty() {
                    Field::new(name.value, source.at("name").path).follow(names::subdomain, causes);
                }
            }
        }
        "ephemeral" => {
            let template = source.at("volumeClaimTemplate");
            if template.is_set() {
                let nothing = Value::Null;
                let spec = template.value.get("spec").unwrap_or(&nothing);
                causes.extend(claims::spec(spec, &template.at("spec").path));
                super::template_metadata(&template.at("metadata"), causes);
            } else {
                causes.push(template.required(""));
            }
        }
        "iscsi" => {
            for field in ["targetPortal", "iqn"] {
                source.at(field).need(causes);
            }
        }
        "image" => {
            source.at("reference").need(causes);
            source.at("pullPolicy").one_of(&["Always", "IfNotPresent", "Never"], causes);
        }
        _ => crate::validate::volumes::required_fields(kind, source, causes),
    }
}

fn key_paths(items: &Field<'_>, causes: &mut Causes) {
    for item in items.items() {
        item.at("key").need(causes);
        item.at("path").need(causes);
        unreserved(&item.at("path"), causes);
        mode(&item.at("mode"), causes);
    }
}

fn downward(file: &Field<'_>, causes: &mut Causes) {
    file.at("path").need(causes);
    unreserved(&file.at("path"), causes);
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    match (field.is_set(), resource.is_set()) {
        (true, both) => {
            env::field_of_pod(&field, FILE_FIELDS, causes);
            if both {
                causes.push(Cause::invalid(
                    file.path.as_str(),
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                ));
            }
        }
        (false, true) => env::resource_field(&resource, true, causes),
        (false, false) => causes.push(file.required("one of fieldRef and resourceFieldRef is required")),
    }
    mode(&file.at("mode"), causes);
}

fn projections(projected: &Field<'_>, causes: &mut Causes) {
    let mut paths: Vec<&str> = Vec::new();
    for source in projected.at("sources").items() {
        let mut count = 0;
        let mut given: Vec<&str> = Vec::new();
        for kind in ["secret", "configMap"] {
            let one = source.at(kind);
            if one.is_set() {
                count += 1;
                one.at("name").need(causes);
                key_paths(&one.at("items"), causes);
                given.extend(one.at("items").items().iter().map(|item| text(item.value, &["path"])));
            }
        }
        if source.at("downwardAPI").is_set() {
            count += 1;
            for file in source.at("downwardAPI.items").items() {
                downward(&Field::new(file.value, source.at("downwardAPI").path), causes);
                given.push(text(file.value, &["path"]));
            }
        }
        let token = source.at("serviceAccountToken");
        if token.is_set() {
            count += 1;
            account_token(&token, &projected.path, causes);
            given.push(text(token.value, &["path"]));
        }
        for other in ["clusterTrustBundle", "podCertificate"] {
            count += usize::from(source.at(other).is_set());
        }
        for path in given.into_iter().filter(|path| !path.is_empty()) {
            if paths.contains(&path) {
                causes.push(Cause::invalid(projected.path.as_str(), path, "conflicting duplicate paths"));
            }
            paths.push(path);
        }
        if count > 1 {
            causes.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

fn account_token(token: &Field<'_>, projected: &str, causes: &mut Causes) {
    let seconds = token.at("expirationSeconds");
    if seconds.number().is_some_and(|seconds| seconds < 600) {
        causes.push(seconds.invalid("may not specify a duration less than 10 minutes"));
    } else if seconds.number().is_some_and(|seconds| seconds > 1 << 32) {
        causes.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    // Upstream leaves the source out of this one.
    let path = Field::new(token.at("path").value, format!("{projected}.path"));
    if path.is_empty() {
        causes.push(path.required(""));
    } else {
        unreserved(&path, causes);
    }
}
