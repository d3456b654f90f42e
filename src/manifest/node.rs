//! A parsed document that still knows its lines.
//!
//! Decides how a path leads to a line and how a node becomes a JSON value. Never reads text.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::scalar;

/// One value of a document and the line it starts on.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub(super) line: u32,
    pub(super) data: Data<'a>,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(super) enum Data<'a> {
    /// A scalar whose meaning follows from its spelling.
    Plain(Cow<'a, str>),
    /// A quoted or block scalar: always a string.
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Mapping(Vec<Entry<'a>>),
    /// An anchored node, which aliases share instead of copying it.
    Shared(Rc<Node<'a>>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) line: u32,
    pub(super) value: Node<'a>,
}

/// One step of a path into an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// A path as Kubernetes writes it: `spec.containers[0].image`, keys with dots in brackets.
pub(super) struct PathText<'p, 'a>(pub(super) &'p [Step<'a>]);

impl fmt::Display for PathText<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if key.is_empty() || key.contains(['.', '/', ' ', '[']) => {
                    write!(f, "[{key}]")?;
                }
                Step::Key(key) if position == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

impl<'a> Node<'a> {
    /// The node itself, behind any alias.
    pub(super) fn data(&self) -> &Data<'a> {
        let mut data = &self.data;
        while let Data::Shared(node) = data {
            data = &node.data;
        }
        data
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.entry(key).map(|entry| &entry.value)
    }

    fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        let Data::Mapping(entries) = self.data() else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    /// The text of a scalar as it was written.
    pub(super) fn text(&self) -> Option<&str> {
        match self.data() {
            Data::Plain(text) | Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The string this node is, which an unquoted number or boolean is not.
    pub(super) fn string(&self) -> Option<&str> {
        match self.data() {
            Data::Text(text) => Some(text),
            Data::Plain(text) if scalar::resolve(text).is_none() => Some(text),
            _ => None,
        }
    }

    /// Whether this is null, or nothing at all.
    pub(super) fn is_null(&self) -> bool {
        matches!(self.data(), Data::Plain(text) if scalar::resolve(text) == Some(Value::Null))
    }

    /// The deepest node on a path and the line of its key; a missing field lies where its parent starts.
    pub(super) fn follow(&self, path: &[Step<'_>]) -> (&Node<'a>, u32) {
        let (mut node, mut line) = (self, self.line);
        // Nodes read as mere JSON have no line of their own.
        let known = |line: u32, outer: u32| if line == 0 { outer } else { line };
        for step in path {
            match step {
                Step::Key(key) => {
                    let Some(entry) = node.entry(key) else { return (node, line) };
                    (node, line) = (&entry.value, known(entry.line, line));
                }
                Step::Index(index) => {
                    let Data::List(items) = node.data() else { return (node, line) };
                    let Some(item) = items.get(*index) else { return (node, line) };
                    (node, line) = (item, known(item.line, line));
                }
            }
        }
        (node, line)
    }

    /// The JSON value, as kubectl would send it.
    pub(super) fn to_value(&self) -> Value {
        match self.data() {
            Data::Plain(text) => {
                scalar::resolve(text).unwrap_or_else(|| Value::String(text.as_ref().to_owned()))
            }
            Data::Text(text) => Value::String(text.as_ref().to_owned()),
            Data::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Data::Mapping(entries) => {
                let pairs =
                    entries.iter().map(|entry| (entry.key.as_ref().to_owned(), entry.value.to_value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
            Data::Shared(node) => node.to_value(),
        }
    }
}
