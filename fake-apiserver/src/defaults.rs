//! Decides the value of fields that a writer left out, the form of amounts, and the status that a new object
//! starts with. Never refuses but what can't be read, and applying it twice changes nothing. Answers to
//! `kubernetes/pkg/apis/*/v1/defaults.go` and to the strategies' `PrepareForCreate`.

pub(crate) mod autoscalers;
mod networks;
mod pods;
mod quantities;
mod volumes;
mod workloads;

pub(crate) use self::pods::quality;
pub(crate) use self::quantities::{as_written, canonicalise};
pub(crate) use self::volumes::claim_sources;

use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::object::{as_map_mut, at, field_mut, map_mut, metadata_mut, text};

/// The same where a list that is empty is not one that is missing: what is reduced says no more which it was.
pub(crate) fn apply_first(kind: &Kind, value: &mut Value) {
    if (&*kind.group, &*kind.kind) == ("autoscaling", "HorizontalPodAutoscaler") {
        autoscalers::apply(value, kind.is_view());
    }
}

/// Fields, when they are missing.
pub(crate) fn apply(kind: &Kind, value: &mut Value) {
    match (&*kind.group, &*kind.kind) {
        ("", "Namespace") => namespace(value),
        ("", "Node") => node(value),
        ("", "Pod") => pods::pod(value),
        ("", "PersistentVolume") => volumes::volume(value),
        ("", "PersistentVolumeClaim") => volumes::claim(value),
        ("storage.k8s.io", "StorageClass") => volumes::class(value),
        ("storage.k8s.io", "CSIDriver") => volumes::driver(value),
        ("storage.k8s.io", "CSINode") => volumes::csi_node(value),
        ("apps" | "batch", _) | ("", "ReplicationController") => workloads::apply(&kind.kind, value),
        ("", "PodTemplate") => workloads::default_template(value),
        ("", "Service") => service(value),
        ("", "LimitRange") => limit_range(value),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(value),
        ("", "Secret") => secret(value),
        ("" | "events.k8s.io", "Event") => crate::events::complete(value),
        ("", "Endpoints") => {
            drop_empty_maps(value);
            for subset in items(value, "subsets") {
                for port in items(subset, "ports") {
                    default_in(port, "protocol", "TCP".into());
                }
            }
        }
        ("networking.k8s.io", _) => networks::apply(&kind.kind, value),
        ("discovery.k8s.io", "EndpointSlice") => {
            for port in items(value, "ports") {
                default_in(port, "name", "".into());
                default_in(port, "protocol", "TCP".into());
            }
        }
        ("coordination.k8s.io", "Lease") | ("policy", "PodDisruptionBudget") => {
            default_in(value, "spec", json!({}));
        }
        ("resource.k8s.io", "ResourceClaim") => device_requests(map(value, "spec")),
        ("resource.k8s.io", "ResourceClaimTemplate") => device_requests(map(map(value, "spec"), "spec")),
        ("scheduling.k8s.io", "PriorityClass") => {
            default_in(value, "preemptionPolicy", "PreemptLowerPriority".into());
            default_in(value, "value", 0.into());
        }
        _ => {}
    }
}

/// A request for devices means one of them unless it says otherwise.
fn device_requests(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in items(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            counted(exactly);
        }
        items(request, "firstAvailable").for_each(counted);
    }
}

fn counted(request: &mut Value) {
    default_in(request, "allocationMode", "ExactCount".into());
    if request["allocationMode"] == "ExactCount" {
        default_in(request, "count", 1.into());
    }
}

/// What an object gets when it is read again in the form in which it is stored, which is not the one that it came in.
pub(crate) fn apply_last(kind: &Kind, value: &mut Value) {
    if (&*kind.group, &*kind.kind) == ("autoscaling", "HorizontalPodAutoscaler") && kind.is_view() {
        autoscalers::apply(value, false);
    }
}

