//! Decides how a value is read by its schema: which of its shapes counts, what stands below it, and which step
//! leads to an item of a list. Answers to `sigs.k8s.io/structured-merge-diff/typed/helpers.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::apply::element::Element;
use crate::schema::{Items, Link, ListShape, MapShape, Node};

/// The shape under which a value is looked at.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    Map(&'a MapShape),
    List(&'a ListShape),
    Scalar,
}

/// The shape of a value: its own if the schema has it, else the one that the schema asks for.
pub(super) fn form<'a>(node: &'a Node, value: Option<&Value>) -> Form<'a> {
    match (value, &node.map, &node.list) {
        (Some(Value::Array(_)), _, Some(list)) => Form::List(list),
        (Some(Value::Object(_)), Some(map), _) => Form::Map(map),
        (Some(Value::String(_) | Value::Number(_) | Value::Bool(_)), ..) if node.scalar.is_some() => {
            Form::Scalar
        }
        (_, Some(map), _) => Form::Map(map),
        (_, None, Some(list)) if node.scalar.is_none() => Form::List(list),
        _ => Form::Scalar,
    }
}

pub(super) fn same_form(a: Form, b: Form) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

/// What stands in a field of a map.
pub(super) fn field<'a>(map: &'a MapShape, name: &str) -> Option<&'a Link> {
    map.fields.get(name).map(|field| &field.link).or(map.rest.as_ref())
}

pub(super) fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

pub(super) fn as_list(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

/// The step that leads to an item of a list whose items can be told apart, or why there is none.
pub(super) fn step(list: &ListShape, item: &Value) -> Result<Element, String> {
    match &list.how {
        Items::Atomic => Err("invalid indexing of non-associative list".into()),
        Items::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            plain => Ok(Element::Value(plain.clone())),
        },
        Items::Keyed(keys) => keyed_step(list, keys, item),
    }
}

fn keyed_step(list: &ListShape, keys: &[String], item: &Value) -> Result<Element, String> {
    let Value::Object(fields) = item else {
        return Err(if item.is_null() {
            "associative list with keys may not have a null element".into()
        } else {
            "associative list with keys may not have non-map elements".into()
        });
    };
    let defaults = list.items.node().map.as_ref();
    let default = |key: &String| defaults.and_then(|map| map.fields.get(key)?.default.as_ref());
    let mut found: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), fields.get(key).or_else(|| default(key))?.clone())))
        .collect();
    if found.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Element::Key(found))
}

/// The items of a list by their steps, in order, equal ones together; an item that has no step is left out.
pub(super) fn by_step<'a>(
    list: &ListShape,
    items: Option<&'a Vec<Value>>,
) -> BTreeMap<Element, Vec<&'a Value>> {
    let mut found: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in items.into_iter().flatten() {
        if let Ok(step) = step(list, item) {
            found.entry(step).or_default().push(item);
        }
    }
    found
}

/// What a new object of a kind is before anything is set: structs that are always there, and fields that are
/// written even when they are empty.
pub(crate) fn empty(link: &Link) -> Value {
    let mut fields = Map::new();
    for (name, field) in link.node().map.iter().flat_map(|map| map.fields.iter()) {
        let below = field.link.node();
        if field.default.as_ref().is_some_and(|default| *default == Value::Object(Map::new())) {
            let is_struct = below.map.as_ref().is_some_and(|map| !map.fields.is_empty());
            fields.insert(
                name.to_owned(),
                if is_struct { empty(&field.link) } else { Value::Object(Map::new()) },
            );
        } else if field.required {
            fields.insert(name.to_owned(), field.default.clone().unwrap_or_default());
        }
    }
    Value::Object(fields)
}
