//! Decides what a cluster's rules add to an object or refuse: the namespace must exist and live, volumes and
//! claims get their protection, claims and ingresses without a class the default one, new nodes their taint. Never validates fields. Answers to
//! `kubernetes/plugin/pkg/admission`.

pub(crate) mod accounts;
mod amounts;
mod claims;
mod limits;
pub(crate) mod priorities;
mod quota;
mod runtimes;
pub(crate) mod security;
pub(crate) mod topology;

use serde_json::{Value, json};

use crate::object::{at, map_mut, metadata_mut, strings, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
const DEFAULT_INGRESS_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Namespaces that no one may delete.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

pub(crate) fn on_create(server: &Server, store: &Store, target: &Target, value: &mut Value) -> Result<()> {
    check_namespace(store, target, value)?;
    let plugins = server.options.plugins;
    let is_pod = target.kind.kind == "Pod" && target.kind.group.is_empty();
    if is_pod {
        if plugins.limit_ranger {
            limits::fill(store, target, value);
        }
        if plugins.service_account {
            accounts::admit(server, store, target, value)?;
        }
        priority(server, store, target, value)?;
        if plugins.runtime_class {
            runtimes::admit(store, value)?;
        }
        let node = text(value, &["spec", "nodeName"]).to_owned();
        topology::label(store, &node, value);
    }
    if plugins.priority && target.kind.kind == "PriorityClass" {
        priorities::one_default(store, target, value, true)?;
    }
    protect(server, target, value);
    if target.kind.kind == "Node" {
        taint_new_node(value);
    }
    if server.options.plugins.default_class && target.kind.kind == "PersistentVolumeClaim" {
        default_class(store, value);
    }
    if plugins.default_ingress_class && target.kind.kind == "Ingress" && !target.kind.custom {
        default_ingress_class(store, value);
    }
    if plugins.limit_ranger && (is_pod || target.kind.kind == "PersistentVolumeClaim") {
        limits::check(store, target, value)?;
    }
    if plugins.pod_security {
        security::enforce(store, target, value)?;
    }
    Ok(())
}

/// A pod's priority, which is none where nothing reads classes.
fn priority(server: &Server, store: &Store, target: &Target, pod: &mut Value) -> Result<()> {
    if server.options.plugins.priority {
        return priorities::establish(store, target, pod);
    }
    let spec = map_mut(pod, "spec");
    spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
    spec.entry("priority").or_insert_with(|| 0.into());
    Ok(())
}

/// The last word: an object that is otherwise fine is counted.
pub(crate) fn charge(
    server: &Server,
    store: &mut Store,
    target: &Target,
    value: &Value,
    old: Option<&Value>,
    dry: bool,
) -> Result<()> {
    if server.options.plugins.quota { quota::charge(store, target, value, old, dry) } else { Ok(()) }
}

pub(crate) fn on_update(
    server: &Server,
    store: &Store,
    target: &Target,
    old: &Value,
    value: &mut Value,
) -> Result<()> {
    if !target.subresource.is_empty() {
        return Ok(());
    }
    match (&*target.kind.group, &*target.kind.kind) {
        ("", "Pod") => {
            for field in ["priority", "preemptionPolicy"] {
                if let Some(before) = old["spec"].get(field) {
                    map_mut(value, "spec").entry(field).or_insert_with(|| before.clone());
                }
            }
        }
        ("", "PersistentVolumeClaim") if server.options.plugins.claim_resize => {
            claims::resize(store, target, old, value)?;
        }
        (_, "PriorityClass") if server.options.plugins.priority => {
            priorities::one_default(store, target, value, false)?;
        }
        _ => {}
    }
    Ok(())
}

/// An object of a dump gets protection as a new one would, and keeps the class it has or has not: in the
/// cluster it came from that was decided already.
pub(crate) fn on_import(server: &Server, store: &Store, target: &Target, value: &mut Value) {
    let terminating = at(value, &["metadata", "deletionTimestamp"]).is_some();
    let dumped = !text(value, &["metadata", "resourceVersion"]).is_empty();
    if target.kind.kind == "Pod" && target.kind.group.is_empty() {
        let spec = map_mut(value, "spec");
        spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
        spec.entry("priority").or_insert_with(|| 0.into());
    }
    if terminating || dumped {
        return;
    }
    protect(server, target, value);
    if target.kind.kind == "Node" && says_not_ready(value) {
        taint_new_node(value);
    }
    if server.options.plugins.default_class && target.kind.kind == "PersistentVolumeClaim" {
        default_class(store, value);
    }
}

/// A new node is tainted until something finds it ready.
fn taint_new_node(value: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = map_mut(value, "spec").entry("taints").or_insert_with(|| json!([]));
    if let Value::Array(taints) = taints
        && !taints.iter().any(|one| one["key"] == taint["key"] && one["effect"] == taint["effect"])
    {
        taints.push(taint);
    }
}

/// An imported node has been looked at already: it counts as ready unless it says otherwise.
fn says_not_ready(node: &Value) -> bool {
    let conditions = at(node, &["status", "conditions"]).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] != "True")
}

