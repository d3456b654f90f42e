//! Decides how a stored object is held: as its JSON, made once, shared by every answer, list and watch that shows it. What the
//! JSON says is parsed where somebody asks for it: a parsed object takes several times the memory. Never changes after it is made.
//! Answers to the serialisation cache of `k8s.io/apiserver/pkg/storage/cacher`.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

/// Where an object stands in its table: `namespace/name`, or `name` outside namespaces. One string, so that
/// the order is etcd's and a namespace is a prefix.
pub(crate) type Key = Arc<str>;

pub(crate) fn key_of(namespace: &str, name: &str) -> Key {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

/// What JSON says, parsed by the first who asks.
#[derive(Debug)]
pub(crate) struct Parsed {
    bytes: Bytes,
    value: OnceLock<Arc<Value>>,
}

impl Parsed {
    /// The value as something that can be kept.
    pub(crate) fn share(&self) -> Arc<Value> {
        self.get().clone()
    }

    fn get(&self) -> &Arc<Value> {
        self.value.get_or_init(|| Arc::new(self.parse()))
    }

    /// The bytes were written from a value, so they are always JSON, and text: looking at all of it at once is quicker than at
    /// each string.
    fn parse(&self) -> Value {
        let text = std::str::from_utf8(&self.bytes).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl Deref for Parsed {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.get()
    }
}

/// A version of an object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) value: Parsed,
    pub(crate) revision: u64,
    /// Where the JSON goes on after `kind` and `apiVersion`.
    head: usize,
    /// Whether nobody has written it since it was created, as far as this process knows.
    pub(crate) untouched: bool,
}

impl Object {
    pub(crate) fn new(value: Value, revision: u64) -> Self {
        let mut bytes = Vec::with_capacity(1024);
        let head = write(&mut bytes, &value);
        // A copy has no room to grow, which nobody needs any more.
        let bytes = Bytes::copy_from_slice(&bytes);
        let value = Parsed { bytes, value: OnceLock::from(Arc::new(value)) };
        Self { value, revision, head, untouched: false }
    }

    /// An object as it is stored now; `untouched` when it was not there before.
    pub(crate) fn stored(value: Value, revision: u64, untouched: bool) -> Self {
        Self { untouched, ..Self::new(value, revision) }
    }

    /// The same object, for the store to keep: nothing of it is parsed.
    pub(crate) fn packed(self: &Arc<Self>) -> Arc<Self> {
        // A number with a fraction is not always read as what was written, so what has one stays as it is.
        if has_fraction(&self.value) { self.clone() } else { Arc::new(self.unparsed()) }
    }

    /// The same object, for somebody who reads all of it and then replaces it: what is parsed for them is not kept.
    pub(crate) fn apart(self: &Arc<Self>) -> Arc<Self> {
        if self.value.value.get().is_some() { self.clone() } else { Arc::new(self.unparsed()) }
    }

    fn unparsed(&self) -> Self {
        let value = Parsed { bytes: self.value.bytes.clone(), value: OnceLock::new() };
        Self { value, revision: self.revision, head: self.head, untouched: self.untouched }
    }

    /// Lets somebody look at the value once: what is parsed for them is not kept.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Value) -> T) -> T {
        match self.value.value.get() {
            Some(value) => at(value),
            None => at(&self.value.parse()),
        }
    }

    /// The whole object as JSON.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.value.bytes
    }

    /// Appends the object as an item of a typed list, where `kind` and `apiVersion` are left to the list.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.value.bytes[self.head..]);
    }

    pub(crate) fn namespace(&self) -> &str {
        text(&self.value, &["metadata", "namespace"])
    }

    pub(crate) fn name(&self) -> &str {
        text(&self.value, &["metadata", "name"])
    }

    pub(crate) fn uid(&self) -> &str {
        text(&self.value, &["metadata", "uid"])
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Writes kind and apiVersion first, so that they can be left out by skipping; returns how far to skip.
fn write(out: &mut Vec<u8>, value: &Value) -> usize {
    let Value::Object(fields) = value else {
        put(out, value);
        return 0;
    };
    out.push(b'{');
    let mut first = true;
    for name in ["kind", "apiVersion"] {
        if let Some(one) = fields.get(name) {
            write_field(out, name, one, &mut first);
        }
    }
    if !first {
        out.push(b',');
    }
    let head = out.len();
    first = true;
    for (name, one) in fields.iter().filter(|(name, _)| *name != "kind" && *name != "apiVersion") {
        write_field(out, name, one, &mut first);
    }
    if first && head > 1 {
        // Nothing but the type: take the comma back.
        let length = out.len() - 1;
        out.truncate(length);
        out.push(b'}');
        return length;
    }
    out.push(b'}');
    head
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &Value, first: &mut bool) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    out.push(b'"');
    if name.bytes().all(|letter| letter.is_ascii_alphanumeric()) {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
    } else {
        let length = out.len() - 1;
        out.truncate(length);
        put(out, &Value::from(name));
        out.push(b':');
    }
    put(out, value);
}

