//! Amounts compare as the numbers do that they are written as.

use proptest::prelude::*;
use proptest::sample::select;
use pvbind::objects::quantity::Amount;

use crate::check;

/// Digits after the point, at most.
const FRACTION: u32 = 4;
/// The finest suffix is a billionth.
const FINEST: u32 = 9;

/// A suffix with the factor that it stands for: a power of two and a power of ten.
const SUFFIXES: [(&str, u32, i32); 21] = [
    ("n", 0, -9),
    ("u", 0, -6),
    ("m", 0, -3),
    ("", 0, 0),
    ("k", 0, 3),
    ("M", 0, 6),
    ("G", 0, 9),
    ("T", 0, 12),
    ("P", 0, 15),
    ("E", 0, 18),
    ("Ki", 10, 0),
    ("Mi", 20, 0),
    ("Gi", 30, 0),
    ("Ti", 40, 0),
    ("Pi", 50, 0),
    ("Ei", 60, 0),
    ("e0", 0, 0),
    ("e3", 0, 3),
    ("E6", 0, 6),
    ("e-3", 0, -3),
    ("E-9", 0, -9),
];

/// A quantity as text, and exactly, in units of ten to the power of minus [`FRACTION`] and [`FINEST`].
#[derive(Clone, Debug)]
pub struct Exact {
    text: String,
    value: i128,
}

fn quantities() -> impl Strategy<Value = Exact> {
    let digits = prop_oneof![Just(0i128), 1i128..20, 1i128..100_000];
    let fraction = prop_oneof![Just(0i128), 0i128..10_000];
    (select(vec!["", "", "+", "-"]), digits, fraction, select(SUFFIXES.to_vec()), any::<bool>()).prop_map(
        |(sign, whole, fraction, (suffix, two, ten), point)| {
            let digits = whole * 10i128.pow(FRACTION) + fraction;
            let shift = u32::try_from(ten + 9).expect("no suffix is finer");
            let value = digits * (1i128 << two) * 10i128.pow(shift);
            let written = if fraction == 0 && !point { String::new() } else { format!(".{fraction:04}") };
            let text = format!("{sign}{whole}{written}{suffix}");
            Exact { text, value: if sign == "-" { -value } else { value } }
        },
    )
}

/// Rounded away from zero to billionths, as upstream rounds.
fn billionths(exact: i128) -> i128 {
    let scale = 10i128.pow(FRACTION);
    let magnitude = exact.abs() / scale + i128::from(exact.abs() % scale != 0);
    magnitude * exact.signum()
}

/// Rounded up.
fn ceiling(value: i128, unit: i128) -> i64 {
    let up = value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0);
    i64::try_from(up).unwrap_or(if up < 0 { i64::MIN } else { i64::MAX })
}

#[test]
fn amounts_compare_as_the_numbers_do() {
    check(5000, &(quantities(), quantities()), |(a, b)| {
        let amount = |q: &Exact| Amount::parse(&q.text).unwrap_or_else(|| panic!("{} is refused", q.text));
        let (left, right) = (amount(&a), amount(&b));
        assert_eq!(left.cmp(&right), billionths(a.value).cmp(&billionths(b.value)));
        let exact = a.value.cmp(&b.value);
        let both_are_whole = [&a, &b].iter().all(|q| q.value % 10i128.pow(FRACTION) == 0);
        // Rounding may make two amounts equal, but never turns them round.
        let rounded = left == right && !both_are_whole;
        assert!(rounded || left.cmp(&right) == exact, "{a:?} {b:?}");
    });
}

#[test]
fn whole_values_are_rounded_up() {
    check(5000, &quantities(), |q| {
        let amount = Amount::parse(&q.text).unwrap_or_else(|| panic!("{} is refused", q.text));
        let exact = billionths(q.value);
        assert_eq!(amount.value(), ceiling(exact, 10i128.pow(FINEST)));
        assert_eq!(amount.milli(), ceiling(exact, 10i128.pow(FINEST - 3)));
    });
}
