//! Decides how large a value of a schema can be, and how many of them fit into one request. Never looks at a value. Answers to
//! `SchemaDeclType` of `k8s.io/apiserver/pkg/cel/common/schemas.go` and to `maxCardinality` of
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::size::Size;
use crate::crds::program::escape;
use crate::object::strings;

/// The largest request that a server reads.
const REQUEST: u64 = 3 * 1024 * 1024;
/// How deep schemas stand in schemas; what is below that is not measured.
const DEPTH: usize = 64;
/// The longest times and lengths of time, in quotation marks.
const LONGEST_TIME: u64 = 32;
const DATE: u64 = 12;

/// What is known of the values of a schema.
#[derive(Debug, Default)]
pub(in crate::crds) struct Declared {
    /// How many items or letters there are at most.
    most: u64,
    /// How long the shortest of them is as JSON.
    least_bytes: u64,
    /// Whether it has keys.
    keyed: bool,
    /// What its items or values are like.
    of: Option<Box<Declared>>,
    /// The fields, by the names that rules have for them.
    fields: BTreeMap<String, Declared>,
}

impl Declared {
    /// What is known of a schema's values; nothing where rules don't see them.
    pub(in crate::crds) fn of(schema: &Value, root: bool) -> Option<Self> {
        Self::read(schema, root, DEPTH)
    }

    fn read(schema: &Value, root: bool, depth: usize) -> Option<Self> {
        let less = depth.checked_sub(1)?;
        let plain = |most, least_bytes| Self { most, least_bytes, ..Self::default() };
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(plain(longest(schema).unwrap_or(REQUEST - 2), 1));
        }
        let embedded = schema["x-kubernetes-embedded-resource"] == true;
        let inner =
            |schema: &Value| Self::read(schema, schema["x-kubernetes-embedded-resource"] == true, less);
        let form = schema["type"].as_str().unwrap_or(if root || embedded { "object" } else { "" });
        Some(match form {
            "array" => {
                let of = inner(&schema["items"])?;
                let fit = (REQUEST - 2) / (of.least_bytes + 1);
                let most = bound(schema, "maxItems").unwrap_or(fit);
                Self { of: Some(Box::new(of)), ..plain(most, 2) }
            }
            "object" if schema["additionalProperties"].is_object() => {
                let of = inner(&schema["additionalProperties"])?;
                let fit = (REQUEST - 2) / (of.least_bytes + 6);
                let most = bound(schema, "maxProperties").unwrap_or(fit);
                Self { of: Some(Box::new(of)), keyed: true, ..plain(most, 2) }
            }
            "object" => Self::object(schema, root || embedded, inner),
            "string" => match schema["format"].as_str() {
                Some("byte") => plain(bound(schema, "maxLength").unwrap_or(REQUEST - 2), 2),
                Some("duration") => plain(LONGEST_TIME, 3),
                Some("date") => plain(DATE, DATE),
                Some("date-time") => plain(LONGEST_TIME, 21),
                _ => {
                    let named = longest_named(schema);
                    plain(longest(schema).or(named).unwrap_or(REQUEST - 2), 2)
                }
            },
            "boolean" => plain(0, 4),
            "number" | "integer" => plain(0, 1),
            _ => return None,
        })
    }

    fn object(schema: &Value, typed: bool, inner: impl Fn(&Value) -> Option<Self>) -> Self {
        let required = strings(schema, &["required"]);
        let mut found = Self { least_bytes: 2, ..Self::default() };
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let Some(field) = inner(property) else { continue };
            // Who leaves it out is given its default: nothing has to be sent.
            if required.contains(&name.as_str()) && property.get("default").is_none() {
                let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
                found.least_bytes = found.least_bytes.saturating_add(length + field.least_bytes + 4);
            }
            found.fields.insert(escape(name), field);
        }
        if typed {
            let text = || Self { most: REQUEST - 2, least_bytes: 2, ..Self::default() };
            for name in ["apiVersion", "kind"] {
                found.fields.insert(name.to_owned(), text());
            }
            let metadata = found.fields.entry("metadata".to_owned()).or_default();
            metadata.least_bytes = metadata.least_bytes.max(2);
            for name in ["name", "generateName"] {
                metadata.fields.entry(name.to_owned()).or_insert_with(text);
            }
        }
        found
    }

    /// How often a rule is evaluated at most where nothing bounds the lists that its values stand in.
    pub(in crate::crds) fn most_in_a_request(&self) -> u64 {
        REQUEST / self.least_bytes.saturating_add(1)
    }

    /// The size of what a path leads to, if the schema has that; where the path begins does not matter.
    pub(super) fn size_at(&self, path: &[String]) -> Option<Size> {
        let mut here = self;
        let mut steps = path.get(1..)?.iter().map(String::as_str).peekable();
        while let Some(step) = steps.next() {
            here = match step {
                "@items" | "@values" => here.of.as_deref()?,
                // Nothing is known of a key but that it is a text.
                "@keys" if here.keyed && steps.peek().is_none() => return Some(Size::exactly(0)),
                field => here.fields.get(field)?,
            };
        }
        Some(Size { min: 0, max: here.most })
    }
}

