//! Kubernetes quantities as numbers.
//!
//! A [`Quantity`] is text such as `1.5Gi`, `100m` or `2e3`. [`Amount`] is its exact value in billionths, wide
//! enough for every quantity that the API accepts in practice (up to 1.7e29 units). Answers to upstream's
//! `apimachinery/pkg/api/resource/quantity.go`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANO: i128 = 1_000_000_000;

/// An exact amount, in billionths of the unit. Finer digits round up, as upstream's do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// The amount of that many whole units, for example bytes.
    #[must_use]
    pub fn units(units: i64) -> Self {
        Amount(i128::from(units) * NANO)
    }

    /// The value in whole units, rounded up, as upstream's `Value()` gives it; saturates at `i64`'s ends.
    #[must_use]
    pub fn value(self) -> i64 {
        let whole = self.0.div_euclid(NANO) + i128::from(self.0.rem_euclid(NANO) != 0);
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// The value in thousandths, rounded up, as upstream's `MilliValue()` gives it; used for cpu.
    #[must_use]
    pub fn milli(self) -> i64 {
        let scale = NANO / 1000;
        let whole = self.0.div_euclid(scale) + i128::from(self.0.rem_euclid(scale) != 0);
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }

    /// Reads a quantity; `None` when the text is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number_end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '+' || c == '-'))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(number_end);
        let scale = Scale::parse(suffix)?;
        let (negative, digits) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let magnitude = scale.apply(whole, fraction)?;
        Some(Amount(if negative { -magnitude } else { magnitude }))
    }

    /// The amount of `resource` in a map such as a volume's capacity; `None` when it is absent or malformed.
    #[must_use]
    pub fn of(map: Option<&BTreeMap<String, Quantity>>, resource: &str) -> Option<Self> {
        Amount::parse(&map?.get(resource)?.0)
    }
}

/// As users write sizes: whole units of the largest binary suffix that divides the amount, else gibibytes to two digits, cut
/// off.
impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, giga) = (self.value(), 1i64 << 30);
        let suffixes = if whole.abs() < giga { [("Mi", 20), ("Ki", 10)] } else { [("Ti", 40), ("Gi", 30)] };
        let exact = suffixes.into_iter().find(|(_, power)| whole != 0 && whole % (1 << power) == 0);
        match exact {
            Some((suffix, power)) => write!(f, "{}{suffix}", whole / (1 << power)),
            None if whole.abs() >= giga => {
                let hundredths = i128::from(whole) * 100 / i128::from(giga);
                write!(f, "{}.{:02}Gi", hundredths / 100, (hundredths % 100).abs())
            }
            None => write!(f, "{whole}"),
        }
    }
}

impl std::ops::Add for Amount {
    type Output = Amount;
    fn add(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0))
    }
}

impl std::ops::Sub for Amount {
    type Output = Amount;
    fn sub(self, other: Amount) -> Amount {
        Amount(self.0.saturating_sub(other.0))
    }
}

