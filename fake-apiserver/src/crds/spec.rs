//! Decides whether what a definition says of its kind can be: names, versions, subresources, columns, conversion. Never looks
//! at its status or at other definitions. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use serde_json::Value;

use super::extensions::field_at;
use super::openapi;
use crate::object::{at, strings, text};
use crate::status::Cause;
use crate::validate::names;

/// How many fields of a version can be selected by.
const MOST_SELECTABLE: usize = 8;

/// What is wrong with a specification; `old` is the last one, where there is one.
pub(super) fn spec(spec: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let group = text(spec, &["group"]);
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(wrong) = Some(names::subdomain(group)).filter(|wrong| !wrong.is_empty()) {
        causes.push(Cause::invalid("spec.group", group, &wrong.join(",")));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match text(spec, &["scope"]) {
        "" => causes.push(Cause::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => causes.push(Cause::unsupported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    versions(spec, old, causes);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &["names", name]).is_empty() {
            causes.push(Cause::required(format!("spec.names.{name}"), ""));
        }
    }
    names_form(&spec["names"], "spec.names", causes);
    conversion(&spec["conversion"], causes);
}

/// Where a part of the versions is judged: once above them when it is the same in all, else in each.
fn parts<'a>(versions: &'a [Value], field: &str) -> Vec<(String, &'a Value)> {
    let first = versions.first().map(|version| &version[field]);
    if versions.iter().all(|version| Some(&version[field]) == first) {
        let above = if field == "schema" { "validation" } else { field };
        return first.map(|part| (format!("spec.{above}"), part)).into_iter().collect();
    }
    let each = versions.iter().enumerate();
    each.map(|(index, version)| (format!("spec.versions[{index}].{field}"), &version[field])).collect()
}

fn versions(spec: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, version) in versions.iter().enumerate() {
        let field = |name: &str| format!("spec.versions[{index}].{name}");
        if at(version, &["schema", "openAPIV3Schema"]).is_none() {
            causes.push(Cause::required(field("schema.openAPIV3Schema"), ""));
        }
        let name = text(version, &["name"]);
        let wrong = names::label_1035(name);
        if !wrong.is_empty() {
            causes.push(Cause::invalid(field("name"), name, &wrong.join(",")));
        }
        if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
            let wrong = deprecation(version, warning);
            causes.extend(wrong.map(|why| Cause::invalid(field("deprecationWarning"), warning, why)));
        }
    }
    let shown = || spec["versions"].clone();
    let names: Vec<&str> = versions.iter().map(|version| text(version, &["name"])).collect();
    if names.iter().enumerate().any(|(index, name)| names[..index].contains(name)) {
        causes.push(Cause::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", shown(), why));
    }
    // The name of the first version is also that of the whole in the real server's own form.
    if let Some(first) = names.first()
        && let wrong = names::label_1035(first)
        && !wrong.is_empty()
        && !first.is_empty()
    {
        causes.push(Cause::invalid("spec.version", *first, &wrong.join(",")));
    }
    let status =
        |index: usize| versions.get(index).is_some_and(|one| at(one, &["subresources", "status"]).is_some());
    let any_status = (0..versions.len()).any(status);
    let schemas = parts(versions, "schema");
    let shared = schemas.len() < versions.len() || versions.len() == 1;
    for (index, (path, part)) in schemas.into_iter().enumerate() {
        if let Some(schema) = part.get("openAPIV3Schema") {
            let status = if shared { any_status } else { status(index) };
            let before = old["versions"].as_array().into_iter().flatten();
            let mut before = before.filter(|version| version["name"] == versions[index]["name"]);
            let unchanged = before.any(|version| version["schema"]["openAPIV3Schema"] == *schema);
            causes.extend(openapi::check(schema, &path, status, unchanged));
        }
    }
    for (path, part) in parts(versions, "subresources") {
        subresources(part, &path, causes);
    }
    for (path, part) in parts(versions, "additionalPrinterColumns") {
        for (index, column) in part.as_array().into_iter().flatten().enumerate() {
            self::column(column, &format!("{path}[{index}]"), causes);
        }
    }
    for (index, (path, part)) in parts(versions, "selectableFields").into_iter().enumerate() {
        let schema =
            versions.get(index).map_or(&Value::Null, |version| &version["schema"]["openAPIV3Schema"]);
        selectable(part, schema, &path, causes);
    }
}

fn deprecation(version: &Value, warning: &str) -> Option<&'static str> {
    if version["deprecated"] != true {
        Some("can only be set for deprecated versions")
    } else if warning.len() > 256 {
        Some("must be <= 256 characters long")
    } else if warning.is_empty() {
        Some("must not be an empty string")
    } else {
        let odd =
            warning.chars().any(|letter| letter.is_control() || letter.is_whitespace() && letter != ' ');
        odd.then_some("must only contain printable UTF-8 characters")
    }
}

pub(super) fn names_form(given: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        let value = text(given, &[name]);
        let mixed = matches!(name, "kind" | "listKind");
        let wrong = names::label_1035(&if mixed { value.to_lowercase() } else { value.to_owned() }).join(",");
        if !value.is_empty() && !wrong.is_empty() {
            let prefix = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            causes.push(Cause::invalid(format!("{path}.{name}"), value, &format!("{prefix}{wrong}")));
        }
    }
    for list in ["shortNames", "categories"] {
        for (index, value) in strings(given, &[list]).into_iter().enumerate() {
            let wrong = names::label_1035(value).join(",");
            if !wrong.is_empty() {
                causes.push(Cause::invalid(format!("{path}.{list}[{index}]"), value, &wrong));
            }
        }
    }
    let kind = text(given, &["kind"]);
    if !kind.is_empty() && kind == text(given, &["listKind"]) {
        let why = "kind and listKind may not be the same";
        causes.push(Cause::invalid(format!("{path}.listKind"), kind, why));
    }
}

