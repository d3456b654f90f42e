//! What goes wrong on demand, as a client meets it; what the journal says of it; and how a test in another process asks for it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use fake_apiserver::{FakeApiServer, Faults, Ids, Options};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server(script: &str) -> FakeApiServer {
    let epoch = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let options = Options {
        now: Arc::new(move || epoch),
        ids: Ids::Seeded(1),
        journal: 100,
        admin: true,
        ..Options::default()
    };
    let server = FakeApiServer::new(options);
    server.script_faults(Some(Faults::parse(script).unwrap())).unwrap();
    server
}

/// The answer of the router: code, `Retry-After`, body; nothing when the connection was lost.
async fn ask(server: &FakeApiServer, method: &str, path: &str, body: &str) -> Option<(u16, String, Value)> {
    let request = axum::extract::Request::builder()
        .method(method)
        .uri(path)
        .header(
            "content-type",
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
        )
        .header("user-agent", "tester/1.0")
        .body(Body::from(body.to_owned()))
        .unwrap();
    let response = server.router().oneshot(request).await.unwrap();
    let retry = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some((code, retry.unwrap_or_default(), serde_json::from_slice(&body).unwrap_or_default()))
}

async fn create(server: &FakeApiServer, name: &str) -> Option<(u16, String, Value)> {
    let body = json!({"metadata": {"name": name}}).to_string();
    ask(server, "POST", MAPS, &body).await
}

