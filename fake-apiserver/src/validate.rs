//! Decides whether an object may be stored: names, required fields, amounts, and what may not change. Says
//! what is wrong in the real server's words and order. Never changes an object. Answers to
//! `kubernetes/pkg/apis/*/validation`.

mod claims;
mod classes;
mod drivers;
mod events;
mod leases;
mod metadata;
pub(crate) mod names;
mod nodes;
mod pods;
mod volumes;

use serde_json::Value;

use crate::kinds::Kind;
use crate::routes::Target;
use crate::status::Cause;

/// What is wrong with a new object.
pub(crate) fn create(kind: &Kind, value: &Value) -> Vec<Cause> {
    let mut causes = metadata::create(kind, value);
    causes.extend(crate::crds::check_create(kind, value));
    if !kind.custom {
        causes.extend(fields(kind, value));
    }
    causes
}

/// What is wrong with the next version of an object.
pub(crate) fn update(target: &Target, old: &Value, new: &Value) -> Vec<Cause> {
    let kind = &target.kind;
    let mut causes = metadata::update(kind, old, new);
    causes.extend(crate::crds::check_update(target, old, new));
    if kind.custom {
        return causes;
    }
    causes.extend(match (&*kind.group, &*kind.kind, target.subresource.as_str()) {
        ("", "PersistentVolume", "") => volumes::update(old, new),
        ("", "PersistentVolumeClaim", "") => claims::update(old, new),
        ("", "Pod", "") => pods::update(old, new),
        ("", "Node", "") => nodes::update(old, new),
        ("", "Event", "") => events::update(old, new, false),
        ("events.k8s.io", "Event", "") => events::update(old, new, true),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet", "")
        | ("coordination.k8s.io", "Lease", "") => fields(kind, new),
        ("storage.k8s.io", "StorageClass", "") => classes::update(old, new),
        ("storage.k8s.io", "CSIDriver", "") => drivers::update_driver(old, new),
        ("storage.k8s.io", "VolumeAttachment", "" | "status") => drivers::update_attachment(old, new),
        ("storage.k8s.io", "VolumeAttributesClass", "") => drivers::update_attributes(old, new),
        _ => Vec::new(),
    });
    causes
}

fn fields(kind: &Kind, value: &Value) -> Vec<Cause> {
    match (&*kind.group, &*kind.kind) {
        ("", "PersistentVolume") => volumes::create(value),
        ("", "PersistentVolumeClaim") => claims::create(value),
        ("", "Pod") => pods::create(value),
        ("", "Node") => nodes::create(value),
        ("", "Event") => events::create(value, false),
        ("events.k8s.io", "Event") => events::create(value, true),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            pods::spec(&value["spec"]["template"]["spec"], "spec.template.spec")
        }
        ("coordination.k8s.io", "Lease") => leases::spec(value),
        ("storage.k8s.io", "StorageClass") => classes::create(value),
        ("storage.k8s.io", "CSIDriver") => drivers::create_driver(value),
        ("storage.k8s.io", "VolumeAttachment") => drivers::create_attachment(value),
        ("storage.k8s.io", "VolumeAttributesClass") => drivers::attributes(value),
        _ => Vec::new(),
    }
}
