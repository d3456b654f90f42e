//! The laws that hold whoever applies what: random configurations by random managers, on a schema with each way
//! in which lists and maps are merged.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::schema::custom;

const MANAGERS: [&str; 3] = ["one", "two", "three"];

fn schema() -> Link {
    let map = |kind: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": kind});
    let item = json!({"type": "object", "properties": {
        "id": {"type": "string"}, "protocol": {"type": "string", "default": "TCP"}, "note": {"type": "string"},
    }});
    custom(
        Some(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "plain": {"type": "string"},
            "granular": map("granular"),
            "atomic": map("atomic"),
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            "keyed": {"type": "array", "items": item, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id", "protocol"]},
        }}}})),
        false,
    )
}

fn letter() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_owned)
}

/// A configuration without empty parts: those mention themselves, and nothing below.
fn configuration() -> impl Strategy<Value = Value> {
    let texts = || btree_map(letter(), letter(), 0..3);
    let parts = (
        proptest::option::of(letter()),
        texts(),
        texts(),
        btree_set(letter(), 0..3),
        vec(letter(), 0..3),
        btree_map((letter(), proptest::option::of(Just("UDP"))), proptest::option::of(letter()), 0..3),
    );
    parts.prop_map(|(plain, granular, atomic, set, list, keyed)| {
        let items = keyed.into_iter().map(|((id, protocol), note)| {
            let fields = [("id", Some(id)), ("protocol", protocol.map(str::to_owned)), ("note", note)];
            let fields = fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
            Value::Object(fields.collect::<Map<String, Value>>())
        });
        let parts = [
            ("plain", json!(plain)),
            ("granular", json!(granular)),
            ("atomic", json!(atomic)),
            ("set", json!(set)),
            ("list", json!(list)),
            ("keyed", items.collect()),
        ];
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        let spec: Map<String, Value> = parts
            .into_iter()
            .filter(|(_, value)| !is_empty(value))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let mut object = json!({"apiVersion": "v1", "kind": "Test", "metadata": {"name": "a"}});
        if !spec.is_empty() {
            object["spec"] = Value::Object(spec);
        }
        object
    })
}

/// One applies, and what the server would store.
fn step(
    schema: &Link,
    stored: &Value,
    manager: &str,
    configuration: &Value,
    force: bool,
) -> Result<Value, Vec<Conflict>> {
    static NONE: LazyLock<Set> = LazyLock::new(Set::default);
    let reset = Reset::Only(&NONE);
    let nothing = || Cow::Owned(empty(schema));
    let knows = &|_: &str| true;
    let subject = Subject { schema, api_version: "v1", reset: &reset, nothing: &nothing, knows, other: None };
    let writer = Writer { manager, subresource: "", now: "2026-01-01T00:00:00Z" };
    let applied = apply(&subject, &writer, stored, configuration, force)?;
    let mut next = applied.object.unwrap_or_else(|| stored.clone());
    match applied.managers {
        Some(managers) => next["metadata"]["managedFields"] = managers,
        None => {
            crate::object::metadata_mut(&mut next).remove("managedFields");
        }
    }
    Ok(next)
}

fn owned_by(stored: &Value, manager: &str) -> Set {
    let managers = Managers::decode(&stored["metadata"]["managedFields"]).unwrap();
    let mine = managers.iter().find(|entry| entry.identity.manager == manager);
    mine.map(|entry| entry.fields.clone()).unwrap_or_default()
}

fn mentioned(schema: &Link, value: &Value) -> Set {
    set_of(schema, value).difference(&NOBODYS)
}

fn without_managers(stored: &Value) -> Value {
    let mut plain = stored.clone();
    crate::object::metadata_mut(&mut plain).remove("managedFields");
    plain
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn what_is_applied_is_owned_and_what_is_owned_is_there(
        steps in vec((0..MANAGERS.len(), configuration(), any::<bool>()), 1..8),
    ) {
        let schema = schema();
        let mut stored = json!({});
        for (who, configuration, force) in steps {
            let manager = MANAGERS[who];
            let next = match step(&schema, &stored, manager, &configuration, force) {
                Ok(next) => next,
                Err(conflicts) => {
                    prop_assert!(!force, "who forces meets no conflict");
                    for conflict in conflicts {
                        let others = MANAGERS.iter().filter(|other| **other != manager);
                        let is_owned = others.into_iter().any(|other| owned_by(&stored, other).contains(&conflict.steps));
                        prop_assert!(is_owned, "{} belongs to nobody else", conflict.path);
                    }
                    continue;
                }
            };
            // What was applied is owned, and nothing else by this manager.
            let applied = mentioned(&schema, &configuration);
            prop_assert_eq!(&owned_by(&next, manager), &applied);
            // It is there as it was applied.
            let merged = merge(&schema, &without_managers(&next), &configuration);
            prop_assert_eq!(element::compare(&merged, &without_managers(&next)), std::cmp::Ordering::Equal);
            // What is there is owned by somebody, and nobody owns what is not.
            let there = mentioned(&schema, &without_managers(&next));
            let owned = MANAGERS.iter().fold(Set::default(), |all, other| all.union(owned_by(&next, other)));
            prop_assert!(there.difference(&owned).is_empty(), "{:?} of {next}", there.difference(&owned).encode());
            prop_assert!(owned.difference(&there).is_empty(), "{:?} of {next}", owned.difference(&there).encode());
            // The same again changes nothing.
            prop_assert_eq!(step(&schema, &next, manager, &configuration, false).unwrap(), next.clone());
            stored = next;
        }
    }

    #[test]
    fn a_set_is_what_is_left_and_what_is_taken(one in configuration(), other in configuration()) {
        let schema = schema();
        let (one, other) = (set_of(&schema, &one), set_of(&schema, &other));
        let both = one.intersection(&other);
        prop_assert_eq!(one.difference(&other).union(both), one.clone());
        prop_assert!(one.difference(&other).intersection(&other).is_empty());
        prop_assert_eq!(Set::decode(&one.encode()).unwrap(), one);
    }
}
