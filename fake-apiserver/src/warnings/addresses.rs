//! Decides what there is to warn of in how addresses and ranges are written. Never refuses. Answers to `GetWarningsForIP` and
//! `GetWarningsForCIDR` of `k8s.io/apimachinery/pkg/util/validation`.

use std::net::IpAddr;

use crate::validate::addresses::{Range, canonical, is_mapped, sloppy};
use crate::validate::field::Field;

/// An address that is stored.
pub(super) fn address(field: &Field<'_>, said: &mut Vec<String>) {
    let (text, path) = (field.text(), &field.path);
    let Some(address) = sloppy(text) else { return };
    if text.parse::<IpAddr>().is_err() || is_mapped(address) {
        let better = canonical(address);
        said.push(format!("{path}: non-standard IP address \"{text}\" is invalid: use \"{better}\""));
    } else if address.to_string() != text {
        said.push(format!(
            "{path}: IPv6 address \"{text}\" should be in RFC 5952 canonical format (\"{address}\")"
        ));
    }
}

/// A range that is stored.
pub(super) fn range(field: &Field<'_>, said: &mut Vec<String>) {
    let (text, path) = (field.text(), &field.path);
    let Some(range) = Range::sloppy(text) else { return };
    let (network, before) = (range.masked(), said.len());
    if network != range {
        let single = format!("{}/{}", range.address, range.width());
        said.push(format!(
            "{path}: CIDR value \"{text}\" is ambiguous in this context (should be \"{network}\" or \"{single}\"?)"
        ));
    }
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    let zeros = bits.len() > 1 && bits.starts_with('0') || address.parse::<IpAddr>().is_err();
    if zeros || is_mapped(range.address) {
        said.push(format!("{path}: non-standard CIDR value \"{text}\" is invalid: use \"{network}\""));
    }
    if said.len() == before && range.to_string() != text {
        said.push(format!(
            "{path}: IPv6 CIDR value \"{text}\" should be in RFC 5952 canonical format (\"{range}\")"
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[track_caller]
    fn check(step: fn(&Field<'_>, &mut Vec<String>), text: &str, expected: &[&str]) {
        let (value, mut said) = (Value::from(text), Vec::new());
        step(&Field::new(&value, "f"), &mut said);
        assert_eq!(said.len(), expected.len(), "{said:?}");
        assert!(said.iter().zip(expected).all(|(one, words)| one.ends_with(words)), "{said:?}");
    }

    #[test]
    fn other_spellings_are_named() {
        check(address, "10.0.0.1", &[]);
        check(address, "010.0.0.1", &["use \"10.0.0.1\""]);
        check(address, "2001:DB8::1", &["(\"2001:db8::1\")"]);
        check(range, "10.0.0.0/8", &[]);
        check(range, "10.1.2.3/8", &["(should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)"]);
        check(range, "2001:DB8::/32", &["(\"2001:db8::/32\")"]);
        check(range, "10.0.0.0/08", &["use \"10.0.0.0/8\""]);
    }
}
