//! Decides what a plain value is under its schema, and in which form it is kept. Answers to the
//! `UnmarshalJSON` of quantities, times and the like.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::decode::Context;
use crate::quantity;
use crate::schema::{Link, Scalar};

/// The value as it is kept; one of another type is a mistake and becomes nothing.
pub(super) fn read(link: &Link, context: &mut Context<'_>, value: Value) -> Option<Value> {
    let scalar = link.node().scalar;
    if keeps(scalar, &value) {
        return Some(value);
    }
    let got = match &value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    match (scalar, &value) {
        (Some(Scalar::Integer(bits)), Value::Number(number)) => {
            if fits(number, bits) {
                return Some(value);
            }
            context.unexpected(&format!("number {number}"), link);
            None
        }
        (Some(Scalar::IntOrString), Value::Number(number)) => {
            if fits(number, 32) {
                return Some(value);
            }
            context.unexpected(&format!("number {number}"), link);
            None
        }
        (Some(Scalar::Quantity), Value::String(_) | Value::Number(_)) => {
            let mut amount = value;
            match quantity::canonicalise(&mut amount) {
                Ok(()) => Some(amount),
                Err(why) => {
                    context.mistake(|_| why.to_owned());
                    None
                }
            }
        }
        (Some(Scalar::Quantity), _) => {
            context.mistake(|_| quantity::WRONG_FORM.to_owned());
            None
        }
        (Some(Scalar::Bytes), Value::String(text)) => match wrong_base64(text) {
            None => Some(value),
            Some(place) => {
                context.mistake(|_| format!("illegal base64 data at input byte {place}"));
                None
            }
        },
        (Some(Scalar::Time), Value::String(text)) => time(context, text, "2006-01-02T15:04:05Z07:00"),
        (Some(Scalar::MicroTime), Value::String(text)) => {
            time(context, text, "2006-01-02T15:04:05.000000Z07:00").map(|_| value)
        }
        (Some(Scalar::Time | Scalar::MicroTime | Scalar::Duration), _) => {
            context.mistake(|_| format!("json: cannot unmarshal {got} into Go value of type string"));
            None
        }
        _ => {
            context.unexpected(got, link);
            None
        }
    }
}

/// Whether a value is one of its type, and kept as it is, at a glance.
pub(super) fn keeps(scalar: Option<Scalar>, value: &Value) -> bool {
    matches!(
        (scalar, value),
        (Some(Scalar::Untyped), _)
            | (Some(Scalar::String | Scalar::Duration | Scalar::IntOrString), Value::String(_))
            | (Some(Scalar::Boolean), Value::Bool(_))
            | (Some(Scalar::Number), Value::Number(_))
    ) || matches!((scalar, value), (Some(Scalar::Time), Value::String(text)) if is_kept_time(text))
}

/// Whether a text is for sure a time in the form in which it is kept; the last days of months are left to those who read it.
fn is_kept_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let form = b"0000-00-00T00:00:00Z";
    let alike = |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
    let within =
        |at: usize, first: &[u8], last: &[u8]| (first..=last).contains(&&bytes[at..at + first.len()]);
    bytes.len() == form.len()
        && bytes.iter().zip(form).all(alike)
        && within(0, b"1000", b"8999")
        && within(5, b"01", b"12")
        && within(8, b"01", b"28")
        && within(11, b"00", b"23")
        && within(14, b"00", b"59")
        && within(17, b"00", b"59")
}

/// Says that a list or map stands where the schema has none.
pub(super) fn misplaced(link: &Link, context: &mut Context, got: &str) {
    match link.node().scalar {
        Some(Scalar::Quantity) => context.mistake(|_| quantity::WRONG_FORM.to_owned()),
        Some(Scalar::Time | Scalar::MicroTime | Scalar::Duration) => {
            context.mistake(|_| format!("json: cannot unmarshal {got} into Go value of type string"));
        }
        _ => context.unexpected(got, link),
    }
}

