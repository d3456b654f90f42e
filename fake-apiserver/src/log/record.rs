//! Decides how one step of the store looks on disk. Never checks sums: frames do. Answers to etcd's `raftpb.Entry`.

use crate::history::Event;
use crate::object::Object;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A new version of an object, with its JSON.
    Put { revision: u64, kind: &'a str, key: &'a str, object: &'a [u8] },
    /// The object is gone, and watchers hear of it.
    Remove { revision: u64, kind: &'a str, key: &'a str },
    /// The object is gone, and nobody hears of it.
    Forget { kind: &'a str, key: &'a str },
    /// One more kind is served.
    Register { api_version: &'a str, kind: &'a str, namespaced: bool },
    /// Revisions that were given to something that is not kept.
    Revision { revision: u64, quiet: u64 },
    /// The end of a snapshot, with the number of its objects.
    End { objects: u64 },
}

impl<'a> Record<'a> {
    pub(crate) fn of(kind: &'a str, event: &'a Event) -> Self {
        let (revision, key) = (event.revision, &*event.key);
        if event.deleted { Self::Remove { revision, kind, key } } else { Self::put(kind, key, &event.object) }
    }

    pub(crate) fn put(kind: &'a str, key: &'a str, object: &'a Object) -> Self {
        Self::Put { revision: object.revision, kind, key, object: object.bytes() }
    }

    /// Appends the record, its length first.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match *self {
            Self::Put { revision, kind, key, object } => {
                out.push(1);
                out.extend_from_slice(&revision.to_le_bytes());
                put_text(out, kind);
                put_text(out, key);
                out.extend_from_slice(object);
            }
            Self::Remove { revision, kind, key } => {
                out.push(2);
                out.extend_from_slice(&revision.to_le_bytes());
                put_text(out, kind);
                put_text(out, key);
            }
            Self::Forget { kind, key } => {
                out.push(3);
                put_text(out, kind);
                put_text(out, key);
            }
            Self::Register { api_version, kind, namespaced } => {
                out.push(4);
                out.push(u8::from(namespaced));
                put_text(out, api_version);
                put_text(out, kind);
            }
            Self::Revision { revision, quiet } => {
                out.push(5);
                out.extend_from_slice(&revision.to_le_bytes());
                out.extend_from_slice(&quiet.to_le_bytes());
            }
            Self::End { objects } => {
                out.push(6);
                out.extend_from_slice(&objects.to_le_bytes());
            }
        }
        let length = length_of(out.len() - start - 4);
        out[start..start + 4].copy_from_slice(&length);
    }

    /// Takes the next record off the bytes; nothing when they are no record.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let length = usize::try_from(u32::from_le_bytes(*take(bytes)?)).ok()?;
        let (mut record, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        let [tag] = *take(&mut record)?;
        let record = &mut record;
        let decoded = match tag {
            1 => Self::Put {
                revision: take_number(record)?,
                kind: take_text(record)?,
                key: take_text(record)?,
                object: std::mem::take(record),
            },
            2 => Self::Remove {
                revision: take_number(record)?,
                kind: take_text(record)?,
                key: take_text(record)?,
            },
            3 => Self::Forget { kind: take_text(record)?, key: take_text(record)? },
            4 => {
                let [namespaced] = *take(record)?;
                let (api_version, kind) = (take_text(record)?, take_text(record)?);
                Self::Register { api_version, kind, namespaced: namespaced == 1 }
            }
            5 => Self::Revision { revision: take_number(record)?, quiet: take_number(record)? },
            6 => Self::End { objects: take_number(record)? },
            _ => return None,
        };
        record.is_empty().then_some(decoded)
    }
}

/// What is stored is never 4 GiB long: the largest request body has three megabytes.
fn length_of(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&length_of(text.len()));
    out.extend_from_slice(text.as_bytes());
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(|bytes| u64::from_le_bytes(*bytes))
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(u32::from_le_bytes(*take(bytes)?)).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_read_as_it_was_written() {
        let records = [
            Record::Put { revision: 7, kind: "v1/Pod", key: "ns/a", object: b"{}" },
            Record::Remove { revision: u64::MAX, kind: "v1/Pod", key: "ns/a" },
            Record::Forget { kind: "v1/Node", key: "ü" },
            Record::Register { api_version: "example.com/v1", kind: "Thing", namespaced: true },
            Record::Revision { revision: 9, quiet: 8 },
            Record::End { objects: 0 },
        ];
        let mut bytes = Vec::new();
        for record in &records {
            record.encode(&mut bytes);
        }
        let mut rest = bytes.as_slice();
        for record in &records {
            assert_eq!(Record::take(&mut rest).as_ref(), Some(record));
        }
        assert_eq!(Record::take(&mut rest), None);
    }
}
