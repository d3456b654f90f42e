//! What each kind is refused for, field by field, through the router: a table of bodies and of the fields that a real
//! kube-apiserver names.

use fake_apiserver::{FakeApiServer, Ids, Options, Plugins};
use serde_json::{Value, json};

fn server() -> FakeApiServer {
    FakeApiServer::new(Options { ids: Ids::Seeded(1), plugins: Plugins::all(), ..Options::default() })
}

fn post(server: &FakeApiServer, path: &str, body: &Value) -> (u16, Value) {
    let (code, answer) = server.request("POST", path, "application/json", body.to_string().as_bytes());
    (code, serde_json::from_slice(&answer).expect("an answer is JSON"))
}

/// The fields that a body is refused for, each once; nothing when it is taken.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "the tables below are read more easily")]
fn check(plural: &str, spec: Value, fields: &[&str]) {
    let (group, plural) = plural.rsplit_once('/').expect("a group and a plural");
    let base = if group == "v1" { "/api/v1".to_owned() } else { format!("/apis/{group}") };
    let body = json!({"metadata": {"name": "a"}, "spec": spec});
    let (code, answer) = post(&server(), &format!("{base}/namespaces/default/{plural}"), &body);
    let mut found: Vec<&str> = answer["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|cause| cause["field"].as_str())
        .collect();
    found.dedup();
    assert_eq!(found, fields, "{code} {answer}");
}

#[test]
fn services_are_refused_for_what_upstream_names() {
    check("v1/services", json!({"ports": [{"port": 80}]}), &[]);
    check("v1/services", json!({}), &["spec.ports"]);
    check(
        "v1/services",
        json!({"ports": [{"port": 0}]}),
        &["spec.ports[0].port", "spec.ports[0].targetPort"],
    );
    check("v1/services", json!({"type": "ExternalName"}), &["spec.externalName"]);
    check("v1/services", json!({"clusterIP": "11.0.0.1", "ports": [{"port": 80}]}), &["spec.clusterIPs"]);
    check(
        "v1/services",
        json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}),
        &["spec.ipFamilyPolicy"],
    );
}

#[test]
fn quotas_and_limits_are_refused_for_what_upstream_names() {
    check("v1/resourcequotas", json!({"hard": {"pods": "5", "count/deployments.apps": "3"}}), &[]);
    check("v1/resourcequotas", json!({"hard": {"pods": "1.5"}}), &["spec.hard[pods]"]);
    check("v1/resourcequotas", json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}), &["spec.scopes"]);
    let limit = |limit: Value| json!({"limits": [limit]});
    check("v1/limitranges", limit(json!({"type": "Container", "max": {"cpu": "1"}})), &[]);
    check(
        "v1/limitranges",
        limit(json!({"type": "Pod", "default": {"cpu": "1"}})),
        &["spec.limits[0].default"],
    );
    check("policy/v1/poddisruptionbudgets", json!({"maxUnavailable": "101%"}), &["spec.maxUnavailable"]);
}

#[test]
fn a_pod_needs_an_account_and_keeps_within_the_limits() {
    let server = server();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(post(&server, pods, &pod("early")).0, 403);
    let account = json!({"metadata": {"name": "default"}});
    assert_eq!(post(&server, "/api/v1/namespaces/default/serviceaccounts", &account).0, 201);
    let limits =
        json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    assert_eq!(post(&server, "/api/v1/namespaces/default/limitranges", &limits).0, 201);
    let (code, made) = post(&server, pods, &pod("a"));
    assert_eq!(
        (code, &made["spec"]["containers"][0]["resources"]["limits"]["cpu"]),
        (201, &json!("1")),
        "{made}"
    );
    assert_eq!(made["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["path"], "token");
    let mut large = pod("b");
    large["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    assert_eq!(post(&server, pods, &large).0, 403);
}

#[test]
fn of_two_sources_of_a_volume_the_later_one_is_too_many() {
    let volume = |volume: Value| {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": [volume]});
        json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}})
    };
    let both = json!({"name": "v", "configMap": {"name": "m"}, "secret": {"secretName": "s"}});
    check("apps/v1/deployments", volume(both), &["spec.template.spec.volumes[0].configMap"]);
    let both = json!({"name": "v", "emptyDir": {}, "downwardAPI": {"items": []}});
    check("apps/v1/deployments", volume(both), &["spec.template.spec.volumes[0].downwarAPI"]);
}

fn patch(server: &FakeApiServer, path: &str, body: &Value) -> (u16, Value) {
    let form = "application/merge-patch+json";
    let (code, answer) = server.request("PATCH", path, form, body.to_string().as_bytes());
    (code, serde_json::from_slice(&answer).expect("an answer is JSON"))
}

fn version(answer: &Value) -> u64 {
    let version = answer["metadata"]["resourceVersion"].as_str().expect("it has a version");
    version.parse().expect("which is a number")
}

