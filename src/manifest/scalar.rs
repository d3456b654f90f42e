//! What an unquoted YAML scalar means: exactly what it means to kubectl.
//!
//! kubectl reads YAML 1.1 as Go's yaml.v2 does and turns it into JSON: `yes` and `off` are booleans, `0755` is
//! octal, `1e3` becomes 1000, and there are no base-60 numbers. Manifests are written against these rules, so they
//! are followed to the letter, traps included. Never decides whether the meaning suits a field.

use serde_json::{Number, Value};

/// Whether an unquoted scalar can only be a string, told from its first byte.
fn surely_text(text: &str) -> bool {
    !matches!(
        text.as_bytes().first(),
        None | Some(
            b'+' | b'-' | b'.' | b'~' | b'0'
                ..=b'9' | b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O'
        )
    )
}

/// The meaning of an unquoted scalar; `None` when it is its own text.
pub(super) fn resolve(text: &str) -> Option<Value> {
    if surely_text(text) {
        return None;
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Some(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Some(Value::Bool(false));
        }
        _ => {}
    }
    let first = text.as_bytes().first()?;
    if first.is_ascii_alphabetic() {
        return None;
    }
    let digits: String = text.chars().filter(|&c| c != '_').collect();
    integer(&digits).or_else(|| float(&digits)).map(Value::Number)
}

/// Whether an unquoted scalar is one of the floats that JSON, and so Kubernetes, can't hold.
pub(super) fn is_non_finite(text: &str) -> bool {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(bare, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// Go's `strconv.ParseInt(text, 0, 64)`, and then `ParseUint`.
fn integer(text: &str) -> Option<Number> {
    let (negative, bare) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = bare.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match lower.as_deref() {
        Some("0x") => (16, &bare[2..]),
        Some("0b") => (2, &bare[2..]),
        Some("0o") => (8, &bare[2..]),
        Some(_) if bare.starts_with('0') => (8, &bare[1..]),
        _ => (10, bare),
    };
    // `from_str_radix` would take a second sign.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(magnitude).map(Number::from)
    } else {
        Some(Number::from(magnitude))
    }
}

/// A decimal float. Whole ones become integers, because Go writes them into the JSON without a point.
fn float(text: &str) -> Option<Number> {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = bare.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !plain || !bare.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    if value.fract() == 0.0 && value.abs() < 9.2e18 {
        return format!("{value:.0}").parse::<i64>().ok().map(Number::from);
    }
    Number::from_f64(value)
}
