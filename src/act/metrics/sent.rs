//! What became of a write at the API server, for those who count.
//!
//! Decides nothing; answers to no upstream function.

use crate::act::Error;
use crate::cluster::{Key, Object};
use crate::decide::patch::Request;

/// How the API server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It did what was asked. The object's new version, 0 where the answer has none; of a delete, which may leave an
    /// object that is being deleted, a version that is not newer than that one's.
    Taken(u64),
    /// The object was newer than the decision.
    Conflict,
    /// It did not do what was asked, or was not asked after all.
    Refused,
    /// It did not answer: the write may have been made or not.
    Unanswered,
}

impl Answer {
    /// The value of the label `result`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Answer::Taken(_) => "ok",
            Answer::Conflict => "conflict",
            Answer::Refused => "refused",
            Answer::Unanswered => "unanswered",
        }
    }
}

/// One request that stood for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// What was asked for: `patch`, `create`, `delete` or `bind`.
    pub verb: &'static str,
    /// The object.
    pub key: Key,
    /// The version of it that was its precondition.
    pub from: u64,
    /// What came of it.
    pub answer: Answer,
}

impl Sent {
    /// A request about an object as it was before.
    #[must_use]
    pub fn about(key: &Key, before: &Object, request: &Request) -> Self {
        let verb = match request {
            Request::Patch { .. } => "patch",
            Request::Bind { .. } => "bind",
            Request::Create { .. } => "create",
            Request::Delete { .. } => "delete",
        };
        Sent { verb, key: key.clone(), from: before.version(), answer: Answer::Unanswered }
    }

    /// The same request with its answer.
    #[must_use]
    pub fn answered(self, answer: &Result<Option<Object>, Error>) -> Self {
        let answer = match answer {
            Ok(None) if self.verb == "delete" => Answer::Taken(self.from.saturating_add(1)),
            Ok(object) => Answer::Taken(object.as_ref().map_or(0, Object::version)),
            Err(Error::Conflict { .. }) => Answer::Conflict,
            Err(Error::Api { code: 1.., .. } | Error::NotLeading { .. } | Error::Lost(_)) => Answer::Refused,
            Err(Error::Api { .. } | Error::Unsaved { .. } | Error::Unreachable(_)) => Answer::Unanswered,
        };
        Sent { answer, ..self }
    }
}
