//! Decides whether the extensions of a schema are well used: lists whose items can be told apart, rules that can be read,
//! paths that lead somewhere. Never judges an object. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use serde_json::Value;

use super::checker::Comes;
use super::cost::{Declared, Limits, Spent};
use super::program::{Scope, check_types};
use super::rules;
use crate::object::{strings, text};
use crate::status::Cause;

/// Lists that are sets or maps need items that can be told apart.
pub(super) fn lists(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let list_type = text(schema, &["x-kubernetes-list-type"]);
    let keys = strings(schema, &["x-kubernetes-list-map-keys"]);
    let at = |name: &str| format!("{path}.{name}");
    let items = schema.get("items").filter(|items| items.is_object());
    if let Some(items) = items.filter(|_| list_type == "set" && schema["type"] == "array") {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let (form, of_list, of_map) = (
            text(items, &["type"]),
            text(items, &["x-kubernetes-list-type"]),
            text(items, &["x-kubernetes-map-type"]),
        );
        if form == "array" && !matches!(of_list, "" | "atomic") {
            causes.push(Cause::invalid(at("items.x-kubernetes-list-type"), of_list, why));
        } else if form == "object" && of_map != "atomic" {
            causes.push(Cause::invalid(at("items.x-kubernetes-map-type"), Value::Null, why));
        }
    }
    if !keys.is_empty() && list_type != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(match list_type {
            "" => Cause::required(at("x-kubernetes-list-type"), why),
            other => Cause::invalid(at("x-kubernetes-list-type"), other, why),
        });
    }
    if matches!(list_type, "set" | "map") && items.is_some_and(|items| items["nullable"] == true) {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(at("items.nullable"), &why));
    }
    if list_type != "map" {
        return;
    }
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(at("x-kubernetes-list-map-keys"), why));
    }
    match items {
        None => {
            causes.push(Cause::required(at("items"), "must have a schema if x-kubernetes-list-type is map"));
        }
        Some(items) if items["type"] != "object" => {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            causes.push(Cause::invalid(at("items.type"), text(items, &["type"]), why));
        }
        Some(items) => list_keys(items, &keys, path, causes),
    }
}

fn list_keys(items: &Value, keys: &[&str], path: &str, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{path}.{name}");
    let required = strings(items, &["required"]);
    for (index, key) in keys.iter().enumerate() {
        let of_key = |name: &str| format!("{path}.items.properties[{key}].{name}");
        let Some(property) = items["properties"].get(*key) else {
            let why = "entries must all be names of item properties";
            causes.push(Cause::invalid(at("x-kubernetes-list-map-keys"), keys.to_vec(), why));
            continue;
        };
        if matches!(text(property, &["type"]), "array" | "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.push(Cause::invalid(of_key("type"), "object", why));
        }
        if keys[..index].contains(key) {
            let why = "must not contain duplicate entries";
            causes.push(Cause::invalid(at("x-kubernetes-list-map-keys"), keys.to_vec(), why));
        }
        if !required.contains(key) && property.get("default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(of_key("default"), why));
        }
        if property["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(of_key("nullable"), why));
        }
    }
}

/// How rules are written down.
pub(super) fn rule_texts(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    const REASONS: &[&str] =
        &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    for (index, rule) in schema["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
        let at = |name: &str| format!("{path}.x-kubernetes-validations[{index}].{name}");
        let word = |name: &str| text(rule, &[name]);
        let broken = |text: &str| text.trim().contains(['\n', '\r']);
        let message = word("message");
        if word("rule").trim().is_empty() {
            causes.push(Cause::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            causes.push(Cause::invalid(at("message"), message, "must be non-empty if specified"));
        } else if broken(message) {
            causes.push(Cause::invalid(at("message"), message, "must not contain line breaks"));
        } else if broken(word("rule")) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            causes.push(Cause::required(at("message"), why));
        }
        let expression = word("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            causes.push(Cause::required(at("messageExpression"), why));
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str).filter(|one| !REASONS.contains(one))
        {
            causes.push(Cause::unsupported(at("reason"), reason, REASONS));
        }
        let field = word("fieldPath");
        if !field.is_empty() && field.trim().is_empty() {
            causes.push(Cause::invalid(at("fieldPath"), field, "must be non-empty if specified"));
        }
        if field.contains(['\n', '\r']) {
            causes.push(Cause::invalid(at("fieldPath"), field, "must not contain line breaks"));
        }
        if !field.is_empty() && field_at(schema, field, true).is_err() {
            causes.push(Cause::invalid(at("fieldPath"), field, "must be a valid path"));
        }
    }
}

