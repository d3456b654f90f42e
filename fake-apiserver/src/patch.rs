//! Decides what a patch makes of an object, one file a kind of patch. Never decides whether the result may be stored. Answers
//! to `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

mod strategic;

use serde_json::Value;

use crate::kinds::Kind;
use crate::status::{Cause, Result, Status};

/// A patch, read.
pub(crate) enum Patch {
    Merge(Value),
    Json(json_patch::Patch),
    Strategic(Value),
}

impl Patch {
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Self> {
        let value = || -> Result<Value> {
            serde_json::from_slice(body).map_err(|error| {
                let why = if error.is_eof() {
                    "unexpected end of JSON input".to_owned()
                } else {
                    error.to_string()
                };
                Status::bad_request(format!("error decoding patch: {why}"))
            })
        };
        let object = || -> Result<Value> {
            let value = value()?;
            if value.is_object() {
                Ok(value)
            } else {
                Err(Status::bad_request("error decoding patch: it is no object"))
            }
        };
        match content_type {
            "application/merge-patch+json" => Ok(Self::Merge(object()?)),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic(object()?)),
            "application/json-patch+json" => {
                let why =
                    |error: serde_json::Error| Status::bad_request(format!("error decoding patch: {error}"));
                Ok(Self::Json(serde_json::from_value(value()?).map_err(why)?))
            }
            _ => {
                let mut refusal = Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                refusal.details = Some(serde_json::json!({}));
                Err(Box::new(refusal))
            }
        }
    }

    pub(crate) fn apply(&self, kind: &Kind, object: &Value) -> Result<Value> {
        match self {
            Self::Merge(patch) => {
                let mut object = object.clone();
                json_patch::merge(&mut object, patch);
                Ok(object)
            }
            Self::Strategic(_) if kind.custom => {
                let mut refusal = Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                refusal.details = Some(serde_json::json!({}));
                Err(Box::new(refusal))
            }
            Self::Strategic(patch) => strategic::apply(object, patch),
            Self::Json(patch) => {
                let mut object = object.clone();
                json_patch::patch(&mut object, patch).map_err(|error| {
                    let why =
                        format!("the server rejected our request due to an error in our request: {error}");
                    let cause = Cause::invalid("patch", error.to_string(), &why);
                    let mut refusal = Status::invalid(&kind.group, &kind.kind, "", &[cause]);
                    refusal.message = "the server rejected our request due to an error in our request".into();
                    refusal.details = Some(serde_json::json!({}));
                    refusal
                })?;
                Ok(object)
            }
        }
    }
}
