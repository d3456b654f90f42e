//! The pods that kube-scheduler wants to be bound, until each is or cannot be.
//!
//! It keeps who waits for which pod and for how long, and decides nothing: what has become of a pod says
//! [`requested::outcome`]. A pod that its watch has not shown yet is waited for, a little while: kube-scheduler may know of it
//! earlier. A request ends with its answer, and with it what was reserved for the pod. Answers to the part of upstream's
//! `PreBind` that waits.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::act::decider::{Decider, Happened};
use crate::cluster::Key;
use crate::decide::Reason;
use crate::decide::binder::requested::{self, Outcome};
use crate::objects::uid;

/// How long a pod may be unknown here after kube-scheduler has chosen a node for it.
const UNKNOWN: Duration = Duration::from_secs(5);

/// What is answered: nothing, or why the pod is not bound.
pub(super) type Answer = oneshot::Sender<Result<(), String>>;

/// A pod that is to be bound to a node.
#[derive(Debug)]
pub(super) struct Request {
    pub pod: Key,
    pub uid: String,
    pub node: Arc<str>,
    pub answer: Answer,
    /// Nothing is ever sent here: it ends when whoever asks has gone.
    pub asker: oneshot::Receiver<Infallible>,
}

/// A request that waits for its outcome.
#[derive(Debug)]
struct Waiting {
    number: u64,
    uid: String,
    node: Arc<str>,
    answer: Answer,
    /// Whether the pod was known, so that decisions are made about it.
    begun: bool,
}

/// Why a request is over before it has an outcome.
#[derive(Clone, Copy, Debug)]
enum Over {
    /// Whoever asked has gone.
    Left,
    /// The time for it is over.
    Late,
    /// The time for the pod to be shown is over.
    Unknown,
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pod: Key,
    number: u64,
    over: Over,
}

/// All requests that wait.
pub(super) struct Requests {
    limit: Duration,
    waiting: BTreeMap<Key, Waiting>,
    clocks: FuturesUnordered<BoxFuture<'static, Ended>>,
    next_number: u64,
}

impl Requests {
    /// None yet; each may last so long.
    pub(super) fn new(limit: Duration) -> Self {
        Requests { limit, waiting: BTreeMap::new(), clocks: FuturesUnordered::new(), next_number: 0 }
    }

    /// Takes a request in.
    pub(super) fn begin(&mut self, decider: &mut Decider, request: Request) {
        let Request { pod, uid, node, answer, asker } = request;
        if let Some(earlier) = self.waiting.get(&pod) {
            let why = format!("pod {} is being bound to node {} already", pod.path(), earlier.node);
            // Who has gone needs no answer.
            let _ = answer.send(Err(why));
            return;
        }
        self.next_number += 1;
        let (number, limit, ended) = (self.next_number, self.limit, pod.clone());
        self.clocks.push(Box::pin(async move {
            let over = if timeout(limit, asker).await.is_ok() { Over::Left } else { Over::Late };
            Ended { pod: ended, number, over }
        }));
        let begun = is_known(decider, &pod, &uid);
        if begun {
            decider.request(&pod, node.clone());
        } else {
            let ended = pod.clone();
            self.clocks.push(Box::pin(async move {
                sleep(UNKNOWN).await;
                Ended { pod: ended, number, over: Over::Unknown }
            }));
        }
        self.waiting.insert(pod, Waiting { number, uid, node, answer, begun });
    }

    /// The next request that is over.
    pub(super) async fn next(&mut self) -> Ended {
        match self.clocks.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Ends a request that is over, unless it has ended already.
    pub(super) fn end(&mut self, decider: &mut Decider, ended: &Ended) {
        let Ended { pod, number, over } = ended;
        let Some(waiting) = self.waiting.get(pod).filter(|waiting| waiting.number == *number) else { return };
        let why = match over {
            Over::Unknown if waiting.begun => return,
            Over::Unknown => format!("pod {} with uid {:?} is not known", pod.path(), waiting.uid),
            Over::Late => {
                let seconds = self.limit.as_secs();
                let reason = decider.reasons().get(pod);
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                format!("binding volumes: not done within {seconds} s{reason}")
            }
            Over::Left => "nobody waits for it any more".to_owned(),
        };
        self.answer(decider, pod, Err(why));
    }

    /// Looks at what has happened to pods; says whether there is something to decide about now.
    pub(super) fn see(&mut self, decider: &mut Decider) -> bool {
        let mut any = false;
        for (pod, happened) in decider.take_happened() {
            let Some(waiting) = self.waiting.get_mut(&pod) else { continue };
            let outcome = if is_known(decider, &pod, &waiting.uid) {
                if !waiting.begun {
                    waiting.begun = true;
                    decider.request(&pod, waiting.node.clone());
                    any = true;
                    continue;
                }
                what_became(decider, &pod, &waiting.node, &happened)
            } else if waiting.begun {
                Outcome::Impossible(format!("pod {} no longer exists", pod.path()))
            } else {
                continue;
            };
            let answer = match outcome {
                Outcome::UnderWay => continue,
                Outcome::Placed => Ok(()),
                Outcome::Impossible(why) => Err(why),
            };
            self.answer(decider, &pod, answer);
            any = true;
        }
        any
    }

    fn answer(&mut self, decider: &mut Decider, pod: &Key, answer: Result<(), String>) {
        let Some(waiting) = self.waiting.remove(pod) else { return };
        decider.withdraw(pod);
        if let Err(why) = &answer {
            tracing::info!(%pod, node = %waiting.node, %why, "not bound");
        }
        // Who has gone needs no answer.
        let _ = waiting.answer.send(answer);
    }
}

/// Whether the pod has been shown, and it is this one and not an earlier or later one of its name.
fn is_known(decider: &Decider, pod: &Key, wanted: &str) -> bool {
    decider.cluster().known(pod).is_some_and(|object| uid(object.metadata()) == wanted)
}

fn what_became(decider: &Decider, pod: &Key, node: &str, happened: &Happened) -> Outcome {
    match happened {
        Happened::Decided => {
            let reason = decider.reasons().get(pod).unwrap_or(&Reason::Gone);
            requested::outcome(decider.cluster(), pod, node, reason)
        }
        // It is decided again, on what there is by then.
        Happened::Failed(error) if error.is_conflict() => Outcome::UnderWay,
        Happened::Failed(error) => Outcome::Impossible(error.to_string()),
    }
}
