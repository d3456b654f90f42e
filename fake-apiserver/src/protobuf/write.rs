//! Decides which bytes say what JSON says. What JSON leaves out, or has in another type, is left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::messages::{Field, Kept, Kind, Message, get};

fn number(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

fn tagged(field: u64, wire: u64, out: &mut Vec<u8>) {
    number(field << 3 | wire, out);
}

fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    tagged(field, 2, out);
    number(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn integer(field: u64, value: i64, out: &mut Vec<u8>) {
    tagged(field, 0, out);
    number(value.cast_unsigned(), out);
}

/// Version, kind and the message itself.
pub(super) fn envelope(api_version: &str, kind: &str, fields: &[u8], out: &mut Vec<u8>) {
    let mut about = Vec::new();
    bytes(1, api_version.as_bytes(), &mut about);
    bytes(2, kind.as_bytes(), &mut about);
    bytes(1, &about, out);
    bytes(2, fields, out);
    bytes(3, b"", out);
    bytes(4, b"", out);
}

/// An event's type and its object, which is a message in bytes.
pub(super) fn event(kind: &str, object: &[u8], out: &mut Vec<u8>) {
    bytes(1, kind.as_bytes(), out);
    let mut raw = Vec::new();
    bytes(1, object, &mut raw);
    bytes(2, &raw, out);
}

/// The fields of a message; what stands too deep is left out.
pub(super) fn message(message: &Message, fields: &Map<String, Value>, out: &mut Vec<u8>, depth: usize) {
    let Some(less) = depth.checked_sub(1) else { return };
    for field in &message.fields {
        if field.name.is_empty() {
            // Its fields stand among those around it.
            if let Kind::Message(name) = field.kind
                && let Some(inner) = get(name)
            {
                let mut nested = Vec::new();
                self::message(inner, fields, &mut nested, less);
                bytes(field.number, &nested, out);
            }
            continue;
        }
        let Some(value) = fields.get(field.name) else { continue };
        match (field.kept, value) {
            (Kept::List, Value::Array(items)) => items.iter().for_each(|item| one(field, item, out, less)),
            (Kept::Map, Value::Object(entries)) => {
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    bytes(1, key.as_bytes(), &mut entry);
                    one(
                        &Field { number: 2, name: "value", kept: Kept::Always, kind: field.kind },
                        value,
                        &mut entry,
                        less,
                    );
                    bytes(field.number, &entry, out);
                }
            }
            (Kept::List | Kept::Map, _) => {}
            (_, value) => one(field, value, out, less),
        }
    }
}

fn one(field: &Field, value: &Value, out: &mut Vec<u8>, depth: usize) {
    let at = field.number;
    match (field.kind, value) {
        (Kind::Text, Value::String(text)) => bytes(at, text.as_bytes(), out),
        (Kind::Flag, Value::Bool(flag)) => integer(at, i64::from(*flag), out),
        (Kind::Number, Value::Number(number)) => integer(at, number.as_i64().unwrap_or(0), out),
        (Kind::Double, Value::Number(number)) => {
            tagged(at, 1, out);
            out.extend_from_slice(&number.as_f64().unwrap_or(0.0).to_le_bytes());
        }
        (Kind::Bytes, Value::String(text)) => bytes(at, &STANDARD.decode(text).unwrap_or_default(), out),
        (Kind::Raw, Value::Null) => {}
        (Kind::Raw, value) => {
            let mut raw = Vec::new();
            bytes(1, value.to_string().as_bytes(), &mut raw);
            bytes(at, &raw, out);
        }
        (Kind::Quantity, Value::String(_) | Value::Number(_)) => {
            let amount = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut nested = Vec::new();
            bytes(1, amount.as_bytes(), &mut nested);
            bytes(at, &nested, out);
        }
        (Kind::NumberOrText, value) => number_or_text(at, value, out),
        (Kind::Time | Kind::MicroTime, Value::String(text)) => time(at, text, out),
        (Kind::Message(name), value) => nested(at, name, value, out, depth),
        _ => {}
    }
}

fn nested(at: u64, name: &str, value: &Value, out: &mut Vec<u8>, depth: usize) {
    let Some(inner) = get(name) else { return };
    let mut written = Vec::new();
    match value {
        Value::Object(fields) => message(inner, fields, &mut written, depth),
        Value::Array(_) if inner.is_list() => {
            let fields = Map::from_iter([("items".to_owned(), value.clone())]);
            message(inner, &fields, &mut written, depth);
        }
        _ => return,
    }
    bytes(at, &written, out);
}

fn number_or_text(at: u64, value: &Value, out: &mut Vec<u8>) {
    let mut nested = Vec::new();
    match value {
        Value::Number(number) => {
            integer(1, 0, &mut nested);
            integer(2, number.as_i64().unwrap_or(0), &mut nested);
            bytes(3, b"", &mut nested);
        }
        Value::String(text) => {
            integer(1, 1, &mut nested);
            integer(2, 0, &mut nested);
            bytes(3, text.as_bytes(), &mut nested);
        }
        _ => return,
    }
    bytes(at, &nested, out);
}

fn time(at: u64, text: &str, out: &mut Vec<u8>) {
    let mut nested = Vec::new();
    if let Ok(time) = text.parse::<Timestamp>() {
        integer(1, time.as_second(), &mut nested);
        integer(2, i64::from(time.subsec_nanosecond()), &mut nested);
    }
    bytes(at, &nested, out);
}
