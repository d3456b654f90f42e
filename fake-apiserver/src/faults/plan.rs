//! Decides what goes wrong with one request. Never does it: `server` and `watch` do. Answers to no upstream piece.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::json;

use crate::calls::Call;
use crate::faults::{Faults, Lose, Refusal, Rule, Withheld};
use crate::kinds::Kind;
use crate::status::Status;

/// The script that is in force.
#[derive(Default)]
pub(crate) struct Switches(RwLock<Option<Arc<Active>>>);

impl Switches {
    pub(crate) fn get(&self) -> Option<Arc<Active>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a script into force; returns the one before.
    pub(crate) fn set(&self, faults: Option<Faults>) -> Option<Arc<Active>> {
        let active = faults.map(|faults| {
            let counts = Mutex::new(vec![0; faults.rules.len()]);
            Arc::new(Active { faults, counts })
        });
        std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), active)
    }
}

/// A script with how far it has come.
pub(crate) struct Active {
    pub(crate) faults: Faults,
    /// How many requests each rule has matched.
    counts: Mutex<Vec<u64>>,
}

/// What goes wrong with one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) latency: Duration,
    pub(crate) answer: Option<Box<Status>>,
    pub(crate) lose: Option<Lose>,
    pub(crate) cut: Option<Cut>,
    pub(crate) withheld: Option<Withheld>,
}

/// When the stream of a watch ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) events: Option<u64>,
    pub(crate) after: Option<Duration>,
}

impl Active {
    /// Looks at each rule, in order; all that match are counted, also where an earlier one has decided.
    pub(crate) fn plan(&self, call: &Call, kind: &Kind, user_agent: &str) -> Plan {
        let mut plan = Plan::default();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for ((index, rule), count) in self.faults.rules.iter().enumerate().zip(counts.iter_mut()) {
            if !rule.matches(call, kind, user_agent) {
                continue;
            }
            *count += 1;
            if rule.takes(*count, self.faults.seed, index) {
                plan.add(rule, call);
            }
        }
        plan
    }
}

impl Rule {
    fn matches(&self, call: &Call, kind: &Kind, user_agent: &str) -> bool {
        let any = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, text))
        };
        let qualified = format!("{}.{}", call.resource, call.group);
        let names = [&*call.resource, &*qualified, &*kind.kind];
        any(&self.verbs, call.verb)
            && (self.kinds.is_empty()
                || self.kinds.iter().any(|pattern| names.iter().any(|name| glob(pattern, name))))
            && any(&self.namespaces, &call.namespace)
            && any(&self.names, &call.name)
            && any(&self.subresources, &call.subresource)
            && any(&self.user_agents, user_agent)
    }

    /// Whether the rule takes this one of the requests that it matches.
    fn takes(&self, count: u64, seed: u64, index: usize) -> bool {
        if let Some(probability) = self.probability {
            return chance(seed, index as u64, count) < probability;
        }
        self.nth.is_none_or(|nth| count == nth)
            && self.every.is_none_or(|every| every > 0 && count.is_multiple_of(every))
            && self.first.is_none_or(|first| count <= first)
    }
}

impl Plan {
    fn add(&mut self, rule: &Rule, call: &Call) {
        self.latency += Duration::from_millis(rule.latency_millis.unwrap_or(0));
        if self.answer.is_none() && self.lose.is_none() {
            self.answer = rule.answer.as_ref().map(|refusal| refusal.status(call));
            self.lose = rule.lose;
        }
        if self.cut.is_none() {
            self.cut = rule.cut.as_ref().map(|cut| Cut {
                events: cut.after_events,
                after: cut.after_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            });
        }
        self.withheld = self.withheld.or(rule.withhold_bookmarks);
    }
}

