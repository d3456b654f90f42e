//! One object that is served in two versions.

use fake_apiserver::{FakeApiServer, Ids, Options};
use serde_json::{Value, json};

#[test]
fn an_autoscaler_is_one_object_in_both_versions_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options { ids: Ids::Seeded(1), ..Options::default() };
        FakeApiServer::open(options, folder.path()).unwrap()
    };
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let get = |server: &FakeApiServer, version: &str| {
        let (code, body) = server.request("GET", &format!("{}/a", path(version)), "application/json", b"");
        assert_eq!(code, 200);
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let spec = json!({"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50});
    let older = json!({"metadata": {"name": "a"}, "spec": spec}).to_string();
    let server = open();
    assert_eq!(server.request("POST", &path("v1"), "application/json", older.as_bytes()).0, 201);
    let more = br#"{"spec": {"maxReplicas": 4}}"#;
    let written = server.request("PATCH", &format!("{}/a", path("v2")), "application/merge-patch+json", more);
    assert_eq!(written.0, 200);
    drop(server);
    let server = open();
    let (older, newer) = (get(&server, "v1"), get(&server, "v2"));
    assert_eq!(older["spec"]["maxReplicas"], 4);
    assert_eq!(older["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    assert_eq!(older["metadata"]["resourceVersion"], newer["metadata"]["resourceVersion"]);
}