pub(crate) fn on_delete(target: &Target) -> Result<()> {
    if target.kind.kind == "Namespace" && IMMORTAL.contains(&target.name.as_str()) {
        return Err(Status::forbidden("", "namespaces", &target.name, "this namespace may not be deleted"));
    }
    Ok(())
}

fn check_namespace(store: &Store, target: &Target, value: &Value) -> Result<()> {
    if !target.kind.namespaced {
        return Ok(());
    }
    let name = &target.namespace;
    let index = store.kinds.named("Namespace");
    let namespace = index.and_then(|index| store.get(index, name));
    let namespace = namespace.ok_or_else(|| Status::not_found("", "namespaces", name))?;
    if text(&namespace.value, &["status", "phase"]) == "Terminating" {
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let object = text(value, &["metadata", "name"]);
        let mut refusal = Status::forbidden(&target.kind.group, &target.kind.plural, object, &why);
        if let Some(details) = &mut refusal.details {
            details["causes"] = json!([{
                "reason": "NamespaceTerminating", "message": format!("namespace {name} is being terminated"),
                "field": "metadata.namespace",
            }]);
        }
        return Err(refusal);
    }
    Ok(())
}

fn protect(server: &Server, target: &Target, value: &mut Value) {
    let plugins = server.options.plugins;
    let finalizer = match &*target.kind.kind {
        "PersistentVolume" if plugins.volume_protection => "kubernetes.io/pv-protection",
        "PersistentVolumeClaim" if plugins.claim_protection => "kubernetes.io/pvc-protection",
        "VolumeAttributesClass" if plugins.claim_protection => "kubernetes.io/vac-protection",
        _ => return,
    };
    if strings(value, &["metadata", "finalizers"]).contains(&finalizer) {
        return;
    }
    let finalizers = metadata_mut(value).entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(finalizers) = finalizers {
        finalizers.push(finalizer.into());
    }
}

/// Whether a claim says which class it wants, be it none.
fn names_a_class(claim: &Value) -> bool {
    let class = at(claim, &["spec", "storageClassName"]).is_some_and(|class| !class.is_null());
    class || at(claim, &["metadata", "annotations", BETA_CLASS]).is_some()
}

fn default_class(store: &Store, claim: &mut Value) {
    if names_a_class(claim) {
        return;
    }
    if let Some(class) = newest_default(store, "StorageClass", &[DEFAULT_CLASS, BETA_DEFAULT_CLASS]) {
        map_mut(claim, "spec").insert("storageClassName".into(), class.into());
    }
}

/// An ingress that names no class gets the default one.
fn default_ingress_class(store: &Store, ingress: &mut Value) {
    let named = at(ingress, &["spec", "ingressClassName"]).is_some();
    if named || at(ingress, &["metadata", "annotations", INGRESS_CLASS]).is_some() {
        return;
    }
    if let Some(class) = newest_default(store, "IngressClass", &[DEFAULT_INGRESS_CLASS]) {
        map_mut(ingress, "spec").insert("ingressClassName".into(), class.into());
    }
}

/// The name of the newest class that one of these annotations makes the default.
fn newest_default(store: &Store, kind: &str, marks: &[&str]) -> Option<String> {
    let classes = store.list(store.kinds.named(kind)?);
    let is_default =
        |class: &Value| marks.iter().any(|mark| text(class, &["metadata", "annotations", mark]) == "true");
    let newest = classes.values().filter(|class| is_default(&class.value)).min_by(|a, b| {
        // As times, not as texts: an imported one may be written for another time zone.
        let made =
            |class: &Value| text(class, &["metadata", "creationTimestamp"]).parse::<jiff::Timestamp>().ok();
        made(&b.value).cmp(&made(&a.value)).then_with(|| a.name().cmp(b.name()))
    });
    newest.map(|class| class.name().to_owned())
}
