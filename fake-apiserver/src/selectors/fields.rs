//! Decides whether an object's fields satisfy a selector such as `metadata.name=a,spec.nodeName!=`. Never
//! accepts a field that the kind does not offer.

use std::borrow::Cow;

use serde_json::Value;

use crate::kinds::Kind;
use crate::object::{at, text};
use crate::status::{Result, Status};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

/// All terms must hold; none at all picks everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<Term>);

impl FieldSelector {
    pub(crate) fn parse(kind: &Kind, text: &str) -> Result<Self> {
        let mut terms = Vec::new();
        for part in split(text).into_iter().filter(|part| !part.is_empty()) {
            let (field, equal, value) = term(&part).ok_or_else(|| {
                Status::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            let value = unescape(value)
                .ok_or_else(|| Status::bad_request(format!("invalid field selector: {text}")))?;
            let field = stored_field(kind, field)?;
            terms.push(Term { field, equal, value });
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The only value that a field may have.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        let found = self.0.iter().find(|term| term.equal && term.field == field);
        found.map(|term| term.value.as_str())
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| (field(object, &term.field) == term.value.as_str()) == term.equal)
    }
}

/// Splits at commas that no backslash protects.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for letter in text.chars() {
        if letter == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = letter == '\\' && !escaped;
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
}

fn term(part: &str) -> Option<(&str, bool, &str)> {
    let mark = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(mark);
    if let Some(value) = rest.strip_prefix("!=") {
        Some((field, false, value))
    } else if let Some(value) = rest.strip_prefix("==") {
        Some((field, true, value))
    } else {
        rest.strip_prefix('=').map(|value| (field, true, value))
    }
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.push(letters.next().filter(|next| "\\,=".contains(*next))?),
            '=' => return None,
            _ => plain.push(letter),
        }
    }
    Some(plain)
}

/// The field under which the stored object has what the request names.
fn stored_field(kind: &Kind, field: &str) -> Result<String> {
    // Of the kinds outside namespaces, some have said which fields they know, and forgot to say that of the namespace.
    let nowhere = !kind.namespaced && (!kind.fields.is_empty() || kind.definition.is_some());
    if field == "metadata.name" || field == "metadata.namespace" && !nowhere {
        return Ok(field.to_owned());
    }
    if kind.fields.contains(&field) {
        return Ok(match field.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}"),
            None if field == "reportingController" => "reportingComponent".to_owned(),
            None => field.to_owned(),
        });
    }
    if kind.definition.as_ref().is_some_and(|version| version.selectable.iter().any(|one| one == field)) {
        return Ok(field.to_owned());
    }
    Err(Status::bad_request(if kind.definition.is_some() {
        format!("field label not supported: {field}")
    } else if kind.fields.is_empty() {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    }))
}

fn field<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    if field == "source" {
        let component = text(object, &["source", "component"]);
        let component = if component.is_empty() { text(object, &["reportingComponent"]) } else { component };
        return component.into();
    }
    if field == "status.podIPs" {
        let ips = at(object, &["status", "podIPs"]).and_then(Value::as_array);
        let ips: Vec<&str> = ips.into_iter().flatten().map(|ip| text(ip, &["ip"])).collect();
        return ips.join(",").into();
    }
    let found = field.split('.').try_fold(object, |value, step| value.get(step));
    match found {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Null) | None if matches!(field, "spec.unschedulable" | "spec.hostNetwork") => {
            "false".into()
        }
        Some(Value::Null) | None if matches!(field, "status.replicas" | "status.successful") => "0".into(),
        Some(Value::Null) | None => "".into(),
        Some(other) => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Kinds;

    fn select(kind: &str, selector: &str) -> Result<FieldSelector> {
        let kinds = Kinds::served();
        FieldSelector::parse(kinds.get(kinds.named(kind).unwrap()), selector)
    }

    #[test]
    fn terms_hold_as_upstream() {
        let pod =
            json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Pending"}});
        for (selector, expected) in [
            ("metadata.name=a", true),
            ("metadata.name==a,spec.nodeName!=", true),
            ("spec.nodeName=", false),
            ("status.phase!=Succeeded,status.phase!=Failed", true),
            ("spec.hostNetwork=false", true),
            ("", true),
            ("metadata.name=a,metadata.name=b", false),
            (r"metadata.name!=x\,y", true),
        ] {
            assert_eq!(select("Pod", selector).unwrap().matches(&pod), expected, "{selector}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_in_the_kind_s_own_words() {
        let known = "only \"metadata.name\", \"metadata.namespace\"";
        let message = select("PersistentVolume", "status.phase=Bound").unwrap_err().message;
        assert_eq!(message, format!("\"status.phase\" is not a known field selector: {known}"));
        assert_eq!(
            select("Pod", "spec.nosuch=x").unwrap_err().message,
            "field label not supported: spec.nosuch"
        );
        assert_eq!(
            select("Pod", "bad").unwrap_err().message,
            "invalid selector: 'bad'; can't understand 'bad'"
        );
    }
}
