//! Decides what a continue token says: the revision of the first page and the last key shown, in
//! kube-apiserver's own encoding. Never remembers a token. Answers to
//! `k8s.io/apiserver/pkg/storage/continue.go`.

use serde_json::{Value, json};

use crate::status::{Result, Status};

/// A continue token, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The revision of the list, or none when any will do.
    pub(crate) revision: Option<u64>,
    /// The last key of the page before, below the list's prefix.
    pub(crate) start: String,
}

const VERSION: &str = "meta.k8s.io/v1";
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Continuation {
    pub(crate) const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can \
        start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder \
        of the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
        modified, or deleted between the time the first chunk was returned and now may show up in the list.";

    pub(crate) fn encode(revision: u64, last: &str) -> String {
        base64(json!({"v": VERSION, "rv": revision, "start": format!("{last}\u{0}")}).to_string().as_bytes())
    }

    pub(crate) fn encode_inconsistent(last: &str) -> String {
        base64(json!({"v": VERSION, "rv": -1, "start": format!("{last}\u{0}")}).to_string().as_bytes())
    }

    pub(crate) fn decode(token: &str) -> Result<Self> {
        let invalid = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes =
            unbase64(token).map_err(|at| invalid(&format!("illegal base64 data at input byte {at}")))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = String::from_utf8_lossy(&bytes).chars().next().unwrap_or_default();
            invalid(&format!("invalid character '{first}' looking for beginning of value"))
        })?;
        if token["v"] != VERSION {
            let version = token["v"].as_str().unwrap_or_default();
            return Err(invalid(&format!("server does not recognize this encoded version {version}")));
        }
        let start = token["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(invalid(&format!("encoded start key empty (version {VERSION})")));
        }
        if start.split('/').any(|part| part == "." || part == "..") {
            return Err(invalid(start));
        }
        let revision = match token["rv"].as_i64() {
            None | Some(0) => {
                return Err(invalid(&format!("incorrect encoded start resourceVersion (version {VERSION})")));
            }
            Some(revision) => u64::try_from(revision).ok(),
        };
        Ok(Self { revision, start: start.trim_end_matches('\u{0}').to_owned() })
    }
}

/// URL-safe base64 without padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..=chunk.len() {
            let index = bits >> (18 - 6 * letter) & 0x3f;
            text.push(char::from(LETTERS[usize::try_from(index).unwrap_or(0)]));
        }
    }
    text
}

/// The bytes, or where the text stops to be base64.
pub(crate) fn unbase64(text: &str) -> std::result::Result<Vec<u8>, usize> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for (at, letter) in text.bytes().enumerate() {
        let value = LETTERS.iter().position(|one| *one == letter).ok_or(at)?;
        bits = bits << 6 | u32::try_from(value).unwrap_or(0);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap_or(0));
        }
    }
    // A letter alone says less than a byte.
    if count >= 6 { Err(text.len().saturating_sub(1)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_way_there_and_back() {
        for name in ["a", "ns/b", "xy", "xyz"] {
            let token = Continuation::decode(&Continuation::encode(12, name)).unwrap();
            assert_eq!(token, Continuation { revision: Some(12), start: name.to_owned() });
        }
        assert_eq!(Continuation::decode(&Continuation::encode_inconsistent("a")).unwrap().revision, None);
    }

    #[test]
    fn tokens_of_a_real_server_are_read() {
        let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0";
        assert_eq!(
            Continuation::decode(token).unwrap(),
            Continuation { revision: Some(1), start: "a".to_owned() }
        );
        for token in ["garbage", "eyJ2Ijoib3RoZXIiLCJydiI6MSwic3RhcnQiOiJhIn0="] {
            assert_eq!(Continuation::decode(token).unwrap_err().code, 400, "{token}");
        }
    }
}
