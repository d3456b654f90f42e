//! Decides whether pods keep to the Pod Security Standard that their namespace's labels ask for. Checks of
//! fields for Windows are left out, and every version counts as the latest. Answers to
//! `k8s.io/pod-security-admission`.

use serde_json::Value;

use crate::object::{key_of, text};
use crate::routes::Target;
use crate::status::{Result, Status};
use crate::store::Store;

const LABEL: &str = "pod-security.kubernetes.io/";
const HARMLESS: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The level and version that a namespace asks for in one of the three modes.
fn policy(store: &Store, namespace: &str, mode: &str) -> Option<(String, String)> {
    let index = store.kinds.named("Namespace")?;
    let labels = store.get(index, &key_of("", namespace))?.value["metadata"]["labels"].clone();
    let level = text(&labels, &[&format!("{LABEL}{mode}")]).to_owned();
    let version = text(&labels, &[&format!("{LABEL}{mode}-version")]);
    let version = if version.is_empty() { "latest" } else { version }.to_owned();
    matches!(level.as_str(), "baseline" | "restricted").then_some((level, version))
}

fn pod_spec<'a>(target: &Target, value: &'a Value) -> Option<&'a Value> {
    match (&*target.kind.group, &*target.kind.kind) {
        ("", "Pod") => value.get("spec"),
        ("", "PodTemplate") => value.pointer("/template/spec"),
        ("batch", "CronJob") => value.pointer("/spec/jobTemplate/spec/template/spec"),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("", "ReplicationController")
        | ("batch", "Job") => value.pointer("/spec/template/spec"),
        _ => None,
    }
}

/// Refuses a pod that the namespace forbids.
pub(super) fn enforce(store: &Store, target: &Target, value: &Value) -> Result<()> {
    if target.kind.kind != "Pod" {
        return Ok(());
    }
    let Some((level, version)) = policy(store, &target.namespace, "enforce") else { return Ok(()) };
    let Some(wrong) = violations(&value["spec"], &level) else { return Ok(()) };
    let why = format!("violates PodSecurity \"{level}:{version}\": {wrong}");
    Err(Status::forbidden("", "pods", text(value, &["metadata", "name"]), &why))
}

/// What the namespace warns of.
pub(crate) fn warning(store: &Store, target: &Target, value: &Value) -> Option<String> {
    let spec = pod_spec(target, value)?;
    let (level, version) = policy(store, &target.namespace, "warn")?;
    let wrong = violations(spec, &level)?;
    Some(format!("would violate PodSecurity \"{level}:{version}\": {wrong}"))
}

fn violations(spec: &Value, level: &str) -> Option<String> {
    let mut found = Vec::new();
    baseline(spec, level == "restricted", &mut found);
    if level == "restricted" {
        restricted(spec, &mut found);
    }
    (!found.is_empty()).then(|| found.join(", "))
}

fn containers(spec: &Value) -> Vec<&Value> {
    let parts = ["initContainers", "containers", "ephemeralContainers"];
    parts.into_iter().flat_map(|part| spec[part].as_array().into_iter().flatten()).collect()
}

