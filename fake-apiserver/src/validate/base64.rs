//! Decides nothing: it turns base64 as JSON has it back into bytes. Answers to Go's `encoding/base64`.

/// The bytes, or nothing when it is no base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut filled) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        filled += 6;
        if filled >= 8 {
            filled -= 8;
            bytes.push(u8::try_from((bits >> filled) & 0xff).unwrap_or(0));
            bits &= (1 << filled) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_base64_is_decoded_and_nothing_else() {
        assert_eq!(decode("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(decode("aGk="), Some(b"hi".to_vec()));
        assert_eq!(decode(""), Some(Vec::new()));
        assert_eq!(decode("aGk"), None);
        assert_eq!(decode("a?k="), None);
    }
}
