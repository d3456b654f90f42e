//! Whether the process is well, and whether it is ready to work, for those who ask over HTTP.
//!
//! It is well while its loop turns: the loop answers a question between two of its decisions. Before it begins and once it
//! has ended the process is well too, as it does something about that. Answers to upstream's `healthz` and `readyz` checks.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::lock;
use crate::act::lease::Lead;
use crate::cluster::Kind;

/// How long the loop may take to answer; probes that wait for five seconds hear the answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// How many may ask at once.
const QUESTIONS: usize = 16;

type Question = oneshot::Sender<()>;

/// See the [module's documentation](self).
#[derive(Debug)]
pub(super) struct Health {
    ask: mpsc::Sender<Question>,
    /// Until the loop begins.
    questions: Mutex<Option<mpsc::Receiver<Question>>>,
    /// What has yet to be listed; nothing is known of that before the loop begins.
    unlisted: Mutex<Option<BTreeSet<Kind>>>,
    /// What it takes beside that to be ready.
    lead: OnceLock<Lead>,
}

/// The loop's end.
#[derive(Debug)]
pub struct Pulse(Option<mpsc::Receiver<Question>>);

impl Pulse {
    /// For a loop that nobody asks.
    pub(super) fn off() -> Self {
        Pulse(None)
    }

    /// Waits for a question, and answers it.
    pub async fn felt(&mut self) {
        let question = match &mut self.0 {
            Some(questions) => questions.recv().await,
            None => None,
        };
        match question {
            // Who asked may have gone.
            Some(question) => drop(question.send(())),
            None => std::future::pending().await,
        }
    }
}

impl Health {
    pub(super) fn new() -> Self {
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let questions = Mutex::new(Some(questions));
        Health { ask, questions, unlisted: Mutex::default(), lead: OnceLock::new() }
    }

    pub(super) fn pulse(&self) -> Pulse {
        Pulse(lock(&self.questions).take())
    }

    pub(super) fn set_unlisted(&self, kinds: &BTreeSet<Kind>) {
        *lock(&self.unlisted) = Some(kinds.clone());
    }

    pub(super) fn ready_while(&self, lead: Lead) {
        // The first one counts: a process has one lease.
        let _ = self.lead.set(lead);
    }

    /// Whether the loop turns.
    pub(super) async fn turns(&self) -> bool {
        if lock(&self.questions).is_some() {
            return true;
        }
        let (question, answer) = oneshot::channel();
        let asked = async {
            // An end that is gone means that the loop has ended.
            if self.ask.send(question).await.is_ok() {
                let _ = answer.await;
            }
        };
        timeout(PATIENCE, asked).await.is_ok()
    }

    /// What keeps the process from working; nothing if it does.
    pub(super) fn missing(&self) -> Option<String> {
        let waits = "not every kind of object has been listed yet";
        match &*lock(&self.unlisted) {
            None => return Some(waits.to_owned()),
            Some(kinds) if !kinds.is_empty() => {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
                return Some(format!("{waits}: {}", kinds.join(", ")));
            }
            Some(_) => {}
        }
        let leads = self.lead.get().is_none_or(Lead::holds);
        (!leads).then(|| "this process does not lead".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_well_until_its_loop_turns_no_more() {
        let health = Health::new();
        assert!(health.turns().await, "it has not begun");
        let mut pulse = health.pulse();
        let (turns, ()) = futures::future::join(health.turns(), pulse.felt()).await;
        assert!(turns);
        let start = Instant::now();
        assert!(!health.turns().await, "nobody answers");
        assert_eq!(start.elapsed(), PATIENCE);
        drop(pulse);
        assert!(health.turns().await, "it has ended");
    }

    #[test]
    fn what_is_missing_is_named() {
        let health = Health::new();
        let missing = |kinds: &[Kind]| {
            health.set_unlisted(&kinds.iter().copied().collect());
            health.missing()
        };
        let all = missing(&[Kind::Claim, Kind::Volume]).unwrap();
        assert!(all.ends_with("listed yet: PersistentVolume, PersistentVolumeClaim"), "{all}");
        assert_eq!(missing(&[]), None);
        let (_baton, lead) = Lead::standby();
        health.ready_while(lead);
        assert_eq!(missing(&[]).as_deref(), Some("this process does not lead"));
    }
}
