//! Whether this process may write, as the rest of the program asks.
//!
//! Answers by this process's own clock alone, at any moment and without a request: a term ends by itself. A process that
//! was stopped for a while and goes on finds its term over before it sends anything. Decides nothing about the lease.

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Why this process leads no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Somebody else has the lease.
    #[error("{0} has taken it")]
    Taken(String),
    /// It could not be renewed in time.
    #[error("it could not be renewed in time")]
    Deadline,
    /// Whoever renews it is gone.
    #[error("nobody renews it any more")]
    Unattended,
}

/// A write that was not sent, because this process does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead: nothing is sent")]
pub struct NotLeading;

/// What is known of the term.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    /// It has not begun.
    Standby,
    /// It ends then, unless it is made longer.
    Until(Instant),
    /// It is over for good.
    Over(Loss),
}

/// Whether this process may write. Cheap to clone; clones ask the same.
#[derive(Clone, Debug, Default)]
pub struct Lead(Option<watch::Receiver<Term>>);

/// Who says so.
#[derive(Debug)]
pub struct Baton(watch::Sender<Term>);

impl Lead {
    /// For a process that needs no lease.
    #[must_use]
    pub fn always() -> Self {
        Lead(None)
    }

    /// One that waits to be told, and who tells it.
    #[must_use]
    pub fn standby() -> (Baton, Self) {
        let (sender, receiver) = watch::channel(Term::Standby);
        (Baton(sender), Lead(Some(receiver)))
    }

    /// Whether this process may write now.
    #[must_use]
    pub fn holds(&self) -> bool {
        let Some(term) = &self.0 else { return true };
        matches!(*term.borrow(), Term::Until(end) if Instant::now() < end)
    }

    /// Waits until the term has begun; for ever if it never does.
    pub async fn begun(&self) {
        let Some(term) = &self.0 else { return };
        let begun = term.clone().wait_for(|term| matches!(term, Term::Until(_))).await.is_ok();
        if !begun {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until a term that had begun is over; for ever if it never is.
    pub async fn lost(&self) -> Loss {
        let Some(term) = &self.0 else { return std::future::pending().await };
        let mut term = term.clone();
        loop {
            let now = term.borrow_and_update().clone();
            let (end, loss) = match now {
                Term::Over(loss) => return loss,
                Term::Standby => (None, Loss::Unattended),
                Term::Until(end) if Instant::now() >= end => return Loss::Deadline,
                Term::Until(end) => (Some(end), Loss::Unattended),
            };
            let ended = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = term.changed() => if changed.is_err() { return loss },
                () = ended => {}
            }
        }
    }

    /// A client whose writes are sent only while this process leads. Reads and watches always are.
    #[must_use]
    pub fn guard(&self, client: Client) -> Client {
        if self.0.is_none() {
            return client;
        }
        let (lead, namespace) = (self.clone(), client.default_namespace().to_owned());
        let guarded = tower::service_fn(move |request: Request<Body>| {
            let (client, lead) = (client.clone(), lead.clone());
            async move {
                let reads = matches!(*request.method(), Method::GET | Method::HEAD);
                if !reads && !lead.holds() {
                    return Err(kube::Error::Service(Box::new(NotLeading)));
                }
                client.send(request).await
            }
        });
        Client::new(guarded, namespace)
    }
}

impl Baton {
    /// The term lasts until then.
    pub(super) fn extend(&self, end: Instant) {
        self.0.send_replace(Term::Until(end));
    }

    /// The term is over.
    pub(super) fn end(&self, loss: Loss) {
        self.0.send_replace(Term::Over(loss));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TERM: Duration = Duration::from_secs(12);

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_itself() {
        let (baton, lead) = Lead::standby();
        assert!(!lead.holds());
        baton.extend(Instant::now() + TERM);
        lead.begun().await;
        tokio::time::advance(Duration::from_millis(11_999)).await;
        assert!(lead.holds());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!lead.holds());
        assert_eq!(lead.lost().await, Loss::Deadline);
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_is_made_longer_is_not_over() {
        let (baton, lead) = Lead::standby();
        let start = Instant::now();
        baton.extend(start + TERM);
        let renewed = async {
            tokio::time::sleep(TERM / 2).await;
            baton.extend(Instant::now() + TERM);
        };
        let (loss, ()) = futures::future::join(lead.lost(), renewed).await;
        assert_eq!((loss, start.elapsed().as_secs()), (Loss::Deadline, 18));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_not_told_any_more_waits_for_nothing() {
        let (baton, lead) = Lead::standby();
        drop(baton);
        assert_eq!(lead.lost().await, Loss::Unattended);
        assert!(tokio::time::timeout(TERM, lead.begun()).await.is_err(), "it never begins");
    }
}
