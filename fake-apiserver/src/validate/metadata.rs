//! Decides whether metadata may be stored. Answers to `k8s.io/apimachinery/pkg/api/validation/objectmeta.go`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::names;
use crate::kinds::Kind;
use crate::object::{at, strings, text};
use crate::status::Cause;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

pub(crate) fn create(kind: &Kind, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (name, base) = (text(value, &["metadata", "name"]), text(value, &["metadata", "generateName"]));
    if !base.is_empty() {
        // What is appended may end a name that must not end so.
        let judged = base.strip_suffix('-').map_or_else(|| base.to_owned(), |base| format!("{base}a"));
        let wrong = name_rule(kind)(&judged);
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.generateName", base, why)));
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let wrong = name_rule(kind)(name);
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.name", name, why)));
    }
    causes.extend(common(kind, value));
    causes.extend(finalizers(value));
    causes.extend(domains(kind, value));
    let generation = &value["metadata"]["generation"];
    if generation.as_i64().is_some_and(|number| number < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("metadata.generation", generation.clone(), why));
    }
    causes
}

/// How a kind's objects may be named.
fn name_rule(kind: &Kind) -> fn(&str) -> Vec<String> {
    match &*kind.kind {
        _ if kind.custom => names::subdomain,
        "Namespace" | "Service" | "StatefulSet" => names::label,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" | "Event" => path_segment,
        _ => names::subdomain,
    }
}

/// A name that only has to fit into a URL.
pub(super) fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    let wrong = ["/", "%"].into_iter().filter(|part| name.contains(part));
    wrong.map(|part| format!("may not contain '{part}'")).collect()
}

/// Labels that a job's pods get, and the job itself once it has been judged.
const OF_JOBS: &[&str] =
    &["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];

fn common(kind: &Kind, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let metadata = &value["metadata"];
    let generated = |key: &str| kind.kind == "Job" && !kind.custom && OF_JOBS.contains(&key);
    for (key, label) in metadata["labels"].as_object().into_iter().flatten() {
        if generated(key) {
            continue;
        }
        let wrong = names::qualified_names(key).into_iter();
        causes.extend(wrong.map(|why| Cause::invalid("metadata.labels", key.as_str(), &why)));
        let label = label.as_str().unwrap_or_default();
        let wrong = names::label_values(label).into_iter();
        causes.extend(wrong.map(|why| Cause::invalid("metadata.labels", label, &why)));
    }
    annotations(&Field::new(&metadata["annotations"], "metadata.annotations"), &mut causes);
    owners(metadata, &mut causes);
    causes
}

fn finalizers(value: &Value) -> Vec<Cause> {
    let finalizers = strings(value, &["metadata", "finalizers"]);
    let mut causes = Vec::new();
    for finalizer in &finalizers {
        let wrong = names::qualified_names(finalizer).into_iter();
        causes.extend(wrong.map(|why| Cause::invalid("metadata.finalizers", *finalizer, &why)));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", finalizers, why));
    }
    causes
}

const NO_DOMAIN: &str = "name is neither a standard finalizer name nor is it fully qualified";

/// Whether a finalizer lacks the domain that those of the server's own kinds have, but for a few.
fn lacks_domain(finalizer: &str) -> bool {
    !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer)
}

fn domains(kind: &Kind, value: &Value) -> Vec<Cause> {
    let finalizers = strings(value, &["metadata", "finalizers"]).into_iter().enumerate();
    let wrong = finalizers.filter(|(_, finalizer)| !kind.custom && lacks_domain(finalizer));
    let field = |index: usize| format!("metadata.finalizers[{index}]");
    wrong.map(|(index, finalizer)| Cause::invalid(field(index), finalizer, NO_DOMAIN)).collect()
}