#[test]
fn a_new_claim_is_stored_without_its_phase() {
    let server = server();
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |amount: &str| json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}}});
    let mut body = claim("1Gi");
    body["metadata"] = json!({"name": "a"});
    let (_, made) = post(&server, claims, &body);
    let path = format!("{claims}/a");
    let (_, first) = patch(&server, &path, &json!({}));
    let (_, second) = patch(&server, &path, &json!({}));
    assert_eq!((version(&first), version(&second)), (version(&made) + 1, version(&first)));

    // An amount in another form is no change, but is kept as it is written.
    let (code, restated) = patch(&server, &path, &claim("1073741824"));
    assert_eq!((code, &restated["spec"]["resources"]["requests"]["storage"]), (200, &json!("1073741824")));
    let (code, _) = patch(&server, &path, &claim("1Mi"));
    assert_eq!(code, 422);
}

#[test]
fn a_port_is_taken_from_its_own_service_too() {
    let server = server();
    let services = "/api/v1/namespaces/default/services";
    let port =
        |port: Value| json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [port]}});
    let taken = port(json!({"port": 80, "nodePort": 30_999}));
    assert_eq!([post(&server, services, &taken).0, post(&server, services, &taken).0], [201, 422]);
    assert_eq!(post(&server, services, &port(json!({"port": 80}))).0, 409);
}

#[test]
fn jobs_are_refused_for_what_upstream_names() {
    let job = |more: Value| {
        let pods = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let mut spec = json!({"completionMode": "Indexed", "completions": 4, "template": pods});
        let fields = spec.as_object_mut().expect("it has fields");
        fields.extend(more.as_object().expect("and so have more").clone());
        spec
    };
    let rule = |rule: Value| job(json!({"successPolicy": {"rules": [rule]}}));
    let field = |name: &str| format!("spec.successPolicy.rules[0].{name}");
    check("batch/v1/jobs", rule(json!({"succeededIndexes": "0-2", "succeededCount": 3})), &[]);
    check("batch/v1/jobs", rule(json!({"succeededIndexes": "0-4"})), &[&field("succeededIndexes")]);
    let few = rule(json!({"succeededIndexes": "1", "succeededCount": 2}));
    check("batch/v1/jobs", few, &[&field("succeededCount")]);
}

#[test]
fn a_job_that_does_not_run_may_get_other_resources_and_nodes() {
    let server = server();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let pods = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    for (name, suspended) in [("runs", false), ("waits", true)] {
        let job = json!({"metadata": {"name": name}, "spec": {"suspend": suspended, "template": pods}});
        assert_eq!(post(&server, jobs, &job).0, 201);
        let nodes = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}});
        let resources = json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]);
        let image = json!([{"name": "c", "image": "other"}]);
        for (change, while_suspended) in [
            (json!({"affinity": nodes}), true),
            (json!({"containers": resources}), true),
            (json!({"containers": image}), false),
        ] {
            let change = json!({"spec": {"template": {"spec": change}}}).to_string();
            let form = "application/strategic-merge-patch+json";
            let path = format!("{jobs}/{name}?dryRun=All");
            let (code, answer) = server.request("PATCH", &path, form, change.as_bytes());
            let answer = String::from_utf8_lossy(&answer);
            assert_eq!(code == 200, suspended && while_suspended, "{name} {change} {answer}");
        }
    }
}

#[test]
fn a_pod_keeps_its_account_and_a_gated_one_its_terms() {
    let server = server();
    let pods = "/api/v1/namespaces/default/pods";
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(post(&server, accounts, &json!({"metadata": {"name": "default"}})).0, 201);
    let terms = |keys: &[&str]| {
        let all: Vec<Value> = keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect();
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": all}]}}})
    };
    let pod = json!({"metadata": {"name": "a"}, "spec": {"schedulingGates": [{"name": "a/b"}], "affinity": terms(&["a"]),
        "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(post(&server, pods, &pod).0, 201);
    let path = format!("{pods}/a");
    assert_eq!(patch(&server, &path, &json!({"spec": {"affinity": terms(&["a", "b"])}})).0, 200);
    assert_eq!(patch(&server, &path, &json!({"spec": {"affinity": terms(&["b", "a"])}})).0, 422);
    let nobody = json!({"spec": {"serviceAccountName": null, "serviceAccount": null}});
    assert_eq!(patch(&server, &path, &nobody).0, 422);
}

#[test]
fn options_of_another_form_delete_nothing() {
    let server = server();
    let maps = "/api/v1/namespaces/default/configmaps";
    let (_, made) = post(&server, maps, &json!({"metadata": {"name": "a"}}));
    for path in [maps.to_owned(), format!("{maps}/a"), format!("{maps}/nosuch")] {
        for body in [
            json!([]),
            json!("x"),
            json!({"gracePeriodSeconds": "0"}),
            json!({"preconditions": []}),
            json!({"preconditions": {"uid": 1}}),
            json!({"dryRun": "All"}),
            json!({"orphanDependents": "true"}),
        ] {
            let (code, _) = server.request("DELETE", &path, "application/json", body.to_string().as_bytes());
            assert_eq!(code, 400, "{path} {body}");
        }
    }
    // A version that is named is the very version, of which nothing is known any more or yet.
    let (code, _) = server.request("DELETE", &format!("{maps}?resourceVersion=1"), "", b"");
    assert_eq!(code, 410);
    let (code, answer) = server.request("GET", &format!("{maps}/a"), "", b"");
    let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    assert_eq!((code, version(&answer)), (200, version(&made)));
}
