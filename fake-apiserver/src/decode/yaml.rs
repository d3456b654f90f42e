//! Decides what YAML says as JSON, and which keys it says twice. Of several documents the first counts. Answers to
//! `sigs.k8s.io/yaml`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

/// The value, where the last of two equal keys counts, and each key that was there before.
pub(crate) fn read(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let text = std::str::from_utf8(body).map_err(|error| format!("yaml: {error}"))?;
    let text = first_document(text);
    let first_line =
        |error: &serde_saphyr::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let error = match serde_saphyr::from_str::<Value>(text) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) => first_line(&error),
    };
    let all = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::PassThrough };
    match serde_saphyr::from_str_with_options::<Marked>(text, all) {
        Ok(marked) if !marked.repeated.is_empty() => Ok((marked.value, marked.repeated)),
        _ => Err(format!("yaml: {error}")),
    }
}

/// The text up to where a second document begins.
fn first_document(text: &str) -> &str {
    let marks = |line: &str, mark: &str| {
        line.strip_prefix(mark)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']))
    };
    let (mut place, mut begun) = (0, false);
    for line in text.split_inclusive('\n') {
        if begun && (marks(line, "---") || marks(line, "...")) {
            return &text[..place];
        }
        let says = line.trim();
        begun |= !says.is_empty() && !says.starts_with(['#', '%']);
        place += line.len();
    }
    text
}

/// A value with what it says twice, each in Go's words.
struct Marked {
    value: Value,
    repeated: Vec<String>,
}

impl Marked {
    fn plain(value: impl Into<Value>) -> Self {
        Self { value: value.into(), repeated: Vec::new() }
    }
}

impl<'de> Deserialize<'de> for Marked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Marked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Marked, E> {
        Ok(Marked::plain(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Marked, E> {
        Ok(Marked::plain(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Marked, E> {
        Ok(Marked::plain(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Marked, E> {
        Ok(Marked::plain(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Marked, E> {
        Ok(Marked::plain(value))
    }

    fn visit_unit<E>(self) -> Result<Marked, E> {
        Ok(Marked::plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Marked, E> {
        Ok(Marked::plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Marked, D::Error> {
        Marked::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Marked, A::Error> {
        let (mut all, mut repeated) = (Vec::new(), Vec::new());
        while let Some(item) = items.next_element::<Marked>()? {
            all.push(item.value);
            repeated.extend(item.repeated);
        }
        Ok(Marked { value: all.into(), repeated })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Marked, A::Error> {
        let (mut all, mut repeated) = (Map::new(), Vec::new());
        while let Some(name) = fields.next_key::<String>()? {
            let field = fields.next_value::<Spanned<Marked>>()?;
            repeated.extend(field.value.repeated);
            if all.contains_key(&name) {
                let (line, shown) = (field.referenced.line(), Value::from(name.as_str()));
                repeated.push(format!("line {line}: key {shown} already set in map"));
            }
            all.insert(name, field.value.value);
        }
        Ok(Marked { value: all.into(), repeated })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_of_two_keys_counts_and_each_is_named() {
        let (value, repeated) = read(b"a: 1\nb: {c: 1, c: 2}\na:\n  - {d: null, d: true}\n").unwrap();
        assert_eq!(value, json!({"a": [{"d": true}], "b": {"c": 2}}));
        let said = |line: u64, key: &str| format!("line {line}: key \"{key}\" already set in map");
        assert_eq!(repeated, [said(2, "c"), said(4, "d"), said(4, "a")]);
        assert_eq!(read(b"a: 1").unwrap(), (json!({"a": 1}), Vec::new()));
        assert!(read(b"a: b: c").is_err());
    }

    #[test]
    fn of_several_documents_the_first_counts() {
        for (text, expected) in [
            ("a: 1\n---\nb: c: d\n", json!({"a": 1})),
            ("# said\n---\na: 1\n...\nb\n", json!({"a": 1})),
            ("%YAML 1.1\n---\na: 1\n", json!({"a": 1})),
            ("a: |\n  x\n  ---\n  y\n", json!({"a": "x\n---\ny\n"})),
            ("--- {a: 1}\n", json!({"a": 1})),
            ("", json!(null)),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap().0, expected, "{text:?}");
        }
    }
}
