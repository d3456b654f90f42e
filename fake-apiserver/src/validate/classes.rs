//! Decides whether a storage class may be stored. Answers to `ValidateStorageClass` and its update.

use serde_json::Value;

use super::field::Field;
use super::names;
use crate::object::text;
use crate::status::Cause;

const MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];

pub(super) fn create(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    provisioner(&Field::root(value).at("provisioner"), &mut causes);
    causes.extend(parameters(value));
    let policy = text(value, &["reclaimPolicy"]);
    if !policy.is_empty() && !matches!(policy, "Delete" | "Retain") {
        causes.push(Cause::unsupported("reclaimPolicy", policy, &["Delete", "Retain"]));
    }
    Field::root(value).at("volumeBindingMode").must_be_one_of(MODES, &mut causes);
    topologies(value, &mut causes);
    causes
}

/// Where volumes of the class may be.
fn topologies(value: &Value, causes: &mut Vec<Cause>) {
    let mut terms: Vec<Vec<(String, Vec<String>)>> = Vec::new();
    for term in Field::root(value).at("allowedTopologies").items() {
        let mut keys: Vec<(String, Vec<String>)> = Vec::new();
        for expression in term.at("matchLabelExpressions").items() {
            let (key, values) = (expression.at("key"), expression.at("values"));
            values.need(causes);
            let mut seen = Vec::new();
            for one in values.items() {
                if seen.contains(&one.text()) {
                    causes.push(one.duplicate());
                }
                seen.push(one.text());
            }
            key.follow(names::qualified_name, causes);
            if keys.iter().any(|(one, _)| one == key.text()) {
                causes.push(key.duplicate());
            }
            let mut values: Vec<String> = seen.into_iter().map(str::to_owned).collect();
            values.sort_unstable();
            values.dedup();
            keys.push((key.text().to_owned(), values));
        }
        keys.sort_unstable();
        // Upstream compares with as many empty terms as there are terms, too.
        if keys.is_empty() || terms.contains(&keys) {
            causes.push(Cause::duplicate(term.at("matchLabelExpressions").path, ""));
        }
        terms.push(keys);
    }
}

/// Who makes the volumes of a class.
pub(super) fn provisioner(field: &Field<'_>, causes: &mut Vec<Cause>) {
    if field.is_empty() {
        causes.push(field.required(""));
        return;
    }
    let name = field.text();
    let why = names::qualified_name(&name.to_lowercase());
    causes.extend(why.map(|why| Cause::invalid(field.path.as_str(), name, &why)));
}

/// The parameters of a class of either kind.
pub(super) fn parameters(value: &Value) -> Vec<Cause> {
    let parameters = Field::root(value).at("parameters");
    let mut causes = Vec::new();
    if parameters.len() > 512 {
        causes.push(Cause::too_long("parameters", 512));
    }
    let (mut size, mut unnamed) = (0, false);
    for (key, entry) in parameters.entries() {
        size += key.len() + entry.text().len();
        unnamed |= key.is_empty();
    }
    if unnamed {
        causes.push(Cause::invalid("parameters", "", "field can not be empty."));
    }
    if size > 256 * 1024 {
        causes.push(Cause::too_long("parameters", 256 * 1024));
    }
    causes
}

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create(new);
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if old.get(field) != new.get(field) {
            causes.push(Cause::invalid(
                field,
                new.get(field).cloned().unwrap_or_default(),
                "field is immutable",
            ));
        }
    }
    causes
}
