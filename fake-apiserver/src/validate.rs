//! Decides whether an object may be stored: names, required fields, amounts, and what may not change. Says
//! what is wrong in the real server's words and order. Never changes an object. Answers to
//! `kubernetes/pkg/apis/*/validation`.

pub(crate) mod addresses;
mod autoscalers;
mod base64;
mod claims;
mod classes;
mod configs;
mod drivers;
mod events;
pub(crate) mod field;
mod ingresses;
mod jobs;
mod leases;
mod metadata;
pub(crate) mod names;
mod networks;
mod nodes;
mod pods;
mod policies;
mod quotas;
mod runtimes;
mod schedules;
pub(crate) mod selectors;
pub(crate) mod services;
mod slices;
mod volumes;
mod workloads;

use serde_json::Value;

use crate::kinds::Kind;
use crate::routes::Target;
use crate::status::Cause;

/// What is wrong with a new object.
pub(crate) fn create(kind: &Kind, value: &Value) -> Vec<Cause> {
    let mut causes = metadata::create(kind, value);
    let checked = crate::crds::check_create(kind, value, causes.iter().any(Cause::blocks_rules));
    causes.extend(checked);
    if !kind.custom {
        causes.extend(fields(kind, value));
    }
    causes
}

/// What is wrong with the next version of an object.
pub(crate) fn update(target: &Target, old: &Value, new: &Value) -> Vec<Cause> {
    let kind = &target.kind;
    let mut causes = metadata::update(kind, old, new);
    let checked = crate::crds::check_update(target, old, new, causes.iter().any(Cause::blocks_rules));
    causes.extend(checked);
    if kind.custom {
        return causes;
    }
    let restated = crate::defaults::as_written(old, new);
    let old = restated.as_ref().unwrap_or(old);
    causes.extend(if target.subresource == "status" {
        status(kind, old, new)
    } else {
        changes(target, old, new)
    });
    causes
}

/// What is wrong with a status that was written alone.
fn status(kind: &Kind, old: &Value, new: &Value) -> Vec<Cause> {
    match (&*kind.group, &*kind.kind) {
        ("storage.k8s.io", "VolumeAttachment") => drivers::update_attachment(old, new),
        ("", "PersistentVolumeClaim") => claims::status(new),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workloads::status(&kind.kind, old, new)
        }
        ("", "ResourceQuota") => quotas::quota_status(new),
        ("policy", "PodDisruptionBudget") => policies::budget_status(new),
        ("networking.k8s.io", "Ingress") => ingresses::status(new),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscalers::status(new),
        ("", "Node") => nodes::update(old, new),
        ("", "Service") => services::status(new),
        ("", "Pod") => pods::status::update(old, new),
        _ => Vec::new(),
    }
}

fn changes(target: &Target, old: &Value, new: &Value) -> Vec<Cause> {
    let kind = &target.kind;
    match (&*kind.group, &*kind.kind, target.subresource.as_str()) {
        ("", "PersistentVolume", "") => volumes::update(old, new),
        ("", "PersistentVolumeClaim", "") => claims::update(old, new),
        ("", "Pod", "") => pods::update(old, new),
        // Its finalizers have an endpoint of their own.
        ("", "Namespace", "") => Vec::new(),
        ("", "Node", "") => nodes::update(old, new),
        ("", "Service", "") => services::update(old, new),
        ("", "Event", "") => events::update(old, new, false),
        ("", "ConfigMap" | "Secret", "") => configs::update(&kind.kind, old, new),
        ("", "ResourceQuota", "") => quotas::update_quota(old, new),
        ("events.k8s.io", "Event", "") => events::update(old, new, true),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet", "")
        | ("", "ReplicationController", "") => workloads::update(&kind.kind, old, new),
        ("apps", "ControllerRevision", "") => configs::revision(Some(old), new),
        ("batch", "Job", "") => jobs::update(old, new),
        ("batch", "CronJob", "") => jobs::cron(new, Some(old)),
        ("storage.k8s.io", "StorageClass", "") => classes::update(old, new),
        ("storage.k8s.io", "CSIDriver", "") => drivers::update_driver(old, new),
        ("storage.k8s.io", "CSINode", "") => drivers::update_csi_node(old, new),
        ("storage.k8s.io", "CSIStorageCapacity", "") => drivers::update_capacity(old, new),
        ("storage.k8s.io", "VolumeAttachment", "") => drivers::update_attachment(old, new),
        ("storage.k8s.io", "VolumeAttributesClass", "") => drivers::update_attributes(old, new),
        ("autoscaling", "HorizontalPodAutoscaler", "") => autoscalers::update(old, new),
        ("node.k8s.io", "RuntimeClass", "") => runtimes::update(old, new),
        ("networking.k8s.io", "Ingress", "") => ingresses::update(new),
        ("networking.k8s.io", "IngressClass", "") => ingresses::update_class(old, new),
        ("discovery.k8s.io", "EndpointSlice", "") => slices::update(old, new),
        ("scheduling.k8s.io", "PriorityClass", "") => policies::update_priority(old, new),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding", "") => {
            policies::update_binding(&kind.kind, old, new)
        }
        (_, _, "") => fields(kind, new),
        _ => Vec::new(),
    }
}

fn fields(kind: &Kind, value: &Value) -> Vec<Cause> {
    match (&*kind.group, &*kind.kind) {
        ("", "PersistentVolume") => volumes::create(value),
        ("", "PersistentVolumeClaim") => claims::create(value),
        ("", "Pod") => pods::create(value),
        ("", "Namespace") => metadata::namespace(value),
        ("", "Node") => nodes::create(value),
        ("", "Service") => services::create(value),
        ("", "Endpoints") => services::endpoints(value),
        ("", "Event") => events::create(value, false),
        ("", "ConfigMap") => configs::config_map(value),
        ("", "Secret") => configs::secret(value),
        ("", "ResourceQuota") => quotas::quota(value),
        ("", "LimitRange") => quotas::limit_range(value),
        ("events.k8s.io", "Event") => events::create(value, true),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("", "ReplicationController") => workloads::create(&kind.kind, value),
        ("apps", "ControllerRevision") => configs::revision(None, value),
        ("batch", "Job") => jobs::create(value),
        ("batch", "CronJob") => jobs::cron(value, None),
        ("coordination.k8s.io", "Lease") => leases::spec(value),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscalers::create(value),
        ("", "PodTemplate") => pods::alone(value),
        ("node.k8s.io", "RuntimeClass") => runtimes::create(value),
        ("networking.k8s.io", "Ingress") => ingresses::create(value),
        ("networking.k8s.io", "IngressClass") => ingresses::class(value),
        ("networking.k8s.io", "NetworkPolicy") => networks::policy(value),
        ("discovery.k8s.io", "EndpointSlice") => slices::create(value),
        ("storage.k8s.io", "StorageClass") => classes::create(value),
        ("storage.k8s.io", "CSIDriver") => drivers::create_driver(value),
        ("storage.k8s.io", "CSINode") => drivers::csi_node(value),
        ("storage.k8s.io", "CSIStorageCapacity") => drivers::capacity(value),
        ("storage.k8s.io", "VolumeAttachment") => drivers::create_attachment(value),
        ("storage.k8s.io", "VolumeAttributesClass") => drivers::attributes(value),
        ("policy", "PodDisruptionBudget") => policies::budget(value),
        ("scheduling.k8s.io", "PriorityClass") => policies::priority(value),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => policies::role(&kind.kind, value),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            policies::binding(&kind.kind, value)
        }
        _ => Vec::new(),
    }
}
