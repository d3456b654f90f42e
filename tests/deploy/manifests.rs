//! The plain manifests: nobody runs with more rights than needed, and every option exists.

use std::time::Duration;

use clap::Parser;
use pvbind::act::Options;
use serde_json::{Value, json};

use crate::shipped::{MANIFESTS, at, list, name, objects, of_kind, text, texts};

/// Fails unless a Deployment is as harmless as it can be.
pub fn check_hardened(deployment: &Value) {
    let pod = at(deployment, "/spec/template/spec");
    assert_eq!(at(pod, "/securityContext/runAsNonRoot"), true);
    assert_eq!(at(pod, "/securityContext/runAsUser"), 65532);
    assert_eq!(at(pod, "/securityContext/seccompProfile/type"), "RuntimeDefault");
    for container in list(pod, "/containers") {
        let expected = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        });
        assert_eq!(container["securityContext"], expected, "{}", name_of(container));
    }
    check_placed(deployment);
    for forbidden in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_eq!(pod[forbidden], Value::Null, "{forbidden}");
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        assert!(volume.get("configMap").is_some(), "{volume} is more than a configuration");
    }
}

/// Fails unless a Deployment says all that the one who places and ends its pods has to know.
fn check_placed(deployment: &Value) {
    let pod = at(deployment, "/spec/template/spec");
    let labels = at(deployment, "/spec/template/metadata/labels");
    for (key, value) in at(deployment, "/spec/selector/matchLabels").as_object().expect("labels") {
        assert_eq!(&labels[key], value, "{key}");
    }
    assert_eq!(at(pod, "/priorityClassName"), "system-cluster-critical");
    assert_eq!(at(pod, "/enableServiceLinks"), false, "an option would be taken from a service's name");
    list(pod, "/tolerations");
    list(pod, "/topologySpreadConstraints");
    let grace = at(pod, "/terminationGracePeriodSeconds").as_u64().expect("seconds");
    assert!(Duration::from_secs(grace) > Options::controller().drain, "{grace} s are too few to end in");
    for container in list(pod, "/containers") {
        for part in ["livenessProbe", "readinessProbe"] {
            let port = at(container, &format!("/{part}/httpGet/port"));
            let ports = list(container, "/ports");
            assert!(ports.iter().any(|named| named["name"] == *port), "{}: {part}", name_of(container));
        }
        at(container, "/resources/requests/cpu");
        at(container, "/resources/requests/memory");
    }
}

fn name_of(container: &Value) -> &str {
    at(container, "/name").as_str().expect("a name")
}

/// The containers of this program, with what they are told.
pub fn told(deployment: &Value) -> Vec<(&Value, Vec<&str>)> {
    let containers = list(deployment, "/spec/template/spec/containers").iter();
    let own = containers.filter(|container| container.get("command").is_none());
    own.map(|container| (container, texts(container, "/args"))).collect()
}

/// Fails unless the program takes every option that a Deployment gives, and serves where it is asked.
pub fn check_options(deployment: &Value) {
    for (container, arguments) in told(deployment) {
        // It is found by the command line's own reader: what it refuses, the program refuses.
        let line = ["pvbind"].into_iter().chain(arguments.iter().copied());
        if let Err(error) = pvbind::cmd::Cli::try_parse_from(line) {
            panic!("{}: {error}", name(deployment));
        }
        let port = arguments.iter().find_map(|argument| argument.strip_prefix("--metrics-addr=:"));
        let port = port.expect("it says where it serves metrics");
        assert_eq!(at(container, "/ports/0/containerPort").to_string(), port);
        assert_eq!(at(container, "/image").as_str().map(|image| image.contains(':')), Some(true));
    }
}

/// Fails if a role names what nobody needs.
pub fn check_role(role: &Value) {
    for rule in list(role, "/rules") {
        for part in ["/apiGroups", "/resources", "/verbs"] {
            for word in texts(rule, part) {
                assert!(!word.contains('*'), "{}: {rule}", name(role));
                let needless = ["secrets", "escalate", "bind", "impersonate", "deletecollection"];
                assert!(!needless.contains(&word), "{}: {rule}", name(role));
            }
        }
        for resource in texts(rule, "/resources") {
            assert!(!resource.starts_with("serviceaccounts") && resource != "pods/exec", "{rule}");
        }
    }
}

#[test]
fn deployments_are_hardened_and_told_what_the_program_knows() {
    for (component, file) in MANIFESTS {
        let objects = objects(&text(file));
        let deployments: Vec<_> = of_kind(&objects, "Deployment").collect();
        assert_eq!(deployments.len(), 1, "{file}");
        for deployment in deployments {
            check_hardened(deployment);
            check_options(deployment);
            let commands: Vec<_> = told(deployment).into_iter().map(|(_, arguments)| arguments[0]).collect();
            assert_eq!(commands, [component]);
        }
    }
}

