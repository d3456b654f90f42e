//! Decides what the bytes of a message say, as JSON. Never reads past the end, whatever a length promises.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::messages::{Field, Kept, Kind, Message, get};
use crate::object::is_empty;

type Read<T> = Result<T, String>;

/// The value of one field on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed(u64),
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| "unexpected EOF".to_owned())?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Read<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("integer overflow".to_owned())
    }

    fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| "invalid length".to_owned())?;
        self.take(length)
    }

    /// The next field, or nothing at the end.
    fn field(&mut self) -> Read<Option<(u64, Wire<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let fixed = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let value = match tag & 7 {
            0 => Wire::Number(self.number()?),
            1 => Wire::Fixed(fixed(self.take(8)?)),
            2 => Wire::Bytes(self.bytes()?),
            5 => Wire::Fixed(fixed(self.take(4)?)),
            other => return Err(format!("illegal wireType {other}")),
        };
        Ok(Some((tag >> 3, value)))
    }
}

fn text(bytes: &[u8]) -> Read<String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
}

/// Version, kind and the message itself.
pub(super) fn envelope(bytes: &[u8]) -> Read<(String, String, &[u8])> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader(bytes);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Wire::Bytes(about)) => {
                let mut about = Reader(about);
                while let Some((number, value)) = about.field()? {
                    match (number, value) {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    Ok((api_version, kind, raw))
}

/// The fields of a message.
pub(super) fn message(message: &Message, bytes: &[u8], depth: usize) -> Read<Map<String, Value>> {
    let less = depth.checked_sub(1).ok_or_else(|| "exceeded max depth".to_owned())?;
    let mut fields = Map::new();
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        let Some(field) = message.fields.iter().find(|field| field.number == number) else { continue };
        match field.kept {
            Kept::Map => {
                let (key, value) = entry(field, &wire, less)?;
                if let Value::Object(entries) =
                    fields.entry(field.name).or_insert_with(|| Value::Object(Map::new()))
                {
                    entries.insert(key, value);
                }
            }
            Kept::List => {
                let values = values(field, wire, less)?;
                if let Value::Array(all) =
                    fields.entry(field.name).or_insert_with(|| Value::Array(Vec::new()))
                {
                    all.extend(values);
                }
            }
            _ => {
                let value = value(field.kind, &wire, less)?;
                match value {
                    // Its fields stand among those around it.
                    Value::Object(inner) if field.name.is_empty() => fields.extend(inner),
                    value if field.kept == Kept::NotEmpty && is_empty(&value) => {}
                    value => {
                        fields.insert(field.name.into(), value);
                    }
                }
            }
        }
    }
    Ok(fields)
}

/// The values of one occurrence of a list: more than one where numbers are packed.
fn values(field: &Field, wire: Wire<'_>, depth: usize) -> Read<Vec<Value>> {
    match (field.kind, wire) {
        (Kind::Number, Wire::Bytes(packed)) => {
            let mut reader = Reader(packed);
            let mut all = Vec::new();
            while !reader.0.is_empty() {
                all.push(reader.number()?.cast_signed().into());
            }
            Ok(all)
        }
        (kind, wire) => Ok(vec![value(kind, &wire, depth)?]),
    }
}

fn entry(field: &Field, wire: &Wire<'_>, depth: usize) -> Read<(String, Value)> {
    let Wire::Bytes(bytes) = wire else { return Err("a map entry is no message".to_owned()) };
    let mut key = String::new();
    let mut found = value(field.kind, &Wire::Bytes(&[]), depth)?;
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => found = value(field.kind, &wire, depth)?,
            _ => {}
        }
    }
    Ok((key, found))
}

fn value(kind: Kind, wire: &Wire<'_>, depth: usize) -> Read<Value> {
    match (kind, wire) {
        (Kind::Flag, Wire::Number(number)) => Ok((*number != 0).into()),
        (Kind::Number, Wire::Number(number)) => Ok(number.cast_signed().into()),
        (Kind::Double, Wire::Fixed(bits)) => Ok(f64::from_bits(*bits).into()),
        (Kind::Text, Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
        (Kind::Bytes, Wire::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
        (Kind::Raw, Wire::Bytes(bytes)) => raw(bytes),
        (Kind::Quantity, Wire::Bytes(bytes)) => quantity(bytes),
        (Kind::NumberOrText, Wire::Bytes(bytes)) => number_or_text(bytes),
        (Kind::Time | Kind::MicroTime, Wire::Bytes(bytes)) => time(bytes, kind == Kind::MicroTime),
        (Kind::Message(name), Wire::Bytes(bytes)) => {
            let inner = get(name).ok_or_else(|| format!("{name} is not known"))?;
            let mut fields = message(inner, bytes, depth)?;
            if inner.is_list() {
                return Ok(fields.remove("items").unwrap_or_else(|| Value::Array(Vec::new())));
            }
            Ok(fields.into())
        }
        // The value of a map entry that says nothing.
        (Kind::Flag, Wire::Bytes([])) => Ok(false.into()),
        (Kind::Number | Kind::Double, Wire::Bytes([])) => Ok(0.into()),
        _ => Err("wrong wireType".to_owned()),
    }
}

fn raw(bytes: &[u8]) -> Read<Value> {
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        if let (1, Wire::Bytes(json)) = (number, wire)
            && !json.is_empty()
        {
            return serde_json::from_slice(json).map_err(|error| error.to_string());
        }
    }
    Ok(Value::Null)
}

fn quantity(bytes: &[u8]) -> Read<Value> {
    let mut reader = Reader(bytes);
    let mut amount = "0".to_owned();
    while let Some((number, wire)) = reader.field()? {
        if let (1, Wire::Bytes(bytes)) = (number, wire) {
            amount = text(bytes)?;
        }
    }
    Ok(amount.into())
}

fn number_or_text(bytes: &[u8]) -> Read<Value> {
    let (mut is_text, mut number_value, mut text_value) = (false, 0, String::new());
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        match (number, wire) {
            (1, Wire::Number(kind)) => is_text = kind != 0,
            (2, Wire::Number(number)) => number_value = number.cast_signed(),
            (3, Wire::Bytes(bytes)) => text_value = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { text_value.into() } else { number_value.into() })
}

/// A time, or null where there is none: Go's zero time is an empty message.
fn time(bytes: &[u8], micro: bool) -> Read<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        match (number, wire) {
            (1, Wire::Number(number)) => seconds = number.cast_signed(),
            (2, Wire::Number(number)) => nanos = i32::try_from(number.cast_signed()).unwrap_or(0),
            _ => {}
        }
    }
    let nanos = if micro { nanos } else { 0 };
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(if micro { format!("{time:.6}") } else { time.to_string() }.into())
}