/// The parts of a status that have defaults, after the status alone was written.
pub(crate) fn apply_status(kind: &Kind, value: &mut Value) -> Result<(), &'static str> {
    quantities::canonicalise(kind, value)?;
    match &*kind.kind {
        "PersistentVolumeClaim" => {
            default_in(map(value, "status"), "phase", "Pending".into());
            condition_times(value);
            drop_empty_maps(map(value, "status"));
        }
        "PersistentVolume" => default_in(map(value, "status"), "phase", "Pending".into()),
        "Pod" => {
            condition_times(value);
            pod_addresses(map(value, "status"));
            for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
                for container in items(map(value, "status"), list) {
                    default_in(container, "lastState", json!({}));
                    default_in(container, "state", json!({}));
                }
            }
        }
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "CronJob" => {
            for condition in items(map(value, "status"), "conditions") {
                default_in(condition, "lastTransitionTime", Value::Null);
                if kind.kind == "Deployment" {
                    default_in(condition, "lastUpdateTime", Value::Null);
                }
            }
            workloads::complete_status(&kind.kind, value);
        }
        "Node" => node_status(value),
        _ => {}
    }
    Ok(())
}

/// The first of a pod's addresses is its address; where they say otherwise, the older field is believed.
fn pod_addresses(status: &mut Value) {
    let first = |status: &Value| status.pointer("/podIPs/0/ip").cloned();
    match status.get("podIP").cloned().filter(|ip| *ip != "") {
        Some(ip) if first(status).as_ref() != Some(&ip) => {
            as_map_mut(status).insert("podIPs".into(), json!([{"ip": ip}]));
        }
        Some(_) => {}
        None => {
            if let Some(ip) = first(status) {
                as_map_mut(status).insert("podIP".into(), ip);
            }
        }
    }
}

/// Conditions of the older kinds show their times even when they have none.
fn condition_times(value: &mut Value) {
    let conditions = value.get_mut("status").and_then(|status| status.get_mut("conditions"));
    if let Some(Value::Array(conditions)) = conditions {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            for time in ["lastProbeTime", "lastTransitionTime"] {
                condition.entry(time).or_insert(Value::Null);
            }
        }
    }
}

/// The status of a new object, whatever it came with.
pub(crate) fn reset_status(kind: &Kind, value: &mut Value, now: &str) {
    let status = match (&*kind.group, &*kind.kind) {
        ("", "PersistentVolume") => json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
        ("", "PersistentVolumeClaim") => json!({"phase": "Pending"}),
        ("", "Namespace") => json!({"phase": "Active"}),
        ("", "Pod") => {
            let quality = pods::quality(value);
            let mut status = json!({"phase": "Pending", "qosClass": quality});
            if at(value, &["spec", "schedulingGates"])
                .and_then(Value::as_array)
                .is_some_and(|gates| !gates.is_empty())
            {
                status["conditions"] = json!([{
                    "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": now,
                    "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
                }]);
            }
            status
        }
        ("", "Node") => {
            // A node is created by its kubelet, which says at once what it is: the status counts.
            node_status(value);
            return;
        }
        ("", "Service") | ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        ("", "ResourceQuota")
        | ("autoscaling", "HorizontalPodAutoscaler")
        | ("apps", "Deployment")
        | ("batch", "Job" | "CronJob") => json!({}),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({"replicas": 0}),
        ("apps", "StatefulSet") => json!({"replicas": 0, "availableReplicas": 0}),
        ("apps", "DaemonSet") => {
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0})
        }
        ("policy", "PodDisruptionBudget") => {
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
        }
        ("storage.k8s.io", "VolumeAttachment") => json!({"attached": false}),
        _ => return,
    };
    as_map_mut(value).insert("status".into(), status);
    if kind.kind == "Job" {
        workloads::claim_job(value);
    }
}

/// Removes maps and lists that Go leaves out when they are empty.
fn drop_empty_maps(value: &mut Value) {
    as_map_mut(value).retain(|_, field| match field {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
}

/// Sets a field of a map that has none of that name.
fn default_in(value: &mut Value, field: &str, default: Value) {
    field_mut(value, field, || default);
}

/// The map in a field, made when it is missing, still as a value.
fn map<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    field_mut(value, field, || Value::Object(Map::new()))
}

/// The field of a map, or what can stand for it when there is none.
fn map_or<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    if value.get(field).is_some() { &mut value[field] } else { value }
}

/// The items of a list, none when there is no list.
fn items<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn namespace(value: &mut Value) {
    let name = text(value, &["metadata", "name"]).to_owned();
    let labels = metadata_mut(value).entry("labels").or_insert_with(|| json!({}));
    as_map_mut(labels).insert("kubernetes.io/metadata.name".into(), name.into());
    let terminating = at(value, &["metadata", "deletionTimestamp"]).is_some();
    if !terminating {
        let finalizers = map_mut(value, "spec").entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(finalizers) = finalizers
            && !finalizers.iter().any(|one| one == "kubernetes")
        {
            finalizers.push("kubernetes".into());
        }
    }
    default_in(map(value, "status"), "phase", "Active".into());
}

