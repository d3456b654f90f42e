//! Decides what the server says of itself: which groups, versions and resources there are, which version it
//! is, whether it is well. Everything follows from the table of kinds. Never looks at objects. Answers to
//! `k8s.io/apiserver/pkg/endpoints/discovery` and `.../pkg/server/healthz`.

mod aggregated;
mod health;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::kinds::{Kind, Kinds};
use crate::request::Request;
use crate::server::Server;
use crate::status::{Result, Status};

/// The version that this server stands in for.
const VERSION: &str = "v1.36.3";

/// The groups in the order in which upstream gives them; others come after them, by name.
const ORDER: [&str; 17] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
];

/// Group, plural and kind of what can only be asked: answered, never stored.
const QUESTIONS: &[(&str, &str, &str, bool)] = &[
    ("", "bindings", "Binding", true),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false),
];

const PROXIED: &[&str] = &["create", "delete", "get", "patch", "update"];

/// Subresources that lead to a node, which is not there: clients look for them, and are told when they go on.
const CONNECTIONS: &[(&str, &str, &str, &[&str])] = &[
    ("nodes", "proxy", "NodeProxyOptions", PROXIED),
    ("pods", "attach", "PodAttachOptions", &["create", "get"]),
    ("pods", "exec", "PodExecOptions", &["create", "get"]),
    ("pods", "log", "Pod", &["get"]),
    ("pods", "portforward", "PodPortForwardOptions", &["create", "get"]),
    ("pods", "proxy", "PodProxyOptions", PROXIED),
    ("services", "proxy", "ServiceProxyOptions", PROXIED),
];

pub(crate) fn answer(server: &Server, request: &Request, segments: &[String]) -> Result<Answer> {
    let kinds = &server.lock().kinds;
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    if let (["api" | "apis"], true) = (&parts[..], aggregated::is_wanted(request)) {
        return Ok(aggregated::answer(kinds, request, parts == ["api"]));
    }
    let known = match parts[..] {
        ["version"] => Answer::json(200, &version()),
        ["healthz" | "livez" | "readyz", ref check @ ..] => health::answer(server, request, parts[0], check),
        ["api"] => Answer::json(200, &core_versions()),
        ["apis"] => Answer::json(200, &groups(kinds)),
        ["apis", group] => match group_of(kinds, group) {
            Some(group) => Answer::json(200, &group),
            None => Answer::no_page(),
        },
        ["api", version] if has_version(kinds, "", version) => {
            Answer::json(200, &resources(kinds, "", version))
        }
        ["apis", group, version] if has_version(kinds, group, version) => {
            Answer::json(200, &resources(kinds, group, version))
        }
        [] => Answer::json(200, &paths(kinds)),
        ["api", ..] => return Err(Status::no_such_resource()),
        ["apis", group, ..] if is_own(kinds, group) => return Err(Status::no_such_resource()),
        _ => Answer::no_page(),
    };
    let any = known.code == 404 || parts.first().is_some_and(|first| first.ends_with('z'));
    // What is served beside the resources is served whatever the method.
    if any || request.method == "GET" { Ok(known) } else { Err(Status::method_not_allowed()) }
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

/// The groups besides core, each with its versions.
fn versions(kinds: &Kinds) -> Vec<(&str, &str)> {
    let mut versions: Vec<(&str, &str)> = Vec::new();
    let stored = kinds.all().iter().map(|kind| (&*kind.group, &*kind.version));
    let asked = QUESTIONS.iter().map(|(group, ..)| (*group, "v1"));
    for one in stored.chain(asked).filter(|(group, _)| !group.is_empty()) {
        if !versions.contains(&one) {
            versions.push(one);
        }
    }
    let place = |group: &str| ORDER.iter().position(|one| *one == group).unwrap_or(ORDER.len());
    versions.sort_by_key(|(group, _)| (place(group), *group));
    versions
}

/// Whether a group is the server's own, and not from a definition.
fn is_own(kinds: &Kinds, group: &str) -> bool {
    kinds.is_built_in(group) || QUESTIONS.iter().any(|(asked, ..)| *asked == group)
}

fn has_version(kinds: &Kinds, group: &str, version: &str) -> bool {
    kinds.has_version(group, version)
        || version == "v1" && QUESTIONS.iter().any(|(asked, ..)| *asked == group)
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
        let connections =
            CONNECTIONS.iter().filter(|(plural, ..)| group.is_empty() && *plural == kind.plural);
        resources.extend(connections.map(|(plural, name, of, verbs)| {
            json!({
                "name": format!("{plural}/{name}"), "singularName": "", "namespaced": kind.namespaced, "kind": of,
                "verbs": verbs,
            })
        }));
    }
    let questions = QUESTIONS.iter().filter(|(asked, ..)| *asked == group && version == "v1");
    resources.extend(questions.map(|(_, plural, kind, namespaced)| {
        json!({
            "name": plural, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind,
            "verbs": ["create"],
        })
    }));
    let custom = !group.is_empty() && !is_own(kinds, group);
    resources.sort_by_cached_key(|resource| {
        let name = resource["name"].as_str().unwrap_or_default();
        // Custom kinds name their subresources in an order of their own.
        if custom { name.split('/').next().unwrap_or_default() } else { name }.to_owned()
    });
    let mut list = json!({"kind": "APIResourceList", "resources": resources});
    if group.is_empty() {
        list["groupVersion"] = version.into();
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
        "token" => (Some(("authentication.k8s.io", "v1", "TokenRequest")), &["create"]),
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
