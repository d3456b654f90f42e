//! Decides whether a request is tampered with, and remembers requests for tests that count them. Never
//! touches the store. Answers to no upstream piece: it is what a test of a client needs and a real server
//! does not offer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::answer::{Answer, Content};
use crate::request::Request;
use crate::routes::Target;
use crate::status::Status;

/// How many calls are remembered.
const REMEMBERED: usize = 100_000;

/// One request to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The API group, empty for core.
    pub group: String,
    /// The plural, such as `persistentvolumes`.
    pub resource: String,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Empty outside namespaces.
    pub namespace: String,
    /// Empty for the collection.
    pub name: String,
    /// Counts the calls of this server, from 1.
    pub number: u64,
    /// The code of the answer; 0 while there is none.
    pub code: u16,
}

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Refused before it is handled.
    Status(Box<Status>),
    /// Handled, but the answer is lost on its way: the caller gets a 500.
    Lost,
}

/// Decides for each call whether something goes wrong with it.
pub type FaultHook = Arc<dyn Fn(&Call) -> Option<Fault> + Send + Sync>;

/// The hook and the memory.
#[derive(Default)]
pub(crate) struct Calls {
    hook: RwLock<Option<FaultHook>>,
    hooked: AtomicBool,
    recording: AtomicBool,
    number: AtomicU64,
    log: Mutex<VecDeque<Call>>,
}

impl Calls {
    pub(crate) fn set_hook(&self, hook: Option<FaultHook>) {
        self.hooked.store(hook.is_some(), Ordering::Release);
        *self.hook.write().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    pub(crate) fn record(&self, on: bool) {
        self.recording.store(on, Ordering::Release);
        if on {
            self.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    pub(crate) fn log(&self) -> Vec<Call> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Handles a request, with what goes wrong before and after.
    pub(crate) fn around(
        &self,
        request: &Request,
        target: &Target,
        handle: impl FnOnce() -> Answer,
    ) -> Answer {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let (hooked, recording) =
            (self.hooked.load(Ordering::Acquire), self.recording.load(Ordering::Acquire));
        if !hooked && !recording {
            return handle();
        }
        let mut call = Call::new(request, target, number);
        let hook =
            if hooked { self.hook.read().unwrap_or_else(PoisonError::into_inner).clone() } else { None };
        let answer = match hook.and_then(|hook| hook(&call)) {
            Some(Fault::Status(status)) => status.into(),
            Some(Fault::Lost) => {
                handle();
                Box::new(Status::new(500, "InternalError", "Internal error occurred: the answer was lost"))
                    .into()
            }
            None => handle(),
        };
        call.code = answer.code;
        if recording && !matches!(answer.content, Content::Watch(_)) && call.verb != "list" {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            if log.len() == REMEMBERED {
                log.pop_front();
            }
            log.push_back(call);
        }
        answer
    }
}

impl Call {
    pub(crate) fn new(request: &Request, target: &Target, number: u64) -> Self {
        let collection = target.name.is_empty();
        let verb = match request.method.as_str() {
            "GET" | "HEAD" if collection && request.query.flag("watch") => "watch",
            "GET" | "HEAD" if collection => "list",
            "GET" | "HEAD" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if collection => "deletecollection",
            _ => "delete",
        };
        Self {
            verb,
            group: target.kind.group.to_string(),
            resource: target.kind.plural.to_string(),
            subresource: target.subresource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            number,
            code: 0,
        }
    }
}
