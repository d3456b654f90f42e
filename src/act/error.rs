//! What can go wrong on the way to the API server.

use std::sync::Arc;

use super::lease::Loss;
use super::lease::lead::NotLeading;
use crate::cluster::Key;
use crate::objects::{Volume, name};

/// An error, with the object that it is about and whether trying again may help.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The object is newer than the decision: decide again.
    #[error("{key} was changed by somebody else; deciding again")]
    Conflict {
        /// The object.
        key: Key,
    },
    /// The API server refused or failed to do what was asked.
    #[error("the API server refused to {verb} {key}: {message}")]
    Api {
        /// What was asked for.
        verb: &'static str,
        /// The object.
        key: Key,
        /// The server's answer.
        message: String,
        /// The answer's HTTP status code, 0 when there was no answer.
        code: u16,
    },
    /// A volume whose storage has been made could not be saved.
    #[error("volume {} could not be saved: {message}", name(&volume.metadata))]
    Unsaved {
        /// The volume.
        volume: Arc<Volume>,
        /// The server's last answer.
        message: String,
    },
    /// Nothing was sent: another process leads, or none does.
    #[error("{key} was left alone: {NotLeading}")]
    NotLeading {
        /// The object.
        key: Key,
    },
    /// This process led and leads no more.
    #[error("the lease is lost: {0}")]
    Lost(Loss),
    /// The watches could not be set up, or the connection was lost for good.
    #[error("cannot reach the API server: {0}")]
    Unreachable(String),
}

impl Error {
    /// The error of a request about an object.
    #[must_use]
    pub fn of(verb: &'static str, key: &Key, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists" => {
                Error::Conflict { key: key.clone() }
            }
            kube::Error::Api(status) => {
                Error::Api { verb, key: key.clone(), message: status.message.clone(), code: status.code }
            }
            kube::Error::Service(error) if error.is::<NotLeading>() => Error::NotLeading { key: key.clone() },
            other => Error::Api { verb, key: key.clone(), message: other.to_string(), code: 0 },
        }
    }

    /// Whether the object was changed by somebody else.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. })
    }
}
