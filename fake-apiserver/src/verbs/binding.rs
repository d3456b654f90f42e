//! Decides what binding a pod to a node means. Never checks whether the node exists: neither
//! does the real server. Answers to `kubernetes/pkg/registry/core/pod/storage`.

use serde_json::{Value, json};

use crate::admission;
use crate::answer::Answer;
use crate::object::{Object, as_map_mut, at, map_mut, metadata_mut, text};
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::verbs::dry_run;
use crate::verbs::update::check_name;

pub(crate) fn bind(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let dry = dry_run(request.query.all("dryRun"), "CreateOptions")?;
    let binding = request.json("Binding")?;
    let mut target = target.clone();
    let name = text(&binding, &["metadata", "name"]);
    if target.subresource == "bindings" {
        name.clone_into(&mut target.name);
    } else {
        check_name(&target, &binding)?;
    }
    check_binding(&binding)?;
    let mut store = server.lock();
    let pod = store.get(target.index, &target.key()).map(Object::apart);
    let pod = pod.ok_or_else(|| Status::not_found("", "pods", &target.name))?;
    check_pod(&target, &pod, &binding)?;
    if !dry {
        let mut placed = bound(server, &pod, &binding);
        if text(&binding, &["target", "kind"]) == "Node" {
            admission::topology::label(&store, text(&binding, &["target", "name"]), &mut placed);
        }
        store.put(target.index, target.key(), placed);
        server.announce(&store);
    }
    let done =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::json(201, &done))
}

fn check_binding(binding: &Value) -> Result<()> {
    let kind = text(binding, &["target", "kind"]);
    let mut causes = Vec::new();
    if !matches!(kind, "" | "Node") {
        causes.push(Cause::unsupported("target.kind", kind, &["Node", "<empty>"]));
    }
    if text(binding, &["target", "name"]).is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    if causes.is_empty() {
        return Ok(());
    }
    // The real server forgets to say that this is the caller's mistake.
    let sentences: Vec<&str> = causes.iter().map(Cause::sentence).collect();
    let all = if let [one] = sentences[..] { one.to_owned() } else { format!("[{}]", sentences.join(", ")) };
    Err(Status::untranslated(all))
}

fn check_pod(target: &Target, pod: &Object, binding: &Value) -> Result<()> {
    let name = &target.name;
    let conflict = |why: &str| Err(Status::conflict("", "pods/binding", name, why));
    let uid = text(binding, &["metadata", "uid"]);
    if !uid.is_empty() && uid != pod.uid() {
        let place = format!("Key: /registry/pods/{}, ResourceVersion: 0", target.key());
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", pod.uid());
        let why = format!("StorageError: invalid object, Code: 4, {place}, AdditionalErrorMsg: {why}");
        return Err(Status::conflict("", "pods", name, &why));
    }
    let version = text(binding, &["metadata", "resourceVersion"]);
    if !version.is_empty() && version.parse() != Ok(pod.revision) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
            pod.revision
        );
        return conflict(&why);
    }
    if at(&pod.value, &["metadata", "deletionTimestamp"]).is_some() {
        return conflict(&format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(&pod.value, &["spec", "nodeName"]);
    if !node.is_empty() {
        return conflict(&format!("pod {name} is already assigned to node \"{node}\""));
    }
    if at(&pod.value, &["spec", "schedulingGates"])
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty())
    {
        return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

/// The pod with its node, and with the labels and annotations that the binding brings.
fn bound(server: &Server, pod: &Object, binding: &Value) -> Value {
    let mut value = Value::clone(&pod.value);
    let node = at(binding, &["target", "name"]).cloned().unwrap_or_default();
    map_mut(&mut value, "spec").insert("nodeName".into(), node);
    for field in ["annotations", "labels"] {
        if let Some(Value::Object(new)) = binding["metadata"].get(field) {
            let present = as_map_mut(metadata_mut(&mut value).entry(field).or_insert_with(|| json!({})));
            present.extend(new.clone());
        }
    }
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": server.timestamp(),
    });
    let status = map_mut(&mut value, "status");
    // Where the pod was to go is no longer a question.
    status.remove("nominatedNodeName");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = conditions {
        match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
            Some(condition) => *condition = scheduled,
            None => conditions.push(scheduled),
        }
    }
    value
}
