//! Decides what an object is that a client sends, by the schema of its kind: fields that the kind does not have
//! are left out and named, in the order in which they came, as are those given twice; values of the wrong type
//! are a mistake; null means "not set". Never sets a default. Answers to `sigs.k8s.io/json` and the decoders of
//! `k8s.io/apimachinery/pkg/runtime/serializer/json`.

mod scalars;
mod settled;
pub(crate) mod yaml;

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::schema::{Link, MapShape};

/// How many unknown and repeated fields are named at most.
const MOST_NAMED: usize = 100;

/// An object as its kind has it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Fields that the kind does not have, or that were given twice.
    pub(crate) strict: Vec<String>,
    /// The first value of the wrong type.
    pub(crate) mistake: Option<String>,
}

/// Decodes JSON; an error is one of syntax.
pub(crate) fn json(link: &Link, body: &[u8]) -> Result<Decoded, serde_json::Error> {
    // Text is looked at once as a whole; what is none is refused where it stands.
    match std::str::from_utf8(body) {
        Ok(text) => whole(link, serde_json::Deserializer::from_str(text)),
        Err(_) => whole(link, serde_json::Deserializer::from_slice(body)),
    }
}

fn whole<'de, R: serde_json::de::Read<'de>>(
    link: &Link,
    mut deserializer: serde_json::Deserializer<R>,
) -> Result<Decoded, serde_json::Error> {
    let decoded = decode(link, &mut deserializer)?;
    deserializer.end()?;
    Ok(decoded)
}

/// Decodes what is JSON already, such as a patched object.
pub(crate) fn value(link: &Link, value: &Value) -> Result<Decoded, serde_json::Error> {
    decode(link, value)
}

/// Whether decoding a value would give it back without a word, as it does most of the time after a patch.
pub(crate) fn is_settled(link: &Link, value: &Value) -> bool {
    settled::is_settled(link, value)
}

fn decode<'de, D: Deserializer<'de>>(link: &Link, deserializer: D) -> Result<Decoded, D::Error> {
    let mut context =
        Context { path: String::with_capacity(128), fields: Vec::with_capacity(8), ..Context::default() };
    let value = Seed { link, context: &mut context }.deserialize(deserializer)?;
    Ok(Decoded { value: value.unwrap_or_default(), strict: context.strict, mistake: context.mistake })
}

/// Where the decoder is, and what it has found.
#[derive(Debug, Default)]
struct Context<'a> {
    path: String,
    /// The names of the structs on the way.
    structs: Vec<&'a str>,
    /// Where in the path the names of fields stand.
    fields: Vec<Range<usize>>,
    strict: Vec<String>,
    mistake: Option<String>,
}

impl Context<'_> {
    /// Names a field, once.
    fn name(&mut self, what: &str, field: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = Value::from(format!("{}{dot}{field}", self.path));
        let named = format!("{what} field {path}");
        if self.strict.len() < MOST_NAMED && !self.strict.contains(&named) {
            self.strict.push(named);
        }
    }

    fn mistake(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.mistake.is_none() {
            self.mistake = Some(what(self));
        }
    }

    /// Says that something else was expected.
    fn unexpected(&mut self, got: &str, link: &Link) {
        self.mistake(|context| {
            let place = match context.structs.last().filter(|_| !context.fields.is_empty()) {
                Some(name) => {
                    let fields: Vec<&str> =
                        context.fields.iter().filter_map(|at| context.path.get(at.clone())).collect();
                    format!("struct field {name}.{}", fields.join("."))
                }
                None => "value".to_owned(),
            };
            format!("json: cannot unmarshal {got} into Go {place} of type {}", scalars::type_name(link))
        });
    }

    /// Goes into an item for as long as it is read.
    fn within_item<T>(&mut self, place: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        // Writing to a string can't fail.
        let _ = write!(self.path, "[{place}]");
        let result = read(self);
        self.path.truncate(length);
        result
    }

    /// Goes one step down for as long as something is read.
    fn within<T>(&mut self, step: &str, is_field: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        let start = self.path.len();
        self.path.push_str(step);
        if is_field {
            self.fields.push(start..self.path.len());
        }
        let result = read(self);
        if is_field {
            self.fields.pop();
        }
        self.path.truncate(length);
        result
    }
}

