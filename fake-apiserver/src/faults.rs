//! Decides what a script of faults says: which requests, which of them, and what goes wrong. Never looks at a request: `plan`
//! does. Answers to no upstream piece: a real server has these faults, and nobody can ask for one.

mod plan;

use serde::{Deserialize, Serialize};

pub(crate) use self::plan::{Cut, Plan, Switches, glob};

/// Everything that is to go wrong, and when. The same script, with the same requests in the same order, does the same.
///
/// ```
/// let faults = fake_apiserver::Faults::parse("
/// seed: 7
/// rules:
/// - {verbs: [patch], kinds: [persistentvolumeclaims], names: ['data-*'], nth: 2, answer: {code: 409}}
/// - {verbs: [create, update], every: 5, answer: {code: 429, retryAfterSeconds: 1}}
/// - {verbs: [delete], probability: 0.1, lose: answer}
/// - {verbs: [watch], first: 3, cut: {afterEvents: 10}}
/// ")?;
/// assert_eq!(faults.rules.len(), 4);
/// # Ok::<(), fake_apiserver::FaultsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Faults {
    /// Decides which requests a probability takes.
    pub seed: u64,
    /// How far the server's clock is ahead (or, below zero, behind).
    #[serde(skip_serializing_if = "is_default")]
    pub clock_skew_seconds: i64,
    /// How many events each kind remembers from now on: fewer make watches expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<usize>,
    /// Kinds whose events are held back from watches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hold: Vec<String>,
    /// Each applies on its own; of two answers the earlier counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// What goes wrong with some requests. Lists that are empty mean all; `*` and `?` stand for any letters and for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rule {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Plurals, with or without their group (`storageclasses.storage.k8s.io`), or kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Names; a collection has none, and neither has what is created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Subresources; `""` is the object itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<String>,
    /// What clients call themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_agents: Vec<String>,

    /// Only this one of the requests that match, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Every so many requests that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The first so many requests that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// That part of the requests that match, between 0 and 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,

    /// The request waits so long before anything else happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_millis: Option<u64>,
    /// The request is refused, and not handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Refusal>,
    /// The connection is lost: before the request is handled, or with the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lose: Option<Lose>,
    /// The stream of a watch ends early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cutting>,
    /// A watch gets no bookmarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withhold_bookmarks: Option<Withheld>,
}

/// An answer that says no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refusal {
    /// From 400 to 599.
    pub code: u16,
    /// Such as `Conflict`; what the code is usually called, when there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Goes into `Retry-After` and the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

/// When a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lose {
    /// Before the request is handled: nothing happens.
    Request,
    /// After it was handled: what it asked for has happened, and the client doesn't know.
    Answer,
}

/// When a watch ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cutting {
    /// After so many events, those that show what there was at its start included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_events: Option<u64>,
    /// After that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<f64>,
}

/// Which bookmarks a watch doesn't get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Withheld {
    /// Those that tell a quiet watch how far it has come.
    Periodic,
    /// The one that ends the initial events, too.
    All,
}

fn is_default(value: &i64) -> bool {
    *value == 0
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("faults: {field}{problem}")]
pub struct FaultsError {
    field: String,
    problem: String,
}

impl FaultsError {
    fn at(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: format!("{}: ", field.into()), problem: problem.into() }
    }

    pub(crate) fn unknown_kind(index: usize, kind: &str) -> Self {
        let problem = format!("{kind:?} is not served; say PersistentVolume, or such");
        Self::at(format!("hold[{index}]"), problem)
    }
}

