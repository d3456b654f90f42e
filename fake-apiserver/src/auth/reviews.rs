//! Decides the answers to questions about users: who somebody is, and what somebody may, which is everything.
//! Never stores a review. Answers to `kubernetes/pkg/registry/authentication` and `.../authorization` with
//! `--authorization-mode=AlwaysAllow`.

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::auth::{self, ISSUER};
use crate::object::{as_map_mut, at, text};
use crate::request::Request;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::verbs::dry_run;

const AUTHENTICATION: &str = "authentication.k8s.io/v1";
const AUTHORIZATION: &str = "authorization.k8s.io/v1";

/// A question, as its URL asks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    api_version: &'static str,
    kind: &'static str,
    namespace: String,
}

/// The question that a path asks, if it asks one.
pub(crate) fn question(path: &str) -> Option<Question> {
    let (api_version, rest) = [AUTHENTICATION, AUTHORIZATION].into_iter().find_map(|version| {
        Some((version, path.strip_prefix("/apis/")?.strip_prefix(version)?.strip_prefix('/')?))
    })?;
    let rest: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    let (kind, namespace) = match (api_version, &rest[..]) {
        (AUTHENTICATION, ["tokenreviews"]) => ("TokenReview", ""),
        (AUTHENTICATION, ["selfsubjectreviews"]) => ("SelfSubjectReview", ""),
        (AUTHORIZATION, ["subjectaccessreviews"]) => ("SubjectAccessReview", ""),
        (AUTHORIZATION, ["selfsubjectaccessreviews"]) => ("SelfSubjectAccessReview", ""),
        (AUTHORIZATION, ["selfsubjectrulesreviews"]) => ("SelfSubjectRulesReview", ""),
        (AUTHORIZATION, ["namespaces", namespace, "localsubjectaccessreviews"]) => {
            ("LocalSubjectAccessReview", *namespace)
        }
        _ => return None,
    };
    Some(Question { api_version, kind, namespace: namespace.to_owned() })
}

/// Answers a question.
pub(crate) fn answer(server: &Server, request: &Request, question: &Question) -> Result<Answer> {
    if request.method != "POST" {
        return Err(Status::method_not_allowed());
    }
    dry_run(request.query.all("dryRun"), "CreateOptions")?;
    let mut review = request.json(question.kind)?;
    check_type(&review, question)?;
    let fields = as_map_mut(&mut review);
    let known = ["kind", "apiVersion", "metadata", "spec", "status"];
    let unknown: Vec<String> =
        fields.keys().filter(|name| !known.contains(&name.as_str())).cloned().collect();
    let warnings: Vec<String> = unknown.iter().map(|name| format!("unknown field \"{name}\"")).collect();
    for name in &unknown {
        fields.remove(name);
    }
    fields.insert("kind".into(), question.kind.into());
    fields.insert("apiVersion".into(), question.api_version.into());
    if !fields.get("metadata").is_some_and(Value::is_object) {
        fields.insert("metadata".into(), Value::Object(Map::new()));
    }
    fields.remove("status");
    match question.kind {
        "TokenReview" => token_review(server, &mut review)?,
        "SelfSubjectReview" => {
            review["metadata"] = json!({"creationTimestamp": server.timestamp()});
            review["status"] = json!({"userInfo": request.user.to_json()});
        }
        "SelfSubjectRulesReview" => {
            if text(&review, &["spec", "namespace"]).is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            review["spec"] = json!({});
            review["status"] = json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            });
        }
        _ => access_review(question, &mut review)?,
    }
    Ok(Answer::json(201, &review).with_warnings(warnings))
}

fn check_type(review: &Value, question: &Question) -> Result<()> {
    let (kind, version) = (text(review, &["kind"]), text(review, &["apiVersion"]));
    let fits = (kind.is_empty() || kind == question.kind)
        && (version.is_empty() || version == question.api_version)
        && review.is_object();
    if fits {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {}: send an object of kind {} and apiVersion {}",
        question.kind, question.kind, question.api_version
    )))
}

