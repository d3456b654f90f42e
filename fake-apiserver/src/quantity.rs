//! Decides how an amount such as `1024Mi` is read and in which form it is kept. Never rounds what it can hold
//! exactly. Answers to `k8s.io/apimachinery/pkg/api/resource`.

use std::borrow::Cow;

use serde_json::Value;

/// Why a text is no amount, in the words of the real server.
pub(crate) const WRONG_FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

const NANO: i128 = 1_000_000_000;
const DECIMAL: &[(&str, i32)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: &[(&str, i32)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

/// An amount, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    nanos: i128,
    form: Form,
}

/// What a suffix stands for.
struct Suffix {
    form: Form,
    exponent: i32,
}

impl Quantity {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        parse(text).map(|(quantity, ..)| quantity)
    }

    /// Nothing, in whatever form it is added to.
    pub(crate) fn zero() -> Self {
        Self { nanos: 0, form: Form::Decimal }
    }

    /// So many of something.
    pub(crate) fn whole(count: i128) -> Self {
        Self { nanos: count.saturating_mul(NANO), form: Form::Decimal }
    }

    /// The sum, written as the first that is not nothing.
    pub(crate) fn plus(self, other: Self) -> Self {
        let form = if self.nanos == 0 { other.form } else { self.form };
        Self { nanos: self.nanos.saturating_add(other.nanos), form }
    }

    /// The difference, written as the first.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), form: self.form }
    }

    pub(crate) fn is_positive(self) -> bool {
        self.nanos > 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn nanos(self) -> i128 {
        self.nanos
    }

    /// The whole units, rounded up.
    pub(crate) fn units(self) -> i128 {
        self.nanos.div_euclid(NANO) + i128::from(self.nanos.rem_euclid(NANO) > 0)
    }

    /// The exponent that the shortest writing without a fraction has.
    fn exponent(self) -> (Form, i32) {
        if self.nanos == 0 {
            return (if self.form == Form::Binary { Form::Decimal } else { self.form }, 0);
        }
        let whole = self.nanos % NANO == 0;
        let units = self.nanos / NANO;
        if self.form == Form::Binary && whole && units.abs() >= 1024 {
            let fits = |exponent: &i32| units % (1 << exponent) == 0;
            let exponents = BINARY.iter().rev().map(|(_, exponent)| *exponent);
            return match exponents.into_iter().find(fits) {
                Some(exponent) => (Form::Binary, exponent),
                None => (Form::Decimal, 0),
            };
        }
        let form = if self.form == Form::Exponent { Form::Exponent } else { Form::Decimal };
        let mut exponent = 18;
        while exponent > -9 && self.nanos % power(exponent + 9) != 0 {
            exponent -= 3;
        }
        (form, exponent)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (form, exponent) = self.exponent();
        let table = if form == Form::Binary { BINARY } else { DECIMAL };
        let suffix = table.iter().find(|(_, one)| *one == exponent).map_or("", |(suffix, _)| suffix);
        match form {
            Form::Binary => write!(f, "{}{suffix}", self.nanos / NANO / (1 << exponent)),
            Form::Decimal => write!(f, "{}{suffix}", self.nanos / power(exponent + 9)),
            Form::Exponent if exponent == 0 => write!(f, "{}", self.nanos / NANO),
            Form::Exponent => write!(f, "{}e{exponent}", self.nanos / power(exponent + 9)),
        }
    }
}

fn power(exponent: i32) -> i128 {
    10_i128.pow(u32::try_from(exponent).unwrap_or(0))
}

/// The amount, what its suffix said, and whether it was written with a fraction.
fn parse(text: &str) -> Result<(Quantity, Suffix, bool), &'static str> {
    if text.is_empty() {
        return Err(WRONG_FORM);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = rest.find(|letter: char| !"eEinumkKMGTP".contains(letter)).unwrap_or(rest.len());
    let after = rest[letters..].strip_prefix(['+', '-']).unwrap_or(&rest[letters..]);
    if digits(after) != after.len() {
        return Err(WRONG_FORM);
    }
    let suffix = suffix(rest).ok_or(WRONG_SUFFIX)?;
    let nanos = nanos(number, fraction, &suffix).unwrap_or(i128::from(i64::MAX) * NANO);
    let nanos = if text.starts_with('-') { -nanos } else { nanos };
    let written_with_fraction =
        unsigned.len() > number.len() && unsigned.as_bytes().get(number.len()) == Some(&b'.');
    Ok((Quantity { nanos, form: suffix.form }, suffix, written_with_fraction))
}

