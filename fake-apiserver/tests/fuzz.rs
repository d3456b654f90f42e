//! The fuzz targets with inputs that are drawn at random: bytes, and pieces of what the parsers look for. `PROPTEST_CASES` says
//! how many; `just fuzz` runs the targets themselves, where there is cargo-fuzz.

use proptest::prelude::*;

#[path = "../fuzz/bodies.rs"]
mod bodies;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Bytes made of pieces that mean something to a parser, and of any others.
fn text(pieces: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

/// Objects with fields and directives that exist.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-z$/~ü]{0,6}".prop_map(Into::into),
    ];
    let key = prop::sample::select(vec![
        "metadata",
        "labels",
        "data",
        "spec",
        "containers",
        "name",
        "env",
        "value",
        "$patch",
        "$retainKeys",
        "finalizers",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "tolerations",
        "key",
        "image",
        "kind",
        "apiVersion",
        "annotations",
        "ownerReferences",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
    ]);
    leaf.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|fields| {
                let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value));
                serde_json::Value::Object(fields.collect())
            }),
        ]
    })
}

/// JSON of a patch, with paths that exist.
fn patch() -> impl Strategy<Value = Vec<u8>> {
    let path = prop::sample::select(vec![
        "",
        "/",
        "/metadata",
        "/metadata/labels",
        "/metadata/labels/x",
        "/metadata/finalizers/-",
        "/metadata/finalizers/0",
        "/metadata/name",
        "/metadata/uid",
        "/data",
        "/data/k",
        "/spec",
        "/spec/containers/0",
        "/spec/containers/-",
        "/spec/tolerations/1",
        "/kind",
        "/a~1b",
        "/a~2",
        "/metadata/resourceVersion",
        "/spec/containers/18446744073709551616",
    ]);
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "jump"]);
    let steps = prop::collection::vec((op, path.clone(), path, value()), 0..8).prop_map(|steps| {
        let steps = steps.into_iter().map(|(op, path, from, value)| {
            serde_json::json!({"op": op, "path": path, "from": from, "value": value})
        });
        serde_json::Value::Array(steps.collect())
    });
    (any::<u8>(), prop_oneof![steps, value()]).prop_map(|(choice, patch)| {
        let mut bytes = vec![choice];
        bytes.extend_from_slice(patch.to_string().as_bytes());
        bytes
    })
}

const SELECTOR: &[&str] = &[
    "app",
    "tier",
    "x",
    "=",
    "==",
    "!=",
    "!",
    "in",
    "notin",
    " ",
    "(",
    ")",
    ",",
    ">",
    "<",
    "1",
    "-",
    "metadata.name",
    "metadata.namespace",
    "\\",
    "exists",
    ".",
    "/",
    "ü",
];
const QUANTITY: &[&str] = &[
    "1",
    "0",
    "9",
    "999999999999999999",
    ".",
    "-",
    "+",
    "e",
    "E",
    "3",
    "Ki",
    "Mi",
    "Ei",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "P",
    " ",
    "e-",
    "00000",
    "i",
];
const WIRE: &[&str] = &[
    "GET ",
    "POST ",
    "PUT ",
    "PATCH ",
    "DELETE ",
    "OPTIONS ",
    "/",
    "/api/v1/namespaces/default/configmaps",
    "/apis",
    "/version",
    "?watch=true",
    "&timeoutSeconds=1",
    "?limit=1&continue=",
    "%",
    "%2F",
    " HTTP/1.1\r\n",
    "host: a\r\n",
    "\r\n",
    "\n",
    "content-type: application/json\r\n",
    "content-length: 2\r\n",
    "transfer-encoding: chunked\r\n",
    "{}",
    "0\r\n\r\n",
    "accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n",
    "connection: close\r\n",
    "expect: 100-continue\r\n",
    "upgrade: h2c\r\n",
    "authorization: Bearer a\r\n",
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn patches(data in prop_oneof![3 => patch(), 1 => prop::collection::vec(any::<u8>(), 0..64)]) {
        bodies::patches(&data);
    }

    #[test]
    fn selectors(data in text(SELECTOR, 12)) {
        bodies::selectors(&data);
    }

    #[test]
    fn quantities(data in text(QUANTITY, 8)) {
        bodies::quantities(&data);
    }

    #[test]
    fn wire(data in text(WIRE, 16)) {
        bodies::wire(&data);
    }
}
