//! Decides whether a container's probes and hooks say what to do. Answers to `validateProbe` and
//! `validateLifecycle`.

use crate::status::Cause;
use crate::validate::field::{Causes, Field};

const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

pub(super) fn all(container: &Field<'_>, spec: &Field<'_>, causes: &mut Causes) {
    let lifecycle = container.at("lifecycle");
    for hook in ["postStart", "preStop"] {
        if lifecycle.at(hook).is_set() {
            handler(&lifecycle.at(hook), spec, causes);
        }
    }
    let signal = lifecycle.at("stopSignal");
    if signal.is_set() && !spec.at("os").is_set() {
        causes.push(signal.forbidden("may not be set for containers with empty `spec.os.name`"));
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.at(kind);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, spec, causes);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            probe.at(field).at_least(0, causes);
        }
        let grace = probe.at("terminationGracePeriodSeconds");
        grace.at_least(1, causes);
        if kind == "readinessProbe" {
            if grace.is_set() {
                causes.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if probe.at("successThreshold").number() != Some(1) {
            causes.push(probe.at("successThreshold").invalid("must be 1"));
        }
    }
}

fn handler(field: &Field<'_>, spec: &Field<'_>, causes: &mut Causes) {
    let mut found = false;
    for kind in HANDLERS {
        let one = field.at(kind);
        if !one.is_set() {
            continue;
        }
        if std::mem::replace(&mut found, true) {
            causes.push(one.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        match *kind {
            "exec" => one.at("command").need(causes),
            "httpGet" => http(&one, causes),
            "sleep" => {
                let (seconds, grace) = (one.at("seconds"), spec.at("terminationGracePeriodSeconds").number());
                let number = seconds.number().unwrap_or(0);
                if number < 0 || grace.is_some_and(|grace| number > grace) {
                    causes.push(Cause::invalid(
                        one.path.as_str(),
                        number,
                        "must be between 0 and terminationGracePeriodSeconds",
                    ));
                }
            }
            _ => one.at("port").port_or_name(causes),
        }
    }
    if !found {
        causes.push(field.required("must specify a handler type"));
    }
}

fn http(get: &Field<'_>, causes: &mut Causes) {
    get.at("path").need(causes);
    get.at("port").port_or_name(causes);
    get.at("scheme").must_be_one_of(&["HTTP", "HTTPS"], causes);
    for header in get.at("httpHeaders").items() {
        let name = header.at("name").text();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-'";
            causes.push(Cause::invalid(get.at("httpHeaders").path, name, why));
        }
    }
}
