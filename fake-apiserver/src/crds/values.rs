//! Decides whether a value satisfies a schema, in the real server's words: types, limits, patterns, formats,
//! combinations. A part that has not changed since the last version is not judged again. Never changes a
//! value. Answers to `k8s.io/kube-openapi/pkg/validation/validate` and
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/validation`.

use serde_json::Value;

use super::formats;
use super::numbers::number;
use super::schema::{Additional, Schema};
use crate::status::Cause;

/// The largest number up to which every whole one has a float of its own.
pub(super) const LARGEST_WHOLE: f64 = 9_007_199_254_740_991.0;

/// What is wrong with one value, before it is known where the whole stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wrong {
    Type {
        shown: String,
        message: String,
    },
    Required,
    Unsupported(Value, Vec<String>),
    TooLong(i64),
    TooMany {
        count: usize,
        most: i64,
    },
    Invalid {
        shown: Value,
        message: String,
    },
    /// What the real server says of no field in particular.
    Whole(String),
}

/// What was found at and below a value, and how much of it was right: the best of several failures is the one that went
/// furthest.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) wrong: Vec<(String, Wrong)>,
    pub(super) right: usize,
}

impl Found {
    pub(super) fn add(&mut self, path: &str, wrong: Wrong) {
        let entry = (path.to_owned(), wrong);
        if !self.wrong.contains(&entry) {
            self.wrong.push(entry);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.right += other.right;
        for (path, wrong) in other.wrong {
            self.add(&path, wrong);
        }
    }

    fn fails_with(path: &str, wrong: Wrong) -> Self {
        Self { wrong: vec![(path.to_owned(), wrong)], right: 0 }
    }
}

/// What is wrong with a value; `prefix` is where it stands, and `old` what stood there before.
pub(crate) fn check(schema: &Schema, value: &Value, old: Option<&Value>, prefix: &str) -> Vec<Cause> {
    let found = judge(schema, value, old, "");
    let mut causes: Vec<Cause> =
        found.wrong.into_iter().map(|(path, wrong)| cause(prefix, &path, wrong)).collect();
    causes.sort_by(|a, b| a.sentence().cmp(b.sentence()));
    causes
}

fn cause(prefix: &str, path: &str, wrong: Wrong) -> Cause {
    let path = path.trim_start_matches('.');
    let field = match (prefix, path) {
        ("", "") => "<nil>".to_owned(),
        (prefix, "") => prefix.to_owned(),
        ("", path) => path.to_owned(),
        (prefix, path) => format!("{prefix}.{path}"),
    };
    match wrong {
        Wrong::Type { shown, message } => Cause::type_invalid(field, shown, &message),
        Wrong::Required => Cause::required(field, ""),
        Wrong::Unsupported(value, supported) => {
            let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
            Cause::unsupported(field, value, &supported)
        }
        Wrong::TooLong(most) => Cause::too_long(field, usize::try_from(most).unwrap_or_default()),
        Wrong::TooMany { count, most } => Cause::too_many(field, count, most),
        Wrong::Invalid { shown, message } => Cause::invalid(field, shown, &message),
        Wrong::Whole(message) => {
            Cause::invalid(if prefix.is_empty() { "<nil>" } else { prefix }, "", &message)
        }
    }
}

/// The type of a value in the schema's words.
fn form(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The types that a schema allows.
fn forms(schema: &Schema) -> Vec<&str> {
    if schema.int_or_string {
        vec!["integer", "string"]
    } else if schema.form.is_empty() {
        Vec::new()
    } else {
        vec![&schema.form]
    }
}

fn judge(schema: &Schema, value: &Value, old: Option<&Value>, path: &str) -> Found {
    let mut found = Found::default();
    if old == Some(value) {
        found.right = 1;
        return found;
    }
    let forms = forms(schema);
    if value.is_null() {
        found.merge(type_of(schema, &forms, value, path));
        found.merge(one_of_values(schema, value, path));
        return found;
    }
    let mut step = |one: Option<Found>| {
        if let Some(one) = one {
            found.merge(one);
            found.right += 1;
        }
    };
    let format = formats::known(schema);
    step((!forms.is_empty() || format.is_some()).then(|| type_of(schema, &forms, value, path)));
    step(Some(combinations(schema, value, path)));
    match value {
        Value::String(text) => {
            step(Some(text_limits(schema, text, path)));
            step(
                format
                    .filter(|format| !formats::is_numeric(format))
                    .map(|format| text_format(format, text, path)),
            );
        }
        Value::Number(_) => step(Some(number(schema, &forms, value, path))),
        Value::Array(items) => step(Some(list(schema, items, old, path))),
        _ => {}
    }
    step(Some(one_of_values(schema, value, path)));
    if let Value::Object(fields) = value {
        step(Some(object(schema, fields, old, path)));
    }
    found.right += 1;
    found
}

fn wrong_type(path: &str, wanted: &str, shown: &str) -> Wrong {
    let message = format!("{path} in body must be of type {wanted}: {}", Value::from(shown));
    Wrong::Type { shown: shown.to_owned(), message }
}

fn type_of(schema: &Schema, forms: &[&str], value: &Value, path: &str) -> Found {
    let ok = Found { right: 1, ..Found::default() };
    let is = form(value);
    let all = forms.join(",");
    if value.is_null() {
        let allowed = forms.is_empty() || schema.nullable;
        return if allowed { ok } else { Found::fails_with(path, wrong_type(path, &all, is)) };
    }
    let whole = is == "number"
        && value.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() <= LARGEST_WHOLE);
    let fits = forms.contains(&is)
        || whole && forms.contains(&"integer")
        || is == "integer" && forms.contains(&"number");
    let format = formats::known(schema).unwrap_or_default();
    let numeric = forms.contains(&"number") || forms.contains(&"integer");
    if !matches!(is, "string" | "array") && !format.is_empty() && !fits {
        return Found::fails_with(path, wrong_type(path, format, if is == "integer" { "int64" } else { "" }));
    }
    if !numeric && !format.is_empty() && matches!(is, "string" | "array") {
        return ok;
    }
    if fits { ok } else { Found::fails_with(path, wrong_type(path, &all, is)) }
}

fn combinations(schema: &Schema, value: &Value, path: &str) -> Found {
    let mut found = Found::default();
    if !schema.any_of.is_empty() {
        let (valid, best) = alternatives(&schema.any_of, value, path, true);
        if valid == 0 {
            found.add("", Wrong::Whole(format!("\"{path}\" must validate at least one schema (anyOf)")));
        }
        found.merge(best);
    }
    if !schema.one_of.is_empty() {
        let (valid, best) = alternatives(&schema.one_of, value, path, false);
        if valid != 1 {
            let how_many = if valid == 0 {
                "Found none valid".into()
            } else {
                format!("Found {valid} valid alternatives")
            };
            let message = format!("\"{path}\" must validate one and only one schema (oneOf). {how_many}");
            found.add("", Wrong::Whole(message));
        }
        if valid < 2 {
            found.merge(best);
        }
    }
    let mut valid = 0;
    for one in &schema.all_of {
        let one = judge(one, value, None, path);
        valid += usize::from(one.wrong.is_empty());
        found.merge(one);
    }
    if valid < schema.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        found.add("", Wrong::Whole(format!("\"{path}\" must validate all the schemas (allOf){none}")));
    }
    if schema.not.as_ref().is_some_and(|not| judge(not, value, None, path).wrong.is_empty()) {
        found.add("", Wrong::Whole(format!("\"{path}\" must not validate the schema (not)")));
    }
    found.right += 1;
    found
}

/// How many alternatives are satisfied, and the first of those or else the one that came closest.
fn alternatives(schemas: &[Schema], value: &Value, path: &str, first_is_enough: bool) -> (usize, Found) {
    let mut valid = 0;
    let mut success = None;
    let mut best: Option<Found> = None;
    for schema in schemas {
        let one = judge(schema, value, None, path);
        if one.wrong.is_empty() {
            valid += 1;
            success.get_or_insert(one);
            if first_is_enough {
                break;
            }
        } else if best.as_ref().is_none_or(|best| one.right > best.right) {
            best = Some(one);
        }
    }
    (valid, success.or(best).unwrap_or_default())
}

pub(super) fn invalid(shown: impl Into<Value>, message: String) -> Wrong {
    Wrong::Invalid { shown: shown.into(), message }
}

fn text_limits(schema: &Schema, text: &str, path: &str) -> Found {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = schema.lengths.most.filter(|most| length > *most) {
        return Found::fails_with(path, Wrong::TooLong(most));
    }
    if let Some(least) = schema.lengths.least.filter(|least| length < *least) {
        let message = format!("{path} in body should be at least {least} chars long");
        return Found::fails_with(path, invalid(text, message));
    }
    if let Some(pattern) = &schema.pattern
        && !pattern.compiled.as_ref().is_some_and(|compiled| compiled.is_match(text))
    {
        let message = format!("{path} in body should match '{}'", pattern.text);
        return Found::fails_with(path, invalid(text, message));
    }
    Found::default()
}

fn text_format(format: &str, text: &str, path: &str) -> Found {
    if formats::holds(format, text) {
        return Found::default();
    }
    let message = format!("{path} in body must be of type {format}: {}", Value::from(text));
    Found::fails_with(path, Wrong::Type { shown: text.to_owned(), message })
}

fn list(schema: &Schema, items: &[Value], old: Option<&Value>, path: &str) -> Found {
    let mut found = Found { right: 1, ..Found::default() };
    if let Some(of) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            let before = super::lists::counterpart(schema, old, item);
            found.merge(judge(of, item, before, &format!("{path}[{index}]")));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.items_count.least.filter(|least| count < *least) {
        found.add(path, invalid(count, format!("{path} in body should have at least {least} items")));
    }
    if let Some(most) = schema.items_count.most.filter(|most| count > *most) {
        found.add(path, Wrong::TooMany { count: items.len(), most });
    }
    found
}

fn one_of_values(schema: &Schema, value: &Value, path: &str) -> Found {
    if schema.values.is_empty() || schema.values.iter().any(|one| same(one, value)) {
        return Found::default();
    }
    let show = |one: &Value| one.as_str().map_or_else(|| one.to_string(), str::to_owned);
    Found::fails_with(path, Wrong::Unsupported(value.clone(), schema.values.iter().map(show).collect()))
}

/// Whether a value is the one that is allowed once it has its type, as Go converts: a float loses its fraction, and a
/// number is the letter that has it.
fn same(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Number(allowed), Value::Number(value)) => match (allowed.as_i64(), value.as_f64()) {
            (Some(allowed), Some(float)) if !value.is_i64() => {
                #[expect(clippy::cast_possible_truncation, reason = "that is what is asked for")]
                let whole = float as i64;
                whole == allowed
            }
            _ => allowed.as_f64() == value.as_f64(),
        },
        (Value::String(allowed), Value::Number(value)) => {
            let letter = value.as_i64().and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32);
            letter.is_some_and(|letter| allowed.chars().eq([letter]))
        }
        _ => allowed == value,
    }
}

fn object(
    schema: &Schema,
    fields: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    path: &str,
) -> Found {
    let mut found = Found::default();
    let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.properties_count.least.filter(|least| count < *least) {
        found.add(path, invalid(count, format!("{path} in body should have at least {least} properties")));
    }
    if let Some(most) = schema.properties_count.most.filter(|most| count > *most) {
        found.add(path, Wrong::TooMany { count: fields.len(), most });
    }
    for (name, field) in fields {
        let before = old.and_then(|old| old.get(name));
        let below = format!("{path}.{name}");
        if let Some(property) = schema.properties.get(name) {
            let below = if path.is_empty() { name.clone() } else { below };
            found.merge(judge(property, field, before, &below));
            continue;
        }
        match &schema.additional {
            Some(Additional::Like(of)) => found.merge(judge(of, field, before, &below)),
            Some(Additional::Allowed(false)) => {
                let message = format!("{path}.{name} in body is a forbidden property");
                found.add(path, invalid(name.as_str(), message));
            }
            _ => {}
        }
    }
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        found.add(&format!("{path}.{name}"), Wrong::Required);
    }
    found
}
