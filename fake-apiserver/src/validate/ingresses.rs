//! Decides whether ingresses, their classes and their status may be stored. Never looks for the services that they lead to.
//! Answers to `kubernetes/pkg/apis/networking/validation`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::{addresses, metadata, names};
use crate::object::text;
use crate::status::Cause;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const CONTROLLER_LENGTH: usize = 250;
const NO_ADDRESS: &str = "must be a DNS name, not an IP address";
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
/// What no path holds that is compared part by part, and what none ends in.
const ODD_PARTS: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];
const ODD_ENDS: &[&str] = &["/..", "/."];

pub(super) fn create(value: &Value) -> Causes {
    let mut causes = update(value);
    let class = Field::root(value).at("spec.ingressClassName");
    let annotation = value["metadata"]["annotations"].get(CLASS_ANNOTATION);
    if class.is_set()
        && let Some(annotated) = annotation.filter(|annotated| *annotated != class.value)
    {
        causes.push(Cause::invalid(
            format!("annotations.{CLASS_ANNOTATION}"),
            annotated.clone(),
            "must match `ingressClassName` when both are specified",
        ));
    }
    causes
}

pub(super) fn update(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    let (backend, rules) = (spec.at("defaultBackend"), spec.at("rules"));
    if rules.is_empty() && !backend.is_set() {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(Cause::invalid("spec", rules.value.clone(), why));
    }
    if backend.is_set() {
        leads_somewhere(&backend, &mut causes);
    }
    for rule in rules.items() {
        of_host(&rule, &mut causes);
    }
    for tls in spec.at("tls").items() {
        for host in tls.at("hosts").items() {
            host.follow(host_rule(host.text()), &mut causes);
        }
        if !tls.at("secretName").is_empty() {
            tls.at("secretName").follow(names::subdomain, &mut causes);
        }
    }
    let class = spec.at("ingressClassName");
    if class.is_set() {
        class.follow(names::subdomain, &mut causes);
    }
    causes
}

/// How a host may be named: one, or all below one.
fn host_rule(host: &str) -> fn(&str) -> Vec<String> {
    if host.contains('*') { names::wildcard } else { names::subdomain }
}

fn of_host(rule: &Field<'_>, causes: &mut Causes) {
    let host = rule.at("host");
    if !host.is_empty() {
        if addresses::sloppy(host.text()).is_some() {
            causes.push(host.invalid(NO_ADDRESS));
        }
        host.follow(host_rule(host.text()), causes);
    }
    let http = rule.at("http");
    if !http.is_set() {
        return;
    }
    if http.at("paths").is_empty() {
        causes.push(http.at("paths").required(""));
    }
    for path in http.at("paths").items() {
        of_path(&path, causes);
    }
}

fn of_path(rule: &Field<'_>, causes: &mut Causes) {
    let (kind, path) = (rule.at("pathType"), rule.at("path"));
    if !kind.is_set() {
        causes.push(kind.required("pathType must be specified"));
        return;
    }
    let by_parts = matches!(kind.text(), "Exact" | "Prefix");
    if !by_parts && kind.text() != "ImplementationSpecific" {
        causes.push(kind.unsupported(PATH_TYPES));
    } else if !path.text().starts_with('/') && (by_parts || !path.is_empty()) {
        // What is missing is shown as what is empty.
        causes.push(Cause::invalid(path.path.as_str(), path.text(), "must be an absolute path"));
    }
    if by_parts {
        for part in ODD_PARTS.iter().filter(|part| path.text().contains(**part)) {
            causes.push(path.invalid(&format!("must not contain '{part}'")));
        }
        for end in ODD_ENDS.iter().filter(|end| path.text().ends_with(**end)) {
            causes.push(path.invalid(&format!("cannot end with '{end}'")));
        }
    }
    leads_somewhere(&rule.at("backend"), causes);
}