/// A path with dots, as subresources and columns have.
fn simple_path(path: &str, field: String, causes: &mut Vec<Cause>) -> bool {
    if path.starts_with('.') {
        return true;
    }
    causes.push(if path.is_empty() {
        Cause::required(field, "")
    } else {
        Cause::invalid(field, path, "must be a simple json path starting with .")
    });
    false
}

fn subresources(part: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = part.get("scale") else { return };
    for (name, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let (given, field) = (text(scale, &[name]), format!("{path}.scale.{name}"));
        if simple_path(given, field.clone(), causes) && !given.starts_with(root) {
            let why = format!("should be a json path under {}", root.trim_end_matches('.'));
            causes.push(Cause::invalid(field, given, &why));
        }
    }
    let (given, field) = (text(scale, &["labelSelectorPath"]), format!("{path}.scale.labelSelectorPath"));
    let under = given.starts_with(".spec.") || given.starts_with(".status.");
    if !given.is_empty() && simple_path(given, field.clone(), causes) && !under {
        causes.push(Cause::invalid(field, given, "should be a json path under either .spec or .status"));
    }
}

fn column(column: &Value, path: &str, causes: &mut Vec<Cause>) {
    let word = |name: &str| text(column, &[name]);
    if word("name").is_empty() {
        causes.push(Cause::required(format!("{path}.name"), ""));
    }
    let forms = ["boolean", "date", "integer", "number", "string"];
    let why = format!("must be one of {}", forms.join(","));
    match word("type") {
        "" => causes.push(Cause::required(format!("{path}.type"), &why)),
        form if !forms.contains(&form) => causes.push(Cause::invalid(format!("{path}.type"), form, &why)),
        _ => {}
    }
    let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let format = word("format");
    if !format.is_empty() && !formats.contains(&format) {
        let why = format!("must be one of {}", formats.join(","));
        causes.push(Cause::invalid(format!("{path}.format"), format, &why));
    }
    simple_path(word("jsonPath"), format!("{path}.JSONPath"), causes);
}

fn selectable(part: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, field) in part.as_array().into_iter().flatten().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        let given = text(field, &["jsonPath"]);
        if given.is_empty() {
            causes.push(Cause::required(at, ""));
            continue;
        }
        let found = match field_at(schema, given, false) {
            Ok(found) => found,
            Err(why) => {
                causes.push(Cause::invalid(at, given, &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if given.starts_with(".metadata.") || given == ".metadata" {
            causes.push(Cause::invalid(at.clone(), given, "must not point to fields in metadata"));
        }
        if !matches!(text(found, &["type"]), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            causes.push(Cause::invalid(at.clone(), given, why));
        }
        if seen.contains(&given) {
            causes.push(Cause::duplicate(at, given));
        } else {
            seen.push(given);
        }
    }
    if seen.len() > MOST_SELECTABLE {
        let most = i64::try_from(MOST_SELECTABLE).unwrap_or(i64::MAX);
        causes.push(Cause::too_many(path, seen.len(), most));
    }
}

fn conversion(given: &Value, causes: &mut Vec<Cause>) {
    let path = "spec.conversion";
    let webhook = given.get("webhook");
    match text(given, &["strategy"]) {
        "" => causes.push(Cause::required(format!("{path}.strategy"), "")),
        "None" => {
            if webhook.and_then(|webhook| webhook.get("clientConfig")).is_some() {
                let why = "should not be set when strategy is not set to Webhook";
                causes.push(Cause::forbidden(format!("{path}.webhookClientConfig"), why));
            }
            let reviews = webhook.map(|webhook| strings(webhook, &["conversionReviewVersions"]));
            if reviews.is_some_and(|reviews| !reviews.is_empty()) {
                let why = "should not be set when strategy is not set to Webhook";
                causes.push(Cause::forbidden(format!("{path}.conversionReviewVersions"), why));
            }
        }
        "Webhook" => by_webhook(webhook, path, causes),
        other => {
            causes.push(Cause::unsupported(format!("{path}.strategy"), other, &["None", "Webhook"]));
        }
    }
}

fn by_webhook(webhook: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    let client = webhook.and_then(|webhook| webhook.get("clientConfig"));
    let at = format!("{path}.webhookClientConfig");
    match client {
        None => causes.push(Cause::required(at, "required when strategy is set to Webhook")),
        Some(client) if client.get("url").is_some() == client.get("service").is_some() => {
            causes.push(Cause::required(at, "exactly one of url or service is required"));
        }
        Some(client) => {
            if let Some(url) =
                client.get("url").and_then(Value::as_str).filter(|url| !url.starts_with("https://"))
            {
                let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                causes.push(Cause::invalid(format!("{at}.url"), url, why));
            }
        }
    }
    let reviews = webhook.map(|webhook| strings(webhook, &["conversionReviewVersions"])).unwrap_or_default();
    let at = format!("{path}.conversionReviewVersions");
    if reviews.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if !reviews.iter().any(|review| matches!(*review, "v1" | "v1beta1")) {
        causes.push(Cause::invalid(at, reviews, "must include at least one of v1, v1beta1"));
    }
}
