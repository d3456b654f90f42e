//! Decides the token that a service account gets, and how long it is good for. Never stores one. Answers to
//! `kubernetes/pkg/registry/core/serviceaccount/storage/token.go`.

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::auth::ISSUER;
use crate::object::{Object, at, key_of, text};
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::store::Store;
use crate::verbs::{dry_run, settle_namespace};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
/// How long a token is good for that does not say so, in seconds.
const USUAL: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

pub(crate) fn create(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    dry_run(request.query.all("dryRun"), "CreateOptions")?;
    let body = request.json(KIND)?;
    check_body(target, &body)?;
    let store = server.lock();
    let account = found(&store, "ServiceAccount", &target.namespace, &target.name)?;
    let uid = text(&body, &["metadata", "uid"]);
    if !uid.is_empty() && uid != account.uid() {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            account.uid()
        );
        return Err(Status::conflict(GROUP, KIND, &target.name, &why));
    }
    let seconds = at(&body, &["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(USUAL);
    check_seconds(seconds)?;
    let audiences = match at(&body, &["spec", "audiences"]) {
        Some(Value::Array(audiences)) if !audiences.is_empty() => Value::from(audiences.clone()),
        _ => json!([ISSUER]),
    };
    let reference = at(&body, &["spec", "boundObjectRef"]).filter(|reference| reference.is_object());
    let mut private = json!({
        "namespace": target.namespace, "serviceaccount": {"name": target.name, "uid": account.uid()},
    });
    if let Some(reference) = reference {
        bind(&store, target, reference, &mut private)?;
    }
    drop(store);
    let now = (server.options.now)().as_second();
    let claims = json!({
        "aud": audiences, "exp": now.saturating_add(seconds), "iat": now, "iss": ISSUER, "jti": server.uid(),
        "kubernetes.io": private, "nbf": now,
        "sub": format!("system:serviceaccount:{}:{}", target.namespace, target.name),
    });
    let answer = json!({
        "kind": KIND, "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": target.name, "namespace": target.namespace, "uid": account.uid(),
            "creationTimestamp": server.timestamp(),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {
            "token": server.users.key().sign(&claims),
            "expirationTimestamp": server.timestamp_in(seconds),
        },
    });
    Ok(Answer::json(201, &answer))
}

/// What the body says of itself has to be what the URL says.
fn check_body(target: &Target, body: &Value) -> Result<()> {
    let (kind, version) = (text(body, &["kind"]), text(body, &["apiVersion"]));
    if !body.is_object() || !matches!(kind, "" | KIND) || !matches!(version, "" | "authentication.k8s.io/v1")
    {
        return Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {KIND}: send kind {KIND} and apiVersion authentication.k8s.io/v1"
        )));
    }
    settle_namespace(target, &mut body.clone())?;
    let given = text(body, &["metadata", "name"]);
    if !given.is_empty() && given != target.name {
        let why = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", given, why);
        return Err(Status::invalid(GROUP, KIND, &target.name, &[cause]));
    }
    Ok(())
}

fn check_seconds(seconds: i64) -> Result<()> {
    let why = match seconds {
        seconds if seconds < SHORTEST => "may not specify a duration less than 10 minutes",
        seconds if seconds > LONGEST => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    Err(Status::invalid(GROUP, KIND, "", &[Cause::invalid("spec.expirationSeconds", seconds, why)]))
}

fn found(store: &Store, kind: &str, namespace: &str, name: &str) -> Result<std::sync::Arc<Object>> {
    let index = store.kinds.named(kind).ok_or_else(Status::no_such_resource)?;
    let row = store.kinds.get(index);
    let namespace = if row.namespaced { namespace } else { "" };
    let object = store.get(index, &key_of(namespace, name)).cloned();
    object.ok_or_else(|| Status::not_found(&row.group, &row.plural, name))
}

/// Binds a token to an object: with the object, the token goes.
fn bind(store: &Store, target: &Target, reference: &Value, private: &mut Value) -> Result<()> {
    let (kind, version) = (text(reference, &["kind"]), text(reference, &["apiVersion"]));
    let name = text(reference, &["name"]);
    if version != "v1" || !matches!(kind, "Pod" | "Node" | "Secret") {
        return Err(Status::bad_request(format!(
            "cannot bind token to object of type {}, Kind={kind}",
            if version.contains('/') { version.to_owned() } else { format!("/{version}") }
        )));
    }
    let object = found(store, kind, &target.namespace, name)?;
    if kind == "Pod" && text(&object.value, &["spec", "serviceAccountName"]) != target.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            Value::from(target.name.as_str())
        )));
    }
    let uid = text(reference, &["uid"]);
    if !uid.is_empty() && uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", kind, name, &why));
    }
    let claim = |object: &Object| json!({"name": object.name(), "uid": object.uid()});
    private[kind.to_lowercase()] = claim(&object);
    let node = text(&object.value, &["spec", "nodeName"]);
    if kind == "Pod" && !node.is_empty() {
        let known = found(store, "Node", "", node).ok();
        let mut unknown = Map::new();
        unknown.insert("name".into(), node.into());
        private["node"] = known.map_or(Value::Object(unknown), |node| claim(&node));
    }
    Ok(())
}