/// A service's port, or an object in the same namespace.
fn leads_somewhere(backend: &Field<'_>, causes: &mut Causes) {
    let (service, resource) = (backend.at("service"), backend.at("resource"));
    let wrong = |why: &str| Cause::invalid(backend.path.as_str(), "", why);
    match (service.is_set(), resource.is_set()) {
        (true, true) => causes.push(wrong("cannot set both resource and service backends")),
        (false, true) => reference(&resource, causes),
        (false, false) => causes.push(wrong("resource or service backend is required")),
        (true, false) => {
            service.at("name").need_and_follow(names::label, causes);
            let (name, number) = (service.at("port.name"), service.at("port.number"));
            match (!name.is_empty(), number.number().is_some_and(|number| number != 0)) {
                (true, true) => causes.push(wrong("cannot set both port name & port number")),
                (true, false) => name.follow(names::port_name, causes),
                (false, true) => number.port(causes),
                (false, false) => causes.push(backend.required("port name or number is required")),
            }
        }
    }
}

fn reference(object: &Field<'_>, causes: &mut Causes) {
    if object.at("apiGroup").is_set() {
        object.at("apiGroup").follow(names::subdomain, causes);
    }
    for field in ["kind", "name"] {
        object.at(field).need_and_follow(metadata::path_segment, causes);
    }
}

pub(super) fn status(value: &Value) -> Causes {
    let mut causes = Causes::new();
    for point in Field::root(value).at("status.loadBalancer.ingress").items() {
        let (address, host) = (point.at("ip"), point.at("hostname"));
        if !address.is_empty() {
            addresses::address(&address, &mut causes);
        }
        if !host.is_empty() {
            host.follow(names::subdomain, &mut causes);
            if addresses::sloppy(host.text()).is_some() {
                causes.push(host.invalid(NO_ADDRESS));
            }
        }
    }
    causes
}

pub(super) fn class(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    let controller = spec.at("controller");
    if controller.text().len() > CONTROLLER_LENGTH {
        causes.push(Cause::too_long(controller.path.as_str(), CONTROLLER_LENGTH));
    }
    controller.need_and_follow(names::domain_path, &mut causes);
    let parameters = spec.at("parameters");
    if !parameters.is_set() {
        return causes;
    }
    reference(&parameters, &mut causes);
    let namespace = parameters.at("namespace");
    match parameters.at("scope").text() {
        "Namespace" if !namespace.is_set() => {
            causes.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        "Namespace" => namespace.follow(names::label, &mut causes),
        "Cluster" if namespace.is_set() => {
            causes.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
        }
        "Cluster" => {}
        _ => causes.push(parameters.at("scope").unsupported(&["Cluster", "Namespace"])),
    }
    causes
}

pub(super) fn update_class(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    if text(old, &["spec", "controller"]) != text(new, &["spec", "controller"]) {
        causes.push(Field::root(new).at("spec.controller").invalid("field is immutable"));
    }
    causes.extend(class(new));
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the tables below are read more easily")]
    fn check(spec: Value, fields: &[&str]) {
        let causes = create(&json!({"spec": spec}));
        let found: Vec<&str> =
            causes.iter().filter_map(|cause| cause.sentence().split(": ").next()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn a_backend_is_a_service_or_an_object() {
        let backend = |backend: Value| json!({"defaultBackend": backend});
        check(backend(json!({"service": {"name": "s", "port": {"number": 80}}})), &[]);
        check(backend(json!({"resource": {"kind": "K", "name": "n"}})), &[]);
        check(backend(json!({})), &["spec.defaultBackend"]);
        check(backend(json!({"service": {"name": "s"}})), &["spec.defaultBackend"]);
        check(json!({}), &["spec"]);
    }

    #[test]
    fn paths_are_absolute_and_plain() {
        let path = |kind: &str, path: &str| {
            let backend = json!({"resource": {"kind": "K", "name": "n"}});
            json!({"rules": [{"http": {"paths": [{"pathType": kind, "path": path, "backend": backend}]}}]})
        };
        let field = "spec.rules[0].http.paths[0].path";
        check(path("Prefix", "/a"), &[]);
        check(path("ImplementationSpecific", ""), &[]);
        check(path("Prefix", ""), &[field]);
        check(path("Exact", "/a//b/."), &[field, field]);
        check(path("Other", "/a"), &["spec.rules[0].http.paths[0].pathType"]);
    }
}