const VERBS: [&str; 9] =
    ["*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

impl Faults {
    /// Reads a script in YAML or JSON.
    ///
    /// # Errors
    /// Names the field that is wrong, and what could stand there.
    pub fn parse(text: &str) -> Result<Self, FaultsError> {
        let value: serde_json::Value = serde_saphyr::from_str(text).map_err(|error| {
            let problem = error.to_string();
            let problem = problem.lines().next().unwrap_or_default().to_owned();
            FaultsError { field: String::new(), problem: format!("neither YAML nor JSON: {problem}") }
        })?;
        let value = if value.is_null() { serde_json::json!({}) } else { value };
        let faults: Self = serde_path_to_error::deserialize(value)
            .map_err(|error| FaultsError::at(error.path().to_string(), error.inner().to_string()))?;
        faults.check()?;
        Ok(faults)
    }

    /// Whether the script makes sense.
    ///
    /// # Errors
    /// Names the field that is wrong, and what could stand there.
    pub fn check(&self) -> Result<(), FaultsError> {
        if self.history == Some(0) {
            return Err(FaultsError::at("history", "at least 1, since the last write is always remembered"));
        }
        self.rules.iter().enumerate().try_for_each(|(index, rule)| rule.check(index))
    }
}

impl Rule {
    fn check(&self, index: usize) -> Result<(), FaultsError> {
        let at = |field: &str| {
            if field.is_empty() { format!("rules[{index}]") } else { format!("rules[{index}].{field}") }
        };
        for (number, verb) in self.verbs.iter().enumerate() {
            if !VERBS.contains(&verb.as_str()) {
                let problem = format!("{verb:?} is no verb; the verbs are {}", VERBS[1..].join(", "));
                return Err(FaultsError::at(at(&format!("verbs[{number}]")), problem));
            }
        }
        let counted = [("nth", self.nth), ("every", self.every), ("first", self.first)];
        if let Some((field, _)) = counted.iter().find(|(_, number)| *number == Some(0)) {
            return Err(FaultsError::at(at(field), "requests are counted from 1"));
        }
        let chosen = counted.iter().filter(|(_, number)| number.is_some()).count();
        if chosen + usize::from(self.probability.is_some()) > 1 {
            let problem =
                "one of nth, every, first and probability says which requests; make two rules of it";
            return Err(FaultsError::at(at(""), problem));
        }
        if self.probability.is_some_and(|probability| !(0.0..=1.0).contains(&probability)) {
            return Err(FaultsError::at(at("probability"), "a number between 0 and 1"));
        }
        self.check_fault(&at)
    }

    fn check_fault(&self, at: &dyn Fn(&str) -> String) -> Result<(), FaultsError> {
        if let Some(refusal) = self.answer.as_ref().filter(|answer| !(400..600).contains(&answer.code)) {
            let problem = format!("{} is no refusal; 400 to 599 are", refusal.code);
            return Err(FaultsError::at(at("answer.code"), problem));
        }
        if self.answer.is_some() && self.lose.is_some() {
            let problem = "a connection that is lost has no answer; make two rules of it";
            return Err(FaultsError::at(at("lose"), problem));
        }
        if let Some(cut) = &self.cut {
            if cut.after_events.is_none() && cut.after_seconds.is_none() {
                return Err(FaultsError::at(at("cut"), "afterEvents or afterSeconds says when"));
            }
            if cut.after_seconds.is_some_and(|seconds| !(0.0..=1e9).contains(&seconds)) {
                return Err(FaultsError::at(at("cut.afterSeconds"), "a number of seconds, 0 or more"));
            }
        }
        let nothing = self.answer.is_none()
            && self.lose.is_none()
            && self.latency_millis.is_none()
            && self.cut.is_none()
            && self.withhold_bookmarks.is_none();
        if nothing {
            let problem =
                "nothing goes wrong; add one of answer, lose, latencyMillis, cut, withholdBookmarks";
            return Err(FaultsError::at(at(""), problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, expected: &str) {
        let found = Faults::parse(script).err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn what_is_wrong_is_named() {
        check(
            "rules: [{verbs: [gett], lose: answer}]",
            "faults: rules[0].verbs[0]: \"gett\" is no verb; the verbs are get, list, watch, create, update, patch, delete, deletecollection",
        );
        check(
            "rules: [{lose: answer}, {verbs: [get]}]",
            "faults: rules[1]: nothing goes wrong; add one of answer, lose, latencyMillis, cut, withholdBookmarks",
        );
        check("rules: [{lose: answer, nth: 0}]", "faults: rules[0].nth: requests are counted from 1");
        check(
            "rules: [{lose: answer, probability: 1.5}]",
            "faults: rules[0].probability: a number between 0 and 1",
        );
        check(
            "rules: [{lose: answer, nth: 1, every: 2}]",
            "faults: rules[0]: one of nth, every, first and probability says which requests; make two rules of it",
        );
        check(
            "rules: [{answer: {code: 200}}]",
            "faults: rules[0].answer.code: 200 is no refusal; 400 to 599 are",
        );
        check(
            "rules: [{answer: {code: x}}]",
            "faults: rules[0].answer.code: invalid type: string \"x\", expected u16",
        );
        check("rules: [{cut: {}}]", "faults: rules[0].cut: afterEvents or afterSeconds says when");
        check(
            "rules: [{lose: nothing}]",
            "faults: rules[0].lose: unknown variant `nothing`, expected `request` or `answer`",
        );
        check("history: 0", "faults: history: at least 1, since the last write is always remembered");
        check(
            "rulez: []",
            "faults: rulez: unknown field `rulez`, expected one of `seed`, `clockSkewSeconds`, `history`, `hold`, `rules`",
        );
    }

    #[test]
    fn a_script_is_read_as_it_is_shown() {
        let text = "{seed: 1, clockSkewSeconds: -5, history: 3, hold: [Pod], rules: [{verbs: [watch], first: 2, latencyMillis: 5, cut: {afterEvents: 1}, withholdBookmarks: all}]}";
        let faults = Faults::parse(text).unwrap();
        let shown = serde_json::to_string(&faults).unwrap();
        assert_eq!(Faults::parse(&shown).unwrap(), faults);
        assert_eq!(Faults::parse("").unwrap(), Faults::default());
    }
}
