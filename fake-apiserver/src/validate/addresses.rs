//! Decides whether addresses and ranges of them are written as they should be. The older spellings, with leading zeros or with
//! an IPv4 address in an IPv6 one, are understood so that they can be named. Never looks one up. Answers to
//! `k8s.io/apimachinery/pkg/util/validation/ip.go`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::field::{Causes, Field};

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// An address however it is written; nothing when it is none.
pub(crate) fn sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let start = text.rfind(':').map_or(0, |colon| colon + 1);
    let octets: Vec<&str> = text[start..].split('.').map(without_zeros).collect();
    format!("{}{}", &text[..start], octets.join(".")).parse().ok()
}

/// A number without the zeros before it.
fn without_zeros(digits: &str) -> &str {
    let bare = digits.trim_start_matches('0');
    let is_zero = bare.is_empty() && !digits.is_empty();
    if is_zero { "0" } else { bare }
}

/// An IPv4 address that is written as an IPv6 one.
pub(crate) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The address as it would be written best.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// A field that is older than the rules on how addresses are written, but for the forms that mean two things.
pub(super) fn address(field: &Field<'_>, causes: &mut Causes) -> Option<IpAddr> {
    let text = field.text();
    let Some(address) = sloppy(text) else {
        causes.push(field.invalid(ADDRESS));
        return None;
    };
    if text.parse::<IpAddr>().is_err() {
        causes.push(field.invalid("must not have leading 0s"));
        return None;
    }
    if is_mapped(address) {
        causes.push(field.invalid("must not be an IPv4-mapped IPv6 address"));
        return None;
    }
    Some(address)
}

/// A field that takes addresses in their best form alone.
pub(super) fn strict(field: &Field<'_>, causes: &mut Causes) -> Option<IpAddr> {
    let address = address(field, causes)?;
    if field.text() == address.to_string() {
        return Some(address);
    }
    causes.push(field.invalid(&format!("must be in canonical form (\"{address}\")")));
    None
}

/// What may not be behind a service.
pub(super) fn endpoint(address: IpAddr, field: &Field<'_>, causes: &mut Causes) {
    let (local, multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    for (wrong, why) in [
        (address.is_unspecified(), format!("may not be unspecified ({})", field.text())),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ] {
        if wrong {
            causes.push(field.invalid(&why));
        }
    }
}

/// A range of addresses: one of them, and how many of its bits the others share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl Range {
    /// A range however it is written; nothing when it is none.
    pub(crate) fn sloppy(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = sloppy(address)?;
        if bits.is_empty() || !bits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let bits: u8 = without_zeros(bits).parse().ok()?;
        (bits <= Self { address, bits }.width()).then_some(Self { address, bits })
    }

    /// How many bits its addresses have.
    pub(crate) fn width(self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// The range from its first address on.
    pub(crate) fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(u32::from(32 - self.bits)).unwrap_or(0);
                Ipv4Addr::from(u32::from(address) & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(u32::from(128 - self.bits)).unwrap_or(0);
                Ipv6Addr::from(u128::from(address) & mask).into()
            }
        };
        Self { address, bits: self.bits }
    }

    /// Whether another range lies in this one and is smaller.
    pub(crate) fn holds(self, other: Self) -> bool {
        let start = Self { address: other.masked().address, bits: self.bits };
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.bits < other.bits
            && start.masked() == self.masked()
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// A range in a field that is older than the rules on how ranges are written. What is wrong but can be read is read.
pub(super) fn range(field: &Field<'_>, causes: &mut Causes) -> Option<Range> {
    let text = field.text();
    let Some(range) = Range::sloppy(text) else {
        causes.push(field.invalid(RANGE));
        return None;
    };
    let spelt = text
        .split_once('/')
        .is_some_and(|(address, bits)| address.parse::<IpAddr>().is_ok() && without_zeros(bits) == bits);
    if !spelt {
        causes.push(field.invalid("must not have leading 0s in IP or prefix length"));
    } else if is_mapped(range.address) {
        causes.push(field.invalid("must not have an IPv4-mapped IPv6 address"));
    } else if range != range.masked() {
        causes.push(field.invalid("must not have bits set beyond the prefix length"));
    }
    Some(range)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[track_caller]
    fn check(rule: fn(&Field<'_>, &mut Causes) -> bool, text: &str, good: bool) {
        let (value, mut causes) = (Value::from(text), Causes::new());
        let read = rule(&Field::new(&value, "f"), &mut causes);
        assert_eq!((read && causes.is_empty(), causes.is_empty()), (good, good), "{text}: {causes:?}");
    }

    #[test]
    fn addresses_are_spelt_in_one_way() {
        for (text, good) in [
            ("10.0.0.1", true),
            ("010.0.0.1", false),
            ("10.0.0", false),
            ("10.0.0.256", false),
            ("fe80::1", true),
            ("::ffff:10.0.0.1", false),
            ("fe80::1%eth0", false),
            ("", false),
        ] {
            check(|field, causes| address(field, causes).is_some(), text, good);
        }
        check(|field, causes| strict(field, causes).is_some(), "FE80:0:0::1", false);
        check(|field, causes| strict(field, causes).is_some(), "fe80::1", true);
        assert_eq!(sloppy("010.000.0.01"), "10.0.0.1".parse().ok());
    }

    #[test]
    fn ranges_begin_with_their_first_address() {
        for (text, good) in [
            ("10.0.0.0/8", true),
            ("0.0.0.0/0", true),
            ("::/0", true),
            ("10.0.0.1/8", false),
            ("10.0.0.0/08", false),
            ("10.0.0.0/33", false),
            ("10.0.0.0", false),
            ("10.0.0.0/", false),
            ("2001:db8::/32", true),
            ("2001:db8::1/32", false),
        ] {
            check(|field, causes| range(field, causes).is_some(), text, good);
        }
    }

    #[test]
    fn a_range_holds_what_is_smaller_and_in_it() {
        let holds = |a: &str, b: &str| Range::sloppy(a).unwrap().holds(Range::sloppy(b).unwrap());
        assert!(holds("10.0.0.0/8", "10.1.0.0/16") && holds("::/0", "2001:db8::/32"));
        assert!(!holds("10.0.0.0/8", "10.0.0.0/8") && !holds("10.0.0.0/8", "11.0.0.0/16"));
        assert!(!holds("0.0.0.0/0", "::/1"));
    }
}
