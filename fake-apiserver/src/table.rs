//! Decides how objects of each kind look as rows of a table: one list of columns and one function of cells a
//! kind. Never decides which objects are shown. Answers to `kubernetes/pkg/printers/internalversion`, and to
//! `k8s.io/apiserver/pkg/registry/rest/table.go` for kinds that have no printer.

mod autoscalers;
mod core;
pub(crate) mod custom;
mod networks;
mod path;
mod pods;
mod storage;
mod text;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::object::{at, text as string_at};

pub(crate) use text::selector;

/// One column, as tables define it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    /// Above 0, it is shown to those alone who want it all.
    priority: u8,
}

impl Column {
    fn to_json(self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": "",
            "priority": self.priority,
        })
    }
}

const NAME: Column = Column { name: "Name", kind: "string", format: "name", priority: 0 };
const AGE: Column = string("Age");

const fn string(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0 }
}

const fn integer(name: &'static str) -> Column {
    Column { name, kind: "integer", format: "", priority: 0 }
}

const fn boolean(name: &'static str) -> Column {
    Column { name, kind: "boolean", format: "", priority: 0 }
}

const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 1 }
}

type Cells = fn(&Row<'_>) -> Vec<Value>;

/// Group, kind, columns, cells.
type Entry = (&'static str, &'static str, &'static [Column], Cells);

/// What kinds without a printer show.
const DEFAULT: &[Column] = &[NAME, Column { name: "Created At", kind: "date", format: "", priority: 0 }];

/// The kinds that have a printer.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let first = core::ENTRIES.iter().chain(storage::ENTRIES);
    first.chain(workloads::ENTRIES).chain(networks::ENTRIES).chain(autoscalers::ENTRIES)
}

/// How the objects of an answer are printed.
pub(crate) enum Printer<'a> {
    /// A printer, and the kind in whose form the objects are.
    Known(&'static Entry, &'a Kind),
    Custom(&'a Kind),
    Default,
}

/// The printer for what an answer holds: objects of the kind, or of the kind that a subresource shows.
pub(crate) fn printer<'a>(kind: &'a Kind, answer: &Value) -> Printer<'a> {
    if kind.custom {
        return Printer::Custom(kind);
    }
    let shown = string_at(answer, &["kind"]);
    let (group, shown) = if shown == "Scale" { ("autoscaling", shown) } else { (&*kind.group, &*kind.kind) };
    let group = if kind.is_events_view() { "" } else { group };
    entries()
        .find(|entry| (entry.0, entry.1) == (group, shown))
        .map_or(Printer::Default, |entry| Printer::Known(entry, kind))
}

impl Printer<'_> {
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, Self::Default)
    }

    /// The columns as a table defines them.
    pub(crate) fn definitions(&self) -> Value {
        match self {
            Self::Known(entry, _) => entry.2.iter().map(|column| column.to_json()).collect(),
            Self::Default => DEFAULT.iter().map(|column| column.to_json()).collect(),
            Self::Custom(kind) => custom::definitions(&kind.columns),
        }
    }

    /// The cells of one object, and the conditions of its row if it has any.
    pub(crate) fn row(&self, object: &Value, now: Timestamp) -> (Vec<Value>, Option<Value>) {
        match self {
            Self::Custom(kind) => (custom::cells(&kind.columns, object, now), None),
            Self::Default => {
                let name = string_at(object, &["metadata", "name"]);
                let created = at(object, &["metadata", "creationTimestamp"]).and_then(Value::as_str);
                (vec![name.into(), created.unwrap_or("0001-01-01T00:00:00Z").into()], None)
            }
            Self::Known(entry, kind) => {
                let kept = kind.is_view().then(|| kind.kept(object.clone()));
                let row = Row { value: kept.as_ref().unwrap_or(object), now };
                let conditions = if entry.1 == "Pod" { pods::conditions(&row) } else { None };
                ((entry.3)(&row), conditions)
            }
        }
    }
}

/// One object and the time at which it is looked at.
pub(crate) struct Row<'a> {
    value: &'a Value,
    now: Timestamp,
}

impl<'a> Row<'a> {
    fn text(&self, path: &[&str]) -> &'a str {
        string_at(self.value, path)
    }

    /// The text, or something else where there is none.
    fn text_or(&self, path: &[&str], otherwise: &'a str) -> &'a str {
        Some(self.text(path)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
    }

    fn number(&self, path: &[&str]) -> i64 {
        at(self.value, path).and_then(Value::as_i64).unwrap_or(0)
    }

    fn flag(&self, path: &[&str]) -> Option<bool> {
        at(self.value, path).and_then(Value::as_bool)
    }

    fn list(&self, path: &[&str]) -> &'a [Value] {
        at(self.value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn count(&self, path: &[&str]) -> usize {
        match at(self.value, path) {
            Some(Value::Object(fields)) => fields.len(),
            Some(Value::Array(items)) => items.len(),
            _ => 0,
        }
    }

    fn name(&self) -> Value {
        self.text(&["metadata", "name"]).into()
    }

    fn age(&self) -> Value {
        self.since(&["metadata", "creationTimestamp"]).into()
    }

    /// How long ago something was, or that nobody knows.
    fn since(&self, path: &[&str]) -> String {
        text::since(self.text(path), self.now)
    }

    fn is_terminating(&self) -> bool {
        at(self.value, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
    }

    /// Whether a condition of that type is true.
    fn has_condition(&self, name: &str) -> bool {
        let condition = self.list(&["status", "conditions"]).iter().find(|one| one["type"] == name);
        condition.is_some_and(|condition| condition["status"] == "True")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    #[test]
    fn each_row_has_a_cell_for_each_column() {
        let blank = json!({"metadata": {}});
        for entry in entries() {
            let row = Row { value: &blank, now: Timestamp::UNIX_EPOCH };
            assert_eq!((entry.3)(&row).len(), entry.2.len(), "{}", entry.1);
        }
    }

    #[test]
    fn each_printer_belongs_to_a_kind() {
        let kinds = Kinds::served();
        for entry in entries().filter(|entry| entry.1 != "Scale") {
            let served = |kind: &&std::sync::Arc<Kind>| (&*kind.group, &*kind.kind) == (entry.0, entry.1);
            assert!(kinds.all().iter().any(|kind| served(&kind)), "{}", entry.1);
        }
    }
}
