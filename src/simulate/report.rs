//! What `pvbind simulate` found: the data behind `-o json`, `-o yaml` and the table.
//!
//! Field names and their order are the stable format that scripts read: fields may be added, never changed. Decides
//! the order of things, so that the same input gives the same bytes. Never decides what happened, nor how it looks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::field;

/// Everything a simulation found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether everything came to rest, as opposed to running into the time limit.
    pub settled: bool,
    /// How much virtual time passed.
    pub virtual_seconds: f64,
    /// All claims, by namespace and name.
    pub claims: Vec<Claim>,
    /// All volumes, by name.
    pub volumes: Vec<Volume>,
    /// All pods, by namespace and name.
    pub pods: Vec<Pod>,
    /// All events, by what they regard; those that regard the same, in the order in which they occurred.
    pub events: Vec<Event>,
    /// What is odd about the input, in the order it came up.
    pub warnings: Vec<String>,
    /// Every final object, as the API server would return it, by kind, namespace and name.
    pub objects: Vec<Value>,
}

/// Where a claim ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    /// The volume it names; empty while there is none.
    pub volume: String,
    /// Why it is not bound, or what is odd although it is.
    pub reasons: Vec<Reason>,
}

/// Where a volume ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: String,
    /// The claim it is reserved for as `namespace/name`; empty when for none.
    pub claim: String,
    /// Why it is where it is, where that needs saying.
    pub reasons: Vec<Reason>,
}

/// Where a pod ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node it was placed on; empty while it is on none.
    pub node: String,
    /// Why it is on none.
    pub reasons: Vec<Reason>,
}

/// An event, as `kubectl describe` would show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason in one word, such as `FailedBinding`.
    pub reason: String,
    /// The object as `Kind/namespace/name`, or `Kind/name` where the kind has no namespace.
    pub regarding: String,
    /// The message.
    pub message: String,
    /// How often it occurred.
    pub count: u32,
}

/// Why something is as it is, and what would change that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// From a closed, documented list.
    pub code: String,
    /// The object that stands in the way, as `Kind/name` or `Kind/namespace/name`.
    pub subject: String,
    /// A sentence.
    pub message: String,
    /// The smallest change that would cure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Report {
    /// Puts everything in its order: by namespace, then name. Reasons, warnings and the events of one object keep
    /// the order they have, which is that of their weight and time.
    pub fn sort(&mut self) {
        self.claims.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.volumes.sort_by(|a, b| a.name.cmp(&b.name));
        self.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.events.sort_by(|a, b| a.regarding.cmp(&b.regarding));
        self.objects.sort_by_cached_key(|object| {
            let text = |path: &str| field::text(object, path).to_owned();
            (text("/kind"), text("/metadata/namespace"), text("/metadata/name"), text("/apiVersion"))
        });
    }
}

impl Report {
    /// Whether everything is bound or placed, or waits by design.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let waits_by_design = |reasons: &[Reason]| {
            reasons.first().is_some_and(|reason| BY_DESIGN.contains(&reason.code.as_str()))
        };
        self.settled
            && self.claims.iter().all(|claim| claim.phase == "Bound" || waits_by_design(&claim.reasons))
            && self
                .pods
                .iter()
                .all(|pod| !pod.node.is_empty() || pod.reasons.is_empty() || waits_by_design(&pod.reasons))
    }
}

/// The reasons that are no problem: somebody has yet to ask.
const BY_DESIGN: [&str; 2] = ["WaitForFirstConsumer", "PodGated"];
