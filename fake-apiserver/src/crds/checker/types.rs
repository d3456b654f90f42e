//! Decides which type a value has in rules, by its schema, and which values fit where a type is wanted. Never reads a rule.
//! Answers to `SchemaDeclType` of `k8s.io/apiserver/pkg/cel/common/schemas.go` and to `cel-go/checker/types.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::crds::program::escape;

/// How deep schemas stand in schemas; what is below that may be anything.
const DEPTH: usize = 64;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::crds) enum Type {
    /// Anything: it is looked at when there is a value.
    Dyn,
    /// One without parts, by its name.
    Plain(&'static str),
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// The type of a type.
    Of(Box<Type>),
    /// Place and item, or key and value.
    Pair(Box<Type>, Box<Type>),
    /// An object, with the types of its fields.
    Object(Arc<BTreeMap<String, Type>>),
    /// What a signature leaves open.
    Open(u8),
}

pub(super) const BOOL: Type = Type::Plain("bool");
pub(super) const INT: Type = Type::Plain("int");
pub(super) const STRING: Type = Type::Plain("string");
pub(super) const DURATION: Type = Type::Plain("google.protobuf.Duration");
pub(super) const TIMESTAMP: Type = Type::Plain("google.protobuf.Timestamp");

impl Type {
    pub(super) fn list(of: Type) -> Self {
        Self::List(Box::new(of))
    }

    pub(super) fn optional(of: Type) -> Self {
        Self::Optional(Box::new(of))
    }

    /// The type of a schema's values; nothing where rules don't see them.
    pub(super) fn of(schema: &Value, root: bool) -> Option<Self> {
        Self::read(schema, root, DEPTH)
    }

    fn read(schema: &Value, root: bool, depth: usize) -> Option<Self> {
        let Some(less) = depth.checked_sub(1) else { return Some(Self::Dyn) };
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(Self::Dyn);
        }
        let inner =
            |schema: &Value| Self::read(schema, schema["x-kubernetes-embedded-resource"] == true, less);
        let typed = root || schema["x-kubernetes-embedded-resource"] == true;
        let form = schema["type"].as_str().unwrap_or(if typed { "object" } else { "" });
        Some(match form {
            "array" => Self::list(inner(&schema["items"])?),
            "object" if schema["additionalProperties"].is_object() => {
                Self::Map(Box::new(STRING), Box::new(inner(&schema["additionalProperties"])?))
            }
            "object" => {
                let mut fields = BTreeMap::new();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    if let Some(field) = inner(property) {
                        fields.insert(escape(name), field);
                    }
                }
                if typed {
                    let named = ["name", "generateName"].map(|name| (name.to_owned(), STRING));
                    let metadata = Self::Object(Arc::new(BTreeMap::from(named)));
                    fields.extend(["apiVersion", "kind"].map(|name| (name.to_owned(), STRING)));
                    fields.insert("metadata".to_owned(), metadata);
                }
                Self::Object(Arc::new(fields))
            }
            "string" => match schema["format"].as_str() {
                Some("byte") => Self::Plain("bytes"),
                Some("duration") => DURATION,
                Some("date" | "date-time") => TIMESTAMP,
                _ => STRING,
            },
            "boolean" => BOOL,
            "number" => Self::Plain("double"),
            "integer" => INT,
            _ => return None,
        })
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Plain("int" | "uint" | "double"))
    }

    /// Whether a value of a type fits here; what is left open is settled by the first that comes.
    pub(super) fn takes(&self, given: &Self, open: &mut [Option<Self>; 2]) -> bool {
        match (self, given) {
            (Self::Open(place), _) => match open[usize::from(*place)].clone() {
                Some(settled) if settled != Self::Dyn => settled.takes(given, open),
                _ => {
                    open[usize::from(*place)] = Some(given.clone());
                    true
                }
            },
            (Self::Dyn, _)
            | (_, Self::Dyn)
            | (Self::Object(_), Self::Object(_) | Self::Map(..))
            | (Self::Map(..), Self::Object(_)) => true,
            // What may be missing may be compared to nothing.
            (Self::Object(_) | Self::Optional(_), Self::Plain("null")) => true,
            (Self::List(one), Self::List(other))
            | (Self::Optional(one), Self::Optional(other))
            | (Self::Of(one), Self::Of(other)) => one.takes(other, open),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.takes(other_key, open) && value.takes(other_value, open)
            }
            _ => self == given,
        }
    }

    /// The type with what was left open put in.
    pub(super) fn settled(&self, open: &[Option<Self>; 2]) -> Self {
        let boxed = |one: &Self| Box::new(one.settled(open));
        match self {
            Self::Open(place) => open[usize::from(*place)].clone().unwrap_or(Self::Dyn),
            Self::List(of) => Self::List(boxed(of)),
            Self::Optional(of) => Self::Optional(boxed(of)),
            Self::Of(of) => Self::Of(boxed(of)),
            Self::Map(key, value) => Self::Map(boxed(key), boxed(value)),
            other => other.clone(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Open(_) => f.write_str("dyn"),
            Self::Plain(name) => f.write_str(name),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Of(of) => write!(f, "type({of})"),
            Self::Pair(..) => f.write_str("list(dyn)"),
            Self::Object(_) => f.write_str("object"),
        }
    }
}
