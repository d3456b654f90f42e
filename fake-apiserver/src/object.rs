//! Decides how a stored object is held: one immutable value and its JSON, made once, shared by every answer,
//! list and watch that shows it. Never changes after it is made. Answers to the serialisation cache of
//! `k8s.io/apiserver/pkg/storage/cacher`.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

/// Where an object stands in its table: `namespace/name`, or `name` outside namespaces. One string, so that
/// the order is etcd's and a namespace is a prefix.
pub(crate) type Key = Arc<str>;

pub(crate) fn key_of(namespace: &str, name: &str) -> Key {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

/// A version of an object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) value: Arc<Value>,
    pub(crate) revision: u64,
    bytes: Bytes,
    /// Where `bytes` goes on after `kind` and `apiVersion`.
    head: usize,
}

impl Object {
    pub(crate) fn new(value: Value, revision: u64) -> Self {
        let mut bytes = BytesMut::with_capacity(512).writer();
        let head = write(&mut bytes, &value);
        Self { value: Arc::new(value), revision, bytes: bytes.into_inner().freeze(), head }
    }

    /// The whole object as JSON.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Appends the object as an item of a typed list, where `kind` and `apiVersion` are left to the list.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.bytes[self.head..]);
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

/// Writes kind and apiVersion first, so that they can be left out by skipping; returns how far to skip.
fn write(out: &mut bytes::buf::Writer<BytesMut>, value: &Value) -> usize {
    let Value::Object(fields) = value else {
        put(out, value);
        return 0;
    };
    out.get_mut().put_u8(b'{');
    let mut first = true;
    for name in ["kind", "apiVersion"] {
        if let Some(one) = fields.get(name) {
            write_field(out, name, one, &mut first);
        }
    }
    if !first {
        out.get_mut().put_u8(b',');
    }
    let head = out.get_ref().len();
    first = true;
    for (name, one) in fields.iter().filter(|(name, _)| *name != "kind" && *name != "apiVersion") {
        write_field(out, name, one, &mut first);
    }
    if first && head > 1 {
        // Nothing but the type: take the comma back.
        let length = out.get_ref().len() - 1;
        out.get_mut().truncate(length);
        out.get_mut().put_u8(b'}');
        return length;
    }
    out.get_mut().put_u8(b'}');
    head
}

fn write_field(out: &mut bytes::buf::Writer<BytesMut>, name: &str, value: &Value, first: &mut bool) {
    if !std::mem::take(first) {
        out.get_mut().put_u8(b',');
    }
    out.get_mut().put_u8(b'"');
    if name.bytes().all(|letter| letter.is_ascii_alphanumeric()) {
        out.get_mut().put_slice(name.as_bytes());
        out.get_mut().put_slice(b"\":");
    } else {
        let length = out.get_ref().len() - 1;
        out.get_mut().truncate(length);
        put(out, &Value::from(name));
        out.get_mut().put_u8(b':');
    }
    put(out, value);
}

fn put(out: &mut bytes::buf::Writer<BytesMut>, value: &Value) {
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

/// The object's metadata, made when it is missing.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    map_mut(value, "metadata")
}

/// The map in a field, made when the field is missing or something else.
pub(crate) fn map_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let fields = as_map_mut(value);
    as_map_mut(fields.entry(field).or_insert_with(|| Value::Object(Map::new())))
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
