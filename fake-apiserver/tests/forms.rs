//! The forms in which requests come and answers go, through the router.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use fake_apiserver::{FakeApiServer, Ids, Options};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn server() -> FakeApiServer {
    let epoch = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    FakeApiServer::new(Options { now: Arc::new(move || epoch), ids: Ids::Seeded(1), ..Options::default() })
}

/// Code, content type and body of an answer.
async fn send(server: &FakeApiServer, request: Request<Body>) -> (u16, String, String) {
    let response = server.router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let form = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, form, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(server: &FakeApiServer, path: &str, accept: &str) -> (u16, String, String) {
    send(server, Request::get(path).header("accept", accept).body(Body::empty()).unwrap()).await
}

async fn create(server: &FakeApiServer, form: &str, body: &str) -> (u16, String, String) {
    let request = Request::post(MAPS).header("content-type", form);
    send(server, request.body(Body::from(body.to_owned())).unwrap()).await
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn yaml_comes_in_and_goes_out() {
    let server = server();
    let yaml = "metadata: {name: a}\ndata:\n  answer: \"42\"\n";
    let (code, form, body) = create(&server, "application/yaml; charset=utf-8", yaml).await;
    assert_eq!((code, form.as_str()), (201, "application/json"));
    assert_eq!(json(&body)["data"], json!({"answer": "42"}));
    let (code, form, body) = get(&server, &format!("{MAPS}/a"), "application/yaml").await;
    assert_eq!((code, form.as_str()), (200, "application/yaml"));
    assert!(body.starts_with("apiVersion: v1\ndata:\n"), "{body}");
    let (code, form, body) = get(&server, &format!("{MAPS}/nosuch"), "application/yaml").await;
    assert_eq!((code, form.as_str()), (404, "application/yaml"));
    assert!(body.contains("reason: NotFound"), "{body}");
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let server = server();
    for (form, body, expected) in [
        ("application/yaml", "a: b: c", 400),
        ("application/yaml", "- a", 400),
        ("application/json", "{", 400),
        ("text/plain", "{}", 415),
        ("application/vnd.kubernetes.protobuf", "k8s\0", 415),
        ("application/vnd.kubernetes.protobuf", "garbage", 400),
    ] {
        let (code, _, answer) = create(&server, form, body).await;
        assert_eq!(code, expected, "{form} {body} {answer}");
    }
}

#[tokio::test]
async fn a_review_is_asked_and_answered_in_protocol_buffers() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let server = server();
    let ask = async |form: &str, accept: &str, body: Vec<u8>| {
        let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        let request = request.header("content-type", form).header("accept", accept);
        let response = server.router().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
            (201, accept)
        );
        response.into_body().collect().await.unwrap().to_bytes().to_vec()
    };
    let question = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let message = ask("application/json", PROTOBUF, question.to_string().into()).await;
    assert!(message.starts_with(b"k8s\0"));
    let answer: Value = serde_json::from_slice(&ask(PROTOBUF, "application/json", message).await).unwrap();
    assert_eq!((&answer["spec"], &answer["status"]["allowed"]), (&question["spec"], &json!(true)));
}

