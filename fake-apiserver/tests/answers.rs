//! Single answers beside those of a real kube-apiserver: what is warned of, and what is made of options that few clients
//! send.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use axum::body::Body;
use axum::extract::Request;
use fake_apiserver::{FakeApiServer, Ids, Options, Plugins};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const MERGE: &str = "application/merge-patch+json";

fn server() -> FakeApiServer {
    FakeApiServer::new(Options { ids: Ids::Seeded(1), plugins: Plugins::all(), ..Options::default() })
}

/// Code, body and warnings of an answer.
async fn ask(server: &FakeApiServer, what: &str, content_type: &str, body: Value) -> (u16, Value, String) {
    let (method, path) = what.split_once(' ').unwrap();
    let bytes = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let response = server.router().oneshot(request.body(Body::from(bytes)).unwrap()).await.unwrap();
    let warnings: Vec<&str> =
        response.headers().get_all("warning").iter().map(|text| text.to_str().unwrap()).collect();
    let (code, warnings) = (response.status().as_u16(), warnings.join("; "));
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default(), warnings)
}

async fn json(server: &FakeApiServer, what: &str, body: Value) -> (u16, Value, String) {
    ask(server, what, "application/json", body).await
}

fn post(path: &str) -> String {
    format!("POST {path}")
}

fn config(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"l": "x"}}})
}

#[tokio::test]
async fn what_was_warned_of_is_said_of_refused_objects_too() {
    let server = server();
    let mut twice = config("a");
    twice["bogus"] = json!(1);
    assert_eq!(json(&server, &post(MAPS), twice.clone()).await.0, 201);
    let (code, _, warnings) = json(&server, &post(MAPS), twice).await;
    assert_eq!((code, warnings.as_str()), (409, "299 - \"unknown field \\\"bogus\\\"\""));

    let endpoints = "/api/v1/namespaces/default/endpoints";
    for what in [format!("GET {endpoints}"), format!("GET {endpoints}/a"), format!("DELETE {endpoints}/a")] {
        let warnings = json(&server, &what, Value::Null).await.2;
        assert!(warnings.contains("v1 Endpoints is deprecated in v1.33+"), "{what}: {warnings}");
    }
    let (_, _, warnings) =
        json(&server, &post(endpoints), json!({"metadata": {"name": "a"}, "bogus": 1})).await;
    assert!(warnings.find("deprecated") < warnings.find("bogus"), "{warnings}");
}

#[tokio::test]
async fn a_delete_with_a_body_does_not_read_the_query() {
    let server = server();
    let all = "?dryRun=All";
    json(&server, &post(MAPS), config("a")).await;
    let what = format!("DELETE {MAPS}/a");
    for body in
        [json!({"propagationPolicy": ""}), json!({"propagationPolicy": "Orphan", "orphanDependents": true})]
    {
        assert_eq!(json(&server, &what, body).await.0, 422);
    }
    assert_eq!(json(&server, &format!("{what}{all}"), Value::Null).await.0, 200);
    assert_eq!(json(&server, &format!("{what}{all}"), json!({})).await.0, 200);
    assert_eq!(json(&server, &what, Value::Null).await.0, 404, "the second delete was no dry run");
}

