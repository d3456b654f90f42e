//! Decides whether config maps and secrets may be stored: their keys, their size, what each type of secret
//! needs. Never decodes what they hold but to see that it is JSON. Answers to `ValidateConfigMap`,
//! `ValidateSecret` and their updates.

use serde_json::Value;

use super::field::{Causes, Field};
use super::names;
use crate::object::text;
use crate::status::Cause;

/// What both may hold in all, in bytes.
const LARGEST: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";
const ACCOUNT: &str = "kubernetes.io/service-account.name";

pub(super) fn config_map(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let root = Field::root(value);
    let mut size = 0;
    for part in ["data", "binaryData"] {
        for (key, field) in root.at(part).entries() {
            keys(key, &field, &mut causes);
            if part == "data" && value["binaryData"].get(key).is_some() {
                causes.push(Cause::invalid(
                    field.path.as_str(),
                    key,
                    "duplicate of key present in binaryData",
                ));
            }
            size += if part == "data" { field.text().len() } else { bytes_in(field.text()) };
        }
    }
    if size > LARGEST {
        causes.push(Cause::too_long("[]", LARGEST));
    }
    causes
}

fn keys(key: &str, field: &Field<'_>, causes: &mut Causes) {
    causes.extend(names::data_key(key).iter().map(|why| Cause::invalid(field.path.as_str(), key, why)));
}

/// How many bytes a text in base64 stands for.
fn bytes_in(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

pub(super) fn secret(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let data = Field::root(value).at("data");
    let mut size = 0;
    for (key, field) in data.entries() {
        keys(key, &field, &mut causes);
        size += bytes_in(field.text());
    }
    if size > LARGEST {
        causes.push(Cause::too_long("data", LARGEST));
    }
    let has = |key: &str| data.value.get(key).is_some();
    let missing = |key: &str| Cause::required(format!("data[{key}]"), "");
    match text(value, &["type"]) {
        "kubernetes.io/service-account-token"
            if text(value, &["metadata", "annotations", ACCOUNT]).is_empty() =>
        {
            causes.push(Cause::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
        }
        "kubernetes.io/dockercfg" => registry(&data, ".dockercfg", &mut causes),
        "kubernetes.io/dockerconfigjson" => registry(&data, ".dockerconfigjson", &mut causes),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            causes.extend([missing("username"), missing("password")]);
        }
        "kubernetes.io/ssh-auth" if text(data.value, &["ssh-privatekey"]).is_empty() => {
            causes.push(missing("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            causes.extend(["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).map(missing));
        }
        _ => {}
    }
    causes
}

fn registry(data: &Field<'_>, key: &str, causes: &mut Causes) {
    let path = format!("data[{key}]");
    match data.value.get(key).and_then(Value::as_str) {
        None => causes.push(Cause::required(path, "")),
        Some(encoded) => {
            let decoded = super::base64::decode(encoded).unwrap_or_default();
            let is_map = serde_json::from_slice::<Value>(&decoded)
                .is_ok_and(|decoded| decoded.is_object() || decoded.is_null());
            if !is_map {
                causes.push(Cause::invalid(path, "<secret contents redacted>", "is no map in JSON"));
            }
        }
    }
}

/// A change of either kind: what was frozen stays.
pub(super) fn update(kind: &str, old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    if kind == "Secret" && old["type"] != new["type"] {
        causes.push(Cause::invalid("type", new["type"].clone(), "field is immutable"));
    }
    if old["immutable"] == true {
        if new["immutable"] != true {
            causes.push(Cause::forbidden("immutable", FROZEN));
        }
        for field in ["data", "binaryData"] {
            if old[field] != new[field] {
                causes.push(Cause::forbidden(field, FROZEN));
            }
        }
    }
    causes.extend(if kind == "Secret" { secret(new) } else { config_map(new) });
    causes
}

/// A version of what a controller was told.
pub(super) fn revision(old: Option<&Value>, value: &Value) -> Causes {
    let mut causes = Causes::new();
    let number = Field::root(value).at("revision");
    number.at_least(0, &mut causes);
    let data = Field::root(value).at("data");
    if let Some(old) = old
        && old["data"] != value["data"]
    {
        causes.push(data.invalid("field is immutable"));
    } else if old.is_none() && !data.is_set() {
        causes.push(data.required("data is mandatory"));
    }
    causes
}
