//! Sizes as the stand-in driver counts them: whole bytes, rounded up, as upstream's `Quantity.Value` does.
//!
//! It reads what a Kubernetes quantity may be (`5Gi`, `1.5G`, `1e9`, `500m`) and says `None` to everything else.

/// The number of bytes that a quantity stands for.
#[must_use]
pub fn bytes(quantity: &str) -> Option<i128> {
    let end = quantity.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let (up, down) = scale(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // More digits than these can't change a number of whole bytes that fits anything.
    if whole.len() > 20 || fraction.len() > 12 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(down)?;
    let product = scaled.checked_mul(up)?;
    let rounded = product.div_euclid(divisor);
    Some(if product.rem_euclid(divisor) == 0 { rounded } else { rounded + 1 })
}

/// What a suffix multiplies by and divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |n: u32| Some((1_i128 << (10 * n), 1));
    let decimal = |n: u32| Some((10_i128.checked_pow(n)?, 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
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
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs()).filter(|_| exponent.abs() <= 18)?;
            Some(if exponent < 0 { (1, power) } else { (power, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;
    use rstest::rstest;

    #[rstest]
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
    fn quantities(#[case] given: &str, #[case] expected: Option<i128>) {
        assert_eq!(bytes(given), expected);
    }
}
