//! Custom resources through the router, from their definition to its end.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::sync::Arc;

use fake_apiserver::{FakeApiServer, Ids, Options};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/x.example.com/v1/namespaces/default/widgets";

fn server() -> FakeApiServer {
    let epoch = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    FakeApiServer::new(Options { now: Arc::new(move || epoch), ids: Ids::Seeded(1), ..Options::default() })
}

#[track_caller]
fn call(server: &FakeApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (code, answer) = server.request(method, path, content_type, body.as_bytes());
    (code, serde_json::from_slice(&answer).unwrap_or_default())
}

fn version(name: &str, storage: bool, fields: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": fields},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}}})
}

fn definition(plural: &str, kind: &str) -> Value {
    let size = json!({"type": "integer", "minimum": 1, "x-kubernetes-validations": [
        {"rule": "self >= oldSelf", "message": "must not shrink"}]});
    let old = version("v1", true, &json!({"size": size, "mode": {"type": "string", "default": "slow"}}));
    let new = version("v2", false, &json!({"size": size, "color": {"type": "string"}}));
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.x.example.com")},
        "spec": {"group": "x.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [old, new]}})
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec,
        "status": {"phase": "made up"}})
}

fn served() -> FakeApiServer {
    let server = server();
    let (code, made) = call(&server, "POST", DEFINITIONS, &definition("widgets", "Widget"));
    assert_eq!((code, &made["status"]["conditions"]), (201, &Value::Null));
    server
}

#[test]
fn a_definition_is_accepted_and_its_versions_are_served_at_once() {
    let server = served();
    let (_, stored) = call(&server, "GET", &format!("{DEFINITIONS}/widgets.x.example.com"), &Value::Null);
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    let reasons: Vec<&Value> =
        stored["status"]["conditions"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["NoConflicts", "InitialNamesAccepted"]);
    let (_, group) = call(&server, "GET", "/apis/x.example.com", &Value::Null);
    assert_eq!(group["preferredVersion"]["version"], "v2");
    let (code, list) = call(&server, "GET", "/apis/x.example.com/v2/widgets", &Value::Null);
    assert_eq!((code, &list["kind"]), (200, &json!("WidgetList")));
}

#[test]
fn an_object_is_pruned_defaulted_and_judged() {
    let server = served();
    let (code, made) = call(&server, "POST", WIDGETS, &widget(&json!({"size": 2, "odd": true})));
    assert_eq!((code, &made["spec"]), (201, &json!({"size": 2, "mode": "slow"})));
    assert_eq!((made.get("status"), &made["metadata"]["generation"]), (None, &json!(1)));
    let (code, refused) = call(&server, "PATCH", &format!("{WIDGETS}/w"), &json!({"spec": {"size": 0}}));
    assert_eq!(code, 422);
    let causes = refused["details"]["causes"].as_array().unwrap();
    let messages: Vec<&str> = causes.iter().map(|cause| cause["message"].as_str().unwrap()).collect();
    let limit = "Invalid value: 0: spec.size in body should be greater than or equal to 1";
    assert_eq!(messages, [limit, "Invalid value: 0: must not shrink"]);
    let status = json!({"status": {"phase": "Ready"}, "spec": {"size": 9}});
    let (_, ready) = call(&server, "PATCH", &format!("{WIDGETS}/w/status"), &status);
    assert_eq!((&ready["status"]["phase"], &ready["spec"]["size"]), (&json!("Ready"), &json!(2)));
}

#[test]
fn an_object_is_seen_in_each_version() {
    let server = served();
    call(&server, "POST", WIDGETS, &widget(&json!({"size": 2})));
    let new = WIDGETS.replace("/v1/", "/v2/");
    let (_, shown) = call(&server, "GET", &format!("{new}/w"), &Value::Null);
    assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("x.example.com/v2"), &json!({"size": 2})));
    let (code, written) =
        call(&server, "PATCH", &format!("{new}/w"), &json!({"spec": {"size": 3, "color": "red"}}));
    // The version that is stored has no colour.
    assert_eq!((code, &written["spec"]), (200, &json!({"size": 3})));
}

