//! Decides how one step of a field path is told apart, ordered and written: a field by its name, an item of a
//! list by its keys or by its value. Never looks at a schema. Answers to
//! `sigs.k8s.io/structured-merge-diff/fieldpath/element.go` and `serialize-pe.go`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    Field(String),
    /// The keys of an item, sorted by name.
    Key(Vec<(String, Value)>),
    Value(Value),
    /// The place of an item; written by other clients, never by this server.
    Index(i64),
}

impl Element {
    /// The step as it stands in `fieldsV1`.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(keys) => {
                let keys: Map<String, Value> = keys.iter().cloned().collect();
                format!("k:{}", Value::Object(keys))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads a step; `None` is a kind of step from the future, which is skipped.
    pub(crate) fn decode(text: &str) -> Result<Option<Self>, String> {
        let (kind, rest) = text.split_once(':').ok_or_else(|| format!("missing colon: {text}"))?;
        let value = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
        Ok(Some(match kind {
            "f" => Self::Field(rest.to_owned()),
            "v" => Self::Value(value()?),
            "i" => Self::Index(rest.parse().map_err(|_| format!("invalid index: {rest}"))?),
            "k" => match value()? {
                Value::Object(keys) => Self::Key(keys.into_iter().collect()),
                other => return Err(format!("keys must be an object: {other}")),
            },
            _ => return Ok(None),
        }))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let pairs = a.iter().zip(b).map(|((name, value), (other, wanted))| {
                    name.cmp(other).then_with(|| compare(value, wanted))
                });
                let first = pairs.into_iter().find(|order| order.is_ne());
                first.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// The step as people read it: `.spec`, `[name="a"]`, `[="x"]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// The order of values: numbers, strings, booleans, lists, maps, null; a number is a number, whole or not.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a
                .iter()
                .zip(b)
                .map(|((name, value), (other, wanted))| name.cmp(other).then_with(|| compare(value, wanted)));
            let first = pairs.into_iter().find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_is_read_as_it_was_written() {
        for text in ["f:spec", "f:a/b:c", "k:{\"name\":\"a\",\"port\":1}", "v:\"x\"", "v:1", "i:3"] {
            assert_eq!(Element::decode(text).unwrap().unwrap().encode(), text);
        }
        assert_eq!(Element::decode("x:future").unwrap(), None);
        for text in ["spec", "k:[1]", "v:{", "i:x"] {
            assert!(Element::decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_come_before_keys_and_keys_before_values() {
        let key = |port: i64| Element::Key(vec![("port".into(), port.into())]);
        let mut steps = [
            Element::Value(json!("a")),
            key(10),
            Element::Value(json!(2)),
            key(9),
            Element::Index(0),
            Element::Field("b".into()),
            Element::Field("a".into()),
        ];
        steps.sort();
        let shown: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [".a", ".b", "[port=9]", "[port=10]", "[=2]", "[=\"a\"]", "[0]"]);
    }

    #[test]
    fn whole_numbers_equal_their_fractions() {
        assert_eq!(Element::Value(json!(1)), Element::Value(json!(1.0)));
    }
}