#[tokio::test]
async fn a_list_becomes_a_table_page_by_page() {
    let server = server();
    for name in ["a", "b"] {
        create(&server, "application/json", &json!({"metadata": {"name": name}}).to_string()).await;
    }
    let (code, form, body) = get(&server, &format!("{MAPS}?limit=1"), TABLE).await;
    let table = json(&body);
    assert_eq!((code, form.as_str()), (200, "application/json"));
    assert_eq!(table["rows"][0]["cells"], json!(["a", 0, "0s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    let next = table["metadata"]["continue"].as_str().unwrap();
    let (_, _, body) =
        get(&server, &format!("{MAPS}?limit=1&includeObject=None&continue={next}"), TABLE).await;
    assert_eq!(json(&body)["rows"], json!([{"cells": ["b", 0, "0s"], "object": null}]));
}

#[tokio::test]
async fn a_watch_shows_columns_once() {
    let server = server();
    for name in ["a", "b"] {
        create(&server, "application/json", &json!({"metadata": {"name": name}}).to_string()).await;
    }
    let path = format!(
        "{MAPS}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    let request = Request::get(path).header("accept", TABLE).body(Body::empty()).unwrap();
    let mut body = server.router().oneshot(request).await.unwrap().into_body();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let events: Vec<Value> = String::from_utf8(frame.to_vec()).unwrap().lines().map(json).collect();
    assert_eq!(events[0]["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(events[1]["object"]["columnDefinitions"], Value::Null);
    assert_eq!(events[1]["object"]["rows"][0]["cells"], json!(["b", 0, "0s"]));
    let mark = &events[2]["object"];
    assert_eq!(mark["rows"][0]["cells"], json!(["", 0, "<unknown>"]));
    assert_eq!(mark["rows"][0]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn what_cannot_be_served_is_not_acceptable() {
    let server = server();
    create(&server, "application/json", r#"{"metadata":{"name":"a"}}"#).await;
    for (path, accept) in [
        ("", "application/xml"),
        ("", "application/json;as=Nosuch;v=v1;g=meta.k8s.io"),
        ("", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        ("/a", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        ("?watch=true", "application/yaml"),
    ] {
        let (code, _, body) = get(&server, &format!("{MAPS}{path}"), accept).await;
        assert_eq!(code, 406, "{path} {accept} {body}");
        assert!(body.contains("NotAcceptable"), "{body}");
    }
}

#[tokio::test]
async fn pretty_answers_are_indented() {
    let server = server();
    let (_, _, body) = get(&server, "/api/v1/namespaces/default?pretty=true", "").await;
    assert!(body.starts_with("{\n  \"kind\": \"Namespace\",\n  \"apiVersion\": \"v1\","), "{body}");
}

#[tokio::test]
async fn discovery_in_one_document_is_sent_once() {
    let server = server();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let request = |tag: &str| {
        let request = Request::get("/apis").header("accept", accept).header("if-none-match", tag);
        server.router().oneshot(request.body(Body::empty()).unwrap())
    };
    let first = request("").await.unwrap();
    assert_eq!(
        first.headers()["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    let body = first.into_body().collect().await.unwrap().to_bytes();
    let document = json(std::str::from_utf8(&body).unwrap());
    let storage =
        document["items"].as_array().unwrap().iter().find(|one| one["metadata"]["name"] == "storage.k8s.io");
    let resources = storage.unwrap()["versions"][0]["resources"].as_array().unwrap();
    let attachments = resources.iter().find(|one| one["resource"] == "volumeattachments").unwrap();
    assert_eq!(attachments["subresources"][0]["subresource"], "status");
    assert_eq!(attachments["scope"], "Cluster");
    assert_eq!(request(&tag).await.unwrap().status(), 304);
    server.register_kind("example.com/v1", "Widget", true);
    assert_eq!(request(&tag).await.unwrap().status(), 200);
}

#[tokio::test]
async fn health_is_told_check_by_check() {
    let server = server();
    let (code, _, body) = get(&server, "/readyz?verbose&exclude=log", "").await;
    assert_eq!(code, 200);
    assert!(
        body.contains("[+]ping ok\n[+]log excluded: ok\n") && body.ends_with("readyz check passed\n"),
        "{body}"
    );
    assert_eq!(get(&server, "/livez/etcd", "").await.2, "ok");
    assert_eq!(get(&server, "/livez/nosuch", "").await.0, 404);
}

#[tokio::test]
async fn openapi_leads_from_the_index_to_documents_that_can_be_kept() {
    let server = server();
    let (code, form, body) = get(&server, "/openapi/v3", "").await;
    assert_eq!((code, form.as_str()), (200, "text/plain; charset=utf-8"));
    let index = json(&body);
    let url = index["paths"]["apis/storage.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap();
    let (code, _, body) = get(&server, url, "application/json").await;
    let document = json(&body);
    assert_eq!(code, 200);
    let path = &document["paths"]["/apis/storage.k8s.io/v1/storageclasses/{name}"];
    assert_eq!(path["patch"]["operationId"], "patchStorageV1StorageClass");
    let reference = path["put"]["requestBody"]["content"]["*/*"]["schema"]["$ref"].as_str().unwrap();
    let name = reference.strip_prefix("#/components/schemas/").unwrap();
    assert_eq!(document["components"]["schemas"][name]["required"], json!(["provisioner"]));
    assert_eq!(get(&server, "/openapi/v3/api/v1?hash=OLD", "").await.0, 301);
    assert_eq!(get(&server, "/openapi/v3/apis/nosuch.example.com/v1", "").await.0, 404);
    server.register_kind("example.com/v1", "Widget", true);
    let (code, _, body) = get(&server, "/openapi/v3/apis/example.com/v1", "").await;
    assert_eq!(code, 200);
    assert_eq!(json(&body)["components"]["schemas"]["com.example.v1.Widget"]["type"], "object");
}

#[tokio::test]
async fn every_reference_of_the_older_document_leads_somewhere() {
    fn check(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    let found = document.pointer(reference.strip_prefix('#').unwrap());
                    assert!(found.is_some(), "{reference}");
                }
                fields.values().for_each(|value| check(value, document));
            }
            Value::Array(items) => items.iter().for_each(|value| check(value, document)),
            _ => {}
        }
    }
    let (code, _, body) = get(&server(), "/openapi/v2", "application/json").await;
    let document = json(&body);
    assert_eq!((code, &document["swagger"]), (200, &json!("2.0")));
    check(&document["paths"], &document);
    check(&document["parameters"], &document);
    check(&document["definitions"], &document);
}

#[tokio::test]
async fn the_schema_of_a_definition_is_published() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let server = server();
    let size = json!({"type": "integer", "default": 1, "nullable": true});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {"size": size}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "Gadgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "selectableFields": [{"jsonPath": ".spec.size"}],
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
            }],
        },
    });
    let before = json(&get(&server, "/openapi/v3", "application/json").await.2);
    assert!(before["paths"].get("apis/example.com/v1").is_none());
    let request = Request::post(DEFINITIONS).header("content-type", "application/json");
    let (code, _, body) = send(&server, request.body(Body::from(definition.to_string())).unwrap()).await;
    assert_eq!(code, 201, "{body}");
    let index = json(&get(&server, "/openapi/v3", "application/json").await.2);
    let url = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = json(&get(&server, &url, "application/json").await.2);
    let gadget = &document["components"]["schemas"]["com.example.v1.Gadget"];
    assert_eq!(gadget["properties"]["spec"], schema["properties"]["spec"]);
    let kind = |name: &str| json!([{"group": "example.com", "version": "v1", "kind": name}]);
    assert_eq!(gadget["x-kubernetes-group-version-kind"], kind("Gadget"));
    assert_eq!(gadget["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.size"}]));
    let list = &document["components"]["schemas"]["com.example.v1.Gadgets"];
    assert_eq!(list["x-kubernetes-group-version-kind"], kind("Gadgets"));
    let path = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}/scale"];
    assert_eq!(path["patch"]["operationId"], "patchExampleComV1NamespacedGadgetScale");
    assert!(document["components"]["schemas"].get("io.k8s.api.autoscaling.v1.Scale").is_some());
    // Clients of the older edition would take what may be null for required, and a type for all that there is.
    let older = json(&get(&server, "/openapi/v2", "application/json").await.2);
    let spec = &older["definitions"]["com.example.v1.Gadget"]["properties"]["spec"];
    assert_eq!(*spec, json!({"type": "object", "properties": {"size": {}}}));
}

#[tokio::test]
async fn a_long_list_is_compressed_for_those_who_take_it() {
    let server = server();
    for name in ["a", "b"] {
        let data = json!({"text": "word ".repeat(15_000)});
        let map = json!({"metadata": {"name": name}, "data": data});
        let (code, ..) = create(&server, "application/json", &map.to_string()).await;
        assert_eq!(code, 201);
    }
    let ask = async |encoding: &str, path: &str| {
        let request = Request::get(path).header("accept-encoding", encoding).body(Body::empty());
        server.router().oneshot(request.unwrap()).await.unwrap()
    };
    let plain = ask("", MAPS).await.into_body().collect().await.unwrap().to_bytes();
    let response = ask("gzip", MAPS).await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(response.headers()["vary"], "Accept-Encoding");
    let packed = response.into_body().collect().await.unwrap().to_bytes();
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).unwrap();
    assert!(packed.len() < plain.len() / 10 && unpacked == plain);
    let short = ask("gzip", &format!("{MAPS}/a")).await;
    assert!(!short.headers().contains_key("content-encoding"), "one object is short enough");
    // What comes in is read as it is.
    let request = Request::post(MAPS).header("content-type", "application/json");
    let request = request.header("content-encoding", "gzip").body(Body::from(packed));
    assert_eq!(send(&server, request.unwrap()).await.0, 400);
}

#[tokio::test]
async fn a_list_offers_the_forms_of_its_watches_too() {
    let server = server();
    let (_, _, one) = get(&server, &format!("{MAPS}/a"), "text/html").await;
    let (code, _, all) = get(&server, MAPS, "text/html").await;
    assert!(one.contains("vnd.kubernetes.protobuf\"") && !one.contains("stream=watch"), "{one}");
    assert_eq!(
        (code, all.contains("application/vnd.kubernetes.protobuf;stream=watch")),
        (406, true),
        "{all}"
    );
}

#[tokio::test]
async fn what_was_not_stored_has_no_version_in_a_table() {
    let server = server();
    let request = Request::post(format!("{MAPS}?dryRun=All")).header("accept", TABLE);
    let body = r#"{"metadata": {"name": "a"}}"#;
    let request = request.header("content-type", "application/json").body(Body::from(body)).unwrap();
    assert_eq!(json(&send(&server, request).await.2)["metadata"], json!({}));
}

#[tokio::test]
async fn a_watch_from_the_current_state_says_where_that_ends() {
    let server = server();
    create(&server, "application/json", r#"{"metadata": {"name": "a"}}"#).await;
    let watched = async |query: &str, accept: &str| -> Vec<String> {
        let path = format!("{MAPS}?watch=true&timeoutSeconds=1&{query}");
        let (_, _, body) = get(&server, &path, accept).await;
        body.lines().map(|line| json(line)["type"].as_str().unwrap().to_owned()).collect()
    };
    tokio::time::pause();
    for query in ["allowWatchBookmarks=true", "allowWatchBookmarks=yes&resourceVersion=0"] {
        assert_eq!(watched(query, "").await, ["ADDED", "BOOKMARK"], "{query}");
    }
    for query in ["", "allowWatchBookmarks=0", "allowWatchBookmarks=False"] {
        assert_eq!(watched(query, "").await, ["ADDED"], "{query}");
    }
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    assert!(watched("", list).await.is_empty());
}

#[tokio::test]
async fn a_bookmark_is_an_empty_object_of_its_kind() {
    let server = server();
    tokio::time::pause();
    let pods = json!({"metadata": {}, "spec": {"containers": null}});
    for (path, part, expected) in [
        ("/apis/apps/v1/replicasets", "spec", json!({"replicas": 0, "selector": null, "template": pods})),
        ("/api/v1/services", "status", json!({"loadBalancer": {}})),
        ("/apis/storage.k8s.io/v1/csinodes", "spec", json!({"drivers": null})),
        ("/apis/rbac.authorization.k8s.io/v1/roles", "rules", Value::Null),
        ("/apis/events.k8s.io/v1/events", "regarding", json!({})),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "status",
            json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null}),
        ),
    ] {
        let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone";
        let (_, _, body) = get(&server, &format!("{path}?{query}"), "").await;
        let bookmark = json(&body);
        assert_eq!(bookmark["type"], "BOOKMARK", "{path}");
        assert_eq!(bookmark["object"].get(part), Some(&expected), "{path}");
        let annotations = &bookmark["object"]["metadata"]["annotations"];
        assert_eq!(annotations["k8s.io/initial-events-end"], "true", "{path}");
    }
}
