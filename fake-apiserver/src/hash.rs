//! Decides how documents are told apart: by the hash of their bytes. Answers to the `ETag`s of
//! `k8s.io/apiserver/pkg/endpoints/discovery/aggregated/etag.go` and of `k8s.io/kube-openapi`.

use std::fmt::Write;

use ring::digest::{SHA512, digest};

/// The hash in capitals, as upstream writes it.
pub(crate) fn of(document: &[u8]) -> String {
    let hash = digest(&SHA512, document);
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha_512() {
        let hash = of(b"abc");
        assert!(hash.starts_with("DDAF35A193617ABACC417349AE204131") && hash.len() == 128, "{hash}");
    }
}
