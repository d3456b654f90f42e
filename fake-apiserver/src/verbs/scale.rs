//! Decides how the number of replicas is read and written through `/scale`. Never changes anything else.
//! Answers to the scale storage of `kubernetes/pkg/registry/apps`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::object::{Object, at, map_mut, metadata_mut, text};
use crate::patch::Patch;
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;
use crate::verbs::fields::{self, Fields};
use crate::verbs::options::WriteOptions;
use crate::verbs::{apply, update};

pub(crate) fn scale(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    if let Some(version) = &target.kind.definition {
        return crate::crds::scale(server, request, target, version);
    }
    let mut store = server.lock();
    let current = store.get(target.index, &target.key()).map(Object::apart);
    let current =
        current.ok_or_else(|| Status::not_found(&target.kind.group, &target.kind.plural, &target.name))?;
    let shown = scale_of(&current.value);
    let wanted = match request.method.as_str() {
        "PUT" => request.json("Scale")?,
        "PATCH" if request.content_type == apply::APPLY => {
            return applied(server, request, target, &mut store, &current);
        }
        "PATCH" => Patch::parse(&request.content_type, &request.body)?.apply(&target.kind, &shown)?,
        _ => return Ok(Answer::json(200, &shown)),
    };
    let kind = if request.method == "PUT" { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::read(request, kind)?;
    let mut value = Value::clone(&current.value);
    let replicas = at(&wanted, &["spec", "replicas"]).cloned().unwrap_or_else(|| 0.into());
    map_mut(&mut value, "spec").insert("replicas".into(), replicas);
    let version = text(&wanted, &["metadata", "resourceVersion"]).to_owned();
    metadata_mut(&mut value).insert("resourceVersion".into(), version.into());
    let fields = Fields::By { manager: &options.manager, subresource: "scale" };
    let main = Target { subresource: String::new(), ..target.clone() };
    let object = update::write(server, &mut store, &main, &current, value, fields, options.dry)?;
    server.announce(&store);
    Ok(Answer::json(200, &scale_of(&object.value)))
}

/// Applies a number of replicas, which is owned as the object's own field is.
fn applied(
    server: &Server,
    request: &Request,
    target: &Target,
    store: &mut Store,
    current: &Arc<Object>,
) -> Result<Answer> {
    let options = WriteOptions::read(request, "PatchOptions")?;
    let (configuration, _) = apply::read(&request.body)?;
    let kind = &target.kind;
    let given = (text(&configuration, &["apiVersion"]), text(&configuration, &["kind"]));
    if given != ("autoscaling/v1", "Scale") {
        return Err(Status::bad_request(format!("invalid object type: {}, Kind={}", given.0, given.1)));
    }
    let mut wanted = json!({"apiVersion": kind.api_version(), "kind": &*kind.kind});
    wanted["metadata"] = json!({"name": target.name, "namespace": target.namespace});
    if let Some(replicas) = at(&configuration, &["spec", "replicas"]) {
        wanted["spec"] = json!({"replicas": replicas});
    }
    let force = options.force || !server.options.managed_fields;
    let applied = fields::apply(server, target, Some(&current.value), &wanted, &options.manager, force);
    let applied = applied.map_err(|mut conflicts| {
        for conflict in &mut conflicts {
            let using = format!(" using {}", kind.api_version());
            conflict.manager = conflict.manager.replace(&using, " using autoscaling/v1");
        }
        apply::conflict(&conflicts)
    })?;
    let value = applied.object.unwrap_or_else(|| Value::clone(&current.value));
    let main = Target { subresource: String::new(), ..target.clone() };
    let managers = Fields::Settled(applied.managers);
    let object = update::write(server, store, &main, current, value, managers, options.dry)?;
    server.announce(store);
    Ok(Answer::json(200, &scale_of(&object.value)))
}

fn scale_of(value: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[field] = value["metadata"][field].clone();
    }
    let number = |path: &str| value.pointer(path).cloned().unwrap_or_else(|| 0.into());
    let mut status = json!({"replicas": number("/status/replicas")});
    let labels = at(value, &["spec", "selector", "matchLabels"]).or_else(|| at(value, &["spec", "selector"]));
    if let Some(labels) = labels.and_then(Value::as_object) {
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or(""))).collect();
        status["selector"] = labels.join(",").into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number("/spec/replicas")}, "status": status,
    })
}
