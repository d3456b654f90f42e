//! Decides whether a text has the format that a schema asks for: the formats that the real server knows, each
//! by its rule; every other one is no rule at all. Never looks at a schema's other limits. Answers to
//! `k8s.io/kube-openapi/pkg/validation/strfmt` and
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::schema::Schema;
use crate::validate::names;

/// The formats of texts, without the dashes that make no difference.
const TEXT: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static HOSTNAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
    )
});
static RGB: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
    )
});
static CARD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14})$",
    )
});
static BASE64: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"^(?:[A-Za-z0-9+\/]{4})*(?:[A-Za-z0-9+\/]{2}==|[A-Za-z0-9+\/]{3}=|[A-Za-z0-9+\/]{4})$")
});
static DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$"));
static AMOUNT_OF_TIME: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"\d+\s*([A-Za-zµ]+)"));
static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));

/// The format that a schema asks for, if it is one that the real server looks at.
pub(crate) fn known(schema: &Schema) -> Option<&str> {
    let format = schema.format.as_str();
    let known = match schema.form.as_str() {
        _ if format.is_empty() || schema.int_or_string => false,
        "" | "string" => TEXT.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    known.then_some(format)
}

/// The formats that a schema and those below it ask for, and that nobody looks at.
pub(crate) fn unknown(schema: &Schema, found: &mut Vec<String>) {
    if !schema.format.is_empty() && known(schema).is_none() {
        found.push(schema.format.clone());
    }
    let combined = schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of);
    let below = schema.items.as_deref().into_iter().chain(combined).chain(schema.not.as_deref());
    for one in below.chain(schema.properties.values()).chain(schema.additional_schema()) {
        unknown(one, found);
    }
}

pub(crate) fn is_numeric(format: &str) -> bool {
    matches!(format, "int32" | "int64" | "float" | "double")
}

/// Whether a number is within the range of its type.
pub(crate) fn number_fits(form: &str, format: &str, value: &Value) -> bool {
    let Some(float) = value.as_f64() else { return false };
    match (form, format) {
        ("integer", "int32") => {
            float.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
        }
        ("integer", _) => value.is_i64() || float.fract() == 0.0 && float.abs() < 9.2e18,
        ("number", "float") => float.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

pub(crate) fn holds(format: &str, text: &str) -> bool {
    let matches = |regex: &LazyLock<Option<Regex>>| regex.as_ref().is_some_and(|regex| regex.is_match(text));
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => {
            text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(&HOSTNAME)
        }
        "ipv4" => is_ipv4(text),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            CARD.as_ref().is_some_and(|card| card.is_match(&digits)) && luhn(&digits)
        }
        "ssn" => is_social_security(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "rgbcolor" => matches(&RGB),
        "byte" => matches(&BASE64),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => is_date_time(text),
        "duration" => matches(&DURATION) || names_a_time(text),
        "k8sshortname" => names::label(text).is_empty(),
        "k8slongname" => names::subdomain(text).is_empty(),
        _ => true,
    }
}

/// As a request line may carry it: absolute, or a path.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    let escapes = text.split('%').skip(1);
    let is_code = |part: &str| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    if !escapes.into_iter().all(is_code) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let letters = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !letters || !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return false;
    }
    let Some(authority) = rest.strip_prefix("//") else { return true };
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    host.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.ends_with('>')) {
        (Some(start), true) => &text[start + 1..text.len() - 1],
        (None, _) => text,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte) || byte >= 0x80;
    let dotted = |text: &str| text.split('.').all(|part| !part.is_empty() && part.bytes().all(atom));
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (dotted(local) || quoted) && (dotted(domain) || domain.starts_with('[') && domain.ends_with(']'))
}

/// Whether an amount of time stands anywhere in a text, its unit short, or long with any ending.
fn names_a_time(text: &str) -> bool {
    const SHORT: &[&str] = &["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const LONG: &[&str] = &["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let Some(amounts) = AMOUNT_OF_TIME.as_ref() else { return false };
    let mut units =
        amounts.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str().to_lowercase()));
    units.any(|unit| SHORT.contains(&unit.as_str()) || LONG.iter().any(|long| unit.starts_with(long)))
}

/// Leading zeros are let through, as the real server does.
fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let part = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok()
    };
    parts.len() == 4 && parts.iter().all(part) || text.contains('.') && text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => bits <= 32,
        Ok(IpAddr::V6(_)) => bits <= 128,
        Err(_) => is_ipv4(address) && bits <= 32 && address.parse::<Ipv4Addr>().is_err(),
    }
}

