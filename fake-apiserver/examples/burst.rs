//! Measures what a request costs in process: creates, patches, reads and deletes claims through the router,
//! while a watch reads along.

use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use fake_apiserver::{FakeApiServer, Options};
use http_body_util::BodyExt;
use tower::ServiceExt;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const COUNT: usize = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = FakeApiServer::new(Options::default());
    let router = server.router();
    let watch = Request::get(format!("{CLAIMS}?watch=true")).body(Body::empty()).unwrap_or_default();
    let Ok(watch) = router.clone().oneshot(watch).await;
    let reading = tokio::spawn(async move {
        let (mut body, mut bytes) = (watch.into_body(), 0);
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, bytes::Bytes::len);
        }
        bytes
    });
    for step in ["create", "patch", "status", "get", "delete"] {
        let start = Instant::now();
        for number in 0..COUNT {
            let request = request(step, number).unwrap_or_default();
            let Ok(response) = router.clone().oneshot(request).await;
            let status = response.status();
            assert!(status.is_success(), "{step}: {status}");
            let _ = response.into_body().collect().await;
            if number % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let each = start.elapsed() / u32::try_from(COUNT).unwrap_or(1);
        println!("{step:8} {each:?} each");
    }
    reading.abort();
}

fn request(step: &str, number: usize) -> http::Result<Request> {
    let object = format!("{CLAIMS}/c{number}");
    let merge = "application/merge-patch+json";
    match step {
        "create" => Request::post(CLAIMS).header("content-type", "application/json").body(Body::from(format!(
            r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"c{number}","labels":{{"app":"x"}}}},
            "spec":{{"accessModes":["ReadWriteOnce"],"storageClassName":"","resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
        ))),
        "patch" => Request::patch(object).header("content-type", merge).body(Body::from(format!(
            r#"{{"metadata":{{"annotations":{{"pv.kubernetes.io/bind-completed":"yes"}}}},"spec":{{"volumeName":"p{number}"}}}}"#
        ))),
        "status" => Request::patch(format!("{object}/status"))
            .header("content-type", merge)
            .body(Body::from(r#"{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}"#)),
        "get" => Request::get(object).body(Body::empty()),
        _ => Request::delete(object).body(Body::empty()),
    }
}
