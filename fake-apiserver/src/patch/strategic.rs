//! Decides what a strategic merge patch makes of an object: lists with a merge key are merged item by item,
//! `$patch`, `$setElementOrder`, `$deleteFromPrimitiveList` and `$retainKeys` are obeyed. Which lists are
//! merged, and by what, is the schema's to say. Answers to `k8s.io/apimachinery/pkg/util/strategicpatch`.

use serde_json::{Map, Value};

use crate::schema::{Field, Link, Merge};
use crate::status::{Result, Status};

const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";

pub(crate) fn apply(schema: &Link, object: &Value, patch: &Value) -> Result<Value> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(Status::bad_request("error decoding patch: it is no object"));
    };
    Ok(Value::Object(merge_maps(object.clone(), patch, Some(schema))?))
}

/// What the schema says of a field.
fn field<'a>(map: Option<&'a Link>, name: &str) -> Option<&'a Field> {
    map?.node().map.as_ref()?.fields.get(name)
}

/// What the schema says of what stands in a field, be it a named one or not.
fn below<'a>(map: Option<&'a Link>, name: &str) -> Option<&'a Link> {
    let map = map?.node().map.as_ref()?;
    map.fields.get(name).map(|field| &field.link).or(map.rest.as_ref())
}

fn merge_maps(
    mut object: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Option<&Link>,
) -> Result<Map<String, Value>> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None => {}
        Some("replace") => {
            let rest = patch.iter().filter(|(name, _)| *name != DIRECTIVE);
            return Ok(rest.map(|(name, value)| (name.clone(), value.clone())).collect());
        }
        Some("delete") => return Ok(Map::new()),
        Some(other) => return Err(unknown_directive(other, patch)),
    }
    if let Some(retained) = patch.get(RETAIN) {
        retain(&mut object, retained, patch)?;
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            delete_from(&mut object, list, value);
        }
    }
    let directs = |name: &str| {
        matches!(name, DIRECTIVE | RETAIN) || name.starts_with(SET_ORDER) || name.starts_with(DELETE_FROM)
    };
    for (name, value) in patch.iter().filter(|(name, _)| !directs(name)) {
        if value.is_null() {
            object.remove(name);
            continue;
        }
        let old = object.remove(name);
        let merge = field(schema, name).map(|field| &field.merge);
        if let Some(new) = merge_values(old, value, below(schema, name), merge)? {
            object.insert(name.clone(), new);
        }
    }
    for (name, order) in patch {
        if let (Some(list), Value::Array(order)) = (name.strip_prefix(SET_ORDER), order) {
            if schema.is_some() && below(schema, list).is_none() {
                let why = format!("unable to find api field in struct for the json field \"{list}\"");
                return Err(Status::untranslated(why));
            }
            let key = field(schema, list).and_then(|field| field.merge.key.as_deref());
            if let Some(Value::Array(given)) = patch.get(list) {
                fits_order(given, order, key)?;
            }
            if let Some(Value::Array(items)) = object.get_mut(list) {
                set_order(items, order, key);
            }
        }
    }
    Ok(object)
}

/// Leaves the fields that are named; a patch that sets another one makes no sense.
fn retain(object: &mut Map<String, Value>, retained: &Value, patch: &Map<String, Value>) -> Result<()> {
    let named = |name: &str| retained.as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let mut given = patch.iter().filter(|(name, value)| {
        let directs = name.starts_with(SET_ORDER) || name.starts_with(DELETE_FROM);
        *name != RETAIN && *name != DIRECTIVE && !directs && !value.is_null()
    });
    if !retained.is_array() || !given.all(|(name, _)| named(name)) {
        return Err(Status::bad_request("invalid patch format of retainKeys"));
    }
    object.retain(|name, _| named(name));
    Ok(())
}