/// What a namespace waits for besides the finalizers that every object may have.
pub(super) fn namespace(value: &Value) -> Vec<Cause> {
    let field = "spec.finalizers";
    let mut causes = Vec::new();
    for finalizer in strings(value, &["spec", "finalizers"]) {
        let wrong = names::qualified_names(finalizer).into_iter();
        causes.extend(wrong.map(|why| Cause::invalid(field, finalizer, &why)));
        if lacks_domain(finalizer) {
            causes.push(Cause::invalid(field, finalizer, NO_DOMAIN));
        }
    }
    causes
}

/// A map of annotations.
pub(super) fn annotations(field: &Field<'_>, causes: &mut Causes) {
    let mut size = 0;
    for (key, annotation) in field.entries() {
        let wrong = names::qualified_names(&key.to_lowercase()).into_iter();
        causes.extend(wrong.map(|why| Cause::invalid(field.path.as_str(), key, &why)));
        size += key.len() + annotation.text().len();
    }
    if size > 256 * 1024 {
        causes.push(Cause::too_long(field.path.as_str(), 256 * 1024));
    }
}

/// Conditions of the newer form.
pub(super) fn conditions(field: &Field<'_>, causes: &mut Causes) {
    let mut seen = Vec::new();
    for condition in field.items() {
        let (kind, status, reason) = (condition.at("type"), condition.at("status"), condition.at("reason"));
        if seen.contains(&kind.text()) {
            causes.push(kind.duplicate());
        }
        seen.push(kind.text());
        kind.follow(names::qualified_name, causes);
        if kind.is_empty() {
            causes.push(kind.required("must be set"));
        }
        status.must_be_one_of(&["False", "True", "Unknown"], causes);
        condition.at("observedGeneration").at_least(0, causes);
        if condition.at("lastTransitionTime").is_empty() {
            causes.push(condition.at("lastTransitionTime").required("must be set"));
        }
        if reason.is_empty() {
            causes.push(reason.required("must be set"));
        }
        if condition.at("message").text().len() > 32768 {
            causes.push(Cause::too_long(condition.at("message").path, 32768));
        }
    }
}

/// Who an object belongs to: each owner fully named, and at most one of them in control.
fn owners(metadata: &Value, causes: &mut Vec<Cause>) {
    let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    for owner in owners {
        for (part, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, &[part]).is_empty() {
                causes.push(Cause::invalid(format!("metadata.ownerReferences.{part}"), "", why));
            }
        }
        if text(owner, &["kind"]) == "Event" && text(owner, &["apiVersion"]) == "v1" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid("metadata.ownerReferences", owner.clone(), why));
        }
    }
    let controls = |owner: &&Value| owner["controller"] == true;
    let mut controllers = owners.iter().filter(controls);
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            text(first, &["kind"]).to_owned() + "/" + text(first, &["name"]),
            text(second, &["kind"]).to_owned() + "/" + text(second, &["name"]),
        );
        causes.push(Cause::invalid("metadata.ownerReferences", owners.to_vec(), &why));
    }
}

pub(crate) fn update(kind: &Kind, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let terminating = |value: &Value| at(value, &["metadata", "deletionTimestamp"]).is_some();
    if terminating(old) {
        let before = strings(old, &["metadata", "finalizers"]);
        let after = strings(new, &["metadata", "finalizers"]);
        let added: Vec<&str> = after.into_iter().filter(|one| !before.contains(one)).collect();
        if !added.is_empty() {
            let shown = added.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ");
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (before, after) = (&old["metadata"][field], &new["metadata"][field]);
        if before != after && !after.is_null() {
            causes.push(Cause::invalid(format!("metadata.{field}"), after.clone(), "field is immutable"));
        }
    }
    // Upstream looks at metadata both for every object and for each kind, and lists what it finds twice.
    causes.extend(causes.clone());
    let (wrong, finalizers, domains) = (common(kind, new), finalizers(new), domains(kind, new));
    for _ in 0..4 {
        causes.extend(wrong.iter().cloned());
    }
    for _ in 0..2 {
        causes.extend(finalizers.iter().chain(&domains).cloned());
    }
    causes
}