pub(super) fn is_time(link: &Link) -> bool {
    matches!(link.node().scalar, Some(Scalar::Time | Scalar::MicroTime))
}

/// What null is among the items of a list, or the values of a map.
pub(super) fn zero(link: &Link) -> Value {
    let node = link.node();
    match node.scalar {
        Some(Scalar::String | Scalar::Bytes) => "".into(),
        Some(Scalar::Boolean) => false.into(),
        Some(Scalar::Integer(_) | Scalar::Number | Scalar::IntOrString) => 0.into(),
        Some(Scalar::Quantity) => "0".into(),
        Some(Scalar::Duration) => "0s".into(),
        Some(_) => Value::Null,
        None if node.map.as_ref().is_some_and(|map| !map.fields.is_empty()) => Value::Object(Map::new()),
        None => Value::Null,
    }
}

fn fits(number: &serde_json::Number, bits: u8) -> bool {
    match number.as_i64() {
        Some(number) if bits == 32 => i32::try_from(number).is_ok(),
        Some(_) => true,
        None => false,
    }
}

/// The time in whole seconds of the universal zone, as the real server keeps it.
fn time(context: &mut Context, text: &str, layout: &str) -> Option<Value> {
    let parsed = if text.contains('T') { text.parse::<Timestamp>().ok() } else { None };
    if let Some(time) = parsed.and_then(|time| Timestamp::from_second(time.as_second()).ok()) {
        return Some(time.to_string().into());
    }
    let shown = Value::from(text);
    context.mistake(|_| format!("parsing time {shown} as \"{layout}\": cannot parse {shown} as \"2006\""));
    None
}

/// The first byte that is no base64, if there is one.
fn wrong_base64(text: &str) -> Option<usize> {
    // Line breaks may stand anywhere.
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r')).collect();
    let padding = bytes.iter().rev().take_while(|(_, byte)| *byte == b'=').count();
    let letters = &bytes[..bytes.len() - padding.min(2)];
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    if let Some((place, _)) = letters.iter().find(|(_, byte)| !is_letter(*byte)) {
        return Some(*place);
    }
    (!bytes.len().is_multiple_of(4) || letters.len() % 4 == 1).then_some(text.len() - bytes.len() % 4)
}

/// The type as Go names it.
pub(super) fn type_name(link: &Link) -> String {
    let node = link.node();
    match (node.scalar, &node.list, &node.map) {
        (Some(Scalar::Boolean), ..) => "bool".into(),
        (Some(Scalar::Integer(bits)), ..) => format!("int{bits}"),
        (Some(Scalar::IntOrString), ..) => "int32".into(),
        (Some(Scalar::Number), ..) => "float64".into(),
        (Some(Scalar::Bytes), ..) => "[]uint8".into(),
        (Some(_), ..) => "string".into(),
        (_, Some(list), _) => format!("[]{}", type_name(&list.items)),
        (_, _, Some(map)) => match &map.rest {
            Some(rest) if map.fields.is_empty() => format!("map[string]{}", type_name(rest)),
            _ => node.name.clone(),
        },
        _ => node.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_kept_at_a_glance_is_what_reading_it_gives() {
        for text in ["2026-01-28T23:59:59Z", "1000-12-01T00:00:00Z", "8999-06-15T12:30:00Z"] {
            assert!(is_kept_time(text), "{text}");
            let read = time(&mut Context::default(), text, "");
            assert_eq!(read, Some(text.into()));
        }
        for text in [
            "2026-01-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00.0Z",
            "0999-01-01T00:00:00Z",
            "",
        ] {
            assert!(!is_kept_time(text), "{text}");
        }
    }

    #[test]
    fn base64_is_checked_as_go_checks_it() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YW\nJj"] {
            assert_eq!(wrong_base64(text), None, "{text}");
        }
        for (text, place) in [("a!==", 1), ("YWJ", 0), ("=", 0), ("YQ=", 0)] {
            assert_eq!(wrong_base64(text), Some(place), "{text}");
        }
    }
}
