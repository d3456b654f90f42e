//! Decides what of a file can be believed. A frame is one batch: its length, its number and the sums of both and of what it
//! holds. Never knows what that is. Answers to the records of etcd's write-ahead log, and its rule for torn entries.
//!
//! What a crash leaves is a last frame that is too short, or whose sectors were never written and read as zeros: that is cut
//! off, since nobody was told of it. Anything else that is wrong is damage, and never passed over.

/// The length of what follows, the sum of the head, the sum of the rest, the number.
pub(crate) const HEAD: usize = 20;
/// What a disk writes at once.
const SECTOR: usize = 512;
/// Fewer zeros than that may be a number's.
const ZEROS: usize = 16;

/// What stands at some place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A frame, and where the next one starts.
    Frame { number: u64, records: &'a [u8], end: usize },
    /// The end of the file.
    End,
    /// A frame that was being written when everything stopped.
    Torn,
    /// Bytes that nobody wrote.
    Damaged(&'static str),
}

fn checksum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    // A sum over nothing is zero: one that never is tells a frame from a hole.
    hasher.update(b"pvbind");
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Appends a frame.
pub(crate) fn write(out: &mut Vec<u8>, number: u64, records: &[u8]) {
    let length = u32::try_from(records.len()).unwrap_or(u32::MAX).to_le_bytes();
    let sum = checksum(&[records]).to_le_bytes();
    let number = number.to_le_bytes();
    let head = checksum(&[&length, &sum, &number]).to_le_bytes();
    for part in [&length[..], &head, &sum, &number, records] {
        out.extend_from_slice(part);
    }
}

/// The head at some place, if it is one: length, sum and number.
fn head(bytes: &[u8]) -> Option<(usize, u32, u64)> {
    let head: &[u8; HEAD] = bytes.first_chunk()?;
    let (length, rest) = head.split_at(4);
    let (own, rest) = rest.split_at(4);
    let (sum, number) = rest.split_at(4);
    if checksum(&[length, sum, number]).to_le_bytes() != own {
        return None;
    }
    let four = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).ok();
    let length = usize::try_from(four(length)?).ok()?;
    Some((length, four(sum)?, u64::from_le_bytes(number.try_into().ok()?)))
}

/// Looks at what stands at `at`, after a frame with the number `last`.
pub(crate) fn read(bytes: &[u8], at: usize, last: u64) -> Found<'_> {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return Found::End;
    }
    if rest.len() < HEAD {
        return Found::Torn;
    }
    let Some((length, sum, number)) = head(rest) else {
        return torn_or(bytes, at, bytes.len(), "the head of a record does not agree with its sum");
    };
    let Some(records) = rest.get(HEAD..HEAD + length) else {
        return Found::Torn;
    };
    let end = at + HEAD + length;
    if checksum(&[records]) != sum {
        return torn_or(bytes, at, end, "a record does not agree with its sum");
    }
    if number <= last {
        return Found::Damaged("a record stands here for the second time");
    }
    Found::Frame { number, records, end }
}

/// Whether a frame that is wrong was the last one, and parts of it never got to the disk.
fn torn_or<'a>(bytes: &[u8], at: usize, end: usize, why: &'static str) -> Found<'a> {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.iter().all(|byte| *byte == 0) {
        return Found::Torn;
    }
    let mut from = at;
    let mut hole = false;
    while from < end {
        let to = ((from / SECTOR + 1) * SECTOR).min(end);
        hole |= to - from >= ZEROS && bytes[from..to].iter().all(|byte| *byte == 0);
        from = to;
    }
    if hole && !(at + 1..bytes.len()).any(|next| is_frame(&bytes[next..])) {
        return Found::Torn;
    }
    Found::Damaged(why)
}

fn is_frame(bytes: &[u8]) -> bool {
    head(bytes).is_some_and(|(length, sum, _)| {
        bytes.get(HEAD..HEAD + length).is_some_and(|records| checksum(&[records]) == sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        write(&mut bytes, 1, &[b'a'; 700]);
        let first = bytes.len();
        write(&mut bytes, 2, &[b'b'; 2000]);
        (bytes, first)
    }

    #[test]
    fn frames_follow_each_other() {
        let (bytes, first) = two();
        assert_eq!(read(&bytes, 0, 0), Found::Frame { number: 1, records: &[b'a'; 700], end: first });
        assert_eq!(
            read(&bytes, first, 1),
            Found::Frame { number: 2, records: &[b'b'; 2000], end: bytes.len() }
        );
        assert_eq!(read(&bytes, bytes.len(), 2), Found::End);
        assert!(matches!(read(&bytes, 0, 1), Found::Damaged(_)));
    }

    #[test]
    fn sectors_that_were_never_written_are_a_torn_end_and_no_torn_middle() {
        let (mut bytes, first) = two();
        bytes[1024..1536].fill(0);
        assert_eq!(read(&bytes, first, 1), Found::Torn);
        bytes[first..].fill(0);
        assert_eq!(read(&bytes, first, 1), Found::Torn);
        let (mut bytes, _) = two();
        bytes[0..512].fill(0);
        assert!(matches!(read(&bytes, 0, 0), Found::Damaged(_)));
    }
}
