//! Decides the rows of what leads to pods over the network. Answers to the `print…` functions of
//! `kubernetes/pkg/printers/internalversion/printers.go`.

use serde_json::Value;

use super::{AGE, Entry, NAME, Row, string};
use crate::object::strings;

/// How many of each are named.
const NAMED: usize = 3;

pub(super) const ENTRIES: &[Entry] = &[(
    "discovery.k8s.io",
    "EndpointSlice",
    &[NAME, string("AddressType"), string("Ports"), string("Endpoints"), AGE],
    slice,
)];

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
