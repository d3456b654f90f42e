//! Decides what a JSON patch makes of an object, in the reading of the library that the real server uses: a
//! replace may make a new field, an index may count from the end, and a failed test says so. Never applies
//! half a patch. Answers to RFC 6902 and `gopkg.in/evanphx/json-patch.v4`.

use serde_json::Value;

use crate::status::Status;
use crate::verbs::form_of;

/// How many bytes the copies of one patch may make together, as in the real server: otherwise each one could double the object.
const LARGEST_COPIES: usize = 3 * 1024 * 1024;

/// One operation, not yet checked.
struct Operation<'a> {
    name: &'a str,
    path: Option<&'a str>,
    from: Option<&'a str>,
    value: Option<&'a Value>,
}

/// Refuses what is no operation at all, before any is done.
pub(super) fn check(operation: &Value) -> Result<(), Box<Status>> {
    let wrong = |value: &Value, place: &str| {
        let why = format!("json: cannot unmarshal {} into {place}", form_of(value));
        Err(Status::bad_request(format!("error decoding patch: {why}")))
    };
    match operation {
        Value::Null => return Ok(()),
        Value::Object(_) => {}
        other => return wrong(other, "Go value of type handlers.jsonPatchOp"),
    }
    for field in ["op", "path", "from"] {
        let value = &operation[field];
        if !value.is_string() && !value.is_null() {
            return wrong(value, &format!("Go struct field jsonPatchOp.{field} of type string"));
        }
    }
    Ok(())
}

/// The patched object, or why there is none.
pub(super) fn apply(object: &Value, patch: &[Value]) -> Result<Value, String> {
    let mut object = object.clone();
    let mut copied = 0;
    for operation in patch {
        let text = |field: &str| operation.get(field).and_then(Value::as_str);
        let operation = Operation {
            name: text("op").unwrap_or_default(),
            path: text("path"),
            from: text("from"),
            value: operation.get("value"),
        };
        operation.apply(&mut object, &mut copied)?;
    }
    if object.is_object() { Ok(object) } else { Err("it is no object any more".to_owned()) }
}

impl Operation<'_> {
    /// `sum` is how many bytes were copied before.
    fn apply(&self, object: &mut Value, sum: &mut usize) -> Result<(), String> {
        let value = || self.value.cloned().unwrap_or_default();
        let path = self.path.ok_or("operation missing path field")?;
        let from = || self.from.ok_or("operation, missing from field");
        match self.name {
            // The whole can be replaced, and nothing can be added in its place.
            "add" if path.is_empty() => Err(missing(path)),
            "add" => put(object, path, value(), true),
            "replace" => put(object, path, value(), false),
            "remove" => take(object, path).map(drop),
            "move" => {
                let moved = take(object, from()?)?;
                put(object, path, moved, true)
            }
            "copy" => {
                let copied = find(object, from()?).ok_or_else(|| missing(self.from.unwrap_or_default()))?;
                *sum += copied.to_string().len();
                if *sum > LARGEST_COPIES {
                    let limit = format!("exceeding the limit {LARGEST_COPIES}");
                    return Err(format!(
                        "Unable to copy, the accumulated size increase of copy is {sum}, {limit}"
                    ));
                }
                let copied = copied.clone();
                put(object, path, copied, true)
            }
            "test" => self.test(object, path),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn test(&self, object: &Value, path: &str) -> Result<(), String> {
        let found = find(object, path).unwrap_or(&Value::Null);
        if found == self.value.unwrap_or(&Value::Null) {
            return Ok(());
        }
        Err(format!("testing value {path} failed"))
    }
}

fn missing(path: &str) -> String {
    format!("missing path: {path}: missing value")
}

/// The steps of a path, unescaped.
fn steps(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// The place in a list that a step names; `length` is one past the last place that may be named.
fn place(step: &str, length: usize) -> Option<usize> {
    let number: i64 = step.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let number = if number < 0 { number.checked_add(length)? } else { number };
    usize::try_from(number).ok().filter(|_| number < length)
}

fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path).iter().try_fold(object, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(place(step, items.len())?),
        _ => None,
    })
}

