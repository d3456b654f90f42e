//! Decides what the server says of itself: which groups, versions and resources there are, which version it
//! is, whether it is well. Everything follows from the table of kinds. Never looks at objects. Answers to
//! `k8s.io/apiserver/pkg/endpoints/discovery` and `.../pkg/server/healthz`.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::kinds::{Kind, Kinds};
use crate::request::Request;
use crate::status::{Result, Status};

/// The version that this server stands in for.
const VERSION: &str = "v1.36.3";

pub(crate) fn answer(kinds: &Kinds, request: &Request, segments: &[String]) -> Result<Answer> {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let known = match parts[..] {
        ["version"] => Answer::json(200, &version()),
        ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping"] => {
            Answer::text(200, "ok")
        }
        ["healthz" | "livez" | "readyz", ..] => Answer::text(404, "404 page not found\n"),
        ["api"] => Answer::json(200, &core_versions()),
        ["apis"] => Answer::json(200, &groups(kinds)),
        ["apis", group] => Answer::json(200, &group_of(kinds, group).ok_or_else(Status::no_such_resource)?),
        ["api", version] if kinds.has_version("", version) => {
            Answer::json(200, &resources(kinds, "", version))
        }
        ["apis", group, version] if kinds.has_version(group, version) => {
            Answer::json(200, &resources(kinds, group, version))
        }
        [] => Answer::json(200, &paths(kinds)),
        _ => return Err(Status::no_such_resource()),
    };
    if matches!(request.method.as_str(), "GET" | "HEAD") {
        Ok(known)
    } else {
        Err(Status::method_not_allowed())
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean",
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
    })
}

fn paths(kinds: &Kinds) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, version) in versions(kinds) {
        paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]);
    }
    paths.extend(["/healthz", "/livez", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

fn core_versions() -> Value {
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]);
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
}

/// The groups besides core, each with its versions, in the order of the table.
fn versions(kinds: &Kinds) -> Vec<(&str, &str)> {
    let mut versions: Vec<(&str, &str)> = Vec::new();
    for kind in kinds.all().iter().filter(|kind| !kind.group.is_empty()) {
        let one = (&*kind.group, &*kind.version);
        if !versions.contains(&one) {
            versions.push(one);
        }
    }
    versions
}

fn groups(kinds: &Kinds) -> Value {
    let mut names: Vec<&str> = Vec::new();
    for (group, _) in versions(kinds) {
        if !names.contains(&group) {
            names.push(group);
        }
    }
    let groups: Vec<Value> = names.into_iter().filter_map(|name| group(kinds, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group(kinds: &Kinds, name: &str) -> Option<Value> {
    let of = versions(kinds).into_iter().filter(|(group, _)| *group == name);
    let of: Vec<Value> = of
        .map(|(group, version)| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    let preferred = of.first()?.clone();
    Some(json!({"name": name, "versions": of, "preferredVersion": preferred}))
}

fn group_of(kinds: &Kinds, name: &str) -> Option<Value> {
    let mut group = group(kinds, name)?;
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut resources: Vec<Value> = Vec::new();
    for kind in kinds.all().iter().filter(|kind| kind.group == group && kind.version == version) {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|name| subresource(kind, name)));
    }
    resources.sort_by_cached_key(|resource| resource["name"].as_str().unwrap_or_default().to_owned());
    let mut list = json!({"kind": "APIResourceList", "resources": resources});
    if group.is_empty() {
        list["groupVersion"] = version.into();
        let bindings = json!({"name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding", "verbs": ["create"]});
        if let Value::Array(resources) = &mut list["resources"] {
            resources.insert(0, bindings);
        }
    } else {
        list["apiVersion"] = "v1".into();
        list["groupVersion"] = format!("{group}/{version}").into();
    }
    list
}

fn resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "name": kind.plural, "singularName": kind.singular(), "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": kind.verbs(),
    });
    let (short_names, categories) = (kind.short_names(), kind.categories());
    if !short_names.is_empty() {
        resource["shortNames"] = json!(short_names);
    }
    if !categories.is_empty() {
        resource["categories"] = json!(categories);
    }
    resource
}

fn subresource(kind: &Kind, name: &str) -> Value {
    let (of, verbs): (Option<(&str, &str, &str)>, &[&str]) = match name {
        "binding" => (Some(("", "", "Binding")), &["create"]),
        "eviction" => (Some(("policy", "v1", "Eviction")), &["create"]),
        "scale" => (Some(("autoscaling", "v1", "Scale")), &["get", "patch", "update"]),
        "finalize" => (None, &["update"]),
        _ => (None, &["get", "patch", "update"]),
    };
    let mut resource = json!({
        "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
        "kind": of.map_or(&*kind.kind, |(_, _, kind)| kind), "verbs": verbs,
    });
    if let Some((group, version, _)) = of.filter(|(group, ..)| !group.is_empty()) {
        resource["group"] = group.into();
        resource["version"] = version.into();
    }
    resource
}
