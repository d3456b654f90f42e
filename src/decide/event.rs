//! The events that tell users what happened, with upstream's reasons.
//!
//! Answers to upstream's `pkg/controller/volume/events`.

use crate::cluster::Key;

/// Whether an event is news or a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// News.
    Normal,
    /// A problem.
    Warning,
}

impl Severity {
    /// The event type as the API spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// An event about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object that the event is about.
    pub regarding: Key,
    /// News or problem.
    pub severity: Severity,
    /// The reason, one of upstream's.
    pub reason: &'static str,
    /// What happened, in upstream's words where upstream has words for it.
    pub message: String,
}

impl Event {
    /// News about an object.
    #[must_use]
    pub fn normal(regarding: &Key, reason: &'static str, message: impl Into<String>) -> Self {
        Event { regarding: regarding.clone(), severity: Severity::Normal, reason, message: message.into() }
    }

    /// A problem with an object.
    #[must_use]
    pub fn warning(regarding: &Key, reason: &'static str, message: impl Into<String>) -> Self {
        Event { regarding: regarding.clone(), severity: Severity::Warning, reason, message: message.into() }
    }
}