impl Refusal {
    fn status(&self, call: &Call) -> Box<Status> {
        let usual = match self.code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 if call.verb == "create" => "AlreadyExists",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "",
        };
        let reason = if self.reason.is_empty() { usual } else { &self.reason };
        let message = match (self.message.is_empty(), self.code) {
            (false, _) => self.message.clone(),
            (true, 409) if call.verb != "create" => {
                Status::modified(&call.group, &call.resource, &call.name).message
            }
            (true, _) => format!("a fault was asked for: {} {} {}", call.verb, call.resource, call.name),
        };
        let mut status = Status::new(self.code, reason, message);
        let mut details = json!({"name": call.name, "group": call.group, "kind": call.resource});
        if let Some(seconds) = self.retry_after_seconds {
            details["retryAfterSeconds"] = seconds.into();
        }
        if let Some(fields) = details.as_object_mut() {
            fields.retain(|_, value| value != "");
        }
        status.details = Some(details);
        Box::new(status)
    }
}

/// A number between 0 and 1 that looks random and is the same each time.
fn chance(seed: u64, rule: u64, count: u64) -> f64 {
    let mut z = seed
        .wrapping_add(rule.wrapping_mul(0xD1B5_4A32_D192_ED03))
        .wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for factor in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        z = (z ^ (z >> 31)).wrapping_mul(factor);
    }
    let bits = u32::try_from((z ^ (z >> 30)) >> 32).unwrap_or(0);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// Whether a text is what a pattern with `*` and `?` means.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and how much of the text it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(one) if *one == '?' || *one == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    fn call(verb: &'static str, name: &str) -> Call {
        Call {
            verb,
            group: String::new(),
            resource: "persistentvolumeclaims".into(),
            subresource: String::new(),
            namespace: "ns".into(),
            name: name.into(),
            number: 1,
            code: 0,
        }
    }

    /// Which of ten patches of a claim something goes wrong with.
    fn wrong(rule: &str, seed: u64) -> Vec<u32> {
        let faults = Faults::parse(&format!("{{seed: {seed}, rules: [{rule}]}}")).unwrap();
        let switches = Switches::default();
        switches.set(Some(faults));
        let active = switches.get().unwrap();
        let kinds = Kinds::served();
        let kind = kinds.get(kinds.named("PersistentVolumeClaim").unwrap());
        let lost = |_: &u32| active.plan(&call("patch", "data-0"), kind, "tester/1").lose.is_some();
        (1..=10).filter(lost).collect()
    }

    #[test]
    fn rules_count_the_requests_that_match() {
        assert_eq!(wrong("{lose: answer}", 0).len(), 10);
        assert_eq!(wrong("{lose: answer, nth: 3}", 0), [3]);
        assert_eq!(wrong("{lose: answer, every: 4}", 0), [4, 8]);
        assert_eq!(wrong("{lose: answer, first: 2}", 0), [1, 2]);
        for no in [
            "verbs: [get]",
            "kinds: [pods]",
            "namespaces: [other]",
            "names: ['x*']",
            "subresources: [status]",
            "userAgents: [kubectl*]",
        ] {
            assert_eq!(wrong(&format!("{{lose: answer, {no}}}"), 0), [0; 0], "{no}");
        }
        for yes in [
            "verbs: [get, patch]",
            "kinds: [PersistentVolume*]",
            "namespaces: [n?]",
            "names: ['data-*']",
            "subresources: ['']",
            "userAgents: [tester*]",
        ] {
            assert_eq!(wrong(&format!("{{lose: answer, {yes}, nth: 1}}"), 0), [1], "{yes}");
        }
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed() {
        let rule = "{lose: answer, probability: 0.5}";
        assert_eq!(wrong(rule, 1), wrong(rule, 1));
        assert!((0..20).any(|seed| wrong(rule, seed) != wrong(rule, 1)));
        let taken: usize = (0..200).map(|seed| wrong(rule, seed).len()).sum();
        assert!((800..1200).contains(&taken), "{taken} of 2000");
        assert_eq!(wrong("{lose: answer, probability: 0}", 1), [0; 0]);
        assert_eq!(wrong("{lose: answer, probability: 1}", 1).len(), 10);
    }

    #[test]
    fn globs_match_whole_texts() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "a", false),
            ("**ü", "aü", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }
}