/// The factor that a suffix stands for: `binary` times ten to the power of `ten`.
struct Scale {
    binary: i128,
    ten: i32,
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        let decimal = |ten| Some(Scale { binary: 1, ten });
        let binary = |power: u32| Some(Scale { binary: 1 << (10 * power), ten: 0 });
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(1),
            "Mi" => binary(2),
            "Gi" => binary(3),
            "Ti" => binary(4),
            "Pi" => binary(5),
            "Ei" => binary(6),
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E'])?;
                let ten: i32 = digits.parse().ok()?;
                // Outside this range every amount is zero or unbounded, and no server stores it.
                (-60..=30).contains(&ten).then_some(Scale { binary: 1, ten })
            }
        }
    }

    /// The magnitude in billionths, rounded up; `None` when it does not fit.
    fn apply(&self, whole: &str, fraction: &str) -> Option<i128> {
        let fraction = fraction.trim_end_matches('0');
        let mut digits: i128 = 0;
        for c in whole.chars().chain(fraction.chars()) {
            let digit = i128::from(c.to_digit(10)?);
            digits = digits.checked_mul(10)?.checked_add(digit)?;
        }
        let scaled = digits.checked_mul(self.binary)?;
        let power = self.ten + 9 - i32::try_from(fraction.len()).ok()?;
        if power >= 0 {
            return scaled.checked_mul(10i128.checked_pow(power.unsigned_abs())?);
        }
        match 10i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => Some(scaled / divisor + i128::from(scaled % divisor != 0)),
            None => Some(i128::from(scaled != 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("1", 1_000_000_000)]
    #[case("1500m", 1_500_000_000)]
    #[case("1Ki", 1_024_000_000_000)]
    #[case("1.5Gi", 1_610_612_736_000_000_000)]
    #[case("2e3", 2_000_000_000_000)]
    #[case("1E", 1_000_000_000_000_000_000_000_000_000)]
    #[case("800E", 800_000_000_000_000_000_000_000_000_000)]
    #[case("-1.5", -1_500_000_000)]
    #[case("+.5", 500_000_000)]
    #[case("0.1n", 1)]
    #[case("1e-12", 1)]
    #[case("0", 0)]
    fn reads_every_form_exactly(#[case] text: &str, #[case] nanos: i128) {
        assert_eq!(Amount::parse(text), Some(Amount(nanos)));
    }

    #[rstest::rstest]
    #[case("")]
    #[case("Gi")]
    #[case("1 Gi")]
    #[case("1Gib")]
    #[case("--1")]
    #[case("1.2.3")]
    #[case("e5")]
    #[case("1e")]
    fn refuses_what_is_no_quantity(#[case] text: &str) {
        assert_eq!(Amount::parse(text), None);
    }

    #[rstest::rstest]
    #[case("0", Some(0))]
    #[case("10Gi", Some(10 << 30))]
    #[case("1.5Ki", Some(1536))]
    #[case("1.0001Ki", Some(1025))]
    #[case("2G", Some(2_000_000_000))]
    #[case("1e3", Some(1000))]
    #[case("1E3", Some(1000))]
    #[case("1E", Some(1_000_000_000_000_000_000))]
    #[case("100m", Some(1))]
    #[case("-1Mi", Some(-1_048_576))]
    #[case(".5Ki", Some(512))]
    #[case("", None)]
    #[case("ten", None)]
    #[case("1.2.3", None)]
    #[case("5GiB", None)]
    #[case("1e99", None)]
    #[case("1.-5", None)]
    fn whole_units(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(Amount::parse(text).map(Amount::value), expected);
    }

    #[test]
    fn values_round_up() {
        assert_eq!(Amount::parse("1500m").map(Amount::value), Some(2));
        assert_eq!(Amount::parse("-1500m").map(Amount::value), Some(-1));
        assert_eq!(Amount::parse("800E").map(Amount::value), Some(i64::MAX));
        assert_eq!(Amount::parse("0.1").map(Amount::milli), Some(100));
    }

    #[rstest::rstest]
    #[case("0", "0")]
    #[case("1000", "1000")]
    #[case("1536", "1536")]
    #[case("2Ki", "2Ki")]
    #[case("60Gi", "60Gi")]
    #[case("1024Gi", "1Ti")]
    #[case("1536Mi", "1.50Gi")]
    #[case("1500Ki", "1500Ki")]
    #[case("100G", "93.13Gi")]
    #[case("-100G", "-93.13Gi")]
    #[case("800E", "8589934591.99Gi")]
    fn sizes_are_shown_as_users_write_them(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(Amount::parse(text).map(|amount| amount.to_string()).as_deref(), Some(shown));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = Amount::parse(&text);
        }

        #[test]
        fn whole_numbers_survive(n in 0i64..i64::MAX) {
            proptest::prop_assert_eq!(Amount::parse(&n.to_string()), Some(Amount::units(n)));
        }
    }
}
