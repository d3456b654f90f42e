//! Decides nothing: it is where the parts of one server meet, the store behind its lock, the clock, the
//! names, and those who listen, and where a request is handed to its verb. Answers to the handler chain of
//! `k8s.io/apiserver/pkg/server`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::Change;
use crate::answer::{Answer, METRICS};
use crate::auth::jwt::Key;
use crate::auth::{Authenticator, reviews};
use crate::calls::Calls;
use crate::crds;
use crate::discovery;
use crate::faults;
use crate::journal;
use crate::log::{Compaction, Log, OpenError};
use crate::metrics::Counting;
use crate::names::Names;
use crate::openapi;
use crate::options::{Admission, Options};
use crate::present;
use crate::request::Request;
use crate::routes::{Route, Target, route};
use crate::status::{Result, Status};
use crate::store::Store;
use crate::verbs;
use crate::warnings;

/// The parts of one server.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) store: Arc<Mutex<Store>>,
    pub(crate) names: Mutex<Names>,
    pub(crate) changes: watch::Sender<Change>,
    pub(crate) calls: Calls,
    /// What goes wrong on demand.
    pub(crate) faults: faults::Switches,
    /// What was asked.
    pub(crate) journal: journal::Log,
    /// Where writes are kept; without it they are in memory alone.
    log: Option<Log>,
    pub(crate) users: Authenticator,
    pub(crate) metrics: Counting,
    stopping: AtomicBool,
}

impl Server {
    pub(crate) fn new(options: Options) -> Self {
        let store = Store::new(options.history, options.watch_buffer);
        let (names, key) = (Names::new(options.ids), Key::new(options.ids));
        Self::start(options, Arc::new(Mutex::new(store)), names, None, key)
    }

    /// A server that goes on where the one before it in that folder ended.
    pub(crate) fn open(
        options: Options,
        folder: &Path,
        compaction: Compaction,
    ) -> std::result::Result<Self, OpenError> {
        let store = Arc::new(Mutex::new(Store::new(options.history, options.watch_buffer)));
        let fresh = store.lock().unwrap_or_else(PoisonError::into_inner).revision();
        let log = Log::open(folder, compaction, &store)?;
        let revision = store.lock().unwrap_or_else(PoisonError::into_inner).revision();
        let mut names = Names::new(options.ids);
        if revision > fresh {
            names.resume(revision);
        }
        let key = Key::of(folder, options.ids)?;
        Ok(Self::start(options, store, names, Some(log), key))
    }

    /// A server whose log is somebody else's.
    #[cfg(test)]
    pub(crate) fn on(options: Options, store: Arc<Mutex<Store>>, log: Log) -> Self {
        let (names, key) = (Names::new(options.ids), Key::new(options.ids));
        Self::start(options, store, names, Some(log), key)
    }

    fn start(options: Options, store: Arc<Mutex<Store>>, names: Names, log: Option<Log>, key: Key) -> Self {
        let server = Self {
            names: Mutex::new(names),
            store,
            changes: watch::Sender::default(),
            calls: Calls::default(),
            faults: faults::Switches::default(),
            journal: journal::Log::new(options.journal),
            log,
            users: Authenticator::new(&options, key),
            metrics: Counting::default(),
            stopping: AtomicBool::new(false),
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
        let skew = self.faults.get().map_or(0, |active| active.faults.clock_skew_seconds);
        let now = (self.options.now)().as_second().saturating_add(seconds).saturating_add(skew);
        Timestamp::from_second(now).unwrap_or(Timestamp::MAX).to_string()
    }

    pub(crate) fn uid(&self) -> String {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).uid()
    }

