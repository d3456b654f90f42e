//! Decides whether requests and limits go together. Answers to `validateResourceRequirements`.

use serde_json::Value;

use crate::quantity::Quantity;
use crate::status::Cause;
use crate::validate::field::{Causes, Field};
use crate::validate::names;

/// Requests and limits.
pub(in crate::validate) fn resources(field: &Field<'_>, causes: &mut Causes) {
    let (limits, requests) = (field.at("limits"), field.at("requests"));
    for (name, entry) in limits.entries().into_iter().chain(requests.entries()) {
        resource_name(name, &entry, causes);
        if let Some(amount) = amount(entry.value) {
            if amount.is_negative() {
                causes.push(entry.invalid("must be greater than or equal to 0"));
            }
            let counted = name.contains('/') && !name.starts_with("requests.");
            if counted && amount.nanos() % 1_000_000_000 != 0 {
                causes.push(entry.invalid("must be an integer"));
            }
        }
    }
    let mut computes = false;
    let mut huge = false;
    for (name, _) in limits.entries().into_iter().chain(requests.entries()) {
        computes |= matches!(name, "cpu" | "memory");
        huge |= name.starts_with("hugepages-");
    }
    for (name, entry) in requests.entries() {
        let overcommits =
            !name.contains('/') && !name.starts_with("hugepages-") || name.contains("kubernetes.io/");
        let Some(request) = amount(entry.value) else { continue };
        match limits.value.get(name).and_then(amount) {
            Some(limit) if request.nanos() != limit.nanos() && !overcommits => {
                causes.push(Cause::invalid(
                    requests.path.as_str(),
                    entry.value.clone(),
                    &format!("must be equal to {name} limit of {limit}"),
                ));
            }
            Some(limit) if request.nanos() > limit.nanos() => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                causes.push(Cause::invalid(requests.path.as_str(), entry.value.clone(), &why));
            }
            None if !overcommits => {
                causes.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
    }
    if huge && !computes {
        causes.push(field.forbidden("HugePages require cpu or memory"));
    }
}

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// The name of what a container asks for.
pub(in crate::validate) fn resource_name(name: &str, entry: &Field<'_>, causes: &mut Causes) {
    let wrong = |why: &str| Cause::invalid(entry.path.as_str(), name, why);
    let malformed = names::qualified_names(name);
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    let plain = !name.contains('/');
    if malformed.is_empty()
        && plain
        && !standard
        && name != "storage"
        && !crate::validate::quotas::is_resource(name)
    {
        causes.push(wrong("must be a standard resource type or fully qualified"));
    }
    causes.extend(malformed.iter().map(|why| wrong(why)));
    if plain && !standard {
        causes.push(wrong("must be a standard resource for containers"));
    }
}
