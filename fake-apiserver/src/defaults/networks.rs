//! Decides the defaults of network policies and of the classes of ingresses.

use serde_json::{Value, json};

use super::{default_in, items, map};

pub(super) fn apply(kind: &str, value: &mut Value) {
    let spec = map(value, "spec");
    match kind {
        "IngressClass" => {
            if let Some(parameters) = spec.get_mut("parameters") {
                default_in(parameters, "scope", "Cluster".into());
            }
        }
        "NetworkPolicy" => {
            let limits_both = spec.get("egress").is_some();
            // A policy that says nothing of it limits what comes in.
            let types = if limits_both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            default_in(spec, "policyTypes", types);
            for rules in ["ingress", "egress"] {
                for port in items(spec, rules).flat_map(|rule| items(rule, "ports")) {
                    default_in(port, "protocol", "TCP".into());
                }
            }
        }
        _ => {}
    }
}
