//! Doing what a stage says, as a user with kubectl would.

use fake_apiserver::FakeApiServer;
use serde_json::Value;

use super::load::import;
use super::run::Error;
use crate::manifest::{Step, field};

/// Where the server serves a kind.
pub(super) struct Route {
    prefix: String,
    plural: String,
    namespaced: bool,
}

impl Route {
    /// The path of an object.
    pub(super) fn object(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}/{name}", self.prefix, self.plural)
        } else {
            format!("{}/{}/{name}", self.prefix, self.plural)
        }
    }
}

/// Where the server serves a kind, as its discovery says; `None` when it does not.
pub(super) fn route(server: &FakeApiServer, api_version: &str, kind: &str) -> Option<Route> {
    let prefix = if api_version.contains('/') {
        format!("/apis/{api_version}")
    } else {
        format!("/api/{api_version}")
    };
    let (code, body) = server.request("GET", &prefix, "", b"");
    let list: Value = serde_json::from_slice(&body).ok().filter(|_| code == 200)?;
    let resources = list["resources"].as_array()?;
    let resource = resources.iter().find(|resource| {
        resource["kind"] == kind && resource["name"].as_str().is_some_and(|name| !name.contains('/'))
    })?;
    let plural = resource["name"].as_str()?.to_owned();
    Some(Route { prefix, plural, namespaced: resource["namespaced"] == true })
}

/// Does one step; says whether it asks to wait until nothing moves.
///
/// # Errors
/// When the server refuses it.
pub(super) fn perform(server: &FakeApiServer, step: Step) -> Result<bool, Error> {
    match step {
        Step::Settle => return Ok(true),
        Step::Delete { kind, namespace, name, origin } => {
            let object = format!("{kind} {name}");
            let refused = |message: String| Error::Refused {
                origin: origin.to_string(),
                object: object.clone(),
                message,
            };
            let stored = server.get(&kind, &namespace, &name);
            let stored = stored.ok_or_else(|| refused("there is no such object to delete".to_owned()))?;
            let api_version = stored["apiVersion"].as_str().unwrap_or_default().to_owned();
            let route = route(server, &api_version, &kind);
            let route = route.ok_or_else(|| refused(format!("{api_version} is not served")))?;
            let body = br#"{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}"#;
            send(server, "DELETE", &route.object(&namespace, &name), "application/json", body)
                .map_err(refused)?;
        }
        Step::Apply(document) => {
            let object = describe(&document.object);
            let origin = document.origin.to_string();
            apply(server, document.object).map_err(|message| Error::Refused { origin, object, message })?;
        }
    }
    Ok(false)
}

fn describe(object: &Value) -> String {
    format!("{} {}", field::text(object, "/kind"), field::text(object, "/metadata/name"))
}

/// Creates the object or, when it exists, merges the manifest into it and its status.
fn apply(server: &FakeApiServer, mut object: Value) -> Result<(), String> {
    let text = |path: &str| field::text(&object, path).to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    if name.is_empty() || server.get(&kind, &namespace, &name).is_none() {
        return import(server, object);
    }
    let route =
        route(server, &api_version, &kind).ok_or_else(|| format!("{api_version} {kind} is not served"))?;
    let path = route.object(&namespace, &name);
    let merge = "application/merge-patch+json";
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    send(server, "PATCH", &path, merge, object.to_string().as_bytes())?;
    if let Some(status) = status {
        let body = serde_json::json!({ "status": status }).to_string();
        send(server, "PATCH", &format!("{path}/status"), merge, body.as_bytes())?;
    }
    Ok(())
}

/// Sends a request, in process; an error is what the server says, in words.
pub(super) fn send(
    server: &FakeApiServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> Result<(), String> {
    let (code, answer) = server.request(method, path, content_type, body);
    if (200..300).contains(&code) {
        return Ok(());
    }
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    Err(answer["message"].as_str().map_or_else(|| format!("the server answered {code}"), str::to_owned))
}
