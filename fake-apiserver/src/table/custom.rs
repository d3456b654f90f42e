//! Decides the rows of custom resources: the name, and the columns that their definition adds. Never reads a
//! definition. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NAME, path, text};
use crate::object::text as string_at;

/// One of the `additionalPrinterColumns` of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CustomColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) json_path: String,
}

impl CustomColumn {
    /// The column as a definition's version writes it.
    pub(crate) fn read(column: &Value) -> Self {
        let text = |name: &str| string_at(column, &[name]).to_owned();
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column["priority"].as_i64().unwrap_or(0),
            json_path: text("jsonPath"),
        }
    }

    /// What a definition without columns shows.
    fn age() -> Self {
        Self {
            name: "Age".into(),
            kind: "date".into(),
            json_path: ".metadata.creationTimestamp".into(),
            ..Self::default()
        }
    }

    fn to_json(&self) -> Value {
        let described = format!("Custom resource definition column (in JSONPath format): {}", self.json_path);
        let description = if self.description.is_empty() { &described } else { &self.description };
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": description,
            "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = path::first(object, &self.json_path) else { return Value::Null };
        match (self.kind.as_str(), value) {
            ("string", Value::Null) => "<nil>".into(),
            ("string", Value::String(text)) => text.as_str().into(),
            ("string", other) => other.to_string().into(),
            #[expect(clippy::cast_possible_truncation, reason = "Go's conversion cuts the fraction off too")]
            ("integer", Value::Number(number)) => {
                number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)).into()
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(time)) => text::since(time, now).into(),
            _ => Value::Null,
        }
    }
}

/// The columns, the name first.
pub(super) fn definitions(columns: &[CustomColumn]) -> Value {
    let age = [CustomColumn::age()];
    let columns = if columns.is_empty() { &age } else { columns };
    std::iter::once(NAME.to_json()).chain(columns.iter().map(CustomColumn::to_json)).collect()
}

/// The cells of one object.
pub(super) fn cells(columns: &[CustomColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let age = [CustomColumn::age()];
    let columns = if columns.is_empty() { &age } else { columns };
    let name = Value::from(string_at(object, &["metadata", "name"]));
    std::iter::once(name).chain(columns.iter().map(|column| column.cell(object, now))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &str, path: &str, expected: &Value) {
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"size": 3, "ratio": 1.5, "on": true, "mode": "fast", "tags": ["x"]},
        });
        let column = CustomColumn { kind: kind.into(), json_path: path.into(), ..CustomColumn::default() };
        let now = "2024-01-01T00:01:30Z".parse().unwrap();
        assert_eq!(cells(&[column], &object, now)[1], *expected, "{kind} {path}");
    }

    #[test]
    fn a_cell_has_the_type_of_its_column_or_is_empty() {
        check("integer", ".spec.size", &json!(3));
        check("integer", ".spec.ratio", &json!(1));
        check("integer", ".spec.mode", &Value::Null);
        check("number", ".spec.ratio", &json!(1.5));
        check("boolean", ".spec.on", &json!(true));
        check("string", ".spec.mode", &json!("fast"));
        check("string", ".spec.size", &json!("3"));
        check("string", ".spec.tags", &json!("[\"x\"]"));
        check("string", ".status.phase", &Value::Null);
        check("date", ".metadata.creationTimestamp", &json!("90s"));
    }
}
