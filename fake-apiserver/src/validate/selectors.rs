//! Decides whether label selectors and maps of labels make sense, and whether a selector picks labels.
//! Answers to `k8s.io/apimachinery/pkg/apis/meta/v1/validation`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::names;
use crate::object::text;
use crate::status::Cause;

/// A map of labels.
pub(super) fn labels(field: &Field<'_>, causes: &mut Causes) {
    let path = field.path.as_str();
    for (key, value) in field.entries() {
        causes.extend(names::qualified_name(key).map(|why| Cause::invalid(path, key, &why)));
        causes.extend(names::label_value(value.text()).map(|why| Cause::invalid(path, value.text(), &why)));
    }
}

/// A label selector with labels to match and expressions.
pub(super) fn selector(field: &Field<'_>, causes: &mut Causes) {
    labels(&field.at("matchLabels"), causes);
    for expression in field.at("matchExpressions").items() {
        requirement(&expression, causes);
        expression.at("key").follow(names::qualified_name, causes);
        for value in expression.at("values").items() {
            value.follow(names::label_value, causes);
        }
    }
}

fn requirement(expression: &Field<'_>, causes: &mut Causes) {
    let (operator, values) = (expression.at("operator"), expression.at("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            causes.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            causes
                .push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => causes.push(operator.invalid("not a valid selector operator")),
    }
}

/// Whether a selector has nothing to say.
pub(super) fn is_blank(field: &Field<'_>) -> bool {
    field.at("matchLabels").is_empty() && field.at("matchExpressions").is_empty()
}

/// Whether the selector can be used and picks the labels; `None` when it can't be used.
pub(crate) fn picks(selector: &Value, labels: &Value) -> Option<bool> {
    let Some(fields) = selector.as_object() else { return Some(false) };
    let has = |key: &str| labels.get(key).and_then(Value::as_str);
    let mut fits = true;
    for (key, value) in fields.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        usable(key, &[value])?;
        fits &= has(key) == Some(value);
    }
    for expression in fields.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let (key, values) = (text(expression, &["key"]), crate::object::strings(expression, &["values"]));
        usable(key, &values)?;
        let found = has(key);
        fits &= match (text(expression, &["operator"]), values.is_empty()) {
            ("In", false) => found.is_some_and(|label| values.contains(&label)),
            ("NotIn", false) => found.is_none_or(|label| !values.contains(&label)),
            ("Exists", true) => found.is_some(),
            ("DoesNotExist", true) => found.is_none(),
            _ => return None,
        };
    }
    Some(fits)
}

fn usable(key: &str, values: &[&str]) -> Option<()> {
    let wrong = names::qualified_name(key).is_some()
        || values.iter().any(|value| names::label_value(value).is_some());
    (!wrong).then_some(())
}