fn unknown_directive(what: &str, patch: &Map<String, Value>) -> Box<Status> {
    let shown = patch.iter().map(|(name, value)| {
        format!("{name}:{}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    });
    let shown = shown.collect::<Vec<_>>().join(" ");
    Status::untranslated(format!("unknown patch type: {what} in map: map[{shown}]"))
}

fn merge_values(
    old: Option<Value>,
    patch: &Value,
    schema: Option<&Link>,
    merge: Option<&Merge>,
) -> Result<Option<Value>> {
    match (old, patch) {
        (_, Value::Object(patch)) if merge.is_some_and(|merge| merge.replaces) => {
            Ok(Some(Value::Object(patch.clone())))
        }
        (old, Value::Object(patch)) => {
            let deletes = patch.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
            let old = if let Some(Value::Object(old)) = old { old } else { Map::new() };
            let merged = merge_maps(old, patch, schema)?;
            Ok((!deletes).then_some(Value::Object(merged)))
        }
        (old, Value::Array(patch)) => {
            let old = if let Some(Value::Array(old)) = old { old } else { Vec::new() };
            merge_lists(&old, patch, schema, merge).map(|list| Some(Value::Array(list)))
        }
        (_, other) => Ok(Some(other.clone())),
    }
}

fn merge_lists(
    old: &[Value],
    patch: &[Value],
    schema: Option<&Link>,
    merge: Option<&Merge>,
) -> Result<Vec<Value>> {
    let directs = |item: &Value| item.get(DIRECTIVE).is_some();
    if patch.iter().any(|item| item.get(DIRECTIVE).is_some_and(|directive| directive == "replace")) {
        return Ok(patch.iter().filter(|item| !directs(item)).cloned().collect());
    }
    if patch.iter().any(|item| item.get(DIRECTIVE).is_some_and(|directive| directive == "merge")) {
        return Err(Status::untranslated("merging lists cannot yet be specified in the patch"));
    }
    let items = schema.and_then(|schema| schema.node().list.as_ref()).map(|list| &list.items);
    match merge {
        Some(Merge { merges: true, key: Some(key), .. }) => merge_items(old, patch, key, items),
        Some(Merge { merges: true, .. }) => {
            let texts = |items: &[Value]| items.iter().all(Value::is_string);
            if texts(old) != texts(patch) && !old.is_empty() && !patch.is_empty() {
                let (old, patch) = (Value::from(old), Value::from(patch));
                return Err(Status::untranslated(format!(
                    "list element types are not identical: [{old} {patch}]"
                )));
            }
            let mut once: Vec<Value> = Vec::with_capacity(patch.len());
            for item in patch {
                if !once.contains(item) {
                    once.push(item.clone());
                }
            }
            let untouched: Vec<Value> = old.iter().filter(|item| !patch.contains(item)).cloned().collect();
            Ok(interleave(untouched, once, |item| old.iter().position(|one| one == item)))
        }
        _ => Ok(patch.iter().map(without_nulls).collect()),
    }
}

fn merge_items(old: &[Value], patch: &[Value], key: &str, schema: Option<&Link>) -> Result<Vec<Value>> {
    let place = |id: Option<&Value>| old.iter().position(|one| one.get(key) == id);
    let mut untouched: Vec<Option<Value>> = old.iter().cloned().map(Some).collect();
    let mut touched = Vec::new();
    for item in patch {
        let Value::Object(fields) = item else {
            let why = format!("list element types are not identical: [{}]", Value::from(patch));
            return Err(Status::untranslated(why));
        };
        let Some(id) = fields.get(key) else {
            return Err(Status::untranslated(format!(
                "map: {item} does not contain declared merge key: {key}"
            )));
        };
        if fields.get(DIRECTIVE).is_some_and(|directive| directive == "delete") {
            // All that have that key go, where it does not tell them apart.
            let named =
                untouched.iter_mut().filter(|one| one.as_ref().and_then(|one| one.get(key)) == Some(id));
            named.for_each(|one| *one = None);
        } else {
            let before = place(Some(id)).and_then(|place| untouched[place].take());
            touched.extend(merge_values(before, item, schema, None)?);
        }
    }
    Ok(interleave(untouched.into_iter().flatten().collect(), touched, |item| place(item.get(key))))
}

/// Brings the items that a patch leaves alone and those that it names into one order: its own for those it
/// names, and the one before where both are known. What is new comes before what is left.
fn interleave(
    untouched: Vec<Value>,
    touched: Vec<Value>,
    place: impl Fn(&Value) -> Option<usize>,
) -> Vec<Value> {
    let mut list = Vec::with_capacity(untouched.len() + touched.len());
    let mut untouched = untouched.into_iter().peekable();
    for item in touched {
        let limit = place(&item);
        while let Some(earlier) = untouched.next_if(|one| limit.is_some_and(|limit| place(one) < Some(limit)))
        {
            list.push(earlier);
        }
        list.push(item);
    }
    list.extend(untouched);
    list
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(name, field)| (name.clone(), without_nulls(field))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

fn delete_from(object: &mut Map<String, Value>, list: &str, gone: &Value) {
    if let (Some(Value::Array(items)), Value::Array(gone)) = (object.get_mut(list), gone) {
        items.retain(|item| !gone.contains(item));
    }
}

/// Refuses a list whose items come otherwise than the order says.
fn fits_order(given: &[Value], order: &[Value], key: Option<&str>) -> Result<()> {
    let id = |item: &Value| match key {
        Some(key) => item.get(key).cloned(),
        None => Some(item.clone()),
    };
    let mut rest = order.iter();
    let stays = |item: &&Value| item.get(DIRECTIVE).is_none();
    if given.iter().filter(stays).all(|item| rest.any(|one| id(one) == id(item))) {
        return Ok(());
    }
    let (given, order) = (Value::from(given), Value::from(order));
    Err(Status::untranslated(format!(
        "The order in patch list:\n{given}\n doesn't match $setElementOrder list:\n{order}\n"
    )))
}

/// Brings the items that the order names into that order; others keep their place relative to the ones before
/// them.
fn set_order(items: &mut [Value], order: &[Value], key: Option<&str>) {
    let id = |item: &Value| match key {
        Some(key) => item.get(key).cloned().unwrap_or_default(),
        None => item.clone(),
    };
    let rank = |item: &Value| order.iter().position(|one| id(one) == id(item));
    let mut named: Vec<Value> = items.iter().filter(|item| rank(item).is_some()).cloned().collect();
    named.sort_by_key(|item| rank(item));
    let mut named = named.into_iter();
    for item in items.iter_mut() {
        if rank(item).is_some()
            && let Some(next) = named.next()
        {
            *item = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(object: Value, patch: Value, expected: Value) {
        let pod = crate::schema::of("v1", "Pod").unwrap();
        assert_eq!(apply(&pod, &object, &patch).unwrap(), expected);
    }

    #[test]
    fn lists_with_a_merge_key_are_merged() {
        check(
            json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "$patch": "delete"}]}}),
            json!({"status": {"conditions": [{"type": "A", "status": "False"}]}}),
        );
        check(
            json!({"spec": {"accessModes": ["ReadWriteOnce"]}}),
            json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
            json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
        );
    }

    #[test]
    fn finalizers_are_a_set() {
        check(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {
                "$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"], "finalizers": ["b"],
            }}),
            json!({"metadata": {"finalizers": ["b"]}}),
        );
        check(
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["a", "c"]}}),
            json!({"metadata": {"finalizers": ["a", "c"]}}),
        );
    }

    #[test]
    fn directives_replace_retain_and_order() {
        check(
            json!({"spec": {"a": 1, "b": {"c": 1}}}),
            json!({"spec": {"b": {"$patch": "replace", "d": 2}, "a": null}}),
            json!({"spec": {"b": {"d": 2}}}),
        );
        check(
            json!({"spec": {"strategy": {"type": "A", "rollingUpdate": {}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "B"}}}),
            json!({"spec": {"strategy": {"type": "B"}}}),
        );
        check(
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "i"}]}}),
            json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "image": "i"}]}}),
        );
    }

    #[test]
    fn an_item_without_its_key_is_refused() {
        let pod = crate::schema::of("v1", "Pod").unwrap();
        let refused = apply(&pod, &json!({}), &json!({"spec": {"containers": [{"image": "i"}]}}));
        assert_eq!(refused.unwrap_err().code, 500);
        let other_order =
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}});
        assert_eq!(apply(&pod, &json!({}), &other_order).unwrap_err().code, 500);
    }

    #[test]
    fn a_key_that_does_not_tell_items_apart_deletes_all_of_them() {
        let ports = |all: Value| json!({"spec": {"containers": [{"name": "c", "ports": all}]}});
        check(
            ports(
                json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]),
            ),
            ports(json!([{"containerPort": 80, "$patch": "delete"}])),
            ports(json!([{"containerPort": 81}])),
        );
        let finalizers = |all: Value| json!({"metadata": {"finalizers": all}});
        check(finalizers(json!(["a"])), finalizers(json!(["b", "b"])), finalizers(json!(["b", "a"])));
        let whole = json!([{"containerPort": 1, "$patch": "replace"}, {"containerPort": 2}]);
        check(ports(json!([{"containerPort": 80}])), ports(whole), ports(json!([{"containerPort": 2}])));
    }

    #[test]
    fn directives_that_make_no_sense_are_refused() {
        let pod = crate::schema::of("v1", "Pod").unwrap();
        let old =
            json!({"metadata": {"finalizers": ["a"]}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
        let volume = |more: Value| {
            let mut volume = json!({"name": "v"});
            volume.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"spec": {"volumes": [volume]}})
        };
        for (patch, code) in [
            (volume(json!({"$retainKeys": ["name"], "configMap": {}})), 400),
            (volume(json!({"$retainKeys": "name"})), 400),
            (volume(json!({"$patch": "merge"})), 500),
            (json!({"spec": {"$patch": "merge", "hostname": "h"}}), 500),
            (json!({"$setElementOrder/bogus": []}), 500),
            (json!({"metadata": {"finalizers": [1]}}), 500),
        ] {
            assert_eq!(apply(&pod, &old, &patch).unwrap_err().code, code, "{patch}");
        }
        assert!(
            apply(&pod, &old, &volume(json!({"$retainKeys": ["name", "configMap"], "configMap": {}})))
                .is_ok()
        );
    }
}
