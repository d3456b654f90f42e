//! Decides how JSON is indented for people: two spaces a level, as Go does it. Never changes what it says, nor
//! the order of its fields.

use bytes::Bytes;

/// Indents JSON that is written without spaces; strings stay as they are.
pub(super) fn indent(json: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if quoted {
            out.push(byte);
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' if bytes.peek().is_some_and(|next| matches!(next, b'}' | b']')) => {
                out.push(byte);
                out.extend(bytes.next());
            }
            b'{' | b'[' => {
                depth += 1;
                out.push(byte);
                line(&mut out, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                quoted = true;
                out.push(byte);
            }
            other => out.push(other),
        }
    }
    out.into()
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_empty_maps_stay_in_one_piece() {
        let json = br#"{"a":{},"b":[1,"x{,}:\"\\"],"c":[]}"#;
        let expected = "{\n  \"a\": {},\n  \"b\": [\n    1,\n    \"x{,}:\\\"\\\\\"\n  ],\n  \"c\": []\n}";
        assert_eq!(indent(json), expected);
    }
}