/// The names of those containers of which something holds.
fn named(spec: &Value, wrong: impl Fn(&Value) -> bool) -> Vec<String> {
    let found = containers(spec).into_iter().filter(|container| wrong(container));
    found.map(|container| text(container, &["name"]).to_owned()).collect()
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// `container "a"`, or `containers "a", "b"`.
fn subject(what: &str, names: &[String]) -> String {
    format!("{what}{} {}", if names.len() == 1 { "" } else { "s" }, quoted(names))
}

fn host_namespaces(spec: &Value, found: &mut Vec<String>) {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let shared: Vec<String> =
        fields.iter().filter(|field| spec[**field] == true).map(|field| format!("{field}=true")).collect();
    if !shared.is_empty() {
        found.push(format!("host namespaces ({})", shared.join(", ")));
    }
}

fn baseline(spec: &Value, is_restricted: bool, found: &mut Vec<String>) {
    if !is_restricted {
        let mut added: Vec<String> = Vec::new();
        let names = named(spec, |container| {
            let add =
                container["securityContext"]["capabilities"]["add"].as_array().cloned().unwrap_or_default();
            add.iter().filter_map(Value::as_str).any(|one| !HARMLESS.contains(&one))
        });
        for container in containers(spec) {
            let add = container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten();
            for one in add.filter_map(Value::as_str).filter(|one| !HARMLESS.contains(one)) {
                if !added.iter().any(|present| present == one) {
                    added.push(one.to_owned());
                }
            }
        }
        added.sort_unstable();
        if !names.is_empty() {
            let what = "in securityContext.capabilities.add";
            found.push(format!(
                "non-default capabilities ({} must not include {} {what})",
                subject("container", &names),
                quoted(&added)
            ));
        }
    }
    host_namespaces(spec, found);
    let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    if !is_restricted {
        let paths: Vec<String> = list("volumes")
            .iter()
            .filter(|volume| volume["hostPath"].is_object())
            .map(|volume| text(volume, &["name"]).to_owned())
            .collect();
        if !paths.is_empty() {
            found.push(format!("hostPath volumes ({})", subject("volume", &paths)));
        }
    }
    host_ports(spec, found);
    let names = named(spec, |container| container["securityContext"]["privileged"] == true);
    if !names.is_empty() {
        let who = subject("container", &names);
        found.push(format!("privileged ({who} must not set securityContext.privileged=true)"));
    }
    let names = named(spec, |container| container["securityContext"]["procMount"] == "Unmasked");
    if !names.is_empty() {
        let who = subject("container", &names);
        found.push(format!("procMount ({who} must not set securityContext.procMount to \"Unmasked\")"));
    }
    if !is_restricted {
        unconfined(spec, found);
    }
    let context = &spec["securityContext"];
    let kernel: Vec<String> = context["sysctls"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|sysctl| text(sysctl, &["name"]).to_owned())
        .filter(|name| !SYSCTLS.contains(&name.as_str()))
        .collect();
    if !kernel.is_empty() {
        found.push(format!("forbidden sysctls ({})", kernel.join(", ")));
    }
}

fn host_ports(spec: &Value, found: &mut Vec<String>) {
    let mut ports: Vec<String> = Vec::new();
    let names = named(spec, |container| {
        let list = container["ports"].as_array().into_iter().flatten();
        list.filter_map(|port| port["hostPort"].as_i64()).any(|port| port != 0)
    });
    for container in containers(spec) {
        let list = container["ports"].as_array().into_iter().flatten();
        for port in list.filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0) {
            let port = port.to_string();
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
    }
    ports.sort_unstable();
    if !names.is_empty() {
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let many = if ports.len() == 1 { "" } else { "s" };
        found.push(format!(
            "hostPort ({} {verb} hostPort{many} {})",
            subject("container", &names),
            ports.join(", ")
        ));
    }
}

fn unconfined(spec: &Value, found: &mut Vec<String>) {
    let is = |context: &Value| context["seccompProfile"]["type"] == "Unconfined";
    let mut who = Vec::new();
    if is(&spec["securityContext"]) {
        who.push("pod".to_owned());
    }
    let names = named(spec, |container| is(&container["securityContext"]));
    if !names.is_empty() {
        who.push(subject("container", &names));
    }
    if !who.is_empty() {
        let what = "must not set securityContext.seccompProfile.type to \"Unconfined\"";
        found.push(format!("seccompProfile ({} {what})", who.join(" and ")));
    }
}

fn restricted(spec: &Value, found: &mut Vec<String>) {
    let names = named(spec, |container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    if !names.is_empty() {
        let who = subject("container", &names);
        found.push(format!(
            "allowPrivilegeEscalation != false ({who} must set securityContext.allowPrivilegeEscalation=false)"
        ));
    }
    capabilities(spec, found);
    restricted_volumes(spec, found);
    let context = &spec["securityContext"];
    let explicit = named(spec, |container| container["securityContext"]["runAsNonRoot"] == false);
    let open = named(spec, |container| container["securityContext"]["runAsNonRoot"].is_null());
    if !explicit.is_empty() {
        let who = subject("container", &explicit);
        found.push(format!("runAsNonRoot != true ({who} must not set securityContext.runAsNonRoot=false)"));
    } else if context["runAsNonRoot"] != true && !open.is_empty() {
        let who = subject("container", &open);
        found.push(format!("runAsNonRoot != true (pod or {who} must set securityContext.runAsNonRoot=true)"));
    }
    let mut roots = Vec::new();
    if context["runAsUser"] == 0 {
        roots.push("pod".to_owned());
    }
    let names = named(spec, |container| container["securityContext"]["runAsUser"] == 0);
    if !names.is_empty() {
        roots.push(subject("container", &names));
    }
    if !roots.is_empty() {
        found.push(format!("runAsUser=0 ({} must not set runAsUser=0)", roots.join(" and ")));
    }
    seccomp(spec, found);
}

fn capabilities(spec: &Value, found: &mut Vec<String>) {
    let of = |container: &Value, field: &str| -> Vec<String> {
        let list = container["securityContext"]["capabilities"][field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let keeps = named(spec, |container| !of(container, "drop").iter().any(|one| one == "ALL"));
    let adds = named(spec, |container| of(container, "add").iter().any(|one| one != "NET_BIND_SERVICE"));
    let mut parts = Vec::new();
    if !keeps.is_empty() {
        let who = subject("container", &keeps);
        parts.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adds.is_empty() {
        let all = containers(spec).into_iter().flat_map(|container| of(container, "add"));
        let mut added: Vec<String> = all.filter(|one| one != "NET_BIND_SERVICE").collect();
        added.sort_unstable();
        added.dedup();
        let who = subject("container", &adds);
        parts.push(format!("{who} must not include {} in securityContext.capabilities.add", quoted(&added)));
    }
    if !parts.is_empty() {
        found.push(format!("unrestricted capabilities ({})", parts.join("; ")));
    }
}

fn restricted_volumes(spec: &Value, found: &mut Vec<String>) {
    let (mut names, mut kinds) = (Vec::new(), Vec::new());
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        let sources = volume.as_object().into_iter().flatten().map(|(kind, _)| kind.as_str());
        for kind in sources.filter(|kind| *kind != "name" && !VOLUMES.contains(kind)) {
            names.push(text(volume, &["name"]).to_owned());
            if !kinds.iter().any(|present| present == kind) {
                kinds.push(kind.to_owned());
            }
        }
    }
    kinds.sort_unstable();
    if !names.is_empty() {
        let (verb, many) =
            (if names.len() == 1 { "uses" } else { "use" }, if kinds.len() == 1 { "" } else { "s" });
        found.push(format!(
            "restricted volume types ({} {verb} restricted volume type{many} {})",
            subject("volume", &names),
            quoted(&kinds)
        ));
    }
}

fn seccomp(spec: &Value, found: &mut Vec<String>) {
    let kind = |context: &Value| text(context, &["seccompProfile", "type"]).to_owned();
    let good = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let pod = kind(&spec["securityContext"]);
    let bad = named(spec, |container| {
        let own = kind(&container["securityContext"]);
        !own.is_empty() && !good(&own)
    });
    let what = "securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    let mut parts = Vec::new();
    if !pod.is_empty() && !good(&pod) {
        parts.push("pod".to_owned());
    }
    if !bad.is_empty() {
        parts.push(subject("container", &bad));
    }
    if !parts.is_empty() {
        let never = "must not set securityContext.seccompProfile.type to \"Unconfined\"";
        found.push(format!("seccompProfile ({} {never})", parts.join(" and ")));
        return;
    }
    let open = named(spec, |container| kind(&container["securityContext"]).is_empty());
    if pod.is_empty() && !open.is_empty() {
        found.push(format!("seccompProfile (pod or {} must set {what})", subject("container", &open)));
    }
}