/// The value that holds what a path names, and the path's last step.
fn holder<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let mut steps = steps(path);
    let Some(last) = steps.pop() else { return Err(missing(path)) };
    let mut value = object;
    for step in &steps {
        let next = match value {
            Value::Object(fields) => fields.get_mut(step),
            Value::Array(items) => place(step, items.len()).and_then(|index| items.get_mut(index)),
            _ => None,
        };
        value = next.ok_or_else(|| missing(path))?;
    }
    Ok((value, last))
}

fn put(object: &mut Value, path: &str, value: Value, inserts: bool) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (holder, last) = holder(object, path)?;
    match holder {
        Value::Object(fields) => {
            fields.insert(last, value);
            Ok(())
        }
        Value::Array(items) if inserts => {
            let index = if last == "-" { Some(items.len()) } else { place(&last, items.len() + 1) };
            items.insert(index.ok_or_else(|| format!("Unable to access invalid index: {last}"))?, value);
            Ok(())
        }
        Value::Array(items) => {
            let index =
                place(&last, items.len()).ok_or_else(|| format!("Unable to access invalid index: {last}"))?;
            items[index] = value;
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn take(object: &mut Value, path: &str) -> Result<Value, String> {
    let (holder, last) = holder(object, path)?;
    match holder {
        Value::Object(fields) => {
            fields.remove(&last).ok_or_else(|| format!("Unable to remove nonexistent key: {last}"))
        }
        Value::Array(items) => {
            let index =
                place(&last, items.len()).ok_or_else(|| format!("Unable to access invalid index: {last}"))?;
            Ok(items.remove(index))
        }
        _ => Err(missing(path)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(patch: Value, expected: Option<Value>) {
        let object = json!({"a": {"b": [1, 2]}, "c/d": 3});
        assert_eq!(apply(&object, patch.as_array().unwrap()).ok(), expected, "{patch}");
    }

    #[test]
    fn operations_do_what_the_real_server_does() {
        check(
            json!([{"op": "add", "path": "/a/b/-", "value": 3}]),
            Some(json!({"a": {"b": [1, 2, 3]}, "c/d": 3})),
        );
        check(
            json!([{"op": "replace", "path": "/new", "value": 3}]),
            Some(json!({"a": {"b": [1, 2]}, "c/d": 3, "new": 3})),
        );
        check(json!([{"op": "remove", "path": "/a/b/-1"}]), Some(json!({"a": {"b": [1]}, "c/d": 3})));
        check(
            json!([{"op": "move", "from": "/c~1d", "path": "/a/b/0"}]),
            Some(json!({"a": {"b": [3, 1, 2]}})),
        );
        check(
            json!([{"op": "test", "path": "/absent", "value": null}]),
            Some(json!({"a": {"b": [1, 2]}, "c/d": 3})),
        );
    }

    #[test]
    fn copies_have_a_limit() {
        let twice = |times: usize| -> Vec<Value> {
            (0..times).map(|time| json!({"op": "copy", "from": "", "path": format!("/{time}")})).collect()
        };
        let object = json!({"a": "a".repeat(1000)});
        assert!(apply(&object, &twice(11)).is_ok());
        assert!(apply(&object, &twice(12)).unwrap_err().contains("exceeding the limit 3145728"));
    }

    #[test]
    fn what_is_no_operation_is_refused_before_any_is_done() {
        for wrong in [json!(1), json!([]), json!({"op": 1}), json!({"op": "add", "path": []})] {
            assert_eq!(super::check(&wrong).unwrap_err().code, 400, "{wrong}");
        }
        for right in [json!(null), json!({}), json!({"op": "bogus", "more": 1})] {
            assert!(super::check(&right).is_ok(), "{right}");
        }
        check(json!([{"op": "replace", "path": "", "value": "x"}]), None);
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for patch in [
            json!([{"op": "remove", "path": "/absent"}]),
            json!([{"op": "add", "path": "/a/b/9", "value": 1}]),
            json!([{"op": "replace", "path": "/a/b/2", "value": 1}]),
            json!([{"op": "copy", "from": "/absent", "path": "/x"}]),
            json!([{"op": "test", "path": "/a/b/0", "value": 2}]),
            json!([{"op": "bogus", "path": "/a"}]),
            json!([{"op": "add", "path": "", "value": {}}]),
            json!([{"op": "add", "value": {}}]),
            json!([{"op": "copy", "path": "/x"}]),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([7]),
        ] {
            check(patch, None);
        }
    }
}
