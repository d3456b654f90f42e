//! Known kinds against their schema: what is found becomes problems and warnings with their lines.
//!
//! Decides how a wrong value reads and which fields can't be missing. Where the value is wrong is told by `conform`.

use serde_json::Value;

use super::Warnings;
use super::conform::{At, Conformity, Mismatch};
use super::kind::Kind;
use super::node::{Node, Step};
use super::object::{name_of, pin, quoting, shown};
use super::problem::{Origin, Problem, Problems};

/// Checks an object of a known kind, and writes out the empty strings that nulls stand for.
pub(super) fn check(
    origin: &Origin,
    node: &Node<'_>,
    object: &mut Value,
    kind: &Kind,
    partial: bool,
    problems: &mut Problems,
    warnings: &mut Warnings,
) {
    // In a merge patch a null takes a field away, so for its types it isn't there.
    let without_nulls = partial.then(|| strip_nulls(object));
    let name = name_of(object);
    let found = (kind.conforms)(without_nulls.as_ref().unwrap_or(object));
    let told = Told { origin, node, name: &name };
    told.problems(&found, problems);
    told.unknown(&found, kind, warnings);
    if !partial && found.mismatch.is_none() {
        for path in kind.required {
            told.required(object, path, problems);
        }
    }
    if !partial && !found.nulls.is_empty() {
        let pointers: Vec<String> = found.nulls.iter().map(|path| pointer(path)).collect();
        for pointer in pointers {
            if let Some(value) = object.pointer_mut(&pointer) {
                *value = Value::from("");
            }
        }
    }
}

/// The object that problems and warnings are about.
struct Told<'t, 'n> {
    origin: &'t Origin,
    node: &'t Node<'n>,
    name: &'t str,
}

impl Told<'_, '_> {
    fn problem(&self, path: &[Step<'_>], message: String) -> Problem {
        let problem = Problem::at(pin(self.origin, self.node, path), message).field(shown(path));
        Problem { object: Some(self.name.to_owned()), ..problem }
    }

    fn problems(&self, found: &Conformity<'_>, problems: &mut Problems) {
        if let Some(At { path, what }) = &found.mismatch {
            problems.push(self.problem(path, self.mismatch(path, what)));
        }
        for At { path, what } in &found.broken {
            problems.push(self.problem(path, what.clone()));
        }
    }

    fn mismatch(&self, path: &[Step<'_>], what: &Mismatch) -> String {
        let (node, _) = self.node.follow(path);
        match what {
            Mismatch::Expected("a string") => quoting(node),
            Mismatch::Expected(expected) => {
                format!("must be {expected}, and is {}", described(node, expected))
            }
            Mismatch::Refused(why) => format!("can't be read: {why}"),
        }
    }

    /// One line per field of a kind and file: ten thousand objects may share one misspelling.
    fn unknown(&self, found: &Conformity<'_>, kind: &Kind, warnings: &mut Warnings) {
        for At { path, what } in &found.unknown {
            let general: Vec<_> = path.iter().filter(|step| matches!(step, Step::Key(_))).copied().collect();
            let topic = format!("unknown {} {} {}", self.origin.file.display(), kind.name, shown(&general));
            warnings.add_once_per(topic, || {
                let advice = what.map(|known| format!("; did you mean {known}?")).unwrap_or_default();
                let place = pin(self.origin, self.node, path);
                format!(
                    "{place}: {}: {}: is no field of this kind and does nothing{advice}",
                    self.name,
                    shown(path)
                )
            });
        }
    }

    fn required(&self, object: &Value, path: &[&str], problems: &mut Problems) {
        let value = path.iter().try_fold(object, |value, key| value.get(key));
        let missing = match value {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty() && path.last() == Some(&"provisioner"),
            Some(Value::Array(items)) => items.is_empty(),
            Some(_) => false,
        };
        if missing {
            let path: Vec<_> = path.iter().map(|key| Step::Key(key)).collect();
            let message = "is missing; the API server takes no object of this kind without it".to_owned();
            problems.push(self.problem(&path, message));
        }
    }
}

/// What stands there instead, and how to mend it where that is plain.
pub(super) fn described(node: &Node<'_>, expected: &str) -> String {
    match node.to_value() {
        Value::Null => "null; leave the field out or give it a value".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        Value::String(text) if text.is_empty() => "the empty string".to_owned(),
        Value::String(text) => {
            let short: String = text.chars().take(40).collect();
            let dots = if short.len() < text.len() { "…" } else { "" };
            let unquoted = super::scalar::resolve(&text);
            let mended = match unquoted {
                Some(Value::Number(_)) if expected.contains("number") => true,
                Some(Value::Bool(_)) => expected.starts_with("true"),
                _ => false,
            };
            let advice = if mended { "; take the quotes away" } else { "" };
            format!("the string {short:?}{dots}{advice}")
        }
    }
}

/// The object without its nulls.
fn strip_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), strip_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

fn pointer(path: &[Step<'_>]) -> String {
    let mut pointer = String::new();
    for step in path {
        pointer.push('/');
        match step {
            Step::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => pointer.push_str(&index.to_string()),
        }
    }
    pointer
}
