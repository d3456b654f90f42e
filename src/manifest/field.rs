//! Reading one field of an object that is JSON.
//!
//! A path is written `/metadata/name`. The names that this program asks for hold no `/` and no `~`, so nothing is
//! escaped, and a lookup makes no strings, as `serde_json`'s pointers do.

use serde_json::Value;

/// What stands at a path.
#[must_use]
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(object, |value, field| value.get(field))
}

/// The string at a path, `""` when there is none.
#[must_use]
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_to_a_field_or_nowhere() {
        let object = json!({"metadata": {"name": "a", "generation": 1}});
        assert_eq!(text(&object, "/metadata/name"), "a");
        assert_eq!(text(&object, "/metadata/generation"), "");
        assert_eq!(at(&object, "/metadata/generation"), Some(&json!(1)));
        assert_eq!(at(&object, "/metadata/name/first"), None);
    }
}