fn suffix(text: &str) -> Option<Suffix> {
    let of = |form, exponent| Some(Suffix { form, exponent });
    if let Some((_, exponent)) = DECIMAL.iter().find(|(one, _)| *one == text) {
        return of(Form::Decimal, *exponent);
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(one, _)| *one == text) {
        return of(Form::Binary, *exponent);
    }
    let exponent = text.strip_prefix(['e', 'E'])?;
    of(Form::Exponent, exponent.parse().ok()?)
}

/// The amount in billionths, rounded up; `None` when it is beyond all bounds.
fn nanos(number: &str, fraction: &str, suffix: &Suffix) -> Option<i128> {
    let value = number.bytes().chain(fraction.bytes()).try_fold(0_i128, |value, digit| {
        value.checked_mul(10)?.checked_add(i128::from(digit.wrapping_sub(b'0')))
    })?;
    if value == 0 {
        return Some(0);
    }
    let fraction = i32::try_from(fraction.len()).ok()?;
    let (factor, shift) = match suffix.form {
        Form::Binary => (1_i128 << suffix.exponent, 9 - fraction),
        Form::Decimal | Form::Exponent => (1, suffix.exponent.checked_add(9)?.checked_sub(fraction)?),
    };
    let value = value.checked_mul(factor)?;
    if shift >= 0 {
        return value.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?);
    }
    match 10_i128.checked_pow(u32::try_from(-shift).ok()?) {
        Some(divisor) => Some(value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) > 0)),
        None => Some(1),
    }
}

/// Puts an amount into the form in which the server keeps it. One that is in its shortest form already stays
/// as it is written.
pub(crate) fn canonicalise(value: &mut Value) -> Result<(), &'static str> {
    let written: Cow<'_, str> = match &*value {
        Value::String(text) => text.trim().into(),
        Value::Number(number) => number.to_string().into(),
        Value::Null => "0".into(),
        _ => return Err(WRONG_FORM),
    };
    let (quantity, suffix, fraction) = parse(&written)?;
    // An exponent is never moved, so that huge numbers in JSON come back as they were.
    let signed = suffix.form == Form::Exponent && suffix.exponent > 18;
    let shortest = !fraction && (signed || quantity.exponent() == (suffix.form, suffix.exponent));
    if shortest && *value == *written {
        return Ok(());
    }
    let kept = if shortest { written.into_owned() } else { quantity.to_string() };
    *value = kept.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(given: impl Into<Value>, kept: &str) {
        let mut value = given.into();
        canonicalise(&mut value).unwrap();
        assert_eq!(value, kept);
    }

    #[test]
    fn amounts_are_kept_as_the_real_server_keeps_them() {
        for (given, kept) in [
            ("1024Mi", "1Gi"),
            ("1Gi", "1Gi"),
            ("1073741824", "1073741824"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("1500M", "1500M"),
            ("1e9", "1e9"),
            ("1E", "1E"),
            ("1000k", "1M"),
            ("1025Ki", "1025Ki"),
            ("1.0Gi", "1Gi"),
            ("0001Gi", "0001Gi"),
            ("+1Gi", "+1Gi"),
            ("1024Gi", "1Ti"),
            ("500m", "500m"),
            ("1.1", "1100m"),
            ("1e3", "1e3"),
            ("3e-1", "300e-3"),
            ("9223372036854775807", "9223372036854775807"),
            ("1000000u", "1"),
            (" 1Gi", "1Gi"),
            ("Gi", "0"),
        ] {
            check(given, kept);
        }
        check(1_073_741_824, "1073741824");
        check(1.5, "1500m");
        check(Value::Null, "0");
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, why) in [
            ("", WRONG_FORM),
            ("1gi", WRONG_FORM),
            ("1Gb", WRONG_FORM),
            ("1 Gi", WRONG_FORM),
            ("1,5Gi", WRONG_FORM),
            ("0x10", WRONG_FORM),
            ("ten", WRONG_FORM),
            ("1.2.3", WRONG_FORM),
            ("1e", WRONG_SUFFIX),
            ("--1", WRONG_SUFFIX),
            ("1GiGi", WRONG_SUFFIX),
        ] {
            assert_eq!(Quantity::parse(text), Err(why), "{text}");
        }
        assert_eq!(canonicalise(&mut json!(true)), Err(WRONG_FORM));
    }

    #[test]
    fn huge_amounts_are_capped() {
        for text in
            ["99999999999999999999999999999999999999999999", "1e400000000", "9e2147483647", "1e-2147483648"]
        {
            let _ = Quantity::parse(text);
        }
    }
}
