//! Decides what a strategic merge patch makes of an object: lists with a merge key are merged item by item,
//! `$patch`, `$setElementOrder`, `$deleteFromPrimitiveList` and `$retainKeys` are obeyed. Never merges a list
//! that has no merge key. Answers to `k8s.io/apimachinery/pkg/util/strategicpatch`.

use serde_json::{Map, Value};

use crate::status::{Result, Status};

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    /// Items are maps, and this field says which is which.
    By(&'static str),
    /// Items are plain values, and the list is a set.
    Set,
}

/// The lists that are merged: the end of the path, and how. A field of the same name elsewhere has the same
/// meaning in all served kinds, unless a longer path says otherwise.
const MERGED: &[(&str, Merge)] = &[
    ("metadata.finalizers", Merge::Set),
    ("metadata.ownerReferences", Merge::By("uid")),
    ("containers.ports", Merge::By("containerPort")),
    ("initContainers.ports", Merge::By("containerPort")),
    ("ephemeralContainers.ports", Merge::By("containerPort")),
    ("spec.ports", Merge::By("port")),
    ("spec.podCIDRs", Merge::Set),
    ("nodeInfo.conditions", Merge::By("type")),
    ("addresses", Merge::By("type")),
    ("conditions", Merge::By("type")),
    ("containers", Merge::By("name")),
    ("initContainers", Merge::By("name")),
    ("ephemeralContainers", Merge::By("name")),
    ("env", Merge::By("name")),
    ("volumeMounts", Merge::By("mountPath")),
    ("volumeDevices", Merge::By("devicePath")),
    ("volumes", Merge::By("name")),
    ("imagePullSecrets", Merge::By("name")),
    ("hostAliases", Merge::By("ip")),
    ("topologySpreadConstraints", Merge::By("topologyKey")),
    ("schedulingGates", Merge::By("name")),
    ("resourceClaims", Merge::By("name")),
    ("podIPs", Merge::By("ip")),
    ("secrets", Merge::By("name")),
    ("drivers", Merge::By("name")),
];

const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";

pub(crate) fn apply(object: &Value, patch: &Value) -> Result<Value> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(Status::bad_request("error decoding patch: it is no object"));
    };
    Ok(Value::Object(merge_maps(object.clone(), patch, &mut Vec::new())?))
}

fn how(path: &[&str]) -> Option<Merge> {
    let ends_with = |pattern: &str| {
        let steps: Vec<&str> = pattern.split('.').collect();
        path.ends_with(&steps)
    };
    MERGED.iter().find(|(pattern, _)| ends_with(pattern)).map(|(_, merge)| *merge)
}

fn merge_maps<'a>(
    mut object: Map<String, Value>,
    patch: &'a Map<String, Value>,
    at: &mut Vec<&'a str>,
) -> Result<Map<String, Value>> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            let rest = patch.iter().filter(|(name, _)| *name != DIRECTIVE);
            return Ok(rest.map(|(name, value)| (name.clone(), value.clone())).collect());
        }
        Some("delete") => return Ok(Map::new()),
        Some(other) => return Err(unknown_directive(other, patch)),
    }
    if let Some(Value::Array(retained)) = patch.get(RETAIN) {
        object.retain(|name, _| retained.iter().any(|one| one == name.as_str()));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            delete_from(&mut object, list, value);
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        if value.is_null() {
            object.remove(name);
            continue;
        }
        at.push(name);
        let old = object.remove(name);
        if let Some(new) = merge_values(old, value, at)? {
            object.insert(name.clone(), new);
        }
        at.pop();
    }
    for (name, order) in patch {
        if let (Some(list), Value::Array(order)) = (name.strip_prefix(SET_ORDER), order) {
            at.push(list);
            let merge = how(at);
            at.pop();
            if let Some(Value::Array(items)) = object.get_mut(list) {
                set_order(items, order, merge);
            }
        }
    }
    Ok(object)
}

fn unknown_directive(what: &str, patch: &Map<String, Value>) -> Box<Status> {
    let shown = patch.iter().map(|(name, value)| {
        format!("{name}:{}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    });
    let shown = shown.collect::<Vec<_>>().join(" ");
    Status::untranslated(format!("unknown patch type: {what} in map: map[{shown}]"))
}

fn merge_values<'a>(old: Option<Value>, patch: &'a Value, at: &mut Vec<&'a str>) -> Result<Option<Value>> {
    match (old, patch) {
        (old, Value::Object(patch)) => {
            let deletes = patch.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
            let old = if let Some(Value::Object(old)) = old { old } else { Map::new() };
            let merged = merge_maps(old, patch, at)?;
            Ok((!deletes).then_some(Value::Object(merged)))
        }
        (old, Value::Array(patch)) => {
            let old = if let Some(Value::Array(old)) = old { old } else { Vec::new() };
            merge_lists(&old, patch, at).map(|list| Some(Value::Array(list)))
        }
        (_, other) => Ok(Some(other.clone())),
    }
}

fn merge_lists<'a>(old: &[Value], patch: &'a [Value], at: &mut Vec<&'a str>) -> Result<Vec<Value>> {
    let is_directive =
        |item: &Value| item.get(DIRECTIVE).is_some() && item.as_object().is_some_and(|item| item.len() == 1);
    if patch.iter().any(|item| is_directive(item) && item[DIRECTIVE] == "replace") {
        return Ok(patch.iter().filter(|item| !is_directive(item)).cloned().collect());
    }
    match how(at) {
        None => Ok(patch.iter().map(without_nulls).collect()),
        Some(Merge::Set) => {
            let untouched: Vec<Value> = old.iter().filter(|item| !patch.contains(item)).cloned().collect();
            Ok(interleave(untouched, patch.to_vec(), |item| old.iter().position(|one| one == item)))
        }
        Some(Merge::By(key)) => merge_items(old, patch, key, at),
    }
}

fn merge_items<'a>(
    old: &[Value],
    patch: &'a [Value],
    key: &str,
    at: &mut Vec<&'a str>,
) -> Result<Vec<Value>> {
    let place = |id: Option<&Value>| old.iter().position(|one| one.get(key) == id);
    let mut untouched: Vec<Option<Value>> = old.iter().cloned().map(Some).collect();
    let mut touched = Vec::new();
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(Status::bad_request("error decoding patch: a list item is no object"));
        };
        let Some(id) = fields.get(key) else {
            return Err(Status::bad_request(format!(
                "map: {item} does not contain declared merge key: {key}"
            )));
        };
        let before = place(Some(id)).and_then(|place| untouched[place].take());
        if fields.get(DIRECTIVE).is_none_or(|directive| directive != "delete") {
            touched.extend(merge_values(before, item, at)?);
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

/// Brings the items that the order names into that order; others keep their place relative to the ones before
/// them.
fn set_order(items: &mut [Value], order: &[Value], merge: Option<Merge>) {
    let id = |item: &Value| match merge {
        Some(Merge::By(key)) => item.get(key).cloned().unwrap_or_default(),
        _ => item.clone(),
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
        assert_eq!(apply(&object, &patch).unwrap(), expected);
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
        let refused = apply(&json!({}), &json!({"spec": {"containers": [{"image": "i"}]}}));
        assert_eq!(refused.unwrap_err().code, 400);
    }
}
