//! Who is let in, and what the server says of users.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use axum::extract::Request;
use fake_apiserver::{FakeApiServer, Ids, Options, Token};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// A server that asks for credentials, and its clock in seconds.
fn server() -> (FakeApiServer, Arc<AtomicI64>) {
    let clock = Arc::new(AtomicI64::new(1_700_000_000));
    let now = clock.clone();
    let now = Arc::new(move || jiff::Timestamp::from_second(now.load(Ordering::Relaxed)).unwrap());
    let tokens = vec![Token { groups: vec!["ops".into()], user: "alice".into(), ..Token::admin("secret") }];
    (FakeApiServer::new(Options { now, ids: Ids::Seeded(1), tokens, ..Options::default() }), clock)
}

async fn send(
    server: &FakeApiServer,
    method: &str,
    path: &str,
    credentials: &str,
    body: &Value,
) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("authorization", credentials);
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let response = server.router().oneshot(request.body(body).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&answer).unwrap_or(Value::Null))
}

/// The token that a service account gets.
async fn token(server: &FakeApiServer, spec: &Value) -> String {
    let path = format!("{ACCOUNTS}/a/token");
    let (code, answer) = send(server, "POST", &path, "Bearer secret", &json!({"spec": spec})).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn tokens_stay_good_where_a_folder_keeps_their_key() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let options = Options { tokens: vec![Token::admin("secret")], ..Options::default() };
        FakeApiServer::open(options, folder.path()).unwrap()
    };
    let first = start();
    let account = json!({"metadata": {"name": "a"}});
    assert_eq!(send(&first, "POST", ACCOUNTS, "Bearer secret", &account).await.0, 201);
    let bearer = format!("Bearer {}", token(&first, &json!({"expirationSeconds": 3600})).await);
    assert_eq!(send(&first, "GET", ACCOUNTS, &bearer, &Value::Null).await.0, 200);
    drop(first);
    let second = start();
    assert_eq!(send(&second, "GET", ACCOUNTS, &bearer, &Value::Null).await.0, 200);
    let elsewhere = tempfile::tempdir().unwrap();
    let options = Options { tokens: vec![Token::admin("secret")], ..Options::default() };
    let other = FakeApiServer::open(options, elsewhere.path()).unwrap();
    assert_eq!(send(&other, "GET", ACCOUNTS, &bearer, &Value::Null).await.0, 401);
    drop(second);
    std::fs::write(folder.path().join("token.key"), "short").unwrap();
    let refused = FakeApiServer::open(Options::default(), folder.path()).err().unwrap().to_string();
    assert!(refused.contains("token.key is damaged"), "{refused}");
}

#[tokio::test]
async fn whoever_is_not_known_is_refused_everywhere() {
    let (server, _) = server();
    for path in ["/api/v1/pods", "/healthz", "/version", "/nosuch", SELF] {
        for credentials in ["", "Bearer wrong", "Basic secret"] {
            let (code, answer) = send(&server, "GET", path, credentials, &Value::Null).await;
            assert_eq!((code, &answer["message"]), (401, &json!("Unauthorized")), "{path} {credentials}");
        }
    }
    let (code, answer) = send(&server, "POST", SELF, "Bearer secret", &json!({})).await;
    let user = json!({"username": "alice", "uid": "admin", "groups": ["ops", "system:authenticated"]});
    assert_eq!((code, &answer["status"]["userInfo"]), (201, &user));
}

#[tokio::test]
async fn everybody_is_trusted_where_nobody_has_credentials() {
    let server = FakeApiServer::new(Options::default());
    let (code, _) = send(&server, "GET", "/api/v1/pods", "", &Value::Null).await;
    assert_eq!(code, 200);
    let (_, answer) = send(&server, "POST", SELF, "Bearer whatever", &json!({})).await;
    assert_eq!(answer["status"]["userInfo"]["username"], "system:admin");
}