#[test]
fn permissions_are_for_the_one_who_runs_and_for_nothing_of_worth() {
    for (component, file) in MANIFESTS {
        let objects = objects(&text(file));
        let roles: Vec<_> = of_kind(&objects, "ClusterRole").chain(of_kind(&objects, "Role")).collect();
        assert!(!roles.is_empty(), "{file}");
        for role in &roles {
            check_role(role);
        }
        let deployment = of_kind(&objects, "Deployment").next().expect("a Deployment");
        let account = at(deployment, "/spec/template/spec/serviceAccountName");
        let accounts: Vec<_> = of_kind(&objects, "ServiceAccount").map(name).collect();
        assert_eq!(accounts, [account.as_str().expect("a name")]);
        let bindings = of_kind(&objects, "ClusterRoleBinding").chain(of_kind(&objects, "RoleBinding"));
        let mut bound = Vec::new();
        for binding in bindings {
            let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}]);
            assert_eq!(binding["subjects"], subject, "{file}");
            bound.push(at(binding, "/roleRef/name").as_str().expect("a name"));
        }
        // What Kubernetes ships itself, to the kube-scheduler in the extender's pod.
        let shipped = ["system:kube-scheduler", "extension-apiserver-authentication-reader"];
        bound.retain(|role| !(component == "extender" && shipped.contains(role)));
        let mut names: Vec<_> = roles.iter().map(|role| name(role)).collect();
        names.sort_unstable();
        bound.sort_unstable();
        assert_eq!(bound, names, "{file}");
    }
}

#[test]
fn metrics_are_found_by_their_service() {
    for (_, file) in MANIFESTS {
        let objects = objects(&text(file));
        let deployment = of_kind(&objects, "Deployment").next().expect("a Deployment");
        let service = of_kind(&objects, "Service").next().expect("a Service");
        assert_eq!(at(service, "/spec/selector"), at(deployment, "/spec/selector/matchLabels"));
        assert_eq!(at(service, "/spec/ports/0/targetPort"), "metrics");
        let port = at(deployment, "/spec/template/spec/containers/0/ports/0/containerPort");
        assert_eq!(at(service, "/spec/ports/0/port"), port);
    }
}

#[test]
fn several_replicas_go_one_by_one() {
    for (_, file) in MANIFESTS {
        let objects = objects(&text(file));
        let deployment = of_kind(&objects, "Deployment").next().expect("a Deployment");
        let several = at(deployment, "/spec/replicas").as_u64() > Some(1);
        let budgets: Vec<_> = of_kind(&objects, "PodDisruptionBudget").collect();
        assert_eq!(budgets.len(), usize::from(several), "{file}");
        for budget in budgets {
            assert_eq!(at(budget, "/spec/maxUnavailable"), 1);
            assert_eq!(at(budget, "/spec/selector"), at(deployment, "/spec/selector"));
        }
    }
}

/// What is not the same when the extender is in kube-scheduler's own pod.
fn without_transport(mut configuration: Value) -> Value {
    let root = configuration.as_object_mut().expect("an object");
    root.remove("clientConnection");
    root.remove("leaderElection");
    root["profiles"][0]["schedulerName"] = Value::Null;
    let extender = root["extenders"][0].as_object_mut().expect("an extender");
    for field in ["urlPrefix", "enableHTTPS", "tlsConfig"] {
        extender.remove(field);
    }
    configuration
}

#[test]
fn both_ways_to_run_the_extender_have_one_configuration() {
    let objects = objects(&text("deploy/manifests/extender.yaml"));
    let map = of_kind(&objects, "ConfigMap").next().expect("a ConfigMap");
    let read = |text: &str| serde_saphyr::from_str::<Value>(text).expect("a configuration");
    let inside = read(at(map, "/data/kube-scheduler.yaml").as_str().expect("text"));
    let beside = read(&text("deploy/extender/kube-scheduler.yaml"));
    assert_eq!(without_transport(inside.clone()), without_transport(beside));
    let deployment = of_kind(&objects, "Deployment").next().expect("a Deployment");
    let listen = format!("--listen={}", inside["extenders"][0]["urlPrefix"].as_str().expect("a url"));
    let listen = listen.replace("http://", "");
    assert!(told(deployment)[0].1.contains(&listen.as_str()), "{listen}");
    // The lease is one that its role is about.
    let role = of_kind(&objects, "Role").next().expect("a Role");
    assert_eq!(at(role, "/rules/0/resourceNames/0"), &inside["leaderElection"]["resourceName"]);
    assert_eq!(at(role, "/metadata/namespace"), &inside["leaderElection"]["resourceNamespace"]);
}
