//! Decides which answers go out compressed: large ones, to clients that say they take gzip. Never compresses a watch, and takes no
//! compressed request: its bytes are no JSON, and it is told so. Answers to the `deferredResponseWriter` of
//! `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go`.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::answer::{Answer, Content};

/// Answers up to this size are not worth it.
const THRESHOLD: usize = 128 * 1024;
/// The older `OpenAPI` document is written by another library, which begins earlier.
const THRESHOLD_OF_SWAGGER: usize = 1400;
const SWAGGER: &str = "/openapi/v2";

/// The answer to a request for a path, compressed if it is to be.
pub(crate) async fn compressed(path: &str, accept_encoding: &str, mut answer: Answer) -> Answer {
    // Weights are not read: `gzip;q=1` is another word.
    let accepts = accept_encoding.split(',').any(|one| one.trim() == "gzip");
    let threshold = match path {
        SWAGGER => THRESHOLD_OF_SWAGGER,
        _ if path.starts_with("/openapi/") => return answer,
        _ => THRESHOLD,
    };
    let Content::Ready(body) = &answer.content else { return answer };
    if !accepts || body.len() <= threshold {
        return answer;
    }
    let plain = body.clone();
    // It takes a while, in which other requests are answered.
    let packed = tokio::task::spawn_blocking(move || gzip(&plain)).await;
    let Ok(Some(packed)) = packed else { return answer };
    answer.content = Content::Ready(packed);
    let varies = path != SWAGGER;
    answer = answer.with_header("content-encoding", "gzip");
    if varies { answer.with_header("vary", "Accept-Encoding") } else { answer }
}

/// The same bytes, compressed quickly rather than well; nothing when that fails, which memory does not.
fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(path: &str, accept: &str, length: usize, expected: bool) {
        let answer = compressed(path, accept, Answer::text(200, vec![b'a'; length])).await;
        let Content::Ready(body) = &answer.content else { panic!("it is no watch") };
        let said = answer.headers.contains(&("content-encoding", "gzip".into()));
        let case = format!("{path} {accept} {length}");
        assert_eq!((said, body.len() < length), (expected, expected), "{case}");
    }

    #[tokio::test]
    async fn large_answers_are_compressed_for_those_who_ask() {
        check("/api/v1/pods", "gzip", THRESHOLD + 1, true).await;
        check("/api/v1/pods", "deflate, gzip", THRESHOLD + 1, true).await;
        check("/api/v1/pods", "gzip;q=1.0", THRESHOLD + 1, false).await;
        check("/api/v1/pods", "", THRESHOLD + 1, false).await;
        check("/api/v1/pods", "gzip", THRESHOLD, false).await;
        check(SWAGGER, "gzip", THRESHOLD, true).await;
        check("/openapi/v3/api/v1", "gzip", THRESHOLD + 1, false).await;
    }
}