#[tokio::test]
async fn a_service_account_gets_in_until_its_token_expires() {
    let (server, clock) = server();
    send(&server, "POST", ACCOUNTS, "Bearer secret", &json!({"metadata": {"name": "a"}})).await;
    let token = format!("Bearer {}", token(&server, &json!({"expirationSeconds": 600})).await);
    let (code, answer) = send(&server, "POST", SELF, &token, &json!({})).await;
    assert_eq!(code, 201);
    assert_eq!(answer["status"]["userInfo"]["username"], "system:serviceaccount:default:a");
    clock.fetch_add(600, Ordering::Relaxed);
    assert_eq!(send(&server, "POST", SELF, &token, &json!({})).await.0, 401);
}

#[tokio::test]
async fn a_token_ends_with_its_service_account() {
    let (server, _) = server();
    send(&server, "POST", ACCOUNTS, "Bearer secret", &json!({"metadata": {"name": "a"}})).await;
    let token = token(&server, &json!({})).await;
    let review = json!({"spec": {"token": token}});
    let (_, answer) = send(&server, "POST", REVIEW, "Bearer secret", &review).await;
    assert_eq!(answer["status"]["authenticated"], true);
    send(&server, "DELETE", &format!("{ACCOUNTS}/a"), "Bearer secret", &Value::Null).await;
    let (_, answer) = send(&server, "POST", REVIEW, "Bearer secret", &review).await;
    assert_eq!(answer["status"], json!({"user": {}, "error": "invalid bearer token"}));
}

#[tokio::test]
async fn a_token_for_others_does_not_open_this_server() {
    let (server, _) = server();
    send(&server, "POST", ACCOUNTS, "Bearer secret", &json!({"metadata": {"name": "a"}})).await;
    let token = token(&server, &json!({"audiences": ["vault"]})).await;
    assert_eq!(send(&server, "GET", "/version", &format!("Bearer {token}"), &Value::Null).await.0, 401);
    let review = json!({"spec": {"token": token, "audiences": ["vault", "other"]}});
    let (_, answer) = send(&server, "POST", REVIEW, "Bearer secret", &review).await;
    assert_eq!(answer["status"]["audiences"], json!(["vault"]));
}

#[tokio::test]
async fn whoever_is_known_may_everything() {
    let (server, _) = server();
    let group = "/apis/authorization.k8s.io/v1";
    let asked = json!({"verb": "delete", "resource": "nodes"});
    for (path, spec, expected) in [
        ("selfsubjectaccessreviews", json!({"resourceAttributes": asked}), 201),
        ("subjectaccessreviews", json!({"user": "bob", "resourceAttributes": asked}), 201),
        ("subjectaccessreviews", json!({"resourceAttributes": asked}), 422),
        ("selfsubjectaccessreviews", json!({}), 422),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"user": "bob", "resourceAttributes": asked}),
            422,
        ),
    ] {
        let body = json!({"spec": spec});
        let (code, answer) = send(&server, "POST", &format!("{group}/{path}"), "Bearer secret", &body).await;
        assert_eq!(code, expected, "{path} {answer}");
        assert!(code != 201 || answer["status"]["allowed"] == true, "{answer}");
    }
    let body = json!({"spec": {"namespace": "default"}});
    let (_, answer) =
        send(&server, "POST", &format!("{group}/selfsubjectrulesreviews"), "Bearer secret", &body).await;
    assert_eq!(answer["status"]["resourceRules"][0]["verbs"], json!(["*"]));
}

#[tokio::test]
async fn token_requests_are_checked() {
    let (server, _) = server();
    send(&server, "POST", ACCOUNTS, "Bearer secret", &json!({"metadata": {"name": "a"}})).await;
    for (name, body, expected) in [
        ("a", json!({"spec": {"expirationSeconds": 5}}), 422),
        ("a", json!({"spec": {"expirationSeconds": 5_000_000_000_i64}}), 422),
        ("a", json!({"metadata": {"name": "b"}}), 422),
        ("a", json!({"metadata": {"uid": "other"}}), 409),
        ("a", json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "b"}}}), 404),
        ("a", json!({"spec": {"boundObjectRef": {"kind": "Job", "apiVersion": "v1", "name": "b"}}}), 400),
        ("a", json!({"kind": "Pod", "apiVersion": "v1"}), 400),
        ("nosuch", json!({}), 404),
    ] {
        let path = format!("{ACCOUNTS}/{name}/token");
        let (code, answer) = send(&server, "POST", &path, "Bearer secret", &body).await;
        assert_eq!(code, expected, "{body} {answer}");
    }
}
