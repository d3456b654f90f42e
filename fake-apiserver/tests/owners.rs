//! Who owns which field, and what of a request's fields is kept, through the router.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use fake_apiserver::{FakeApiServer, Ids, Options};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

struct Stage(FakeApiServer);

struct Reply {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Stage {
    fn new() -> Self {
        let epoch = jiff::Timestamp::from_second(1_700_000_000).unwrap();
        let options = Options { now: Arc::new(move || epoch), ids: Ids::Seeded(1), ..Options::default() };
        Self(FakeApiServer::new(options))
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Reply {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.header("user-agent", "tester/v1 (linux)").body(Body::from(body.to_owned()));
        let response = self.0.router().oneshot(request.unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).collect();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Reply { code, warnings, body: serde_json::from_slice(&body).unwrap() }
    }

    async fn apply(&self, name: &str, manager: &str, data: &Value) -> Reply {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        let path = format!("{MAPS}/{name}?fieldManager={manager}");
        self.send("PATCH", &path, APPLY, &body.to_string()).await
    }
}

/// The managers of an object with what they own.
fn owners(object: &Value) -> Vec<(String, String, Value)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| (text(&entry["manager"]), text(&entry["operation"]), entry["fieldsV1"].clone()))
        .collect()
}

fn owner(name: &str, operation: &str, fields: Value) -> (String, String, Value) {
    (name.to_owned(), operation.to_owned(), fields)
}

#[tokio::test]
async fn applying_makes_merges_and_takes_back() {
    let stage = Stage::new();
    assert_eq!(stage.apply("a", "one", &json!({"x": "1", "y": "1"})).await.code, 201);
    let both = stage.apply("a", "two", &json!({"y": "1", "z": "1"})).await;
    assert_eq!((both.code, &both.body["data"]), (200, &json!({"x": "1", "y": "1", "z": "1"})));
    let less = stage.apply("a", "one", &json!({})).await;
    assert_eq!(less.body["data"], json!({"y": "1", "z": "1"}), "what the other owns stays");
    assert_eq!(owners(&less.body)[0], owner("one", "Apply", json!({"f:data": {}})));
    let again = stage.apply("a", "one", &json!({})).await;
    assert_eq!(again.body, less.body, "the same again changes nothing");
}

#[tokio::test]
async fn a_null_that_is_applied_is_what_its_type_makes_of_it() {
    let stage = Stage::new();
    let made = stage.apply("a", "one", &json!({"x": null, "y": "1"})).await;
    assert_eq!((made.code, &made.body["data"]), (201, &json!({"x": "", "y": "1"})));
    assert_eq!(owners(&made.body), [owner("one", "Apply", json!({"f:data": {"f:x": {}, "f:y": {}}}))]);
}