/// One value, to be read by its schema. What is not set becomes nothing.
struct Seed<'a, 'c> {
    link: &'a Link,
    context: &'c mut Context<'a>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(scalars::read(self.link, self.context, value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(scalars::read(self.link, self.context, value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(scalars::read(self.link, self.context, value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(scalars::read(self.link, self.context, value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(scalars::read(self.link, self.context, value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Seed { link, context } = self;
        let Some(list) = &link.node().list else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            scalars::misplaced(link, context, "array");
            return Ok(None);
        };
        let mut read = Vec::new();
        loop {
            let item = context.within_item(read.len(), |context| {
                items.next_element_seed(Seed { link: &list.items, context })
            });
            let Some(item) = item? else { break };
            read.push(item.unwrap_or_else(|| scalars::zero(&list.items)));
        }
        Ok(Some(Value::Array(read)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let Seed { link, context } = self;
        let node = link.node();
        let Some(map) = &node.map else {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            scalars::misplaced(link, context, "object");
            return Ok(None);
        };
        let names = !node.name.is_empty();
        if names {
            context.structs.push(&node.name);
        }
        let read = read_fields(map, context, &mut fields);
        if names {
            context.structs.pop();
        }
        read.map(|read| Some(Value::Object(read)))
    }
}

fn read_fields<'de, 'a, A: MapAccess<'de>>(
    map: &'a MapShape,
    context: &mut Context<'a>,
    fields: &mut A,
) -> Result<Map<String, Value>, A::Error> {
    let mut read = Map::new();
    let mut unset: HashSet<String> = HashSet::new();
    while let Some(name) = fields.next_key::<String>()? {
        let declared = map.fields.get(&name);
        let Some(link) = declared.map(|field| &field.link).or(map.rest.as_ref()) else {
            context.name("unknown", &name);
            fields.next_value::<IgnoredAny>()?;
            continue;
        };
        if read.contains_key(&name) || unset.contains(&name) {
            context.name("duplicate", &name);
        }
        let value = context
            .within(&name, declared.is_some(), |context| fields.next_value_seed(Seed { link, context }))?;
        let value = match (value, declared) {
            (None, None) => Some(scalars::zero(link)),
            // Some times are shown even when they are not set.
            (None, Some(_)) if scalars::is_time(link) => Some(Value::Null),
            (value, _) => value,
        };
        if let Some(value) = value {
            read.insert(name, value);
        } else {
            read.remove(&name);
            unset.insert(name);
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::of;

    fn decode(kind: &str, body: &str) -> Decoded {
        json(&of("v1", kind).unwrap(), body.as_bytes()).unwrap()
    }

    #[test]
    fn unknown_and_repeated_fields_are_named_in_their_order() {
        let body = r#"{"spec": {"resources": {"requests": {"storage": "1Gi"}, "claims": []}, "accessMode": "x",
            "volumeName": "a", "volumeName": "b"}, "metadata": {"labels": {"a": "1", "a": "2"}}}"#;
        let decoded = decode("PersistentVolumeClaim", body);
        assert_eq!(
            decoded.strict,
            [
                "unknown field \"spec.resources.claims\"",
                "unknown field \"spec.accessMode\"",
                "duplicate field \"spec.volumeName\"",
                "duplicate field \"metadata.labels.a\"",
            ]
        );
        let expected = json!({
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": "b"}, "metadata": {"labels": {"a": "2"}},
        });
        assert_eq!((decoded.value, decoded.mistake), (expected, None));
    }

    #[test]
    fn items_are_named_by_their_place() {
        let body = r#"{"spec": {"containers": [{"name": "a"}, {"volumeMount": [], "name": "b"}]}}"#;
        assert_eq!(decode("Pod", body).strict, ["unknown field \"spec.containers[1].volumeMount\""]);
    }

    #[test]
    fn null_is_not_set_or_nothing() {
        let decoded = decode(
            "PersistentVolumeClaim",
            r#"{"spec": {"volumeName": null, "resources": {"requests": {"storage": null}}}}"#,
        );
        assert_eq!(decoded.value, json!({"spec": {"resources": {"requests": {"storage": "0"}}}}));
        let decoded = decode("ConfigMap", r#"{"data": {"a": null}, "metadata": null}"#);
        assert_eq!(decoded.value, json!({"data": {"a": ""}}));
    }

    #[track_caller]
    fn check_mistake(kind: &str, body: &str, expected: &str) {
        assert_eq!(decode(kind, body).mistake.as_deref(), Some(expected));
    }

    #[test]
    fn values_of_the_wrong_type_are_a_mistake() {
        check_mistake(
            "Pod",
            r#"{"spec": {"containers": [{"image": 1}], "nodeName": true}}"#,
            "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string",
        );
        check_mistake(
            "ConfigMap",
            r#"{"data": {"a": 1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        );
        check_mistake(
            "Pod",
            r#"{"spec": {"terminationGracePeriodSeconds": 1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        );
        check_mistake(
            "Pod",
            r#"{"spec": {"containers": {}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []Container",
        );
        check_mistake(
            "PersistentVolumeClaim",
            r#"{"spec": {"resources": {"requests": {"storage": true}}}}"#,
            crate::quantity::WRONG_FORM,
        );
        assert!(json(&of("v1", "Pod").unwrap(), b"{\"spec\": ").is_err());
    }

    #[test]
    fn times_are_kept_in_whole_seconds() {
        let decoded = decode("Pod", r#"{"metadata": {"deletionTimestamp": "2026-01-01T02:00:00.5+02:00"}}"#);
        assert_eq!(decoded.value, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let decoded = decode("Pod", r#"{"metadata": {"deletionTimestamp": "yesterday"}}"#);
        assert!(decoded.mistake.unwrap().starts_with("parsing time \"yesterday\""));
    }

    #[test]
    fn what_has_no_schema_is_kept_as_it_is() {
        let custom = crate::schema::custom(None, true);
        let decoded = json(&custom, br#"{"spec": {"a": [null, {"b": 1}]}}"#).unwrap();
        assert_eq!(decoded.value, json!({"spec": {"a": [null, {"b": 1}]}}));
    }
}
