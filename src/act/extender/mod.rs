//! The volume binder as an extender of kube-scheduler.
//!
//! kube-scheduler chooses the node, and asks over HTTP ([`pages`], in the form of [`wire`]) which nodes a pod's volumes
//! leave, and to bind it. The loop that owns the cluster answers between two decisions: a question is a message, and so is the
//! answer. Pods are placed as the scheduler of this crate places them, but only those that kube-scheduler asks for, and
//! where it says ([`crate::decide::binder::Pods::Requested`]). Answers to the plugin `VolumeBinding`, seen from outside.

pub mod pages;
mod patience;
mod requests;
pub mod wire;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::decider::Decider;
use crate::binder::extender::{self, Candidates, Judgement};
use crate::cluster::Key;
use crate::objects::Pod;
use requests::{Ended, Request, Requests};

/// How many questions may wait for the loop.
const QUESTIONS: usize = 64;
/// How long a question may wait, to be taken and to be answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Not all of the cluster is known.
    #[error("not every kind of object has been listed yet")]
    Unlisted,
    /// Another process leads, or none does.
    #[error("this process does not lead")]
    Standby,
    /// The loop has too much to do.
    #[error("too much is asked at once: no answer in time")]
    Busy,
    /// The program ends.
    #[error("the program stops")]
    Stopping,
}

/// What is asked.
#[derive(Debug)]
enum Question {
    /// Whether there are answers.
    Ready(Reply<()>),
    Filter(Arc<(Pod, Candidates)>, Reply<Result<Judgement, String>>),
    Prioritize(Arc<(Pod, Candidates)>, Reply<Vec<u8>>),
    Bind(Request, Reply<()>),
}

type Reply<T> = oneshot::Sender<Result<T, Unanswered>>;

/// Asks the loop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Asker {
    questions: mpsc::Sender<Question>,
    shown: watch::Receiver<u64>,
}

/// A request to bind a pod, as long as somebody waits for it.
#[derive(Debug)]
pub struct Bound {
    outcome: oneshot::Receiver<Result<(), String>>,
    /// Dropped when nobody waits any more, which ends the request.
    _asker: oneshot::Sender<Infallible>,
}

impl Bound {
    /// Waits for the outcome: nothing, or why the pod is not bound.
    ///
    /// # Errors
    /// When the program stops meanwhile.
    pub async fn outcome(self) -> Result<Result<(), String>, Unanswered> {
        self.outcome.await.map_err(|_| Unanswered::Stopping)
    }
}

impl Asker {
    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Result<T, Unanswered> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.questions.send(question(reply)).await.map_err(|_| Unanswered::Stopping)?;
            answer.await.unwrap_or(Err(Unanswered::Stopping))
        };
        timeout(PATIENCE, asked).await.unwrap_or(Err(Unanswered::Busy))
    }

    /// Whether questions are answered.
    ///
    /// # Errors
    /// Why not.
    pub async fn ready(&self) -> Result<(), Unanswered> {
        self.ask(Question::Ready).await
    }

    /// Tells when the watches have shown something that may change an answer.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shown.clone()
    }

    /// Which of the nodes the pod's volumes leave; see [`extender::judge`].
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn filter(
        &self,
        asked: Arc<(Pod, Candidates)>,
    ) -> Result<Result<Judgement, String>, Unanswered> {
        self.ask(|reply| Question::Filter(asked, reply)).await
    }

    /// How good the nodes are; see [`extender::prioritize`].
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn prioritize(&self, asked: Arc<(Pod, Candidates)>) -> Result<Vec<u8>, Unanswered> {
        self.ask(|reply| Question::Prioritize(asked, reply)).await
    }

    /// Has a pod bound to a node, with its volumes.
    ///
    /// # Errors
    /// Why that is not begun.
    pub async fn bind(&self, pod: Key, uid: String, node: Arc<str>) -> Result<Bound, Unanswered> {
        let (answer, outcome) = oneshot::channel();
        let (here, asker) = oneshot::channel();
        let request = Request { pod, uid, node, answer, asker };
        self.ask(|reply| Question::Bind(request, reply)).await?;
        Ok(Bound { outcome, _asker: here })
    }
}

/// The loop's side: questions that wait, and requests that are under way.
pub struct Extender {
    questions: Option<mpsc::Receiver<Question>>,
    requests: Requests,
    /// How much the watches have shown.
    shown: watch::Sender<u64>,
}

/// Something that the loop has to turn to.
pub struct Asked(Turn);

enum Turn {
    Question(Question),
    Ended(Ended),
}

impl Extender {
    /// Whom the loop answers, and who asks. Binding a pod may take so long.
    #[must_use]
    pub fn new(bind_timeout: Duration) -> (Self, Asker) {
        let (sender, receiver) = mpsc::channel(QUESTIONS);
        let (shown, changes) = watch::channel(0);
        let extender = Extender { questions: Some(receiver), requests: Requests::new(bind_timeout), shown };
        (extender, Asker { questions: sender, shown: changes })
    }

    /// For a loop that nobody asks.
    #[must_use]
    pub fn nobody() -> Self {
        let shown = watch::Sender::new(0);
        Extender { questions: None, requests: Requests::new(Duration::ZERO), shown }
    }

    /// Waits for something to turn to; for ever if nobody asks.
    pub async fn next(&mut self) -> Asked {
        let question = async {
            if let Some(questions) = &mut self.questions
                && let Some(question) = questions.recv().await
            {
                return question;
            }
            std::future::pending().await
        };
        Asked(tokio::select! {
            question = question => Turn::Question(question),
            ended = self.requests.next() => Turn::Ended(ended),
        })
    }

    /// Turns to it. Nothing is answered before decisions are made.
    pub fn answer(&mut self, decider: &mut Decider, ready: Result<(), Unanswered>, asked: Asked) {
        // Who has gone needs no answer.
        match asked.0 {
            Turn::Ended(ended) => self.requests.end(decider, &ended),
            Turn::Question(Question::Ready(reply)) => {
                let _ = reply.send(ready);
            }
            Turn::Question(Question::Filter(asked, reply)) => {
                let (cluster, settings) = (decider.cluster(), decider.settings());
                let answer = ready.map(|()| extender::judge(cluster, settings, &asked.0, &asked.1));
                let _ = reply.send(answer);
            }
            Turn::Question(Question::Prioritize(asked, reply)) => {
                let (cluster, settings) = (decider.cluster(), decider.settings());
                let answer = ready.map(|()| extender::prioritize(cluster, settings, &asked.0, &asked.1));
                let _ = reply.send(answer);
            }
            Turn::Question(Question::Bind(request, reply)) => {
                if ready.is_ok() {
                    self.requests.begin(decider, request);
                }
                let _ = reply.send(ready);
            }
        }
    }

    /// Looks at what has become of requests; says whether there is something to decide about now.
    pub fn see(&mut self, decider: &mut Decider) -> bool {
        let now = decider.shown();
        self.shown.send_if_modified(|before| std::mem::replace(before, now) != now);
        self.requests.see(decider)
    }
}