fn put(out: &mut Vec<u8>, value: &Value) {
    // Writing JSON to memory can't fail: the keys are strings and the buffer grows.
    serde_json::to_writer(out, value).unwrap_or_default();
}

/// The string at a path, or "".
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// What stands at a path of field names.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, field| value.get(field))
}

/// Whether Go takes a value for the empty one of its type.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The object's metadata, made when it is missing.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    map_mut(value, "metadata")
}

/// The map in a field, made when the field is missing or something else.
pub(crate) fn map_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_map_mut(field_mut(value, field, || Value::Object(Map::new())))
}

/// A field of a map, made when it is missing; its name is only copied then.
pub(crate) fn field_mut<'a>(
    value: &'a mut Value,
    field: &str,
    missing: impl FnOnce() -> Value,
) -> &'a mut Value {
    let fields = as_map_mut(value);
    if !fields.contains_key(field) {
        fields.insert(field.to_owned(), missing());
    }
    &mut fields[field]
}

/// The value as a map; anything else becomes an empty one.
pub(crate) fn as_map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("made a map two lines above"),
    }
}

/// The strings of a list of strings.
pub(crate) fn strings<'a>(value: &'a Value, path: &[&str]) -> Vec<&'a str> {
    at(value, path)
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_is_the_object_without_its_type() {
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "odd \"key\"": 1});
        let object = Object::new(value.clone(), 1);
        assert_eq!(serde_json::from_slice::<Value>(object.bytes()).unwrap(), value);
        let mut item = Vec::new();
        object.write_item(&mut item);
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!(item, json!({"metadata": {"name": "a"}, "odd \"key\"": 1}));
    }

    #[test]
    fn what_is_packed_says_the_same_and_keeps_nothing_parsed() {
        let value = json!({"kind": "Pod", "metadata": {"name": "a", "generation": u64::MAX}, "list": [null, true, -1]});
        let object = Arc::new(Object::new(value.clone(), 7));
        let packed = object.packed();
        assert_eq!((packed.bytes(), packed.revision), (object.bytes(), 7));
        assert!(packed.look(|seen| *seen == value));
        assert_eq!(*packed.apart().value, value);
        assert!(packed.value.value.get().is_none(), "looking at it does not keep it");
        assert_eq!(*packed.value, value);
        assert!(Arc::ptr_eq(&packed.apart(), &packed), "what is parsed already is shared");
    }

    #[test]
    fn fractions_stay_as_they_were_written() {
        let object = Arc::new(Object::new(json!({"spec": {"list": [{"share": 0.1}]}}), 1));
        assert!(Arc::ptr_eq(&object.packed(), &object));
    }

    #[test]
    fn objects_with_odd_shapes_are_still_json() {
        for value in
            [json!({}), json!({"kind": "A"}), json!({"a": 1}), json!([1]), json!({"kind": "A", "b": 2})]
        {
            let object = Object::new(value.clone(), 1);
            assert_eq!(serde_json::from_slice::<Value>(object.bytes()).unwrap(), value);
            let mut item = Vec::new();
            object.write_item(&mut item);
            if value.is_object() {
                serde_json::from_slice::<Value>(&item).unwrap();
            }
        }
    }
}
