//! Decides the defaults of pods and pod templates, the quality class, and what the admission plugins for
//! tolerations and taints add.

use serde_json::{Value, json};

use super::{default_in, items, map, volumes};
use crate::object::{as_map_mut, at};
use crate::quantity::Quantity;

pub(super) fn pod(value: &mut Value) {
    super::condition_times(value);
    if let Some(status) = value.get_mut("status").filter(|status| status.is_object()) {
        super::pod_addresses(status);
    }
    let spec = map(value, "spec");
    pod_spec(spec);
    default_in(spec, "enableServiceLinks", true.into());
    tolerate_lost_nodes(spec);
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for field in ["containers", "initContainers"] {
        for container in items(spec, field) {
            requests_from_limits(container);
            for port in items(container, "ports").filter(|_| on_host) {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                default_in(port, "hostPort", number);
            }
        }
    }
}

/// The account has two names, of which the newer one counts where it is there.
fn same_account(spec: &mut Value) {
    let named = |field: &&str| spec.get(*field).filter(|name| **name != "").cloned();
    if let Some(account) = ["serviceAccountName", "serviceAccount"].iter().find_map(named) {
        let spec = as_map_mut(spec);
        spec.insert("serviceAccountName".into(), account.clone());
        spec.insert("serviceAccount".into(), account);
    }
}

/// Defaults that a template has too.
pub(super) fn pod_spec(spec: &mut Value) {
    default_in(spec, "dnsPolicy", "ClusterFirst".into());
    default_in(spec, "restartPolicy", "Always".into());
    default_in(spec, "schedulerName", "default-scheduler".into());
    default_in(spec, "securityContext", json!({}));
    default_in(spec, "terminationGracePeriodSeconds", 30.into());
    same_account(spec);
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, field) {
            container_defaults(container);
        }
    }
    for volume in items(spec, "volumes") {
        volume_defaults(volume);
    }
}

/// The fields of the pod that a volume shows.
fn fields_of_pod(shown: &mut Value) {
    for item in items(shown, "items") {
        if let Some(field) = item.get_mut("fieldRef") {
            default_in(field, "apiVersion", "v1".into());
        }
    }
}

/// Whether an image names no version, or the newest.
fn is_latest(image: &str) -> bool {
    if image.is_empty() {
        return false;
    }
    let (repository, name) = image.rsplit_once('/').unwrap_or(("", image));
    let fits = |text: &str| {
        text.bytes().all(|byte| {
            !byte.is_ascii_uppercase() && (byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte))
        })
    };
    // What can't be read as a reference to an image has no version that could be the newest.
    if !fits(repository) || !fits(name.split(':').next().unwrap_or_default()) || image.len() > 255 {
        return false;
    }
    !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn container_defaults(container: &mut Value) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let latest = is_latest(image);
    default_in(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" }.into());
    default_in(container, "resources", json!({}));
    default_in(container, "terminationMessagePath", "/dev/termination-log".into());
    default_in(container, "terminationMessagePolicy", "File".into());
    for port in items(container, "ports") {
        default_in(port, "protocol", "TCP".into());
    }
    for variable in items(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            default_in(field, "apiVersion", "v1".into());
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            for (field, default) in [
                ("failureThreshold", 3),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("timeoutSeconds", 1),
            ] {
                default_in(probe, field, default.into());
            }
            if let Some(call) = probe.get_mut("grpc") {
                default_in(call, "service", "".into());
            }
            if let Some(get) = probe.get_mut("httpGet") {
                default_in(get, "scheme", "HTTP".into());
                default_in(get, "path", "/".into());
            }
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(Value::Object(limits)) = at(container, &["resources", "limits"]).cloned() else { return };
    let requests = map(map(container, "resources"), "requests");
    for (name, limit) in limits {
        default_in(requests, &name, limit);
    }
}

fn volume_defaults(volume: &mut Value) {
    let bare = volume.as_object().is_some_and(|fields| fields.keys().all(|field| field == "name"));
    if bare {
        default_in(volume, "emptyDir", json!({}));
    }
    for (source, mode) in [("configMap", 420), ("secret", 420), ("downwardAPI", 420), ("projected", 420)] {
        if let Some(source) = volume.get_mut(source) {
            default_in(source, "defaultMode", mode.into());
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        default_in(path, "type", "".into());
    }
    if let Some(shown) = volume.get_mut("downwardAPI") {
        fields_of_pod(shown);
    }
    for source in items(super::map_or(volume, "projected"), "sources") {
        if let Some(shown) = source.get_mut("downwardAPI") {
            fields_of_pod(shown);
        }
        if let Some(token) = source.get_mut("serviceAccountToken") {
            default_in(token, "expirationSeconds", 3600.into());
        }
    }
    if let Some(disk) = volume.get_mut("iscsi") {
        default_in(disk, "iscsiInterface", "default".into());
    }
    if let Some(image) = volume.get_mut("image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = if is_latest(reference) { "Always" } else { "IfNotPresent" };
        default_in(image, "pullPolicy", policy.into());
    }
    if let Some(template) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
        volumes::claim_template(map(template, "spec"));
        default_in(template, "metadata", json!({}));
    }
}

/// What the plugin for default tolerations adds: five minutes on a node that is not ready or not reachable.
fn tolerate_lost_nodes(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(spec, "tolerations").any(|one| {
            let fits = |field: &str, wanted: &str| {
                one.get(field).and_then(Value::as_str).is_none_or(|text| text == wanted)
            };
            fits("key", key) && fits("effect", "NoExecute")
        });
        if !tolerated {
            let toleration =
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            let tolerations = as_map_mut(spec).entry("tolerations").or_insert_with(|| json!([]));
            if let Value::Array(tolerations) = tolerations {
                tolerations.push(toleration);
            }
        }
    }
}

/// `BestEffort` without any amounts, `Guaranteed` when every container's cpu and memory are limited to what
/// they request.
pub(crate) fn quality(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|field| spec[field].as_array().into_iter().flatten())
        .collect();
    let amount = |container: &Value, part: &str, name: &str| {
        let text = container["resources"][part][name].as_str()?;
        Quantity::parse(text).ok().filter(|amount| amount.is_positive())
    };
    let (mut any, mut guaranteed) = (false, !containers.is_empty());
    // What is said of the whole pod counts instead of what is said of each container.
    let containers = if spec["resources"].is_object() { vec![spec] } else { containers };
    for container in containers {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some()
                && request.is_none_or(|request| Some(request.nanos()) == limit.map(Quantity::nanos));
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
