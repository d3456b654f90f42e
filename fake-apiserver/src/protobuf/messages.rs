//! Decides which message an object is and which fields it has. Answers to the `generated.proto` files of
//! `k8s.io/api`, by way of `schemas/protobuf.py`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A line a message: its name and its fields, each number, name, how it is kept, type.
static TEXT: &str = include_str!("../../schemas/protobuf.txt");

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter_map(|line| {
        let (name, fields) = line.split_once(' ')?;
        Some((name, Message { fields: fields.split(' ').filter_map(Field::parse).collect() }))
    });
    lines.collect()
});

/// The fields of a message, by number.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) fields: Vec<Field>,
}

impl Message {
    /// JSON has a list where the message holds nothing but one.
    pub(super) fn is_list(&self) -> bool {
        matches!(&self.fields[..], [one] if one.kept == Kept::List && one.name == "items")
    }
}

/// One field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// Empty where its fields stand among those around it.
    pub(super) name: &'static str,
    pub(super) kept: Kept,
    pub(super) kind: Kind,
}

/// How a field is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Left out when it is empty.
    NotEmpty,
    /// Shown when it is empty too.
    Always,
    /// Shown when it is there.
    Optional,
    List,
    Map,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Flag,
    Number,
    Bytes,
    Double,
    Quantity,
    NumberOrText,
    /// JSON in bytes.
    Raw,
    Time,
    MicroTime,
    Message(&'static str),
}

impl Field {
    fn parse(text: &'static str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let number = parts.next()?.parse().ok()?;
        let name = parts.next()?;
        let rest = parts.next()?;
        let kept = match rest.as_bytes().first()? {
            b'=' => Kept::NotEmpty,
            b'!' => Kept::Always,
            b'?' => Kept::Optional,
            b'*' => Kept::List,
            b'%' => Kept::Map,
            _ => return None,
        };
        let kind = match &rest[1..] {
            "s" => Kind::Text,
            "b" => Kind::Flag,
            "i" => Kind::Number,
            "y" => Kind::Bytes,
            "d" => Kind::Double,
            "Q" => Kind::Quantity,
            "O" => Kind::NumberOrText,
            "R" => Kind::Raw,
            "T" => Kind::Time,
            "U" => Kind::MicroTime,
            other => Kind::Message(other.strip_prefix('m')?),
        };
        Some(Self { number, name, kept, kind })
    }
}

/// The message of that name in the list.
pub(super) fn get(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

/// The message that an object of a kind is.
pub(super) fn named(api_version: &str, kind: &str) -> Option<&'static Message> {
    let (group, version) = crate::kinds::split_api_version(api_version);
    if group == "meta.k8s.io" || matches!(kind, "DeleteOptions" | "Status") {
        return get(&format!("meta.{kind}"));
    }
    let package = match group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    get(&format!("{package}.{version}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    #[test]
    fn each_served_kind_and_its_list_are_messages() {
        for kind in Kinds::served().all().iter().filter(|kind| kind.group != "apiextensions.k8s.io") {
            for name in [kind.kind.to_string(), format!("{}List", kind.kind)] {
                assert!(named(&kind.api_version(), &name).is_some(), "{name}: run schemas/protobuf.py");
            }
        }
    }

    #[test]
    fn every_field_is_understood() {
        for line in TEXT.lines() {
            let (name, fields) = line.split_once(' ').unwrap();
            let count = fields.split(' ').filter(|field| !field.is_empty()).count();
            let message = get(name).unwrap();
            assert_eq!(message.fields.len(), count, "{name}");
            for field in &message.fields {
                if let Kind::Message(inner) = field.kind {
                    assert!(get(inner).is_some(), "{name}.{} is a {inner}", field.name);
                }
            }
        }
    }
}
