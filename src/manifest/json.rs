//! JSON that is not also YAML: surrogate pairs, tabs in odd places, several values without a separator.
//!
//! Nearly all JSON is YAML and is read as such, because that keeps the lines; this is for the rest, and knows only
//! the line a document starts on. Never decides what an object means.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::node::{Data, Entry, Node};
use super::yaml::Unreadable;

/// All JSON documents of a text, or why it is not JSON.
pub(super) fn documents(text: &str) -> Result<Vec<Node<'static>>, Unreadable> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Node<'static>>();
    let (mut from, mut line) = (0, 1);
    loop {
        let offset = stream.byte_offset();
        let rest = text.get(offset..).unwrap_or_default();
        let start = offset + rest.len() - rest.trim_start().len();
        line += text.get(from..start).unwrap_or_default().matches('\n').count();
        from = start;
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(mut node)) => {
                node.line = u32::try_from(line).unwrap_or(u32::MAX);
                documents.push(node);
            }
            Some(Err(error)) => {
                // serde_json's own words end with the place, which the problem names itself.
                let text = error.to_string();
                let words = text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words);
                let message = format!("is not valid JSON: {words} (column {})", error.column());
                return Err(Unreadable { line: error.line(), message, syntax: true });
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

fn plain(text: String) -> Node<'static> {
    Node { line: 0, data: Data::Plain(Cow::Owned(text)) }
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(plain("null".to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(plain(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Node { line: 0, data: Data::Text(Cow::Owned(value.to_owned())) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node { line: 0, data: Data::List(items) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Vec<Entry<'static>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("key {key:?} is there twice; keep one")));
            }
            entries.push(Entry { key: Cow::Owned(key), line: 0, value: map.next_value()? });
        }
        Ok(Node { line: 0, data: Data::Mapping(entries) })
    }
}