/// The types of the events of a watch that ends by itself.
async fn watched(server: &FakeApiServer, query: &str) -> Vec<String> {
    let request =
        axum::extract::Request::get(format!("{MAPS}?watch=true&{query}")).body(Body::empty()).unwrap();
    let body =
        server.router().oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let event: Value = serde_json::from_slice(line).unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            format!("{} {name}", event["type"].as_str().unwrap()).trim_end().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn a_refusal_looks_like_the_real_one() {
    let server = server(
        "rules: [{verbs: [patch], nth: 2, answer: {code: 409}}, {verbs: [create], nth: 2, answer: {code: 429, retryAfterSeconds: 3}}]",
    );
    assert_eq!(create(&server, "a").await.unwrap().0, 201);
    let path = format!("{MAPS}/a");
    assert_eq!(ask(&server, "PATCH", &path, "{}").await.unwrap().0, 200);
    let (code, _, refused) = ask(&server, "PATCH", &path, "{}").await.unwrap();
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
    assert_eq!(
        refused["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let (code, retry, refused) = create(&server, "b").await.unwrap();
    assert_eq!((code, &*retry, &refused["details"]["retryAfterSeconds"]), (429, "3", &json!(3)));
    assert!(server.get("ConfigMap", "default", "b").is_none(), "it was not handled");
    assert_eq!(create(&server, "b").await.unwrap().0, 201);
}

#[tokio::test]
async fn what_is_lost_before_has_not_happened_and_what_is_lost_after_has() {
    let server = server(
        "rules: [{names: [''], verbs: [create], nth: 1, lose: request}, {verbs: [create], nth: 2, lose: answer}]",
    );
    assert_eq!(create(&server, "a").await, None);
    assert!(server.get("ConfigMap", "default", "a").is_none());
    assert_eq!(create(&server, "b").await, None);
    assert!(server.get("ConfigMap", "default", "b").is_some());
    let journal = server.journal();
    let codes: Vec<u16> = journal.entries().iter().map(|entry| entry.code).collect();
    assert_eq!(codes, [0, 0], "no answer arrived");
}

#[tokio::test(start_paused = true)]
async fn requests_wait_and_watches_end_early() {
    let server = server(
        "rules: [{verbs: [list], latencyMillis: 1500}, {verbs: [watch], nth: 1, cut: {afterEvents: 2}}, {verbs: [watch], nth: 2, cut: {afterSeconds: 5}}, {verbs: [watch], nth: 3, cut: {afterEvents: 0}}]",
    );
    for name in ["a", "b", "c"] {
        create(&server, name).await.unwrap();
    }
    let start = tokio::time::Instant::now();
    ask(&server, "GET", MAPS, "").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(1500));
    assert_eq!(watched(&server, "").await, ["ADDED a", "ADDED b"]);
    let start = tokio::time::Instant::now();
    assert_eq!(watched(&server, "").await.len(), 3);
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(watched(&server, "").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_withheld() {
    let query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=100";
    for (withheld, expected) in
        [("", 3), ("{withholdBookmarks: periodic}", 1), ("{withholdBookmarks: all}", 0)]
    {
        let server = server(&format!("rules: [{withheld}]"));
        assert_eq!(watched(&server, query).await, vec!["BOOKMARK"; expected], "{withheld}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_history_expires_watches_until_the_script_ends() {
    let server = server("{history: 1, clockSkewSeconds: -3600, hold: [ConfigMap]}");
    let first = create(&server, "a").await.unwrap().2;
    assert_eq!(first["metadata"]["creationTimestamp"], "2023-11-14T21:13:20Z");
    for name in ["b", "c"] {
        create(&server, name).await.unwrap();
    }
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let query = format!("resourceVersion={version}&timeoutSeconds=5");
    assert_eq!(watched(&server, &query).await, ["ERROR"]);
    let current = format!("resourceVersion={}&timeoutSeconds=5", server.revision());
    let (held, _) = tokio::join!(watched(&server, &current), create(&server, "d"));
    assert_eq!(held, [""; 0], "watches are held back");
    let release = async {
        create(&server, "e").await.unwrap();
        server.script_faults(None).unwrap();
    };
    let current = format!("resourceVersion={}&timeoutSeconds=5", server.revision());
    let (released, ()) = tokio::join!(watched(&server, &current), release);
    assert_eq!(released, ["ADDED e"]);
    let later = create(&server, "f").await.unwrap().2;
    assert_eq!(later["metadata"]["creationTimestamp"], "2023-11-14T22:13:20Z");
}

#[tokio::test]
async fn a_script_for_an_unknown_kind_changes_nothing() {
    let server = server("clockSkewSeconds: 1");
    let refused = server.script_faults(Some(Faults { hold: vec!["Widget".into()], ..Faults::default() }));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "faults: hold[0]: \"Widget\" is not served; say PersistentVolume, or such"
    );
    let (_, _, script) = ask(&server, "GET", "/_pvbind/faults", "").await.unwrap();
    assert_eq!(script, json!({"seed": 0, "clockSkewSeconds": 1}));
}

#[tokio::test]
async fn the_journal_says_who_asked_what() {
    let server = server("{}");
    create(&server, "a").await.unwrap();
    ask(&server, "PATCH", &format!("{MAPS}/a?dryRun=All"), "{}").await.unwrap();
    ask(&server, "GET", &format!("{MAPS}?limit=5&labelSelector=a%3Db"), "").await.unwrap();
    ask(&server, "DELETE", &format!("{MAPS}/nobody"), "").await.unwrap();
    let journal = server.journal();
    journal.clone().writes().resource("configmaps").by("tester/*").assert_count(3);
    journal
        .clone()
        .verb("patch")
        .object("default", "a")
        .only(|entry| entry.parameter("dryRun") == "All")
        .assert_count(1);
    journal.clone().verb("list").only(|entry| entry.parameter("labelSelector") == "a=b").assert_some();
    journal.clone().code(404).verb("delete").assert_count(1);
    journal.clone().verb("watch").assert_none();
    let shown = journal.clone().verb("list").to_string();
    assert!(
        shown.starts_with("    3 list configmaps/default?limit=5&labelSelector=a=b -> 200 in "),
        "{shown}"
    );
    assert!(shown.ends_with(" by tester/1.0\n"), "{shown}");
    let failed = std::panic::catch_unwind(|| journal.writes().assert_count(1)).unwrap_err();
    let failed = failed.downcast_ref::<String>().unwrap();
    assert!(failed.contains("3 create") || failed.contains("1 create configmaps/default -> 201"), "{failed}");
}

#[tokio::test]
async fn the_journal_is_bounded() {
    let server = server("{}");
    for number in 0..150 {
        create(&server, &format!("m{number}")).await.unwrap();
    }
    let journal = server.journal();
    let numbers: Vec<u64> = journal.entries().iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, (51..=150).collect::<Vec<_>>());
}

#[tokio::test]
async fn another_process_asks_for_faults_and_for_the_journal() {
    let server = server("{}");
    let (code, _, refused) =
        ask(&server, "PUT", "/_pvbind/faults", "rules: [{verbs: [get], answer: {code: 1}}]").await.unwrap();
    assert_eq!(
        (code, &refused["message"]),
        (400, &json!("faults: rules[0].answer.code: 1 is no refusal; 400 to 599 are"))
    );
    let script = "rules: [{verbs: [get], answer: {code: 503}}]";
    assert_eq!(ask(&server, "PUT", "/_pvbind/faults", script).await.unwrap().0, 200);
    assert_eq!(ask(&server, "GET", "/api/v1/nodes/a", "").await.unwrap().0, 503);
    assert_eq!(ask(&server, "DELETE", "/_pvbind/faults", "").await.unwrap().0, 200);
    assert_eq!(ask(&server, "GET", "/api/v1/nodes/a", "").await.unwrap().0, 404);
    let (_, _, journal) = ask(&server, "GET", "/_pvbind/journal?verb=get&code=503", "").await.unwrap();
    assert_eq!(journal.as_array().unwrap().len(), 1);
    assert_eq!(journal[0]["userAgent"], "tester/1.0");
    assert_eq!(ask(&server, "DELETE", "/_pvbind/journal", "").await.unwrap().0, 200);
    assert_eq!(ask(&server, "GET", "/_pvbind/journal", "").await.unwrap().2, json!([]));
    assert_eq!(ask(&server, "POST", "/_pvbind/watches/hold?kind=Pod", "").await.unwrap().0, 200);
    let (_, _, watches) = ask(&server, "GET", "/_pvbind/watches", "").await.unwrap();
    assert_eq!(watches, json!([{"kind": "v1/Pod", "open": 0, "held": true}]));
    assert_eq!(ask(&server, "POST", "/_pvbind/watches/release?kind=Pod", "").await.unwrap().0, 200);
    assert_eq!(ask(&server, "GET", "/_pvbind/watches", "").await.unwrap().2, json!([]));
    let (code, _, refused) = ask(&server, "POST", "/_pvbind/watches/hold?kind=Poo", "").await.unwrap();
    assert_eq!(
        (code, &refused["message"]),
        (400, &json!("kind: \"Poo\" is not served; say kind=PersistentVolume, or such"))
    );
    assert_eq!(ask(&server, "POST", "/_pvbind/faults", "").await.unwrap().0, 405);
    assert_eq!(ask(&server, "GET", "/_pvbind/nothing", "").await.unwrap().0, 404);
    let closed = FakeApiServer::new(Options::default());
    assert_eq!(
        ask(&closed, "GET", "/_pvbind/journal", "").await.unwrap().0,
        404,
        "only where it is asked for"
    );
}
