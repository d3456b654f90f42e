//! Decides which empty fields are shown: how Go writes each type as JSON, what it leaves out when empty and
//! what it writes even then. Never judges a value and never adds a default. Answers to the struct tags of
//! `k8s.io/api`, from which `shapes/types.txt` is made by the program in `shapes/recipe`.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::kinds::Kind;

static TYPES: &str = include_str!("../shapes/types.txt");

/// Deeper than any type goes but those that hold themselves, which none of the served kinds has.
const DEEPEST: usize = 32;

/// How a value of a field looks.
#[derive(Debug)]
enum Form {
    Text,
    Number,
    Flag,
    Amount,
    Port,
    /// Times and bytes, which are null or nothing when they are empty.
    Plain,
    Other,
    Struct(&'static str),
    List(Box<Form>),
    Map(Box<Form>),
}

/// What becomes of a field that is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// It is left out when it is empty.
    Filled,
    /// It is left out when it is not there, and kept when it is there and empty.
    There,
    /// It is written, as null when it is not there.
    Nullable,
    /// It is written, empty when it is not there.
    Always,
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    when: When,
    form: Form,
}

type Types = HashMap<&'static str, Vec<Field>>;

fn types() -> &'static Types {
    static PARSED: OnceLock<Types> = OnceLock::new();
    PARSED.get_or_init(|| TYPES.lines().filter_map(parse).collect())
}

fn parse(line: &'static str) -> Option<(&'static str, Vec<Field>)> {
    let mut words = line.split(' ');
    let name = words.next()?;
    Some((name, words.filter_map(field).collect()))
}

fn field(word: &'static str) -> Option<Field> {
    let mark = word.find(['!', '-', '*', '0'])?;
    let when = match word.as_bytes()[mark] {
        b'-' => When::Filled,
        b'*' => When::There,
        b'0' => When::Nullable,
        _ => When::Always,
    };
    Some(Field { name: &word[..mark], when, form: form(&word[mark + 1..]) })
}

fn form(code: &'static str) -> Form {
    let inner = || code.get(1..code.len() - 1).unwrap_or_default();
    match code.as_bytes().first() {
        Some(b's') => Form::Text,
        Some(b'n') => Form::Number,
        Some(b'b') => Form::Flag,
        Some(b'q') => Form::Amount,
        Some(b'p') => Form::Port,
        Some(b't' | b'y') => Form::Plain,
        Some(b'{') => Form::Struct(inner()),
        Some(b'[') => Form::List(Box::new(form(inner()))),
        Some(b'<') => Form::Map(Box::new(form(inner()))),
        _ => Form::Other,
    }
}

/// The type of a kind, where it is known.
fn type_of(kind: &Kind) -> Option<&'static str> {
    if kind.custom {
        return None;
    }
    // The first part of a group names the package; stored events have the older form, whichever way they came.
    let package = kind.group.split('.').next().unwrap_or_default();
    let name = match package {
        "" | "events" => kind.kind.to_string(),
        package => format!("{package}.{}", kind.kind),
    };
    types().get_key_value(name.as_str()).map(|(name, _)| *name)
}

/// Removes what a typed object does not tell from nothing: nulls, and empty values that are left out.
pub(crate) fn reduce(kind: &Kind, value: &mut Value) {
    if let Some(name) = type_of(kind) {
        reduce_struct(name, value, 0);
    }
}

fn reduce_struct(name: &str, value: &mut Value, depth: usize) {
    let (Some(fields), Some(map)) = (types().get(name), value.as_object_mut()) else { return };
    if depth == DEEPEST {
        return;
    }
    for field in fields {
        let Some(present) = map.get_mut(field.name) else { continue };
        each_struct(&field.form, present, depth, reduce_struct);
        let drops = match field.when {
            When::Filled => is_empty(&field.form, present),
            When::There | When::Nullable => present.is_null(),
            When::Always => {
                present.is_null()
                    || matches!(field.form, Form::List(_) | Form::Map(_)) && is_empty(&field.form, present)
            }
        };
        if drops {
            map.remove(field.name);
        }
    }
}

