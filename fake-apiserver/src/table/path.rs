//! Decides what a JSON path of a printer column finds: fields, indices, wildcards and filters by equality.
//! Whatever else a path may say finds nothing. Answers to the part of `k8s.io/client-go/util/jsonpath` that
//! columns use.

use serde_json::Value;

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Those whose field equals (or, if so said, does not equal) the text.
    Where {
        field: Vec<Step>,
        equal: bool,
        value: String,
    },
}

/// How deep filters may stand in filters.
const DEPTH: usize = 3;

/// The first value that a path finds.
pub(super) fn first<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = parse(path, DEPTH)?;
    find(value, &steps).into_iter().next()
}

fn find<'a>(value: &'a Value, steps: &[Step]) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in steps {
        found = found.into_iter().flat_map(|value| take(value, step)).collect();
    }
    found
}

fn take<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
        (Step::Index(index), Value::Array(items)) => {
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let index = if *index < 0 { index + length } else { *index };
            usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
        }
        (Step::All, Value::Array(items)) => items.iter().collect(),
        (Step::All, Value::Object(fields)) => fields.values().collect(),
        (Step::Where { field, equal, value: wanted }, Value::Array(items)) => items
            .iter()
            .filter(|item| {
                let found = find(item, field).into_iter().next().map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                found.is_some_and(|found| (found == *wanted) == *equal)
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn parse(path: &str, depth: usize) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = closing(inside)?;
            steps.push(bracket(&inside[..end], depth)?);
            rest = &inside[end + 1..];
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, after) = field(rest);
            if name.is_empty() {
                // Two dots search everywhere, which no column needs.
                return (after.is_empty() && path == ".").then_some(steps);
            }
            steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            rest = after;
        }
    }
    Some(steps)
}

/// A field's name up to the next step; a backslash takes the next letter as it is.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Where the bracket is closed that was opened before.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(inside: &str, depth: usize) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        let (operator, equal) = if filter.contains("!=") { ("!=", false) } else { ("==", true) };
        let (field, value) = filter.split_once(operator)?;
        let field = parse(field.trim().strip_prefix('@')?, depth.checked_sub(1)?)?;
        let value = unquoted(value.trim()).unwrap_or(value.trim()).to_owned();
        return Some(Step::Where { field, equal, value });
    }
    match unquoted(inside) {
        Some(name) => Some(Step::Field(name.to_owned())),
        None => inside.parse().ok().map(Step::Index),
    }
}

fn unquoted(text: &str) -> Option<&str> {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\''))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<&Value>) {
        let value = json!({
            "metadata": {"labels": {"a.b/c": "dotted"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
            "list": [1, 2, 3],
        });
        assert_eq!(first(&value, path), expected, "{path}");
    }

    #[test]
    fn paths_find_fields_indices_and_what_a_filter_picks() {
        check(".status.conditions[?(@.type==\"Ready\")].status", Some(&json!("True")));
        check(".status.conditions[?(@.type!='Ready')].status", Some(&json!("False")));
        check(".status.conditions[*].type", Some(&json!("A")));
        check(".list[1]", Some(&json!(2)));
        check(".list[-1]", Some(&json!(3)));
        check(".metadata.labels.a\\.b/c", Some(&json!("dotted")));
        check(".metadata.labels['a.b/c']", Some(&json!("dotted")));
        check("$.list[0]", Some(&json!(1)));
    }

    #[test]
    fn what_is_no_path_finds_nothing() {
        for path in [
            "..list",
            ".list[",
            ".list[x]",
            ".list[9]",
            "[?(type)]",
            ".nosuch.field",
            ".list[?(@[?(@[?(@[?(@.a==1)]==1)]==1)]==1)]",
        ] {
            check(path, None);
        }
    }
}