#[test]
fn a_definition_goes_with_the_last_of_its_objects() {
    let server = served();
    let mut held = widget(&json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    call(&server, "POST", WIDGETS, &held);
    let path = format!("{DEFINITIONS}/widgets.x.example.com");
    let (code, going) = call(&server, "DELETE", &path, &Value::Null);
    assert_eq!((code, going["status"]["conditions"][2]["type"].as_str()), (200, Some("Terminating")));
    let mut another = widget(&json!({"size": 1}));
    another["metadata"]["name"] = "late".into();
    assert_eq!(call(&server, "POST", WIDGETS, &another).0, 403);
    assert_eq!(call(&server, "GET", &path, &Value::Null).0, 200);
    call(&server, "PATCH", &format!("{WIDGETS}/w"), &json!({"metadata": {"finalizers": null}}));
    assert_eq!(call(&server, "GET", &path, &Value::Null).0, 404);
    assert_eq!(call(&server, "GET", WIDGETS, &Value::Null).0, 404);
}

#[test]
fn names_are_held_by_the_first_and_freed_when_it_goes() {
    let server = served();
    call(&server, "POST", DEFINITIONS, &definition("gadgets", "Widget"));
    let path = format!("{DEFINITIONS}/gadgets.x.example.com");
    let condition = |index: usize| {
        let (_, definition) = call(&server, "GET", &path, &Value::Null);
        definition["status"]["conditions"][index]["reason"].clone()
    };
    assert_eq!((condition(0), condition(1)), (json!("ListKindConflict"), json!("NotAccepted")));
    let gadgets = WIDGETS.replace("widgets", "gadgets");
    assert_eq!(call(&server, "GET", &gadgets, &Value::Null).0, 404);
    call(&server, "DELETE", &format!("{DEFINITIONS}/widgets.x.example.com"), &Value::Null);
    assert_eq!((condition(0), condition(1)), (json!("NoConflicts"), json!("InitialNamesAccepted")));
    assert_eq!(call(&server, "GET", &gadgets, &Value::Null).0, 200);
}

#[test]
fn what_a_webhook_is_to_convert_is_served_in_the_stored_version_alone() {
    let server = server();
    let mut definition = definition("widgets", "Widget");
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com/convert"}}});
    let (code, answer) = call(&server, "POST", DEFINITIONS, &definition);
    assert_eq!(code, 201, "{answer}");
    let widget =
        json!({"apiVersion": "x.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {}});
    assert_eq!(call(&server, "POST", WIDGETS, &widget).0, 201);
    let newer = WIDGETS.replace("v1", "v2");
    for (method, path) in [("GET", format!("{newer}/a")), ("GET", newer.clone()), ("POST", newer)] {
        let (code, answer) = call(&server, method, &path, &widget);
        let why = "conversion webhook for x.example.com/v2, Kind=Widget failed: this server calls no webhooks, and has the objects in x.example.com/v1 alone";
        assert_eq!((code, answer["message"].as_str()), (500, Some(why)), "{method} {path}");
    }
}

#[test]
fn a_definition_whose_rules_could_cost_too_much_is_refused() {
    let server = server();
    let names = |items: Value, count: usize| {
        let rule = json!({"rule": "self.all(a, self.all(b, a == b))"});
        let mut names = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": vec![rule; count]});
        names["maxItems"] = items;
        let mut definition = definition("widgets", "Widget");
        definition["spec"]["versions"] = json!([version("v1", true, &json!({"names": names}))]);
        definition
    };
    let rule = |index: usize| {
        format!(
            "spec.validation.openAPIV3Schema.properties[spec].properties[names].x-kubernetes-validations[{index}].rule"
        )
    };
    let (code, unbounded) = call(&server, "POST", DEFINITIONS, &names(Value::Null, 1));
    let cause = &unbounded["details"]["causes"][0];
    assert_eq!((code, &cause["field"]), (422, &json!(rule(0))));
    let why = cause["message"].as_str().unwrap();
    assert!(
        why.starts_with("Forbidden: estimated rule cost exceeds budget by factor of more than 100x"),
        "{why}"
    );

    let (code, together) = call(&server, "POST", DEFINITIONS, &names(json!(5), 60));
    assert_eq!(code, 422, "{together}");
    let fields: Vec<&Value> =
        together["details"]["causes"].as_array().unwrap().iter().map(|one| &one["field"]).collect();
    assert_eq!(fields.len(), 5);
    assert_eq!(fields[4], "spec.validation.openAPIV3Schema");

    assert_eq!(call(&server, "POST", DEFINITIONS, &names(json!(5), 1)).0, 201);
}

#[test]
fn the_server_owns_what_it_says_of_a_definition() {
    let server = served();
    let (_, stored) = call(&server, "GET", &format!("{DEFINITIONS}/widgets.x.example.com"), &Value::Null);
    let managers = stored["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|one| one["manager"] == "kube-apiserver").unwrap();
    assert_eq!((&own["subresource"], &own["operation"]), (&json!("status"), &json!("Update")));
    let status = &own["fieldsV1"]["f:status"];
    assert_eq!(status["f:acceptedNames"]["f:kind"], json!({}));
    assert_eq!(status["f:conditions"].as_object().unwrap().len(), 2);
}
