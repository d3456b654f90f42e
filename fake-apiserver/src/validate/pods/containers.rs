//! Decides whether a pod's containers make sense: names, ports, mounts. Variables, amounts, and probes
//! and hooks are judged by `env`, `amounts` and `probes`. Answers to `validateContainers`, `validateInitContainers` and
//! `validateEphemeralContainers`.

use super::volumes::Volumes;
use super::{amounts, env, probes, security};
use crate::status::Cause;
use crate::validate::field::{Causes, Field};
use crate::validate::names;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const PULLS: &[&str] = &["Always", "IfNotPresent", "Never"];
const EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
/// All containers of a pod's spec; `is_pod` is false in templates.
pub(super) fn all(spec: &Field<'_>, volumes: &Volumes<'_>, is_pod: bool, causes: &mut Causes) {
    let mut names = regular(spec, volumes, causes);
    initial(spec, volumes, &mut names, causes);
    ephemeral(spec, volumes, &mut names, causes);
    if is_pod {
        for part in ["containers", "initContainers", "ephemeralContainers"] {
            for image in spec.at(part).items().iter().map(|container| container.at("image")) {
                if image.text().trim() != image.text() {
                    causes.push(image.invalid("must not have leading or trailing whitespace"));
                }
            }
        }
    }
}

fn regular<'a>(spec: &Field<'a>, volumes: &Volumes<'_>, causes: &mut Causes) -> Vec<&'a str> {
    let mut names = Vec::new();
    let containers = spec.at("containers");
    if containers.is_empty() {
        causes.push(containers.required(""));
        return names;
    }
    let mut ports = Vec::new();
    for container in containers.items() {
        common(&container, volumes, causes);
        let name = container.at("name");
        if names.contains(&name.text()) {
            causes.push(name.duplicate());
        }
        names.push(name.text());
        probes::all(&container, spec, causes);
        restart(&container, causes);
        host_ports(&container, &mut ports, causes);
    }
    names
}

fn initial<'a>(spec: &Field<'a>, volumes: &Volumes<'_>, names: &mut Vec<&'a str>, causes: &mut Causes) {
    for container in spec.at("initContainers").items() {
        common(&container, volumes, causes);
        restart(&container, causes);
        let name = container.at("name");
        if names.contains(&name.text()) {
            causes.push(name.duplicate());
        } else if !name.is_empty() {
            names.push(name.text());
        }
        host_ports(&container, &mut Vec::new(), causes);
        if container.at("restartPolicy").text() == "Always" {
            probes::all(&container, spec, causes);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.at(field).is_set() {
                let why = "may not be set for init containers without restartPolicy=Always";
                causes.push(container.at(field).forbidden(why));
            }
        }
    }
}

fn ephemeral<'a>(spec: &Field<'a>, volumes: &Volumes<'_>, names: &mut Vec<&'a str>, causes: &mut Causes) {
    let others = names.clone();
    for container in spec.at("ephemeralContainers").items() {
        common(&container, volumes, causes);
        let name = container.at("name");
        if names.contains(&name.text()) {
            causes.push(name.duplicate());
        }
        names.push(name.text());
        let target = container.at("targetContainerName");
        if !target.is_empty() && !others.contains(&target.text()) {
            causes.push(Cause::not_found(target.path.as_str(), target.value.clone()));
        }
        for field in [
            "ports",
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "resources",
            "resizePolicy",
        ] {
            if !container.at(field).is_empty() {
                causes.push(container.at(field).forbidden(EPHEMERAL));
            }
        }
        for mount in container.at("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.at(field).is_empty() {
                    causes.push(mount.at(field).forbidden(EPHEMERAL));
                }
            }
        }
    }
}

/// What holds of every container.
fn common(container: &Field<'_>, volumes: &Volumes<'_>, causes: &mut Causes) {
    container.at("name").need_and_follow(names::label, causes);
    container.at("image").need(causes);
    let policy = container.at("terminationMessagePolicy");
    if policy.is_empty() {
        causes.push(policy.required(""));
    } else {
        policy.must_be_one_of(&["File", "FallbackToLogsOnError"], causes);
    }
    ports(container, causes);
    env::env(container, causes);
    env::env_from(container, causes);
    volumes.mounts(container, causes);
    volumes.devices(container, causes);
    let pull = container.at("imagePullPolicy");
    if pull.is_empty() {
        causes.push(pull.required(""));
    } else {
        pull.must_be_one_of(PULLS, causes);
    }
    amounts::resources(&container.at("resources"), causes);
    resize(container, causes);
    security::of_container(&container.at("securityContext"), causes);
}

fn restart(container: &Field<'_>, causes: &mut Causes) {
    let (policy, rules) = (container.at("restartPolicy"), container.at("restartPolicyRules"));
    if policy.is_set() {
        policy.must_be_one_of(&["Always", "Never", "OnFailure"], causes);
    } else if !rules.is_empty() {
        causes.push(policy.required("must specify restartPolicy when restart rules are used"));
    }
}

fn ports(container: &Field<'_>, causes: &mut Causes) {
    let mut seen = Vec::new();
    for port in container.at("ports").items() {
        let name = port.at("name");
        if !name.is_empty() {
            let before = causes.len();
            name.follow(names::port_name, causes);
            if causes.len() == before {
                if seen.contains(&name.text()) {
                    causes.push(name.duplicate());
                }
                seen.push(name.text());
            }
        }
        let number = port.at("containerPort");
        if number.number().unwrap_or(0) == 0 {
            causes.push(number.required(""));
        } else {
            number.port(causes);
        }
        if port.at("hostPort").number().unwrap_or(0) != 0 {
            port.at("hostPort").port(causes);
        }
        port.at("protocol").must_be_one_of(PROTOCOLS, causes);
    }
}

fn host_ports(container: &Field<'_>, taken: &mut Vec<String>, causes: &mut Causes) {
    for port in container.at("ports").items() {
        let number = port.at("hostPort").number().unwrap_or(0);
        if number == 0 {
            continue;
        }
        let name = format!("{}/{}/{number}", port.at("protocol").text(), port.at("hostIP").text());
        if taken.contains(&name) {
            causes.push(Cause::duplicate(port.at("hostPort").path, name.as_str()));
        }
        taken.push(name);
    }
}

fn resize(container: &Field<'_>, causes: &mut Causes) {
    let all = container.at("resizePolicy");
    let mut seen = Vec::new();
    for (index, policy) in all.items().iter().enumerate() {
        let (resource, restart) = (policy.at("resourceName").text(), policy.at("restartPolicy").text());
        if seen.contains(&resource) {
            causes.push(Cause::duplicate(format!("{}[{index}]", all.path), resource));
        }
        seen.push(resource);
        // Upstream names the list, not the item.
        for (text, supported) in
            [(resource, &["cpu", "memory"]), (restart, &["NotRequired", "RestartContainer"])]
        {
            if text.is_empty() {
                causes.push(all.required(""));
            } else if !supported.contains(&text) {
                causes.push(Cause::unsupported(all.path.as_str(), text, supported));
            }
        }
    }
}
