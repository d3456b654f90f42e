//! Decides what a patch makes of an object, one file a kind of patch. Never decides whether the result may be
//! stored. Answers to `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

mod json;
mod strategic;

use serde_json::Value;

use crate::kinds::Kind;
use crate::status::{Result, Status};

/// How many operations a JSON patch may have.
const MOST_OPERATIONS: usize = 10_000;

/// A patch, read.
pub(crate) enum Patch {
    Merge(Value),
    Json(Vec<Value>),
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
        let object = |value: Value| -> Result<Value> {
            if value.is_object() {
                Ok(value)
            } else {
                Err(Status::bad_request("error decoding patch: it is no object"))
            }
        };
        match content_type {
            "application/merge-patch+json" => Ok(Self::Merge(object(value()?)?)),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic(match value()? {
                Value::Null => serde_json::json!({}),
                value => object(value)?,
            })),
            "application/json-patch+json" => match value()? {
                // Nothing is a list of no operations.
                Value::Null => Ok(Self::Json(Vec::new())),
                Value::Array(operations) if operations.len() > MOST_OPERATIONS => {
                    let why = format!(
                        "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
                        operations.len()
                    );
                    Err(Box::new(Status::new(413, "RequestEntityTooLarge", why)))
                }
                Value::Array(operations) => {
                    operations.iter().try_for_each(json::check)?;
                    Ok(Self::Json(operations))
                }
                _ => Err(Status::bad_request("error decoding patch: it is no list of operations")),
            },
            _ => {
                let mut refusal = Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                refusal.details = Some(serde_json::json!({}));
                Err(Box::new(refusal))
            }
        }
    }

    /// Whether it is merged by the kind's schema.
    pub(crate) fn is_strategic(&self) -> bool {
        matches!(self, Self::Strategic(_))
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
            Self::Strategic(patch) => strategic::apply(crate::schema::of_kind(kind), object, patch),
            Self::Json(patch) => json::apply(object, patch).map_err(|why| {
                let mut refusal = Status::new(
                    422,
                    "Invalid",
                    "the server rejected our request due to an error in our request",
                );
                tracing::debug!(%why, "a JSON patch does not apply");
                refusal.details = Some(serde_json::json!({}));
                Box::new(refusal)
            }),
        }
    }
}