    pub(crate) fn generate_name(&self, base: &str) -> String {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).generate(base)
    }

    /// Whether the server takes no new connections any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Says that it is not ready from now on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_raw(&self) -> bool {
        self.options.admission == Admission::Raw
    }

    /// Tells those who wait for quiet how far the store has come.
    pub(crate) fn announce(&self, store: &Store) {
        let change = Change { revision: store.revision(), non_event_revision: store.quiet_revision() };
        self.changes.send_if_modified(|last| std::mem::replace(last, change) != change);
    }

    /// Answers a request once everything that the answer may show is on disk.
    pub(crate) async fn kept(&self, request: &Request) -> Answer {
        let Some(log) = &self.log else { return self.handle(request) };
        let ticket = log.ticket();
        let answer = self.handle(request);
        log.settled(ticket).await.map_or_else(Answer::from, |()| answer)
    }

    /// Does something to the store and waits, the thread with it, until it is on disk.
    pub(crate) fn settle<T>(&self, step: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(log) = &self.log else { return step() };
        let ticket = log.ticket();
        let done = step();
        log.settle(ticket).and(done)
    }

    /// Answers a request.
    pub(crate) fn handle(&self, request: &Request) -> Answer {
        if let Some(status) = request.wrong_timeout() {
            return present::refusal(request, &status);
        }
        if let Some(request) = request.older_watch() {
            return self.handle(&request);
        }
        if let Some(question) = reviews::question(&request.path) {
            return present::review(request, || {
                reviews::answer(self, request, &question).unwrap_or_else(Answer::from)
            });
        }
        let found = route(&self.lock().kinds, &request.path);
        match found {
            Some(Route::Resource(target)) => present::resource(&self.options.now, request, &target, || {
                self.calls.around(request, &target, || {
                    let answer = self.dispatch(request, &target);
                    let fields = crds::warnings_of_refused(request, &target, answer.is_err());
                    let answer = answer.unwrap_or_else(Answer::from).with_warnings(fields);
                    answer.warned_first(warnings::of_request(&target.kind))
                })
            }),
            Some(Route::Other(segments)) if segments.first().is_some_and(|first| first == "openapi") => {
                let kinds = self.lock().kinds.clone();
                openapi::answer(&kinds, request, &segments).unwrap_or_else(Answer::from)
            }
            Some(Route::Other(segments)) if segments == ["metrics"] => {
                let mut answer = Answer::text(200, self.metrics.text(self));
                answer.content_type = METRICS;
                answer
            }
            Some(Route::Other(segments)) => present::other(request, || {
                discovery::answer(self, request, &segments).unwrap_or_else(Answer::from)
            }),
            None => match crds::refusal_of(&self.lock().kinds, &request.path) {
                Some(refusal) => present::refusal(request, &refusal),
                None => Answer::no_page(),
            },
        }
    }

    fn dispatch(&self, request: &Request, target: &Target) -> Result<Answer> {
        let method = request.method.as_str();
        if crds::is_nowhere(request, target) {
            return Ok(Answer::no_page());
        }
        crds::check_request(request, target)?;
        match (method, target.name.is_empty(), target.subresource.as_str()) {
            ("GET", true, "") => verbs::list::list_or_watch(self, request, target),
            ("GET", false, "" | "status" | "resize" | "ephemeralcontainers") => {
                verbs::read::get(self, request, target)
            }
            ("POST", true, "") if target.kind.namespaced && target.namespace.is_empty() => {
                Err(Status::method_not_allowed())
            }
            ("POST", true, "") => verbs::create::create(self, request, target),
            // The real server does not look at a name behind which there is nothing.
            ("POST", false, "") if target.kind.definition.is_some() => {
                verbs::create::create(self, request, target)
            }
            ("POST", true, "bindings") | ("POST", false, "binding") => {
                verbs::binding::bind(self, request, target)
            }
            ("POST", false, "token") => verbs::token::create(self, request, target),
            ("POST", false, "eviction") => verbs::eviction::evict(self, request, target),
            ("PUT", false, "" | "status" | "resize" | "ephemeralcontainers" | "finalize") => {
                verbs::update::replace(self, request, target)
            }
            ("PATCH", false, "" | "status" | "resize" | "ephemeralcontainers")
                if request.content_type == verbs::apply::APPLY =>
            {
                verbs::apply::apply(self, request, target)
            }
            ("PATCH", false, "" | "status" | "resize" | "ephemeralcontainers") => {
                verbs::update::patch(self, request, target)
            }
            ("DELETE", false, "") => verbs::delete::delete(self, request, target),
            ("DELETE", true, "") => verbs::delete::delete_collection(self, request, target),
            ("GET" | "PUT" | "PATCH", false, "scale") => verbs::scale::scale(self, request, target),
            _ => Err(Status::method_not_allowed()),
        }
    }
}
