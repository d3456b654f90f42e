//! Decides the rows of what leads to pods over the network. Answers to the `print…` functions of
//! `kubernetes/pkg/printers/internalversion/printers.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AGE, Column, Entry, NAME, Row, string, text};
use crate::object::{at, strings, text as string_at};

/// How many of each are named.
const NAMED: usize = 3;

const NETWORKING: &str = "networking.k8s.io";
const INGRESS: &[Column] = &[NAME, string("Class"), string("Hosts"), string("Address"), string("Ports"), AGE];
const SLICE: &[Column] = &[NAME, string("AddressType"), string("Ports"), string("Endpoints"), AGE];

pub(super) const ENTRIES: &[Entry] = &[
    (NETWORKING, "Ingress", INGRESS, ingress),
    (NETWORKING, "IngressClass", &[NAME, string("Controller"), string("Parameters"), AGE], class),
    (NETWORKING, "NetworkPolicy", &[NAME, string("Pod-Selector"), AGE], |row| {
        let selector = text::selector_or_none(at(row.value, &["spec", "podSelector"]));
        vec![row.name(), selector.into(), row.age()]
    }),
    ("discovery.k8s.io", "EndpointSlice", SLICE, slice),
];

fn ingress(row: &Row<'_>) -> Vec<Value> {
    let class = at(row.value, &["spec", "ingressClassName"]).and_then(Value::as_str).unwrap_or("<none>");
    let ports = if row.list(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
    let points = row.list(&["status", "loadBalancer", "ingress"]);
    let points: BTreeSet<&str> = points
        .iter()
        .map(|point| (string_at(point, &["ip"]), string_at(point, &["hostname"])))
        .map(|(address, host)| if address.is_empty() { host } else { address })
        .filter(|point| !point.is_empty())
        .collect();
    let address = points.into_iter().collect::<Vec<_>>().join(",");
    vec![
        row.name(),
        class.into(),
        hosts(row.list(&["spec", "rules"])).into(),
        address.into(),
        ports.into(),
        row.age(),
    ]
}

/// The first hosts: a rule for all of them counts among those that there is no room for, and is not named.
fn hosts(rules: &[Value]) -> String {
    let mut named: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= named.len() == NAMED;
        let host = string_at(rule, &["host"]);
        if !more && !host.is_empty() {
            named.push(host);
        }
    }
    match named.join(",") {
        all if all.is_empty() => "*".to_owned(),
        all if more => format!("{all} + {} more...", rules.len() - NAMED),
        all => all,
    }
}

fn class(row: &Row<'_>) -> Vec<Value> {
    let mut name = row.text(&["metadata", "name"]).to_owned();
    if row.text(&["metadata", "annotations", "ingressclass.kubernetes.io/is-default-class"]) == "true" {
        name.push_str(" (default)");
    }
    let parameters = at(row.value, &["spec", "parameters"]).map(|parameters| {
        let group = parameters.get("apiGroup").and_then(Value::as_str);
        let group = group.map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", string_at(parameters, &["kind"]), string_at(parameters, &["name"]))
    });
    vec![
        name.into(),
        row.text(&["spec", "controller"]).into(),
        parameters.unwrap_or_else(|| "<none>".to_owned()).into(),
        row.age(),
    ]
}

fn slice(row: &Row<'_>) -> Vec<Value> {
    let port = |port: &Value| {
        let number = port["port"].as_i64().map(|number| number.to_string());
        number.or_else(|| port["name"].as_str().map(str::to_owned)).unwrap_or_else(|| "*".to_owned())
    };
    let ports: Vec<String> = row.list(&["ports"]).iter().map(port).collect();
    let endpoints = row.list(&["endpoints"]).iter().flat_map(|endpoint| strings(endpoint, &["addresses"]));
    let endpoints: Vec<String> = endpoints.map(str::to_owned).collect();
    vec![row.name(), row.text(&["addressType"]).into(), some_of(&ports), some_of(&endpoints), row.age()]
}

/// The first of them, and how many more there are.
fn some_of(all: &[String]) -> Value {
    let named = all[..all.len().min(NAMED)].join(",");
    match all.len() {
        more if more > NAMED => format!("{named} + {} more...", more - NAMED).into(),
        _ if named.is_empty() => "<unset>".into(),
        _ => named.into(),
    }
}