/// Does a step to each struct that a value of this form holds.
fn each_struct(form: &Form, value: &mut Value, depth: usize, step: fn(&str, &mut Value, usize)) {
    match (form, value) {
        (Form::Struct(name), value) => step(name, value, depth + 1),
        (Form::List(inner), Value::Array(items)) => {
            for item in items {
                each_struct(inner, item, depth, step);
            }
        }
        (Form::Map(inner), Value::Object(entries)) => {
            for entry in entries.values_mut() {
                each_struct(inner, entry, depth, step);
            }
        }
        _ => {}
    }
}

fn is_empty(form: &Form, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0) && matches!(form, Form::Number),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // An empty struct is there; an empty map is not.
        Value::Object(fields) => fields.is_empty() && matches!(form, Form::Map(_)),
    }
}

/// Adds the fields that are written even when they are empty.
pub(crate) fn complete(kind: &Kind, value: &mut Value) {
    if let Some(name) = type_of(kind) {
        complete_struct(name, value, 0);
    }
}

fn complete_struct(name: &str, value: &mut Value, depth: usize) {
    let (Some(fields), Some(map)) = (types().get(name), value.as_object_mut()) else { return };
    if depth == DEEPEST {
        return;
    }
    for field in fields {
        let always = matches!(field.when, When::Always | When::Nullable);
        if always && !map.contains_key(field.name) {
            let empty = if field.when == When::Nullable { Value::Null } else { empty(&field.form) };
            map.insert(field.name.to_owned(), empty);
        }
        if let Some(present) = map.get_mut(field.name) {
            each_struct(&field.form, present, depth, complete_struct);
        }
    }
}

fn empty(form: &Form) -> Value {
    match form {
        Form::Text => "".into(),
        Form::Number | Form::Port => 0.into(),
        Form::Flag => false.into(),
        Form::Amount => "0".into(),
        Form::Struct(_) => Value::Object(Map::new()),
        Form::Plain | Form::Other | Form::List(_) | Form::Map(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Kinds;

    #[track_caller]
    fn check(kind: &str, given: Value, reduced: &Value, completed: &Value) {
        let kinds = Kinds::served();
        let kind = kinds.get(kinds.named(kind).unwrap());
        let mut value = given;
        reduce(kind, &mut value);
        assert_eq!(value, *reduced);
        complete(kind, &mut value);
        assert_eq!(value, *completed);
    }

    #[test]
    fn what_is_empty_goes_unless_it_is_a_pointer() {
        check(
            "PersistentVolume",
            json!({"spec": {"csi": {"driver": "d", "volumeHandle": "", "readOnly": false, "fsType": ""}, "volumeMode": "", "claimRef": {"name": ""}}}),
            &json!({"spec": {"csi": {"driver": "d", "volumeHandle": ""}, "volumeMode": "", "claimRef": {}}}),
            &json!({"metadata": {}, "status": {},
                "spec": {"csi": {"driver": "d", "volumeHandle": ""}, "volumeMode": "", "claimRef": {}}}),
        );
    }

    #[test]
    fn what_is_always_written_is_null_zero_or_empty() {
        check("ClusterRole", json!({"rules": []}), &json!({}), &json!({"metadata": {}, "rules": null}));
        check(
            "CSINode",
            json!({"spec": {"drivers": [{"name": "d", "topologyKeys": []}]}}),
            &json!({"spec": {"drivers": [{"name": "d"}]}}),
            &json!({"metadata": {}, "spec": {"drivers": [{"name": "d", "nodeID": "", "topologyKeys": null}]}}),
        );
    }

    #[test]
    fn every_served_kind_has_a_type() {
        // Definitions of custom resources have a schema inside, which holds itself: they are completed where they are read.
        for kind in Kinds::served().all().iter().filter(|kind| kind.group != "apiextensions.k8s.io") {
            assert!(type_of(kind).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn every_type_that_a_field_names_is_known() {
        fn inner(form: &Form) -> Option<&'static str> {
            match form {
                Form::Struct(name) => Some(name),
                Form::List(form) | Form::Map(form) => inner(form),
                _ => None,
            }
        }
        for field in types().values().flatten() {
            assert!(inner(&field.form).is_none_or(|name| types().contains_key(name)), "{field:?}");
        }
    }
}