#[tokio::test]
async fn fields_of_others_are_a_conflict_unless_forced() {
    let stage = Stage::new();
    stage.apply("a", "one", &json!({"x": "1"})).await;
    let refused = stage.apply("a", "two", &json!({"x": "2"})).await;
    assert_eq!(refused.code, 409);
    assert_eq!(refused.body["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "2"}});
    let path = format!("{MAPS}/a?fieldManager=two&force=true");
    let forced = stage.send("PATCH", &path, APPLY, &body.to_string()).await;
    assert_eq!(forced.body["data"], json!({"x": "2"}));
    assert_eq!(owners(&forced.body), [owner("two", "Apply", json!({"f:data": {"f:x": {}}}))]);
}

#[tokio::test]
async fn whoever_changes_a_field_owns_it() {
    let stage = Stage::new();
    let body = r#"{"metadata": {"name": "a"}, "data": {"k": "v"}}"#;
    let made = stage.send("POST", MAPS, "application/json", body).await;
    assert_eq!(owners(&made.body), [owner("tester", "Update", json!({"f:data": {".": {}, "f:k": {}}}))]);
    let path = format!("{MAPS}/a?fieldManager=other");
    let patched = stage.send("PATCH", &path, MERGE, r#"{"data": {"k": "w"}}"#).await;
    assert_eq!(
        owners(&patched.body),
        [
            owner("other", "Update", json!({"f:data": {"f:k": {}}})),
            owner("tester", "Update", json!({"f:data": {}})),
        ]
    );
    let emptied = stage.send("PATCH", &path, MERGE, r#"{"metadata": {"managedFields": []}}"#).await;
    assert_eq!(owners(&emptied.body), []);
    let later = stage.send("PATCH", &path, MERGE, r#"{"data": {"k": "x"}}"#).await;
    assert_eq!(owners(&later.body), [], "an emptied list stays empty until somebody applies");
    let applied = stage.apply("a", "one", &json!({"n": "1"})).await;
    let names: Vec<String> = owners(&applied.body).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["one", "before-first-apply"]);
}

#[tokio::test]
async fn the_status_has_owners_of_its_own() {
    let stage = Stage::new();
    let claim = r#"{"metadata": {"name": "a"}, "status": {"phase": "Bound"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}"#;
    let made = stage.send("POST", CLAIMS, "application/json", claim).await;
    assert!(owners(&made.body)[0].2.get("f:status").is_none(), "a create does not write the status");
    let body = r#"{"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}}"#;
    let written = stage.send("PATCH", &format!("{CLAIMS}/a/status"), MERGE, body).await;
    let entry = &written.body["metadata"]["managedFields"][1];
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:phase": {}}}))
    );
}

#[tokio::test]
async fn configurations_that_cannot_be_applied_are_refused() {
    let stage = Stage::new();
    let path = format!("{MAPS}/a?fieldManager=m");
    for (path, body, code) in [
        (format!("{MAPS}/a"), r#"{"apiVersion": "v1", "kind": "ConfigMap"}"#, 422),
        (path.clone(), "", 400),
        (path.clone(), "- a", 400),
        (path.clone(), r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}"#, 400),
        (path.clone(), r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}"#, 400),
        (
            path.clone(),
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": []}}"#,
            400,
        ),
        (
            path.clone(),
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}}"#,
            409,
        ),
        (
            path.clone(),
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "bogus": 1}"#,
            500,
        ),
        (
            format!("{CLAIMS}/a/status?fieldManager=m"),
            r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim"}"#,
            404,
        ),
    ] {
        let reply = stage.send("PATCH", &path, APPLY, body).await;
        assert_eq!(reply.code, code, "{body}: {}", reply.body);
    }
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', x: '2'}\n";
    let strict = stage.send("PATCH", &format!("{path}&fieldValidation=Strict"), APPLY, twice).await;
    assert_eq!(strict.code, 400);
    let warned = stage.send("PATCH", &path, APPLY, twice).await;
    assert_eq!((warned.code, warned.warnings.len(), &warned.body["data"]), (201, 1, &json!({"x": "2"})));
}

#[tokio::test]
async fn unknown_fields_are_dropped_and_named() {
    let stage = Stage::new();
    let body = r#"{"metadata": {"name": "a"}, "data": {"k": "v"}, "dta": {}, "data": {"k": "w"}}"#;
    let strict =
        stage.send("POST", &format!("{MAPS}?fieldValidation=Strict"), "application/json", body).await;
    assert_eq!(
        (strict.code, strict.body["message"].as_str().unwrap()),
        (
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\", duplicate field \"data\""
        )
    );
    let warned = stage.send("POST", MAPS, "application/json", body).await;
    assert_eq!(warned.warnings, [r#"299 - "unknown field \"dta\"""#, r#"299 - "duplicate field \"data\"""#]);
    assert_eq!((&warned.body["data"], warned.body.get("dta")), (&json!({"k": "w"}), None));
    let path = format!("{MAPS}/a");
    let ignored =
        stage.send("PATCH", &format!("{path}?fieldValidation=Ignore"), MERGE, r#"{"dta": 1}"#).await;
    assert_eq!((ignored.code, ignored.warnings.len()), (200, 0));
    let refused =
        stage.send("PATCH", &format!("{path}?fieldValidation=Strict"), MERGE, r#"{"dta": 1}"#).await;
    assert_eq!((refused.code, &refused.body["details"]["causes"][0]["field"]), (422, &json!("patch")));
    let mistaken = stage.send("PATCH", &path, MERGE, r#"{"data": {"k": 1}}"#).await;
    assert_eq!((mistaken.code, &mistaken.body["reason"]), (422, &json!("Invalid")));
    let mistaken = stage.send("POST", MAPS, "application/json", r#"{"metadata": {"name": 1}}"#).await;
    assert_eq!((mistaken.code, &mistaken.body["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test]
async fn a_scale_is_applied_and_its_number_owned_through_it() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let stage = Stage::new();
    let labels = json!({"app": "a"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec});
    let created = stage.send("POST", DEPLOYMENTS, "application/json", &deployment.to_string()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
    let path = format!("{DEPLOYMENTS}/a/scale?fieldManager=scaler");
    let refused = stage.send("PATCH", &path, APPLY, &scale.to_string()).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    let why = "Apply failed with 1 conflict: conflict with \"tester\" using autoscaling/v1: .spec.replicas";
    assert_eq!(refused.body["message"], why);
    let forced = stage.send("PATCH", &format!("{path}&force=true"), APPLY, &scale.to_string()).await;
    assert_eq!((forced.code, &forced.body["spec"]["replicas"]), (200, &json!(3)));
    let number = json!({"f:spec": {"f:replicas": {}}});
    let scaled = stage.send("GET", &format!("{DEPLOYMENTS}/a"), "", "").await.body;
    let first = &scaled["metadata"]["managedFields"][0];
    assert_eq!((&first["manager"], &first["subresource"]), (&json!("scaler"), &json!("scale")));
    assert_eq!((&first["apiVersion"], &first["fieldsV1"]), (&json!("apps/v1"), &number));
    assert!(owners(&scaled)[1].2["f:spec"].get("f:replicas").is_none(), "it is the creator's no more");
    // A strategic merge patch takes it back, as one of the object would.
    let five = r#"{"spec":{"replicas":5}}"#;
    let path = format!("{DEPLOYMENTS}/a/scale?fieldManager=patcher");
    let patched = stage.send("PATCH", &path, "application/strategic-merge-patch+json", five).await;
    assert_eq!((patched.code, &patched.body["spec"]["replicas"]), (200, &json!(5)));
    let scaled = stage.send("GET", &format!("{DEPLOYMENTS}/a"), "", "").await.body;
    assert_eq!(owners(&scaled)[0], owner("patcher", "Update", number));
}
