//! Decides how objects look in protocol buffers, which typed clients send and prefer: the same fields as in
//! JSON, by number. Only built-in kinds have numbers; they are those of `schemas/protobuf.txt`. Answers to
//! `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`.

mod messages;
mod read;
mod write;

use serde_json::{Map, Value};

use crate::kinds::Kind;

/// What every message begins with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may stand in messages.
const DEPTH: usize = 40;

/// Why a message cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Nobody knows the numbers of its kind.
    UnknownKind,
    /// It is no message, or one that is cut off.
    Malformed(String),
}

/// Whether objects of a kind can be read and written. Definitions of custom kinds can not: their schemas have
/// forms of their own in JSON.
pub(crate) fn knows(kind: &Kind) -> bool {
    !kind.custom && messages::named(&kind.api_version(), &kind.kind).is_some()
}

/// The object in a message, with its kind and version.
pub(crate) fn read(message: &[u8]) -> Result<Value, Unreadable> {
    let Some(envelope) = message.strip_prefix(MAGIC) else {
        let prefix: Vec<String> = MAGIC.iter().map(u8::to_string).collect();
        return Err(Unreadable::Malformed(format!(
            "provided data does not appear to be a protobuf message, expected prefix [{}]",
            prefix.join(" ")
        )));
    };
    let (api_version, kind, raw) = read::envelope(envelope).map_err(Unreadable::Malformed)?;
    let message = messages::named(&api_version, &kind).ok_or(Unreadable::UnknownKind)?;
    let mut fields = read::message(message, raw, DEPTH).map_err(Unreadable::Malformed)?;
    fields.insert("apiVersion".into(), api_version.into());
    fields.insert("kind".into(), kind.into());
    Ok(Value::Object(fields))
}

/// The message of an object, unless nobody knows the numbers of its kind.
pub(crate) fn write(object: &Value) -> Option<Vec<u8>> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let message = messages::named(text("apiVersion"), text("kind"))?;
    let none = Map::new();
    let mut fields = Vec::new();
    write::message(message, object.as_object().unwrap_or(&none), &mut fields, DEPTH);
    let mut out = MAGIC.to_vec();
    write::envelope(text("apiVersion"), text("kind"), &fields, &mut out);
    Some(out)
}

/// An event of a watch: its length, its type, and the object as a message of its own.
pub(crate) fn write_event(kind: &str, object: &Value, out: &mut Vec<u8>) -> Option<()> {
    let object = write(object)?;
    let mut event = Vec::new();
    write::event(kind, &object, &mut event);
    out.extend_from_slice(&u32::try_from(event.len()).ok()?.to_be_bytes());
    out.extend_from_slice(&event);
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: &Value) {
        let message = write(object).unwrap();
        assert_eq!(read(&message).as_ref(), Ok(object));
    }

    #[test]
    fn objects_survive_the_way_there_and_back() {
        check(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {
                "name": "a", "labels": {"x": "y", "z": ""}, "creationTimestamp": "2024-01-02T03:04:05Z",
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}, "time": "2024-01-02T03:04:05Z"}],
            },
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "hostPath": {"path": "/x", "type": ""}, "volumeMode": "Block",
            },
        }));
        check(&json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"k": "AP8=", "l": "YQ=="}, "immutable": false,
        }));
        check(&json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {"kind": "Pod"},
            "eventTime": "2024-01-02T03:04:05.000006Z", "reportingComponent": "", "reportingInstance": "", "count": 3,
        }));
        check(&json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a", "generation": -1},
            "spec": {"minAvailable": "50%", "maxUnavailable": 2},
        }));
        check(&json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
            "status": {"userInfo": {"username": "a", "extra": {"e": ["1", "2"]}}},
        }));
        check(&json!({
            "apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "5", "remainingItemCount": 0},
            "items": [{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "stdin": true}]}}],
        }));
    }

    #[test]
    fn a_message_of_a_go_client_is_read() {
        let message = b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x12\n\x08\n\x06p-test\x12\x06\n\x01k\x12\x01v";
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p-test"}, "data": {"k": "v"},
        });
        assert_eq!(read(message), Ok(expected));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(matches!(read(b"garbage"), Err(Unreadable::Malformed(_))));
        assert!(matches!(read(b"k8s\0\n\xff"), Err(Unreadable::Malformed(_))));
        assert_eq!(read(b"k8s\0\n\x08\n\x02v1\x12\x02No"), Err(Unreadable::UnknownKind));
        let good = write(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "abc"}})).unwrap();
        for end in 4..good.len() {
            // Whatever is cut off is either nothing or noticed: it must not end the server.
            let _ = read(&good[..end]);
        }
    }
}
