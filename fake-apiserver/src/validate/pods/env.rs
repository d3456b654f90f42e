//! Decides whether the variables of a container say where their values come from, and whether fields and
//! amounts of a pod can be shown in variables and files. Answers to `ValidateEnv` and `ValidateEnvFrom`.

use crate::status::Cause;
use crate::validate::field::{Causes, Field};
use crate::validate::names;

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn env(container: &Field<'_>, causes: &mut Causes) {
    for variable in container.at("env").items() {
        variable.at("name").need_and_follow(names::env_name, causes);
        let from = variable.at("valueFrom");
        if !from.is_set() {
            continue;
        }
        let mut count = 0;
        for source in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
            let field = from.at(source);
            if !field.is_set() {
                continue;
            }
            count += 1;
            match source {
                "fieldRef" => field_of_pod(&field, ENV_FIELDS, causes),
                "resourceFieldRef" => resource_field(&field, false, causes),
                "fileKeyRef" => {}
                _ => {
                    field.at("name").follow(names::subdomain, causes);
                    field.at("key").need_and_follow(names::data_key, causes);
                }
            }
        }
        let why = match count {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            _ if !variable.at("value").is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        causes.push(Cause::invalid(from.path.as_str(), "", why));
    }
}

/// A field of the pod that a variable or a file shows.
pub(super) fn field_of_pod(field: &Field<'_>, fields: &[&str], causes: &mut Causes) {
    let path = field.at("fieldPath");
    for part in ["apiVersion", "fieldPath"] {
        if field.at(part).is_empty() {
            causes.push(field.at(part).required(""));
            return;
        }
    }
    if field.at("apiVersion").text() != "v1" {
        causes.push(path.invalid("error converting fieldPath: unsupported pod version"));
        return;
    }
    let known = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if let Some((base, key)) = path.text().strip_suffix(']').and_then(|text| text.split_once("['")) {
        let key = key.strip_suffix('\'').unwrap_or(key);
        match base {
            "metadata.annotations" | "metadata.labels" => {
                causes.extend(
                    names::qualified_name(key).map(|why| Cause::invalid(field.path.as_str(), key, &why)),
                );
            }
            _ => causes.push(path.invalid("error converting fieldPath: field label not supported")),
        }
    } else if !known.contains(&path.text()) {
        causes.push(path.invalid("error converting fieldPath: field label not supported"));
    } else if !fields.contains(&path.text()) {
        causes.push(path.unsupported(fields));
    }
}

/// An amount of a container that a variable or a file shows.
pub(super) fn resource_field(field: &Field<'_>, volume: bool, causes: &mut Causes) {
    let (container, resource) = (field.at("containerName"), field.at("resource"));
    let huge = ["limits.hugepages-", "requests.hugepages-"];
    if volume && container.is_empty() {
        causes.push(container.required(""));
    } else if resource.is_empty() {
        causes.push(resource.required(""));
    } else if !RESOURCES.contains(&resource.text())
        && !huge.iter().any(|start| resource.text().starts_with(start))
    {
        causes.push(resource.unsupported(RESOURCES));
    }
    let divisor = field.at("divisor");
    if !RESOURCES.contains(&resource.text()) && !huge.iter().any(|start| resource.text().starts_with(start)) {
        return;
    }
    let cpu = matches!(resource.text(), "limits.cpu" | "requests.cpu");
    let sizes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let fits = match divisor.text() {
        "" | "0" => true,
        text if cpu => matches!(text, "1" | "1m"),
        text => sizes.contains(&text),
    };
    if !fits {
        causes.push(Cause::invalid(
            divisor.path.as_str(),
            resource.text(),
            "only such divisors are supported that make whole units",
        ));
    }
}

pub(super) fn env_from(container: &Field<'_>, causes: &mut Causes) {
    let all = container.at("envFrom");
    for source in all.items() {
        if !source.at("prefix").is_empty() {
            source.at("prefix").follow(names::env_name, causes);
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if source.at(kind).is_set() {
                count += 1;
                source.at(kind).at("name").need_and_follow(names::subdomain, causes);
            }
        }
        if count == 0 {
            causes.push(Cause::invalid(
                all.path.as_str(),
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ));
        } else if count > 1 {
            causes.push(Cause::invalid(
                all.path.as_str(),
                "",
                "may not have more than one field specified at a time",
            ));
        }
    }
}
