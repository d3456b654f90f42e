//! Decides what becomes of a request with everything that goes wrong around it: the wait before, the answer that is lost, what
//! the journal says of it. Never decides what goes wrong: `faults` does. Answers to the filters around a handler in
//! `k8s.io/apiserver/pkg/server/filters`.

use std::time::Instant;

use crate::admin;
use crate::answer::{Answer, Content};
use crate::calls::Call;
use crate::faults::{Faults, FaultsError, Lose, Plan};
use crate::journal::Entry;
use crate::present;
use crate::request::Request;
use crate::routes::{Route, Target, route};
use crate::server::Server;
use crate::status::{Result, Status};
use crate::verbs::import::kind_named;

/// The answer did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

type Answered = std::result::Result<Answer, Lost>;

impl Server {
    /// Answers a request, with what was asked to go wrong.
    pub(crate) async fn answer(&self, request: &Request) -> Answered {
        if let Some(answer) = admin::answer(self, request) {
            return Ok(answer);
        }
        if self.is_untouched() {
            return Ok(self.kept(request).await);
        }
        let started = Instant::now();
        let (target, plan) = self.look(request);
        if !plan.latency.is_zero() {
            tokio::time::sleep(plan.latency).await;
        }
        let answered = match refused(&plan, request) {
            Some(refusal) => refusal,
            None => finish(&plan, self.kept(request).await),
        };
        self.remember(request, target.as_ref(), &answered, started);
        answered
    }

    /// The same for who can't await: without the waits, and with a 500 for what is lost.
    pub(crate) fn answer_now(&self, request: &Request) -> Result<Answer> {
        if self.is_untouched() {
            return self.settle(|| Ok(self.handle(request)));
        }
        let started = Instant::now();
        let (target, plan) = self.look(request);
        let answered = match refused(&plan, request) {
            Some(refusal) => refusal,
            None => finish(&plan, self.settle(|| Ok(self.handle(request)))?),
        };
        self.remember(request, target.as_ref(), &answered, started);
        answered.map_err(|Lost| {
            Box::new(Status::new(500, "InternalError", "Internal error occurred: the answer was lost"))
        })
    }

    fn is_untouched(&self) -> bool {
        !self.journal.is_kept() && self.faults.get().is_none()
    }

    /// What a request is for, and what goes wrong with it.
    fn look(&self, request: &Request) -> (Option<Target>, Plan) {
        let Some(Route::Resource(target)) = route(&self.lock().kinds, &request.path) else {
            return (None, Plan::default());
        };
        let plan = self
            .faults
            .get()
            .map(|active| active.plan(&Call::new(request, &target, 0), &target.kind, &request.user_agent));
        (Some(target), plan.unwrap_or_default())
    }

    fn remember(&self, request: &Request, target: Option<&Target>, answered: &Answered, started: Instant) {
        if !self.journal.is_kept() {
            return;
        }
        let call = target.map(|target| Call::new(request, target, 0));
        let entry = Entry {
            number: 0,
            verb: call.as_ref().map_or(request.method.clone(), |call| call.verb.to_owned()),
            group: call.as_ref().map_or(String::new(), |call| call.group.clone()),
            resource: call.as_ref().map_or(request.path.clone(), |call| call.resource.clone()),
            subresource: call.as_ref().map_or(String::new(), |call| call.subresource.clone()),
            namespace: call.as_ref().map_or(String::new(), |call| call.namespace.clone()),
            name: call.map_or(String::new(), |call| call.name),
            user_agent: request.user_agent.clone(),
            query: request.query.pairs().to_vec(),
            content_type: request.content_type.clone(),
            code: answered.as_ref().map_or(0, |answer| answer.code),
            duration: started.elapsed(),
        };
        self.journal.push(entry);
    }

    /// Puts a script of faults into force, or ends the one that is.
    pub(crate) fn script(&self, faults: Option<Faults>) -> std::result::Result<(), FaultsError> {
        let mut store = self.lock();
        if let Some(faults) = &faults {
            faults.check()?;
            for (index, kind) in faults.hold.iter().enumerate() {
                let known = kind_named(&store, kind);
                known.ok_or_else(|| FaultsError::unknown_kind(index, kind))?;
            }
        }
        let history = faults.as_ref().and_then(|faults| faults.history).unwrap_or(self.options.history);
        let held = faults.as_ref().map(|faults| faults.hold.clone()).unwrap_or_default();
        let before = self.faults.set(faults);
        store.set_history(history);
        let released = before.map(|before| before.faults.hold.clone()).unwrap_or_default();
        for (kind, hold) in released
            .iter()
            .filter(|kind| !held.contains(kind))
            .map(|kind| (kind, false))
            .chain(held.iter().map(|kind| (kind, true)))
        {
            if let Some(kind) = kind_named(&store, kind) {
                store.hold_watches(kind, hold);
            }
        }
        Ok(())
    }
}

/// What is said instead of handling the request.
fn refused(plan: &Plan, request: &Request) -> Option<Answered> {
    match (&plan.answer, plan.lose) {
        (Some(status), _) => Some(Ok(present::refusal(request, status))),
        (None, Some(Lose::Request)) => Some(Err(Lost)),
        (None, Some(Lose::Answer) | None) => None,
    }
}

/// What becomes of the answer.
fn finish(plan: &Plan, mut answer: Answer) -> Answered {
    if plan.lose == Some(Lose::Answer) {
        return Err(Lost);
    }
    if let Content::Watch(body) = &mut answer.content {
        body.tamper(plan.cut, plan.withheld);
    }
    Ok(answer)
}
