//! What clients do, and what goes wrong meanwhile, drawn at random.

use axum::body::Body;
use axum::extract::Request;
use fake_apiserver::{Cutting, FakeApiServer, Faults, Lose, Refusal, Rule, Withheld};
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt;

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Map,
    Claim,
    Volume,
    Pod,
}

impl Kind {
    pub fn everywhere(self) -> &'static str {
        match self {
            Self::Map => "/api/v1/configmaps",
            Self::Claim => "/api/v1/persistentvolumeclaims",
            Self::Volume => "/api/v1/persistentvolumes",
            Self::Pod => "/api/v1/pods",
        }
    }

    fn collection(self, namespace: &str) -> String {
        match self {
            Self::Volume => self.everywhere().to_owned(),
            _ => self.everywhere().replace("/v1/", &format!("/v1/namespaces/{namespace}/")),
        }
    }

    fn object(self, name: &str, app: &str) -> Value {
        let metadata = json!({"name": name, "labels": {"app": app}});
        match self {
            Self::Map => json!({"metadata": metadata, "data": {"a": app}}),
            Self::Claim => json!({
                "metadata": metadata,
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }),
            Self::Volume => json!({
                "metadata": metadata,
                "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}},
            }),
            Self::Pod => json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Create,
    Label,
    Annotate,
    Delete,
    Finish,
    DeleteAll,
    Bind,
}

/// One request of one of the clients. A client that gets no answer asks once more, as clients do.
#[derive(Clone, Debug)]
pub struct Step {
    kind: Kind,
    namespace: &'static str,
    name: String,
    action: Action,
    app: &'static str,
    again: bool,
}

pub fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(Kind::Map), Just(Kind::Claim), Just(Kind::Volume), Just(Kind::Pod)];
    let action = prop_oneof![
        6 => Just(Action::Create),
        4 => Just(Action::Label),
        2 => Just(Action::Annotate),
        3 => Just(Action::Delete),
        3 => Just(Action::Finish),
        1 => Just(Action::DeleteAll),
        2 => Just(Action::Bind),
    ];
    let namespace = prop_oneof![Just("default"), Just("kube-system")];
    let app = prop_oneof![Just("x"), Just("y")];
    (kind, namespace, 0..4, action, app, any::<bool>()).prop_map(
        |(kind, namespace, name, action, app, again)| Step {
            kind,
            namespace,
            name: format!("o{name}"),
            action,
            app,
            again,
        },
    )
}

impl Step {
    pub async fn play(&self, server: &FakeApiServer) {
        let collection = self.kind.collection(self.namespace);
        let object = format!("{collection}/{}", self.name);
        let merge = |metadata: Value| json!({"metadata": metadata});
        let (method, path, body) = match self.action {
            Action::Create => ("POST", collection, self.kind.object(&self.name, self.app)),
            Action::Label => ("PATCH", object, merge(json!({"labels": {"app": self.app}}))),
            Action::Annotate => ("PATCH", object, merge(json!({"annotations": {"a": self.app}}))),
            Action::Delete => ("DELETE", object, Value::Null),
            Action::Finish => ("PATCH", object, merge(json!({"finalizers": null}))),
            Action::DeleteAll => {
                ("DELETE", format!("{collection}?labelSelector=app%3D{}", self.app), Value::Null)
            }
            Action::Bind => {
                let target =
                    json!({"target": {"kind": "Node", "name": if self.app == "x" { "n1" } else { "n2" }}});
                ("POST", format!("{}/{}/binding", Kind::Pod.collection(self.namespace), self.name), target)
            }
        };
        let heard = send(server, method, &path, &body).await.is_some();
        if !heard && self.again {
            send(server, method, &path, &body).await;
        }
    }
}

/// The code of the answer and its body, if they arrive.
pub async fn send(server: &FakeApiServer, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let response = server.router().oneshot(request.body(Body::from(text)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some((code, serde_json::from_slice(&body).unwrap()))
}

fn rule() -> impl Strategy<Value = Rule> {
    let verbs = prop::sample::subsequence(
        vec!["get", "list", "watch", "create", "patch", "delete", "deletecollection"],
        1..=3,
    );
    let refusal = prop::sample::select(vec![409_u16, 410, 429, 500, 503, 504]);
    let fault = prop_oneof![
        refusal.prop_map(|code| Rule {
            answer: Some(Refusal {
                code,
                reason: String::new(),
                message: String::new(),
                retry_after_seconds: Some(1)
            }),
            ..Rule::default()
        }),
        Just(Rule { lose: Some(Lose::Request), ..Rule::default() }),
        Just(Rule { lose: Some(Lose::Answer), ..Rule::default() }),
        (0_u64..4).prop_map(|events| Rule {
            cut: Some(Cutting { after_events: Some(events), after_seconds: None }),
            ..Rule::default()
        }),
        Just(Rule { withhold_bookmarks: Some(Withheld::Periodic), ..Rule::default() }),
        (1_u64..5000).prop_map(|millis| Rule { latency_millis: Some(millis), ..Rule::default() }),
    ];
    (verbs, fault, 0.05_f64..0.6).prop_map(|(verbs, fault, probability)| {
        let verbs = verbs.into_iter().map(str::to_owned).collect();
        Rule { verbs, probability: Some(probability), ..fault }
    })
}

pub fn faults() -> impl Strategy<Value = Faults> {
    let hold = prop::sample::subsequence(vec!["ConfigMap", "Pod"], 0..=1);
    let history = prop::option::weighted(0.3, 1_usize..4);
    (any::<u64>(), prop::collection::vec(rule(), 0..5), hold, history).prop_map(
        |(seed, rules, hold, history)| {
            let hold = hold.into_iter().map(str::to_owned).collect();
            Faults { seed, clock_skew_seconds: 0, history, hold, rules }
        },
    )
}
