//! Decides nothing: it is where the parts of one server meet, the store behind its lock, the clock, the
//! names, and those who listen, and where a request is handed to its verb. Answers to the handler chain of
//! `k8s.io/apiserver/pkg/server`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::Change;
use crate::answer::Answer;
use crate::calls::Calls;
use crate::discovery;
use crate::names::Names;
use crate::options::{Admission, Options};
use crate::request::Request;
use crate::routes::{Route, Target, route};
use crate::status::{Result, Status};
use crate::store::Store;
use crate::verbs;

/// The parts of one server.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) store: Arc<Mutex<Store>>,
    pub(crate) names: Mutex<Names>,
    pub(crate) changes: watch::Sender<Change>,
    pub(crate) calls: Calls,
}

impl Server {
    pub(crate) fn new(options: Options) -> Self {
        let store = Store::new(options.history, options.watch_buffer);
        let server = Self {
            names: Mutex::new(Names::new(options.ids)),
            store: Arc::new(Mutex::new(store)),
            changes: watch::Sender::default(),
            calls: Calls::default(),
            options,
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            verbs::import::namespace(&server, &mut server.lock(), name);
        }
        server.bootstrap();
        server.announce(&server.lock());
        server
    }

    /// What a real server makes by itself when it starts.
    fn bootstrap(&self) {
        let mut store = self.lock();
        if self.options.plugins.priority {
            crate::admission::priorities::bootstrap(self, &mut store);
        }
        if self.options.plugins.kubernetes_service {
            verbs::addresses::bootstrap(self, &mut store);
        }
    }

    /// The store. A panic while it was held can't have left a write half done: the store's own steps don't
    /// panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time as objects carry it, in whole seconds.
    pub(crate) fn timestamp(&self) -> String {
        self.timestamp_in(0)
    }

    /// The time so many seconds from now.
    pub(crate) fn timestamp_in(&self, seconds: i64) -> String {
        let now = (self.options.now)().as_second().saturating_add(seconds);
        Timestamp::from_second(now).unwrap_or(Timestamp::MAX).to_string()
    }

    pub(crate) fn uid(&self) -> String {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).uid()
    }

    pub(crate) fn generate_name(&self, base: &str) -> String {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).generate(base)
    }

    pub(crate) fn is_raw(&self) -> bool {
        self.options.admission == Admission::Raw
    }

    /// Tells those who wait for quiet how far the store has come.
    pub(crate) fn announce(&self, store: &Store) {
        let change = Change { revision: store.revision(), non_event_revision: store.quiet_revision() };
        self.changes.send_if_modified(|last| std::mem::replace(last, change) != change);
    }

    /// Answers a request.
    pub(crate) fn handle(&self, request: &Request) -> Answer {
        let found = route(&self.lock().kinds, &request.path);
        match found {
            Some(Route::Resource(target)) => self
                .calls
                .around(request, &target, || self.dispatch(request, &target).unwrap_or_else(Answer::from)),
            Some(Route::Other(segments)) => {
                discovery::answer(&self.lock().kinds, request, &segments).unwrap_or_else(Answer::from)
            }
            None => Status::no_such_resource().into(),
        }
    }

    fn dispatch(&self, request: &Request, target: &Target) -> Result<Answer> {
        let method = request.method.as_str();
        match (method, target.name.is_empty(), target.subresource.as_str()) {
            ("GET" | "HEAD", true, "") => verbs::list::list_or_watch(self, request, target),
            ("GET" | "HEAD", false, "" | "status" | "resize" | "ephemeralcontainers") => {
                verbs::read::get(self, request, target)
            }
            ("POST", true, "") if target.kind.namespaced && target.namespace.is_empty() => {
                Err(Status::method_not_allowed())
            }
            ("POST", true, "") => verbs::create::create(self, request, target),
            ("POST", true, "bindings") | ("POST", false, "binding") => {
                verbs::binding::bind(self, request, target)
            }
            ("POST", false, "eviction") => verbs::eviction::evict(self, request, target),
            ("PUT", false, "" | "status" | "resize" | "ephemeralcontainers" | "finalize") => {
                verbs::update::replace(self, request, target)
            }
            ("PATCH", false, "" | "status" | "resize" | "ephemeralcontainers") => {
                verbs::update::patch(self, request, target)
            }
            ("DELETE", false, "") => verbs::delete::delete(self, request, target),
            ("DELETE", true, "") => verbs::delete::delete_collection(self, request, target),
            ("GET" | "HEAD" | "PUT" | "PATCH", false, "scale") => verbs::scale::scale(self, request, target),
            _ => Err(Status::method_not_allowed()),
        }
    }
}