fn token_review(server: &Server, review: &mut Value) -> Result<()> {
    let token = text(review, &["spec", "token"]);
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = at(review, &["spec", "audiences"]).and_then(Value::as_array);
    let audiences: Vec<&str> = audiences.into_iter().flatten().filter_map(Value::as_str).collect();
    let audiences = if audiences.is_empty() { vec![ISSUER] } else { audiences };
    let status = match auth::by_token(server, token, &audiences) {
        Ok((user, meant)) => json!({"authenticated": true, "user": user.to_json(), "audiences": meant}),
        Err(why) => json!({"user": {}, "error": why}),
    };
    review["status"] = status;
    Ok(())
}

fn access_review(question: &Question, review: &mut Value) -> Result<()> {
    let mut causes = wrong_attributes(question, review);
    let spec = &review["spec"];
    let no_groups = spec["groups"].as_array().is_none_or(Vec::is_empty);
    if question.kind != "SelfSubjectAccessReview" && text(spec, &["user"]).is_empty() && no_groups {
        causes.insert(0, Cause::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    let local = question.kind == "LocalSubjectAccessReview";
    let given = text(review, &["metadata", "namespace"]).to_owned();
    if local {
        if !given.is_empty() && given != question.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        review["metadata"]["namespace"] = question.namespace.as_str().into();
    }
    let others = review["metadata"].as_object().into_iter().flatten();
    let others: Map<String, Value> = others
        .filter(|(name, _)| name.as_str() != "managedFields" && !(local && name.as_str() == "namespace"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !others.is_empty() {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        causes.push(Cause::invalid("metadata", Value::Object(others), why));
    }
    if !causes.is_empty() {
        return Err(Status::invalid("authorization.k8s.io", "", "", &causes));
    }
    review["status"] = json!({"allowed": true});
    Ok(())
}

/// What is asked about has to be one thing.
fn wrong_attributes(question: &Question, review: &Value) -> Vec<Cause> {
    let (resource, path) = ("spec.resourceAttributes", "spec.nonResourceAttributes");
    let present = |name: &str| at(review, &["spec", name]).filter(|value| !value.is_null());
    let shown = |value: &Value| json!({"Path": text(value, &["path"]), "Verb": text(value, &["verb"])});
    let local = question.kind == "LocalSubjectAccessReview";
    match (present("resourceAttributes"), present("nonResourceAttributes")) {
        (_, Some(asked)) if local => {
            vec![Cause::invalid(path, shown(asked), "disallowed on this kind of request")]
        }
        (Some(_), Some(asked)) => {
            vec![Cause::invalid(
                path,
                shown(asked),
                "cannot be specified in combination with resourceAttributes",
            )]
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![Cause::invalid(resource, Value::Null, why)]
        }
        (Some(asked), None) if local && text(asked, &["namespace"]) != question.namespace => {
            let namespace = text(asked, &["namespace"]);
            vec![Cause::invalid(
                "spec.resourceAttributes.namespace",
                namespace,
                "must match metadata.namespace",
            )]
        }
        (Some(asked), None) => selectors(asked),
        (None, Some(_)) => Vec::new(),
    }
}

/// A selector is a text or a list, and not both.
fn selectors(asked: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for name in ["fieldSelector", "labelSelector"] {
        let raw = text(asked, &[name, "rawSelector"]);
        let listed = at(asked, &[name, "requirements"]).and_then(Value::as_array);
        if !raw.is_empty() && listed.is_some_and(|listed| !listed.is_empty()) {
            let field = format!("spec.resourceAttributes.{name}.rawSelector");
            let why = "may not specified at the same time as requirements";
            causes.push(Cause::invalid(field, raw, why));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_ask_questions() {
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let found = question(path);
            let found = found.as_ref().map(|question| (question.kind, question.namespace.as_str()));
            assert_eq!(found, expected, "{path}");
        };
        check("/apis/authentication.k8s.io/v1/tokenreviews", Some(("TokenReview", "")));
        check(
            "/apis/authorization.k8s.io/v1/namespaces/a/localsubjectaccessreviews",
            Some(("LocalSubjectAccessReview", "a")),
        );
        check("/apis/authorization.k8s.io/v1/localsubjectaccessreviews", None);
        check("/apis/authorization.k8s.io/v1/tokenreviews", None);
        check("/apis/authentication.k8s.io/v1", None);
    }
}
