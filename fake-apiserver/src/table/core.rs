//! Decides the rows of the kinds that are neither storage nor workloads. Answers to the `print…` functions of
//! `kubernetes/pkg/printers/internalversion/printers.go`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{AGE, Column, Entry, NAME, Row, boolean, integer, string, text, wide};
use crate::object::{at, text as string_at};

const RBAC: &str = "rbac.authorization.k8s.io";
const BINDING: &[Column] =
    &[NAME, string("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")];
const SERVICE: &[Column] = &[
    NAME,
    string("Type"),
    string("Cluster-IP"),
    string("External-IP"),
    string("Port(s)"),
    AGE,
    wide("Selector"),
];
const NODE: &[Column] = &[
    NAME,
    string("Status"),
    string("Roles"),
    AGE,
    string("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];
const EVENT: &[Column] = &[
    string("Last Seen"),
    string("Type"),
    string("Reason"),
    string("Object"),
    wide("Subobject"),
    wide("Source"),
    string("Message"),
    wide("First Seen"),
    wide("Count"),
    Column { priority: 1, ..NAME },
];
const PRIORITY: &[Column] =
    &[NAME, integer("Value"), boolean("Global-Default"), AGE, string("PreemptionPolicy")];

pub(super) const ENTRIES: &[Entry] = &[
    ("", "Namespace", &[NAME, string("Status"), AGE], |row| {
        vec![row.name(), row.text(&["status", "phase"]).into(), row.age()]
    }),
    ("", "Node", NODE, node),
    ("", "Event", EVENT, event),
    ("", "Service", SERVICE, service),
    ("", "Endpoints", &[NAME, string("Endpoints"), AGE], |row| {
        vec![row.name(), endpoints(row).into(), row.age()]
    }),
    ("", "ConfigMap", &[NAME, string("Data"), AGE], |row| {
        vec![row.name(), (row.count(&["data"]) + row.count(&["binaryData"])).into(), row.age()]
    }),
    ("", "Secret", &[NAME, string("Type"), string("Data"), AGE], |row| {
        vec![row.name(), row.text(&["type"]).into(), row.count(&["data"]).into(), row.age()]
    }),
    ("", "ServiceAccount", &[NAME, AGE], |row| vec![row.name(), row.age()]),
    ("", "ResourceQuota", &[NAME, string("Request"), string("Limit"), AGE], quota),
    ("coordination.k8s.io", "Lease", &[NAME, string("Holder"), AGE], |row| {
        vec![row.name(), row.text(&["spec", "holderIdentity"]).into(), row.age()]
    }),
    ("scheduling.k8s.io", "PriorityClass", PRIORITY, |row| {
        let default = row.flag(&["globalDefault"]).unwrap_or(false);
        let policy = row.text(&["preemptionPolicy"]);
        vec![row.name(), row.number(&["value"]).into(), default.into(), row.age(), policy.into()]
    }),
    (RBAC, "ClusterRoleBinding", BINDING, binding),
    (RBAC, "RoleBinding", BINDING, binding),
];

fn node(row: &Row<'_>) -> Vec<Value> {
    let ready = row.list(&["status", "conditions"]).iter().rfind(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        Some(ready) if ready["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if row.flag(&["spec", "unschedulable"]) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let addresses = row.list(&["status", "addresses"]);
        let found = addresses.iter().find(|address| address["type"] == kind);
        Value::from(found.map_or("<none>", |address| string_at(address, &["address"])))
    };
    let info = |name: &str| row.text(&["status", "nodeInfo", name]);
    let or_unknown = |text: &str| if text.is_empty() { "<unknown>" } else { text }.to_owned();
    let mut kernel = or_unknown(info("kernelVersion"));
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        row.name(),
        status.into(),
        roles(row).into(),
        row.age(),
        info("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        or_unknown(info("osImage")).into(),
        kernel.into(),
        or_unknown(info("containerRuntimeVersion")).into(),
    ]
}

/// The roles that a node's labels name.
fn roles(row: &Row<'_>) -> String {
    let labels = at(row.value, &["metadata", "labels"]).and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn event(row: &Row<'_>) -> Vec<Value> {
    let or = |path: &[&str], other: String| {
        if row.text(path).is_empty() { other } else { row.since(path) }
    };
    let first = or(&["firstTimestamp"], row.since(&["eventTime"]));
    let mut last = or(&["lastTimestamp"], first.clone());
    let mut count = row.number(&["count"]).max(1);
    if at(row.value, &["series"]).is_some_and(Value::is_object) {
        last = row.since(&["series", "lastObservedTime"]);
        count = row.number(&["series", "count"]);
    }
    let mut about = row.text(&["involvedObject", "kind"]).to_lowercase();
    let name = row.text(&["involvedObject", "name"]);
    if !name.is_empty() {
        about = format!("{about}/{name}");
    }
    let component = row.text_or(&["source", "component"], row.text(&["reportingComponent"]));
    let instance = row.text_or(&["source", "host"], row.text(&["reportingInstance"]));
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        last.into(),
        row.text(&["type"]).into(),
        row.text(&["reason"]).into(),
        about.into(),
        row.text(&["involvedObject", "fieldPath"]).into(),
        source.into(),
        row.text(&["message"]).trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}

fn service(row: &Row<'_>) -> Vec<Value> {
    let kind = row.text(&["spec", "type"]);
    let own = row.list(&["spec", "clusterIPs"]).first().and_then(Value::as_str).unwrap_or("<none>");
    let ports: Vec<String> = row
        .list(&["spec", "ports"])
        .iter()
        .map(|port| {
            let (number, protocol) = (port["port"].as_i64().unwrap_or(0), string_at(port, &["protocol"]));
            match port["nodePort"].as_i64() {
                Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    let selector = text::labels(at(row.value, &["spec", "selector"]));
    let external = external_address(row, kind);
    vec![row.name(), kind.into(), own.into(), external.into(), ports.into(), row.age(), selector.into()]
}

fn external_address(row: &Row<'_>, kind: &str) -> String {
    let external: Vec<&str> = row.list(&["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match kind {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let given: BTreeSet<&str> = row
                .list(&["status", "loadBalancer", "ingress"])
                .iter()
                .map(|one| match string_at(one, &["ip"]) {
                    "" => string_at(one, &["hostname"]),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = given.into_iter().chain(external).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => row.text(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The first three addresses, and how many more there are.
fn endpoints(row: &Row<'_>) -> String {
    const SHOWN: usize = 3;
    let mut all = Vec::new();
    for subset in row.list(&["subsets"]) {
        let ips = subset["addresses"].as_array().map_or(&[][..], Vec::as_slice);
        let ips = ips.iter().map(|address| string_at(address, &["ip"]));
        match subset["ports"].as_array().filter(|ports| !ports.is_empty()) {
            None => all.extend(ips.map(str::to_owned)),
            Some(ports) => {
                for port in ports {
                    let port = port["port"].as_i64().unwrap_or(0);
                    all.extend(ips.clone().map(|ip| {
                        if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                    }));
                }
            }
        }
    }
    if row.list(&["subsets"]).is_empty() {
        return "<none>".to_owned();
    }
    let shown = all[..all.len().min(SHOWN)].join(",");
    if all.len() > SHOWN { format!("{shown} + {} more...", all.len() - SHOWN) } else { shown }
}

fn quota(row: &Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = at(row.value, &["status", "hard"]).and_then(Value::as_object);
    for (name, hard) in hard.into_iter().flatten() {
        let used = at(row.value, &["status", "used", name]).and_then(Value::as_str).unwrap_or("0");
        let line = format!("{name}: {used}/{}", hard.as_str().unwrap_or("0"));
        if name.starts_with("limits.") { limits.push(line) } else { requests.push(line) }
    }
    vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
}

fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.text(&["roleRef", "kind"]), row.text(&["roleRef", "name"]));
    let subjects = |kind: &str| {
        let subjects = row.list(&["subjects"]).iter().filter(|subject| subject["kind"] == kind);
        let names: Vec<String> = subjects
            .map(|subject| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", string_at(subject, &["namespace"]), string_at(subject, &["name"]))
                }
                _ => string_at(subject, &["name"]).to_owned(),
            })
            .collect();
        json!(names.join(", "))
    };
    vec![row.name(), role.into(), row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}