#[tokio::test]
async fn a_namespace_and_an_event_end_in_their_own_way() {
    let server = server();
    let namespaces = "/api/v1/namespaces";
    json(&server, &post(namespaces), json!({"metadata": {"name": "ns"}})).await;
    let what = format!("DELETE {namespaces}/ns");
    let (code, refusal, _) = json(&server, &what, json!({"preconditions": {"uid": "x"}})).await;
    assert_eq!((code, &refusal["details"]["kind"]), (409, &json!("namespaces")));
    let (_, ended, _) = json(&server, &what, Value::Null).await;
    assert_eq!(ended["metadata"].get("deletionGracePeriodSeconds"), None);
    let (_, again, _) = json(&server, &what, json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(again["metadata"], ended["metadata"], "it is under way already");

    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    let events = "/api/v1/namespaces/default/events";
    assert_eq!(json(&server, &post(events), event).await.0, 201);
    let foreground = json!({"propagationPolicy": "Foreground"});
    let (_, gone, _) = json(&server, &format!("DELETE {events}/e"), foreground).await;
    assert_eq!(gone["status"], "Success", "nothing depends on an event");
}

#[tokio::test]
async fn a_collection_is_deleted_as_it_is_listed() {
    let server = server();
    for name in ["a", "b", "c"] {
        json(&server, &post(MAPS), config(name)).await;
    }
    let (_, first, _) = json(&server, &format!("DELETE {MAPS}?limit=2"), Value::Null).await;
    assert_eq!(first["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let left = json(&server, &format!("GET {MAPS}"), Value::Null).await.1;
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
    for query in ["resourceVersion=x", "limit=x", "limit="] {
        assert_eq!(json(&server, &format!("DELETE {MAPS}?{query}"), Value::Null).await.0, 400, "{query}");
    }
    let (_, named, _) =
        json(&server, &format!("GET {MAPS}?limit=1&fieldSelector=metadata.name%3Dc"), Value::Null).await;
    assert_eq!(named["metadata"].get("continue"), None, "one that is named is read by itself");
}

#[tokio::test]
async fn kinds_that_are_made_by_put_say_so_of_a_uid() {
    let server = server();
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = json!({"metadata": {"name": "r"}, "rules": []});
    assert_eq!(json(&server, &format!("PUT {roles}/r"), role.clone()).await.0, 201);
    let mut other = role;
    other["metadata"] = json!({"name": "s", "uid": "u"});
    assert_eq!(json(&server, &format!("PUT {roles}/s"), other).await.0, 409);
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(json(&server, &format!("PUT {SERVICES}/s"), service).await.0, 201);
    assert_eq!(ask(&server, &format!("PATCH {SERVICES}/t"), MERGE, json!({})).await.0, 404);
}

#[tokio::test]
async fn metadata_is_refused_as_often_as_upstream_looks_at_it() {
    let server = server();
    json(&server, &post(MAPS), config("a")).await;
    let count = |answer: &Value| answer["details"]["causes"].as_array().map_or(0, Vec::len);
    for (metadata, new, changed) in [
        (json!({"labels": {"": "x"}}), 2, 8),
        (json!({"finalizers": [""]}), 3, 6),
        (json!({"finalizers": ["orphan", "foregroundDeletion"]}), 1, 2),
        (json!({"generateName": "Bad_"}), 1, 0),
        (json!({"generation": -1}), 1, 0),
        (json!({"deletionGracePeriodSeconds": 5}), 0, 2),
    ] {
        let mut body = config("b");
        body["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let dry = format!("{}?dryRun=All", post(MAPS));
        let (code, answer, _) = json(&server, &dry, body).await;
        assert_eq!(count(&answer), new, "{code} {answer}");
        let patch = json!({"metadata": metadata});
        let (code, answer, _) = ask(&server, &format!("PATCH {MAPS}/a?dryRun=All"), MERGE, patch).await;
        assert_eq!(count(&answer), changed, "{code} {answer}");
    }
    let set = json!({"metadata": {"name": "a.b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let apps = "/apis/apps/v1/namespaces/default";
    assert_eq!(json(&server, &post(&format!("{apps}/statefulsets")), set.clone()).await.0, 422);
    let (code, _, warnings) = json(&server, &post(&format!("{apps}/deployments")), set).await;
    assert_eq!(code, 201);
    assert!(
        warnings.contains("used in Pod names and hostnames") && warnings.contains("[must not contain dots]")
    );
}

#[tokio::test]
async fn patches_that_say_nothing_and_patches_that_take_the_type() {
    let server = server();
    json(&server, &post(MAPS), config("a")).await;
    let patch = format!("PATCH {MAPS}/a");
    let jsonp = "application/json-patch+json";
    let strategic = "application/strategic-merge-patch+json";
    let no_kind = json!({"kind": null});
    for (content_type, body, code) in [
        (MERGE, no_kind.clone(), 200),
        (MERGE, json!({"apiVersion": null}), 400),
        (strategic, no_kind, 200),
        (jsonp, json!([{"op": "replace", "path": "", "value": {}}]), 400),
        (jsonp, json!([{"op": "add", "path": "", "value": {}}]), 422),
        (jsonp, json!([{"op": "copy", "path": "/data"}]), 422),
        (MERGE, json!({"kind": "Secret"}), 422),
    ] {
        assert_eq!(ask(&server, &patch, content_type, body.clone()).await.0, code, "{body}");
    }
    // What is of no version has no fields that anybody knows.
    let warnings = ask(&server, &patch, MERGE, json!({"apiVersion": null})).await.2;
    assert_eq!(warnings, "299 - \"unknown field \\\"metadata\\\"\"");
    let nothing = server.request("PATCH", &format!("{MAPS}/a"), jsonp, b"null");
    assert_eq!(nothing.0, 200);
}

#[tokio::test]
async fn the_number_of_replicas_is_applied_and_owned() {
    let server = server();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    json(&server, &post(deployments), json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let apply = "application/apply-patch+yaml";
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 5}});
    let what = format!("PATCH {deployments}/a/scale?fieldManager=m");
    let (code, refusal, _) = ask(&server, &what, apply, scale.clone()).await;
    assert_eq!((code, &refusal["details"]["causes"][0]["field"]), (409, &json!(".spec.replicas")));
    let (code, scaled, _) = ask(&server, &format!("{what}&force=true"), apply, scale).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(5)));
    let stored = json(&server, &format!("GET {deployments}/a"), Value::Null).await.1;
    let managers = stored["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|one| one["manager"] == "m" && one["subresource"] == "scale"), "{stored}");
    assert_eq!(ask(&server, &what, apply, json!({"kind": "Deployment"})).await.0, 400);
}

#[tokio::test]
async fn requests_are_made_on_behalf_of_others() {
    let server = server();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = Request::builder().method("POST").uri(path).header("impersonate-user", "bob");
    let response = server.router().oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(review["status"]["userInfo"], json!({"username": "bob", "groups": ["system:authenticated"]}));
}

#[tokio::test]
async fn methods_and_parameters_that_few_clients_send() {
    let server = server();
    for (what, code) in [
        (format!("HEAD {MAPS}"), 405),
        ("HEAD /api".to_owned(), 405),
        ("POST /healthz".to_owned(), 200),
        ("POST /nosuch".to_owned(), 404),
        (format!("GET {MAPS}?timeout=bogus"), 400),
        (format!("GET {MAPS}?timeout=10s"), 200),
        (format!("GET {MAPS}?resourceVersion=x"), 400),
        (format!("GET {MAPS}?timeoutSeconds=x"), 400),
        (format!("GET {MAPS}/a?export=true"), 400),
        ("POST /openapi/v3".to_owned(), 200),
        ("GET /api/v1/watch/namespaces/default/configmaps?timeoutSeconds=0".to_owned(), 200),
    ] {
        let (method, path) = what.split_once(' ').unwrap();
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        assert_eq!(server.router().oneshot(request).await.unwrap().status().as_u16(), code, "{what}");
    }
    let lb = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    json(&server, &post(SERVICES), json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}))
        .await;
    assert_eq!(ask(&server, &format!("PATCH {SERVICES}/s/status"), MERGE, lb).await.0, 422);
}

#[tokio::test]
async fn a_daemon_set_keeps_its_count_out_of_metadata_alone() {
    let server = server();
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let made = json(&server, &post(sets), json!({"metadata": {"name": "a"}, "spec": spec})).await.1;
    let count = "deprecated.daemonset.template.generation";
    assert_eq!(made["metadata"]["annotations"][count], "1");
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:annotations"];
    assert!(owned.get(format!("f:{count}")).is_some(), "{made}");
    let request = Request::get(format!("{sets}/a"));
    let request = request.header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let response = server.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let alone: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(alone["metadata"].get("annotations"), None);
}

#[tokio::test]
async fn a_pod_is_labelled_with_where_its_node_is() {
    let server = server();
    let zone = "topology.kubernetes.io/zone";
    let node = json!({"metadata": {"name": "n", "labels": {zone: "z", "other": "x"}}});
    assert_eq!(json(&server, &post("/api/v1/nodes"), node).await.0, 201);
    json(
        &server,
        &post("/api/v1/namespaces/default/serviceaccounts"),
        json!({"metadata": {"name": "default"}}),
    )
    .await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, node: Option<&str>| {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let placed = json(&server, &post(pods), pod("a", Some("n"))).await.1;
    assert_eq!(placed["metadata"]["labels"], json!({zone: "z"}));
    json(&server, &post(pods), pod("b", None)).await;
    let mut binding = json!({"target": {"kind": "Node", "name": "n"}});
    assert_eq!(
        json(&server, &post(&format!("{pods}/b/binding")), binding.clone()).await.0,
        400,
        "it has no name"
    );
    binding["metadata"] = json!({"name": "b"});
    assert_eq!(json(&server, &post(&format!("{pods}/b/binding")), binding).await.0, 201);
    let bound = json(&server, &format!("GET {pods}/b"), Value::Null).await.1;
    assert_eq!(bound["metadata"]["labels"], json!({zone: "z"}));
    for (status, ip, ips) in [
        (json!({"podIPs": [{"ip": "192.0.2.1"}]}), "192.0.2.1", "192.0.2.1"),
        (json!({"podIP": "192.0.2.2"}), "192.0.2.2", "192.0.2.2"),
    ] {
        let patch = json!({"status": status});
        let written = ask(&server, &format!("PATCH {pods}/b/status"), MERGE, patch).await.1;
        assert_eq!(
            (&written["status"]["podIP"], &written["status"]["podIPs"]),
            (&json!(ip), &json!([{"ip": ips}]))
        );
    }
}

#[tokio::test]
async fn what_is_not_said_and_what_is_said_wrong_of_rarer_kinds() {
    let server = server();
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}});
    let made = json(&server, &post(claims), claim).await.1;
    let asked = &made["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!((&asked["allocationMode"], &asked["count"]), (&json!("ExactCount"), &json!(1)));

    let status = json!({"metadata": {"labels": {"a": "b"}}});
    let written = ask(&server, &format!("PATCH {claims}/c/status"), MERGE, status).await.1;
    assert_eq!(written["metadata"].get("labels"), None);

    let fields = |answer: &Value| answer["details"]["causes"].as_array().map_or(0, Vec::len);
    let namespace = json!({"metadata": {"name": "ns"}, "spec": {"finalizers": ["nodomain", ""]}});
    assert_eq!(fields(&json(&server, &post("/api/v1/namespaces"), namespace).await.1), 4);
    let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}});
    assert_eq!(fields(&json(&server, &post("/api/v1/nodes"), node).await.1), 1);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let binding = json!({"metadata": {"name": "b"}, "roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "a"}]});
    assert_eq!(json(&server, &post(bindings), binding).await.0, 201);
}

#[tokio::test]
async fn paths_are_published_as_a_real_server_publishes_them() {
    let server = server();
    let apps = json(&server, "GET /openapi/v3/apis/apps/v1", Value::Null).await.1;
    let item = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let codes =
        |operation: &Value| operation["responses"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(codes(&item["put"]), ["200", "201", "401"]);
    assert_eq!(codes(&item["delete"]), ["200", "202", "401"]);
    assert_eq!(item["get"].get("parameters"), None);
    assert_eq!(item["patch"]["description"], "partially update the specified Deployment");
    let all = &apps["paths"]["/apis/apps/v1/deployments"];
    assert_eq!(
        all["parameters"].as_array().map(Vec::len),
        Some(12),
        "a path with one operation has its parameters"
    );
    assert!(all["get"]["responses"]["200"]["content"]["application/json;stream=watch"].is_object());

    let older = json(&server, "GET /openapi/v2", Value::Null).await.1;
    let item = &older["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"];
    assert_eq!(item["patch"]["consumes"][3], "application/apply-patch+yaml");
    assert_eq!(item["patch"]["schemes"], json!(["https"]));
    let reference = item["delete"]["parameters"][0]["$ref"].as_str().unwrap();
    let name = reference.strip_prefix("#/parameters/").unwrap();
    assert_eq!(older["parameters"][name]["in"], "body");
    let map = &older["definitions"]["io.k8s.api.core.v1.ConfigMap"]["properties"];
    assert_eq!(map["metadata"].get("default"), None, "defaults are not said in the older edition");
    assert_eq!(older["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"], "string");
}

#[tokio::test]
async fn questions_are_refused_for_what_they_say_twice() {
    let server = server();
    let reviews = post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    let selector = json!({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]});
    let spec = json!({"resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": selector}});
    let (code, answer, _) = json(&server, &reviews, json!({"spec": spec})).await;
    assert_eq!(code, 422);
    let field = "spec.resourceAttributes.labelSelector.rawSelector";
    assert_eq!(answer["details"]["causes"][0]["field"], field);
    let spec = json!({"resourceAttributes": {"verb": "list", "resource": "pods"}});
    let (code, answer, warnings) = json(&server, &reviews, json!({"spec": spec, "bogus": 1})).await;
    assert_eq!((code, answer.get("bogus")), (201, None));
    assert!(warnings.contains("unknown field"), "{warnings}");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    json(&server, &post(accounts), json!({"metadata": {"name": "a"}})).await;
    let other = json!({"metadata": {"namespace": "other"}, "spec": {}});
    assert_eq!(json(&server, &post(&format!("{accounts}/a/token")), other).await.0, 400);
}