/// A bound of the schema; one below nothing is nothing.
fn bound(schema: &Value, name: &str) -> Option<u64> {
    let bound = schema.get(name).filter(|bound| !bound.is_null())?;
    Some(bound.as_u64().unwrap_or(0))
}

/// The most bytes of a text that is bounded in letters.
fn longest(schema: &Value) -> Option<u64> {
    bound(schema, "maxLength").map(|letters| letters.saturating_mul(4))
}

/// The longest of the texts that a value can be, where they are named.
fn longest_named(schema: &Value) -> Option<u64> {
    let named = schema["enum"].as_array().filter(|named| !named.is_empty())?;
    let lengths = named.iter().filter_map(Value::as_str).map(str::len);
    lengths.max().map_or(Some(0), |longest| u64::try_from(longest).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(schema: Value, path: &str, most: Option<u64>) {
        let path: Vec<String> =
            std::iter::once("self").chain(path.split_terminator('.')).map(str::to_owned).collect();
        let found = Declared::of(&schema, false).unwrap().size_at(&path);
        assert_eq!(found.map(|size| size.max), most, "{schema} {path:?}");
    }

    #[test]
    fn sizes_come_from_bounds_or_from_what_fits_into_a_request() {
        let text = |more: Value| {
            let mut text = json!({"type": "string"});
            text.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            text
        };
        check(text(json!({})), "", Some(REQUEST - 2));
        check(text(json!({"maxLength": 10})), "", Some(40));
        check(text(json!({"enum": ["a", "abc"]})), "", Some(3));
        check(text(json!({"format": "date-time"})), "", Some(32));
        check(text(json!({"format": "byte", "maxLength": 10})), "", Some(10));
        let list = json!({"type": "array", "items": {"type": "string", "maxLength": 5}});
        check(list.clone(), "", Some((REQUEST - 2) / 3));
        check(list.clone(), "@items", Some(20));
        check(list, "@keys", None);
        let map = json!({"type": "object", "maxProperties": 7, "additionalProperties": {"type": "integer"}});
        check(map.clone(), "", Some(7));
        check(map.clone(), "@values", Some(0));
        check(map, "@keys", Some(0));
        let object = json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "boolean"}, "b": {"type": "integer", "default": 1}, "in": {"type": "string", "maxLength": 1}}});
        check(object.clone(), "__in__", Some(4));
        check(object.clone(), "in", None);
        assert_eq!(Declared::of(&object, false).unwrap().most_in_a_request(), REQUEST / 12);
        let root = Declared::of(&object, true).unwrap();
        let name = ["self", "metadata", "name"].map(str::to_owned);
        assert_eq!(root.size_at(&name).unwrap().max, REQUEST - 2);
    }
}
