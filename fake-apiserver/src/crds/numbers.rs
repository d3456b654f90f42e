//! Decides whether a number keeps the limits of its schema: range of its type, bounds, multiples. Next to an integer the
//! limits are integers too, as the real server converts them. Never looks at types. Answers to the number validator of
//! `k8s.io/kube-openapi/pkg/validation/validate`.

use serde_json::Value;

use super::formats;
use super::schema::{Bound, Schema};
use super::values::{Found, LARGEST_WHOLE, Wrong, invalid};

pub(super) fn number(schema: &Schema, forms: &[&str], value: &Value, path: &str) -> Found {
    let mut found = Found { right: 1, ..Found::default() };
    let float = value.as_f64().unwrap_or_default();
    if let [kind @ ("integer" | "number")] = forms
        && !formats::number_fits(kind, &schema.format, value)
    {
        let format = match schema.format.as_str() {
            known @ ("int32" | "int64" | "float" | "double") => format!("with format {known}"),
            _ => "(default format)".to_owned(),
        };
        found.add("", Wrong::Whole(format!("Checked value must be of type {kind} {format} in {path}")));
    }
    // Next to an integer, limits lose their fraction.
    let limit = |limit: f64| if value.is_i64() { limit.trunc() } else { limit };
    if let Some(factor) = schema.multiple_of {
        let factor = limit(factor);
        let quotient = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
        let whole = (quotient - quotient.round()).abs() < 1e-9 && quotient.abs() <= LARGEST_WHOLE;
        if factor <= 0.0 {
            let why = format!("factor MultipleOf declared for {path} must be positive: {factor}");
            found.add(path, invalid(factor, why));
        } else if !(whole || value.is_i64() && float % factor == 0.0) {
            let why = format!("{path} in body should be a multiple of {factor}");
            found.add(path, invalid(value.clone(), why));
        }
    }
    let bound = |bound: Option<Bound>| bound.map(|bound| Bound { limit: limit(bound.limit), ..bound });
    let (least, most) = (bound(schema.minimum), bound(schema.maximum));
    found.merge(limits(least, most, value, path));
    found
}

fn limits(least: Option<Bound>, most: Option<Bound>, value: &Value, path: &str) -> Found {
    let mut found = Found::default();
    let float = value.as_f64().unwrap_or_default();
    let relation = |bound: Bound, word: &str| {
        let or_equal = if bound.exclusive { "" } else { " or equal to" };
        format!("{path} in body should be {word} than{or_equal} {}", bound.limit)
    };
    if let Some(bound) = least.filter(|bound| float < bound.limit || bound.exclusive && float <= bound.limit)
    {
        found.add(path, invalid(value.clone(), relation(bound, "greater")));
    }
    if let Some(bound) = most.filter(|bound| float > bound.limit || bound.exclusive && float >= bound.limit) {
        found.add(path, invalid(value.clone(), relation(bound, "less")));
    }
    found
}
