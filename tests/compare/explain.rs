//! Which differences are on purpose: the rules in `testdata/compare/explained.yaml`, each of which names the row in
//! ARCHITECTURE.md that says why.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use serde::Deserialize;

use crate::differ::Difference;
use crate::normal::Normal;
use crate::stack::Side;

/// When a rule holds, beyond what its patterns say.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum When {
    /// Always.
    #[default]
    Always,
    /// The event tells of a state that has passed: its object is in no such state at the end, or both sides also tell why it
    /// is as it is at the end.
    Passed,
    /// What upstream says is what we say, and what its attempt at preemption came to.
    Preempted,
}

/// One kind of difference that is on purpose. In patterns, `*` stands for any text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// How the row in *Differences from upstream* begins.
    pub row: String,
    /// On which sides; both if none is named.
    #[serde(default)]
    sides: Vec<Side>,
    /// In which worlds; all if none is named.
    #[serde(default)]
    worlds: Vec<String>,
    object: String,
    fields: Vec<String>,
    #[serde(default = "any")]
    upstream: String,
    #[serde(default = "any")]
    ours: String,
    #[serde(default)]
    when: When,
    /// Whether it depends on who was quicker: then a run may do without.
    #[serde(default)]
    sometimes: bool,
}

fn any() -> String {
    "*".to_owned()
}

/// Events that say why a claim is not bound yet, or no longer, or why a pod has no node.
const WAITING: [&str; 7] = [
    "FailedBinding",
    "WaitForFirstConsumer",
    "WaitForPodScheduled",
    "ProvisioningFailed",
    "ExternalProvisioning",
    "ClaimLost",
    "FailedScheduling",
];

fn is_waiting(field: &str) -> bool {
    let reason = field.strip_prefix("event ").and_then(|rest| rest.split([' ', ':']).nth(1));
    reason.is_some_and(|reason| WAITING.contains(&reason))
}

fn at<'a>(normal: &'a Normal, object: &str, field: &str) -> Option<&'a str> {
    normal.get(&(object.to_owned(), field.to_owned())).and_then(|value| value.as_str())
}

/// Whether an object waits for nothing: a claim is bound, a pod has a node, or it is gone.
fn is_done(normal: &Normal, object: &str) -> bool {
    let is_there = normal.contains_key(&(object.to_owned(), "exists".to_owned()));
    !is_there
        || at(normal, object, "status.phase") == Some("Bound")
        || at(normal, object, "spec.nodeName").is_some()
}

/// Whether the event of this object tells of something that has passed on both sides.
fn has_passed(object: &str, sides: [&Normal; 2]) -> bool {
    if sides.iter().all(|normal| is_done(normal, object)) {
        return true;
    }
    if object.starts_with("Pod ") {
        let why =
            |normal| at(normal, object, "status.conditions[PodScheduled].message").map(without_preemption);
        return why(sides[0]).is_some() && why(sides[0]) == why(sides[1]);
    }
    let of = |normal: &Normal| -> BTreeSet<String> {
        let keys = normal.keys().filter(|(whose, field)| whose == object && is_waiting(field));
        keys.map(|(_, field)| field.clone()).collect()
    };
    !of(sides[0]).is_disjoint(&of(sides[1]))
}

/// What kube-scheduler says of a pod, but for what its attempt at preemption came to.
fn without_preemption(message: &str) -> &str {
    let message = message.split(" no new claims to deallocate, preemption:").next().unwrap_or_default();
    message.strip_suffix(" not found").filter(|rest| rest.ends_with('.')).unwrap_or(message)
}

/// Whether upstream says what we say, and what its attempt at preemption came to.
fn is_preempted(difference: &Difference, sides: [&Normal; 2]) -> bool {
    if let (Some(theirs), Some(ours)) = (&difference.upstream, &difference.ours) {
        return theirs.as_str().map(without_preemption) == ours.as_str();
    }
    let other = sides[usize::from(difference.upstream.is_some())];
    let said = without_preemption(&difference.field);
    other.keys().any(|(whose, field)| *whose == difference.object && without_preemption(field) == said)
}

/// Whether a text is what a pattern describes.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pattern.contains('*').then(|| parts.next_back().unwrap_or_default()) else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

impl Rule {
    fn explains(&self, difference: &Difference, sides: [&Normal; 2]) -> bool {
        (self.sides.is_empty() || self.sides.contains(&difference.side))
            && (self.worlds.is_empty() || self.worlds.contains(&difference.world))
            && is_like(&difference.object, &self.object)
            && self.fields.iter().any(|field| is_like(&difference.field, field))
            && is_like(&difference.upstream(), &self.upstream)
            && is_like(&difference.ours(), &self.ours)
            && match self.when {
                When::Always => true,
                When::Passed => has_passed(&difference.object, sides),
                When::Preempted => is_preempted(difference, sides),
            }
    }
}

/// All rules, and which of them were needed.
pub struct Rules {
    rules: Vec<Rule>,
    used: Mutex<BTreeSet<usize>>,
}

impl Rules {
    pub fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/compare/explained.yaml");
        let text = std::fs::read_to_string(&path).expect("the rules are there");
        let rules = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
        Rules { rules, used: Mutex::default() }
    }

    /// The row that explains a difference.
    pub fn explain(&self, difference: &Difference, sides: [&Normal; 2]) -> Option<&str> {
        let index = self.rules.iter().position(|rule| rule.explains(difference, sides))?;
        self.used.lock().expect("no trial panics here").insert(index);
        Some(&self.rules[index].row)
    }

    /// The rules that no difference needed, though each run has to.
    pub fn idle(&self) -> Vec<&Rule> {
        let used = self.used.lock().expect("no trial panics here");
        let rules = self.rules.iter().enumerate();
        rules.filter(|(index, rule)| !rule.sometimes && !used.contains(index)).map(|(_, rule)| rule).collect()
    }

    /// The rows that rules name and ARCHITECTURE.md does not have.
    pub fn unfounded(&self) -> Vec<&str> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
        let text = std::fs::read_to_string(path).expect("ARCHITECTURE.md is there");
        let (_, rows) = text.split_once("## Differences from upstream").expect("it has that heading");
        let named = self.rules.iter().map(|rule| rule.row.as_str());
        named.filter(|row| !rows.contains(&format!("\n| {row}"))).collect()
    }
}
