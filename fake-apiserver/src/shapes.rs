//! Decides which empty fields are shown: how Go writes each type as JSON, what it leaves out when empty and
//! what it writes even then. Never judges a value and never adds a default. Answers to the struct tags of
//! `k8s.io/api`, from which `shapes/types.txt` is made by the program in `shapes/recipe`.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value, json};

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
    /// Which type it is.
    Struct(usize),
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

/// A type's fields, by name.
#[derive(Debug, Default)]
struct Struct {
    fields: Vec<Field>,
    /// Which of them are written even when they are not there.
    always: Vec<usize>,
}

impl Struct {
    fn field(&self, name: &str) -> Option<&Field> {
        // Most names differ in their length, so that going through all of them is quicker than comparing a few.
        self.fields.iter().find(|field| field.name == name)
    }
}

/// All types, and where each stands.
struct Types {
    named: HashMap<&'static str, usize>,
    structs: Vec<Struct>,
    /// What an object of each type is that says nothing.
    nothing: Vec<OnceLock<Value>>,
}

static ALL: LazyLock<Types> = LazyLock::new(|| {
    let lines = || TYPES.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let named = lines().enumerate().map(|(place, (name, _))| (name, place)).collect();
    let structs: Vec<Struct> = lines().map(|(_, fields)| parse(fields, &named)).collect();
    let nothing = structs.iter().map(|_| OnceLock::new()).collect();
    Types { named, structs, nothing }
});

fn parse(fields: &'static str, named: &HashMap<&'static str, usize>) -> Struct {
    let mut fields: Vec<Field> = fields.split(' ').filter_map(|word| field(word, named)).collect();
    fields.sort_by_key(|field| field.name);
    let is_always = |field: &Field| matches!(field.when, When::Always | When::Nullable);
    let always = fields.iter().enumerate().filter(|(_, field)| is_always(field)).map(|(place, _)| place);
    Struct { always: always.collect(), fields }
}

fn field(word: &'static str, named: &HashMap<&'static str, usize>) -> Option<Field> {
    let mark = word.find(['!', '-', '*', '0'])?;
    let when = match word.as_bytes()[mark] {
        b'-' => When::Filled,
        b'*' => When::There,
        b'0' => When::Nullable,
        _ => When::Always,
    };
    Some(Field { name: &word[..mark], when, form: form(&word[mark + 1..], named) })
}

fn form(code: &'static str, named: &HashMap<&'static str, usize>) -> Form {
    let inner = || code.get(1..code.len() - 1).unwrap_or_default();
    match code.as_bytes().first() {
        Some(b's') => Form::Text,
        Some(b'n') => Form::Number,
        Some(b'b') => Form::Flag,
        Some(b'q') => Form::Amount,
        Some(b'p') => Form::Port,
        Some(b't' | b'y') => Form::Plain,
        Some(b'{') => named.get(inner()).map_or(Form::Other, |place| Form::Struct(*place)),
        Some(b'[') => Form::List(Box::new(form(inner(), named))),
        Some(b'<') => Form::Map(Box::new(form(inner(), named))),
        _ => Form::Other,
    }
}

/// The type of a kind, where it is known.
fn type_of(kind: &Kind) -> Option<usize> {
    if kind.custom {
        return None;
    }
    *kind.found.shape.get_or_init(|| place_of(kind))
}

fn place_of(kind: &Kind) -> Option<usize> {
    // The first part of a group names the package; stored events have the older form, whichever way they came.
    let package = kind.group.split('.').next().unwrap_or_default();
    let place = match package {
        "" | "events" => ALL.named.get(&*kind.kind),
        package => ALL.named.get(format!("{package}.{}", kind.kind).as_str()),
    };
    place.copied()
}

/// Removes what a typed object does not tell from nothing: nulls, and empty values that are left out.
pub(crate) fn reduce(kind: &Kind, value: &mut Value) {
    if let Some(place) = type_of(kind) {
        reduce_struct(place, value, 0);
    }
}

fn reduce_struct(place: usize, value: &mut Value, depth: usize) {
    let (Some(known), Some(map)) = (ALL.structs.get(place), value.as_object_mut()) else { return };
    if depth == DEEPEST {
        return;
    }
    map.retain(|name, present| {
        let Some(field) = known.field(name) else { return true };
        each_struct(&field.form, present, depth, reduce_struct);
        !match field.when {
            When::Filled => is_empty(&field.form, present),
            When::There | When::Nullable => present.is_null(),
            When::Always => {
                present.is_null()
                    || matches!(field.form, Form::List(_) | Form::Map(_)) && is_empty(&field.form, present)
            }
        }
    });
}

/// Does a step to each struct that a value of this form holds.
fn each_struct(form: &Form, value: &mut Value, depth: usize, step: fn(usize, &mut Value, usize)) {
    match (form, value) {
        (Form::Struct(place), value) => step(*place, value, depth + 1),
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
    if let Some(place) = type_of(kind) {
        complete_struct(place, value, 0);
    }
}

/// What [`complete`] makes of an object that says nothing; none where that is nothing either.
pub(crate) fn nothing(kind: &Kind) -> Option<&'static Value> {
    let place = type_of(kind)?;
    let nothing = ALL.nothing.get(place)?.get_or_init(|| {
        let mut nothing = Value::Object(Map::new());
        complete_struct(place, &mut nothing, 0);
        nothing
    });
    Some(nothing).filter(|nothing| nothing.as_object().is_some_and(|fields| !fields.is_empty()))
}

/// The fields that an object shows of which nothing is set, but for its metadata.
pub(crate) fn blank(kind: &Kind) -> Map<String, Value> {
    let mut value = match &*kind.kind {
        _ if kind.custom => return Map::new(),
        // Its schemas hold themselves, so that its type is not among the others.
        "CustomResourceDefinition" => {
            let names = json!({"plural": "", "kind": ""});
            json!({
                "spec": {"group": "", "names": names, "scope": "", "versions": null},
                "status": {"conditions": null, "acceptedNames": names, "storedVersions": null},
            })
        }
        // Here is a number, where the object itself may have none.
        "Deployment" | "ReplicaSet" | "StatefulSet" => json!({"spec": {"replicas": 0}}),
        _ => Value::Object(Map::new()),
    };
    complete(kind, &mut value);
    let mut shown = kind.view(&value).unwrap_or(value);
    let fields = crate::object::as_map_mut(&mut shown);
    fields.remove("metadata");
    std::mem::take(fields)
}

fn complete_struct(place: usize, value: &mut Value, depth: usize) {
    let (Some(known), Some(map)) = (ALL.structs.get(place), value.as_object_mut()) else { return };
    if depth == DEEPEST {
        return;
    }
    for field in known.always.iter().filter_map(|place| known.fields.get(*place)) {
        if !map.contains_key(field.name) {
            let empty = if field.when == When::Nullable { Value::Null } else { empty(&field.form) };
            map.insert(field.name.to_owned(), empty);
        }
    }
    for (name, present) in map {
        if let Some(field) = known.field(name) {
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
        let words = TYPES.split_whitespace();
        let named = words.filter_map(|word| Some(word.split_once('{')?.1.split_once('}')?.0));
        for name in named {
            assert!(ALL.named.contains_key(name), "{name}");
        }
    }
}
