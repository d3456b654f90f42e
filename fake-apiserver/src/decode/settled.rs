//! Decides whether an object is already as its kind has it, so that decoding it would change nothing and say nothing. Never
//! says what is wrong: what is not settled is decoded. Answers to the round trip through Go's types that a patched object makes.

use serde_json::Value;

use crate::decode::{Context, scalars};
use crate::schema::Link;

/// Whether decoding would give the value back without a word.
pub(super) fn is_settled(link: &Link, value: &Value) -> bool {
    let node = link.node();
    match value {
        // What null becomes depends on where it stands.
        Value::Null => false,
        Value::Array(items) => {
            node.list.as_ref().is_some_and(|list| items.iter().all(|item| is_settled(&list.items, item)))
        }
        Value::Object(fields) => node.map.as_ref().is_some_and(|map| {
            fields.iter().all(|(name, value)| match map.fields.get(name) {
                Some(field) if value.is_null() => scalars::is_time(&field.link),
                Some(field) => is_settled(&field.link, value),
                None => map.rest.as_ref().is_some_and(|link| is_settled(link, value)),
            })
        }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            scalars::keeps(node.scalar, value) || {
                let mut context = Context::default();
                scalars::read(link, &mut context, value.clone()).as_ref() == Some(value)
                    && context.mistake.is_none()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::decode::value;
    use crate::schema::of;

    const PLACES: &[&str] = &[
        "/metadata/labels/a",
        "/metadata/creationTimestamp",
        "/metadata/managedFields/0/fieldsV1/f:spec",
        "/spec/containers",
        "/spec/containers/0/ports/0",
        "/spec/containers/0/ports/0/hostPort",
        "/spec/containers/0/resources/limits/cpu",
        "/spec/containers/0/readinessProbe",
        "/spec/containers/0/readinessProbe/httpGet/port",
        "/spec/terminationGracePeriodSeconds",
        "/spec/hostNetwork",
        "/spec/nodeSelector",
        "/status/startTime",
    ];

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:hostNetwork": {}}}}],
            },
            "spec": {
                "containers": [{
                    "name": "c", "ports": [{"containerPort": 80, "hostPort": 81}],
                    "resources": {"limits": {"cpu": "1"}}, "readinessProbe": {"httpGet": {"port": "http"}},
                }],
                "terminationGracePeriodSeconds": 30, "hostNetwork": false, "nodeSelector": {"a": "b"},
            },
            "status": {"startTime": "2026-01-01T00:00:00Z"},
        })
    }

    fn other() -> impl Strategy<Value = Value> {
        let some = [
            json!(null),
            json!(true),
            json!(1),
            json!(-5_000_000_000_i64),
            json!(1.5),
            json!(""),
            json!("http"),
            json!("1500m"),
            json!("0.5"),
            json!("2026-01-01T02:00:00.5+02:00"),
            json!([]),
            json!([null]),
            json!([{"name": "d"}, {"unknown": 1}]),
            json!({}),
            json!({"a": null}),
            json!({"a": 1, "port": null}),
        ];
        proptest::sample::select(some.to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn what_is_settled_is_what_decoding_gives_back(
            changes in proptest::collection::vec((proptest::sample::select(PLACES), other()), 0..3),
        ) {
            let schema = of("v1", "Pod").unwrap();
            let mut pod = pod();
            for (place, other) in changes {
                if let Some(there) = pod.pointer_mut(place) {
                    *there = other;
                }
            }
            let decoded = value(&schema, &pod).unwrap();
            let same = decoded.value == pod && decoded.strict.is_empty() && decoded.mistake.is_none();
            // A null may come back as it was; what is not settled is decoded, so that only the other way counts.
            prop_assert!(same || !is_settled(&schema, &pod), "{pod}");
            prop_assert!(!same || is_settled(&schema, &pod) || pod.to_string().contains("null"), "{pod}");
        }
    }
}