fn is_mac(text: &str) -> bool {
    let hex =
        |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let groups = |separator: char, length: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, length))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

/// Dashes may be missing where they separate.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut digits = String::new();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((part, after)) = rest.split_at_checked(length) else { return false };
        digits.push_str(part);
        rest = after;
    }
    let variant = digits.chars().nth(16).is_some_and(|digit| "89abAB".contains(digit));
    rest.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && version.is_none_or(|version| digits.chars().nth(12) == Some(version))
        && (variant || matches!(version, None | Some('3')))
}

fn bare(text: &str) -> Vec<u32> {
    text.chars().filter(|one| !matches!(one, '-' | ' ')).map(|one| one.to_digit(10).unwrap_or(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = bare(text);
    let last = text.ends_with(['X', 'x']) || digits.last().is_some_and(|digit| *digit < 10);
    digits.len() == 10
        && digits[..9].iter().all(|digit| *digit < 10)
        && last
        && digits.iter().zip(1..).map(|(digit, place)| digit * place).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = bare(text);
    digits.len() == 13
        && digits.iter().all(|digit| *digit < 10)
        && digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum::<u32>()
            % 10
            == 0
}

fn luhn(digits: &str) -> bool {
    let each = digits.chars().rev().filter_map(|digit| digit.to_digit(10)).enumerate();
    let doubled = |(place, digit): (usize, u32)| match digit * if place % 2 == 1 { 2 } else { 1 } {
        large if large > 9 => large - 9,
        small => small,
    };
    each.map(doubled).sum::<u32>() % 10 == 0
}

fn is_social_security(text: &str) -> bool {
    let plain: String = text.chars().filter(|one| !matches!(one, '-' | ' ')).collect();
    plain.len() == 9
        && plain.bytes().all(|byte| byte.is_ascii_digit())
        && text.chars().all(|one| one.is_ascii_digit() || matches!(one, '-' | ' '))
}

/// A day, `t`, a time and a zone; letters of either case.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((day, time)) = lower.split_once('t') else { return false };
    let in_range = |from: usize, most: u8| {
        time.get(from..from + 2).and_then(|part| part.parse().ok()).is_some_and(|part: u8| part <= most)
    };
    day.len() == 10
        && day.parse::<jiff::civil::Date>().is_ok()
        && TIME.as_ref().is_some_and(|time_of_day| time_of_day.is_match(time))
        && in_range(0, 23)
        && in_range(3, 59)
        && in_range(6, 59)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: &str, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(holds(format, text), "{format} {text}");
        }
        for text in bad {
            assert!(!holds(format, text), "{format} {text}");
        }
    }

    #[test]
    fn formats_are_those_of_the_real_server() {
        check(
            "date-time",
            &["2024-01-01T00:00:00Z", "2024-01-01t00:00:00.5+02:00"],
            &["not a date", "2024-01-01", "2024-13-01T00:00:00Z", "2024-01-01T25:00:00Z"],
        );
        check("date", &["2024-02-29"], &["2023-02-29", "2024-2-1"]);
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
            &["123e4567", "g23e4567-e89b-12d3-a456-426614174000"],
        );
        check("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]);
        check("ipv4", &["1.2.3.4", "010.2.3.4"], &["1.2.3", "::1", "1.2.3.400"]);
        check("ipv6", &["::1", "fe80::1"], &["1.2.3.4", ":::"]);
        check("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]);
        check("mac", &["00:00:5e:00:53:01", "0000.5e00.5301"], &["00:00:5e", "x"]);
        check("hostname", &["example.com", "a"], &["-a", "a..b", ""]);
        check("email", &["a@b.c", "A B <a@b.c>"], &["a", "@b", "a@"]);
        check("uri", &["http://a.b/c", "/path", "urn:x"], &["relative", "", "http://a b"]);
        check("byte", &["aGVsbG8="], &["a", "a===", ""]);
        check("duration", &["1h30m", "22 ns", "3 days", "0"], &["x", "1"]);
        check("hexcolor", &["#FFF", "0a0B0c"], &["#ff", "red"]);
        check("rgbcolor", &["rgb(255,0,1)"], &["rgb(256,0,1)"]);
        check("isbn", &["0321751043", "978-0321751041"], &["0321751044"]);
        check("k8s-short-name", &["a-b"], &["a.b", "A"]);
        check("no-such-format", &["anything"], &[]);
    }
}
