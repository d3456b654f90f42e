//! What the schema doesn't say about a field: quantities that must not be negative, and values from a closed list.
//!
//! Rules hang on the type that holds the field, so they hold wherever the type is nested: in a claim, in a
//! `StatefulSet`'s claim template, in a pod's ephemeral volume. Never decides about types.

use serde_json::Value;

const ACCESS_MODES: &[&str] = &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Filesystem", "Block"];
const RECLAIM_POLICIES: &[&str] = &["Retain", "Delete", "Recycle"];
const CLASS_RECLAIM_POLICIES: &[&str] = &["Retain", "Delete"];
const BINDING_MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];

/// What a rule asks of a field.
pub(super) enum Rule {
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// A list of these strings.
    EachOf(&'static [&'static str]),
    /// Quantities by name, of which `storage` must be more than zero.
    Storage,
    /// A quantity that must not be negative.
    NotNegative,
}

/// The rule for a field of a type, if there is one.
pub(super) fn rule(holder: &str, field: &str) -> Option<Rule> {
    Some(match (holder, field) {
        ("PersistentVolumeSpec" | "PersistentVolumeClaimSpec", "accessModes") => Rule::EachOf(ACCESS_MODES),
        ("PersistentVolumeSpec" | "PersistentVolumeClaimSpec", "volumeMode") => Rule::OneOf(VOLUME_MODES),
        ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy") => Rule::OneOf(RECLAIM_POLICIES),
        ("StorageClass", "reclaimPolicy") => Rule::OneOf(CLASS_RECLAIM_POLICIES),
        ("StorageClass", "volumeBindingMode") => Rule::OneOf(BINDING_MODES),
        ("PersistentVolumeSpec", "capacity") | ("VolumeResourceRequirements", "requests") => Rule::Storage,
        ("CSIStorageCapacity", "capacity" | "maximumVolumeSize") => Rule::NotNegative,
        _ => return None,
    })
}

/// Why this value breaks the rule of a closed list.
pub(super) fn not_one_of(value: &Value, allowed: &[&str]) -> Option<String> {
    let text = value.as_str()?;
    if text.is_empty() || allowed.contains(&text) {
        return None;
    }
    let (last, others) = allowed.split_last()?;
    let others = others.join(", ");
    Some(format!("{text:?} is not known; use {others} or {last}"))
}

/// Whether a well-formed quantity is below zero, or not above it.
pub(super) fn sign(value: &Value) -> Option<std::cmp::Ordering> {
    match value {
        Value::String(text) if !is_quantity(text) => None,
        Value::String(text) => {
            let zero = !text.split(['e', 'E']).next()?.bytes().any(|b| (b'1'..=b'9').contains(&b));
            Some(if zero {
                0.cmp(&0)
            } else if text.starts_with('-') {
                (-1).cmp(&0)
            } else {
                1.cmp(&0)
            })
        }
        Value::Number(number) => number.as_f64()?.partial_cmp(&0.0),
        _ => None,
    }
}

/// Whether a text has the form of a quantity: a decimal number with at most one suffix.
pub(super) fn is_quantity(text: &str) -> bool {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let (number, suffix) = bare.split_at(end);
    let digits = number.bytes().any(|b| b.is_ascii_digit());
    if !digits || number.bytes().filter(|&b| b == b'.').count() > 1 {
        return false;
    }
    match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi"
        | "Ei" => true,
        _ => suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && exponent.bytes().all(|b| b.is_ascii_digit())
        }),
    }
}

/// The way out for a malformed quantity: what was probably meant.
pub(super) fn quantity_advice(text: &str) -> String {
    if text.contains("{{") {
        return "if it is a template, render it first, as with helm template".to_owned();
    }
    let trimmed = text.trim();
    let end = trimmed.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
    let (number, suffix) = trimmed.split_at(end);
    let meant = match suffix.trim().to_ascii_lowercase().as_str() {
        "ki" | "kib" => "Ki",
        "mi" | "mib" => "Mi",
        "gi" | "gib" => "Gi",
        "ti" | "tib" => "Ti",
        "pi" | "pib" => "Pi",
        "k" | "kb" => "k",
        "mb" => "M",
        "g" | "gb" => "G",
        "t" | "tb" => "T",
        "" | "b" => "",
        _ => "?",
    };
    let guess = format!("{}{meant}", number.replace([' ', '_', ','], ""));
    if meant != "?" && guess != text && is_quantity(&guess) {
        format!("write {guess}")
    } else {
        "write a number with one of the suffixes Ki, Mi, Gi, Ti, Pi, Ei, k, M, G, T, P, E or none, such as 5Gi".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use serde_json::json;

    use super::{is_quantity, quantity_advice, sign};

    #[test]
    fn quantities_have_the_form_that_kubernetes_takes() {
        for good in
            ["0", "5", "+5", "-5", ".5", "5.", "1.5Gi", "100m", "5k", "5E", "5e3", "5E-3", "1n", "1u", "8Ei"]
        {
            assert!(is_quantity(good), "{good}");
        }
        for bad in [
            "", "Gi", ".", "-", "5K", "5gi", "5Gib", "5GB", "5 Gi", "5Gi ", "1.2.3", "5e", "5e+", "1e3Gi",
            "٣", "--5",
        ] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }

    #[test]
    fn advice_is_a_quantity_or_the_rule() {
        let cases = [
            ("5Gib", "write 5Gi"),
            ("5gb", "write 5G"),
            ("5K", "write 5k"),
            (" 5 Mi ", "write 5Mi"),
            ("1,000", "write 1000"),
        ];
        for (text, advice) in cases {
            assert_eq!(quantity_advice(text), advice);
        }
        // A small m is a thousandth, so a slip can't be told from a wish.
        for text in ["", "é", "plenty", "5mx", "-"] {
            assert!(quantity_advice(text).starts_with("write a number"), "{text}");
        }
    }

    #[test]
    fn the_sign_is_that_of_the_number() {
        assert_eq!(sign(&json!("-0.1Gi")), Some(Ordering::Less));
        assert_eq!(sign(&json!("-0Gi")), Some(Ordering::Equal));
        assert_eq!(sign(&json!("0e9")), Some(Ordering::Equal));
        assert_eq!(sign(&json!("1e-9")), Some(Ordering::Greater));
        assert_eq!(sign(&json!("10E")), Some(Ordering::Greater));
        assert_eq!(sign(&json!(-1)), Some(Ordering::Less));
        assert_eq!(sign(&json!("what")), None);
    }
}