/// The place whose rules are judged.
pub(super) struct Rules<'a> {
    pub(super) path: &'a str,
    /// The place from which on nobody can tell what a value was before.
    pub(super) no_old: Option<&'a str>,
    pub(super) limits: Limits,
}

/// Whether the rules of a schema can be read, and whether they cost too much.
pub(super) fn rule_programs(schema: &Value, rules: &Rules<'_>, spent: &mut Spent, causes: &mut Vec<Cause>) {
    let all = schema["x-kubernetes-validations"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        return;
    }
    let root = rules.path.ends_with(".openAPIV3Schema");
    let declared = Declared::of(schema, root).unwrap_or_default();
    let scope = Scope { schema, root, declared: &declared };
    for (index, given) in all.iter().enumerate() {
        let at = |name: &str| format!("{}.x-kubernetes-validations[{index}].{name}", rules.path);
        let rule = rules::Rule::read(given);
        let judged = judge(&scope, given, "rule", rule.malformed.as_ref());
        if let Ok(once) = judged {
            let cost = rules.limits.of_all(once, declared.most_in_a_request());
            causes.extend(spent.note(&at("rule"), "rule", cost));
        }
        match judge(&scope, given, "messageExpression", rule.malformed_message.as_ref()) {
            Err(why) => {
                let whose = if why.starts_with("compilation") { "messageExpression " } else { "" };
                causes.push(Cause::invalid(at("messageExpression"), given.clone(), &format!("{whose}{why}")));
            }
            Ok(cost) if judged.is_ok() => {
                causes.extend(spent.note(&at("messageExpression"), "messageExpression", cost));
            }
            Ok(_) => {}
        }
        if let Err(why) = judged {
            causes.push(Cause::invalid(at("rule"), given.clone(), &why));
        } else if let (true, Some(from)) = (rule.uses_old, rules.no_old) {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {from}");
            causes.push(Cause::invalid(at("rule"), rule.text.as_str(), &why));
        } else if !rule.uses_old && given.get("optionalOldSelf").is_some() && rule.is_read() {
            let why = "may not be set if oldSelf is not used in rule";
            causes.push(Cause::invalid(at("optionalOldSelf"), given["optionalOldSelf"].clone(), why));
        }
    }
}

/// What a rule or its message costs at most, or why it can't be.
fn judge(scope: &Scope<'_>, given: &Value, field: &str, malformed: Option<&String>) -> Result<u64, String> {
    let optional_old = field == "rule" && given["optionalOldSelf"] == true;
    let checked = check_types(text(given, &[field]), scope, optional_old)?;
    let cost = match checked {
        None => 0,
        Some((Comes::Bool, cost)) if field == "rule" => cost,
        Some((Comes::Text, cost)) if field != "rule" => cost,
        Some((Comes::Anything, cost)) => cost,
        Some(_) if field == "rule" => return Err("cel expression must evaluate to a bool".to_owned()),
        Some(_) => return Err("messageExpression must evaluate to a string".to_owned()),
    };
    malformed.map_or(Ok(cost), |why| Err(why.clone()))
}

/// The schema that a path such as `.spec.field` or `['key']` leads to, or why it leads nowhere.
pub(crate) fn field_at<'a>(schema: &'a Value, path: &str, arrays: bool) -> Result<&'a Value, String> {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(dotted) = rest.strip_prefix('.') {
            let end = dotted.find(['.', '[', ']']).unwrap_or(dotted.len());
            (&dotted[..end], &dotted[end..])
        } else if let Some(inside) = rest.strip_prefix('[') {
            if !arrays {
                return Err("array notation is not allowed".to_owned());
            }
            let quoted = inside.strip_prefix('\'').and_then(|inside| inside.split_once("']"));
            let Some((name, after)) = quoted else { return Err("expected single quoted string".to_owned()) };
            (name, after)
        } else {
            return Err(format!(
                "expected [ or . but got: {}",
                rest.split(['.', '[']).next().unwrap_or_default()
            ));
        };
        if name.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        let properties = schema.get("properties").filter(|properties| properties.is_object());
        let next = match properties {
            Some(properties) => properties.get(name),
            None => schema.get("additionalProperties").filter(|additional| additional.is_object()),
        };
        schema = next.ok_or("does not refer to a valid field")?;
        rest = after;
    }
    Ok(schema)
}
