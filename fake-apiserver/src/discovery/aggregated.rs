//! Decides how all groups, versions and resources look in one document, which clients can keep as long as its
//! hash stays. Says nothing that the separate documents don't say. Answers to
//! `k8s.io/apiserver/pkg/endpoints/discovery/aggregated`.

use serde_json::{Value, json};

use super::{resources, versions};
use crate::answer::{AGGREGATED, Answer};
use crate::kinds::Kinds;
use crate::negotiate::{self, Convert, Form};
use crate::request::Request;

/// Whether the client asks for the one document before it asks for the separate ones.
pub(super) fn is_wanted(request: &Request) -> bool {
    let choice =
        negotiate::choose(&request.accept, |form, convert| form == Form::Json && convert.is_none_or(is_list));
    choice.is_some_and(|choice| choice.convert.is_some()) && matches!(request.method.as_str(), "GET" | "HEAD")
}

fn is_list(convert: &Convert) -> bool {
    (convert.group.as_str(), convert.version.as_str(), convert.kind.as_str())
        == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
}

pub(super) fn answer(kinds: &Kinds, request: &Request, core: bool) -> Answer {
    let groups: Vec<Value> = if core {
        vec![json!({"metadata": {}, "versions": [version(kinds, "", "v1")]})]
    } else {
        groups(kinds)
    };
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups,
    });
    Answer::tagged(AGGREGATED, list.to_string(), &request.none_match)
        .with_header("vary", "Accept")
        .with_header("cache-control", "public")
}

fn groups(kinds: &Kinds) -> Vec<Value> {
    let mut groups: Vec<(&str, Vec<Value>)> = Vec::new();
    for (group, name) in versions(kinds) {
        let one = version(kinds, group, name);
        match groups.last_mut() {
            Some((last, all)) if *last == group => all.push(one),
            _ => groups.push((group, vec![one])),
        }
    }
    groups.into_iter().map(|(name, all)| json!({"metadata": {"name": name}, "versions": all})).collect()
}

fn version(kinds: &Kinds, group: &str, version: &str) -> Value {
    let legacy = resources(kinds, group, version);
    let mut all: Vec<Value> = Vec::new();
    for one in legacy["resources"].as_array().into_iter().flatten() {
        let name = one["name"].as_str().unwrap_or_default();
        let custom = kinds.by_plural(group, version, name.split('/').next().unwrap_or_default());
        let custom = custom.is_some_and(|index| kinds.get(index).custom);
        let kind = response_kind(one, if custom { (group, version) } else { ("", "") });
        match (name.split_once('/'), all.last_mut()) {
            (Some((_, subresource)), Some(main)) => {
                let entry = json!({"subresource": subresource, "responseKind": kind, "verbs": one["verbs"]});
                match &mut main["subresources"] {
                    Value::Array(subresources) => subresources.push(entry),
                    missing => *missing = json!([entry]),
                }
            }
            _ => all.push(resource(one, name, &kind)),
        }
    }
    json!({"version": version, "resources": all, "freshness": "Current"})
}

fn resource(one: &Value, name: &str, kind: &Value) -> Value {
    let scope = if one["namespaced"] == true { "Namespaced" } else { "Cluster" };
    let mut resource = json!({
        "resource": name, "responseKind": kind, "scope": scope, "singularResource": one["singularName"],
        "verbs": one["verbs"],
    });
    for field in ["shortNames", "categories"] {
        if let Some(value) = one.get(field) {
            resource[field] = value.clone();
        }
    }
    resource
}

/// Built-in kinds leave out what is the group and version of the document anyway.
fn response_kind(one: &Value, (group, version): (&str, &str)) -> Value {
    let or = |field: &str, otherwise: &str| one[field].as_str().unwrap_or(otherwise).to_owned();
    json!({"group": or("group", group), "version": or("version", version), "kind": one["kind"]})
}