fn node(value: &mut Value) {
    let spec = map_mut(value, "spec");
    spec.retain(|name, field| name != "taints" || *field != json!([]));
    let cidr = spec.get("podCIDR").and_then(Value::as_str).map(str::to_owned);
    // Where the two differ the older one counts, which is what old clients know.
    let first = spec.get("podCIDRs").and_then(|all| all.get(0)).and_then(Value::as_str).map(str::to_owned);
    match (cidr, first) {
        (Some(cidr), first) if first.as_ref() != Some(&cidr) => {
            spec.insert("podCIDRs".into(), json!([cidr]));
        }
        (None, Some(first)) => drop(spec.insert("podCIDR".into(), first.into())),
        _ => {}
    }
}

fn node_status(value: &mut Value) {
    let capacity = at(value, &["status", "capacity"]).cloned();
    let status = map(value, "status");
    for condition in items(status, "conditions") {
        default_in(condition, "lastHeartbeatTime", Value::Null);
        default_in(condition, "lastTransitionTime", Value::Null);
    }
    if let Some(capacity) = capacity {
        default_in(status, "allocatable", capacity);
    }
    default_in(map(status, "daemonEndpoints"), "kubeletEndpoint", json!({"Port": 0}));
    let info = map(status, "nodeInfo");
    for field in [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ] {
        default_in(info, field, "".into());
    }
}

fn service(value: &mut Value) {
    let spec = map(value, "spec");
    default_in(spec, "type", "ClusterIP".into());
    default_in(spec, "sessionAffinity", "None".into());
    if spec["sessionAffinity"] == "None" {
        as_map_mut(spec).remove("sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP" {
        let config = map(spec, "sessionAffinityConfig");
        default_in(map(config, "clientIP"), "timeoutSeconds", 10800.into());
    }
    let kind = spec["type"].clone();
    let external = spec["externalIPs"].as_array().is_some_and(|all| !all.is_empty());
    if kind == "NodePort" || kind == "LoadBalancer" || kind == "ClusterIP" && external {
        default_in(spec, "externalTrafficPolicy", "Cluster".into());
    }
    if kind == "NodePort" || kind == "LoadBalancer" || kind == "ClusterIP" {
        default_in(spec, "internalTrafficPolicy", "Cluster".into());
    }
    if kind == "LoadBalancer" {
        default_in(spec, "allocateLoadBalancerNodePorts", true.into());
    }
    for port in items(spec, "ports") {
        default_in(port, "protocol", "TCP".into());
        let number = port.get("port").cloned().unwrap_or_default();
        if port.get("targetPort").is_some_and(|target| *target == 0 || *target == "") {
            as_map_mut(port).remove("targetPort");
        }
        default_in(port, "targetPort", number);
    }
}

/// The group of roles, and of those who are no service accounts.
fn binding(value: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let reference = map(value, "roleRef");
    if reference["apiGroup"] == "" || reference.get("apiGroup").is_none() {
        as_map_mut(reference).insert("apiGroup".into(), GROUP.into());
    }
    for subject in items(value, "subjects") {
        if matches!(text(subject, &["kind"]), "User" | "Group") {
            default_in(subject, "apiGroup", GROUP.into());
        }
    }
}

/// What a container gets that says nothing of the limits of its namespace.
fn limit_range(value: &mut Value) {
    for limit in items(map(value, "spec"), "limits").filter(|limit| limit["type"] == "Container") {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let given = limit[from].as_object().cloned().unwrap_or_default();
            let known = map(limit, to);
            for (name, amount) in given {
                default_in(known, &name, amount);
            }
        }
        for field in ["default", "defaultRequest"] {
            if limit[field] == json!({}) {
                as_map_mut(limit).remove(field);
            }
        }
    }
}

fn secret(value: &mut Value) {
    default_in(value, "type", "Opaque".into());
    let plain = as_map_mut(value).remove("stringData");
    if let Some(Value::Object(plain)) = plain {
        let data = map_mut(value, "data");
        for (name, text) in plain {
            data.insert(name, base64(text.as_str().unwrap_or_default().as_bytes()).into());
        }
    }
}

/// Base64 with padding, as JSON has bytes.
fn base64(bytes: &[u8]) -> String {
    let mut text = crate::continuation::base64(bytes).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}
