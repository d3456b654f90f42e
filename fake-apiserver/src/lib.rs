//! A Kubernetes API server for tests: one store, resource versions, watches, patches and conflicts as
//! kube-apiserver has them. In process it is an [`axum::Router`], which is all that a kube client needs; over
//! TCP it is HTTP/1.1 or HTTP/2, plain or with TLS.
//!
//! It decides what kube-apiserver v1.36 would answer. It runs no controllers: what it stores stays as it is
//! until somebody writes, and it knows nothing of binding volumes. It answers to `k8s.io/apiserver` and
//! `kubernetes/pkg/registry`.
//!
//! A request goes through `routes` (which kind, which name), then a verb of `verbs`, which defaults,
//! validates and stores; `store` orders all writes and hands them to `watch`. The served kinds are the rows
//! of one table in `kinds`.
//!
//! | as the real server has it | |
//! |---|---|
//! | resource versions, conflicts, preconditions, generated names, dry runs, paging over one snapshot, 410 for what is forgotten | `store`, `verbs`, `continuation` |
//! | watches: from a version, streaming lists, bookmarks, selectors that objects enter and leave | `watch`, `history` |
//! | JSON, merge and strategic merge patches, applying on the server with owned fields | `patch`, `apply` |
//! | defaults, validation, unknown fields and warnings of the served kinds, from the real server's schemas | `schema`, `defaults`, `validate`, `decode` |
//! | custom resources by their definitions | `crds` |
//! | tables, metadata alone, YAML, protocol buffers for some kinds | `present`, `table`, `protobuf` |
//! | discovery, OpenAPI v2 and v3, custom resources included | `discovery`, `openapi` |
//! | large answers in gzip, to those who take it | `compress` |
//! | tokens, client certificates, acting for others, TLS, limits of requests, `/metrics`, `/livez`, `/readyz` | `auth`, `serving`, `metrics` |
//! | what etcd would keep, in a folder where one is named | `log` |
//!
//! | not there | what there is instead |
//! |---|---|
//! | controllers: garbage collection, scheduling, binding, status | whoever writes; only what becomes of definitions of custom resources is seen to |
//! | authorization: nothing is forbidden to somebody who is let in | access reviews say so |
//! | webhooks that admit or convert | none is called; custom resources that one is to convert are served in the version in which they are stored, and in others it is said to have failed |
//! | aggregation of other API servers, exec, logs, proxies | 404 or 405 |
//! | kinds of other groups: webhooks, flow control, certificates and more | 404, unless a definition or [`FakeApiServer::register_kind`] brings them |
//! | quorum: there is one server | a folder, an fsync before each answer |
//!
//! | different on purpose | why |
//! |---|---|
//! | with a seed and a clock, the same requests get the same bytes | tests repeat |
//! | faults on demand, a journal, objects that are stored unchecked | tests ask for them; see [`Faults`], [`Journal`], [`FakeApiServer::apply_as_is`] |
//! | a definition is served, and ends, with the request that says so | nobody has to wait |
//! | what a revision of a controller holds is compared by what it says | the real server compares its bytes, spaces and all |
//! | a dry run shows addresses and ports that could be had | the real server shows some that could not |
//! | a watcher that does not read is cut, and never slows a write | a test's watcher may stand still |
//! | the history is counted in events of each kind, and not in minutes | a test can say when a version expires |

mod admin;
mod admission;
mod answer;
mod apply;
mod auth;
mod autoscalers;
mod calls;
mod compress;
mod continuation;
mod crds;
mod decode;
mod defaults;
mod discovery;
mod events;
mod faults;
mod hash;
mod history;
mod http;
mod journal;
mod kept;
mod kinds;
mod log;
mod metrics;
mod names;
mod negotiate;
mod object;
mod openapi;
mod options;
mod patch;
mod present;
mod protobuf;
mod quantity;
mod request;
mod routes;
mod schema;
mod selectors;
mod server;
mod serving;
mod shapes;
mod status;
mod store;
mod table;
mod tampering;
mod validate;
mod verbs;
mod warnings;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch::Receiver;

use crate::answer::{Answer, Content};
use crate::object::{key_of, text};
use crate::request::Request;
use crate::server::Server;

pub use crate::auth::{Token, TokenFileError};
pub use crate::calls::{Call, Fault, FaultHook};
pub use crate::faults::{Cutting, Faults, FaultsError, Lose, Refusal, Rule, Withheld};
pub use crate::journal::{Entry, Journal};
pub use crate::log::OpenError;
pub use crate::options::{Admission, Ids, Now, Options, Plugins};
pub use crate::serving::Serving;
pub use crate::serving::limits::Limits;
pub use crate::serving::tls::{Generated, Tls, TlsError};
pub use crate::status::Status;

/// How far the store has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The last revision that was given to anything.
    pub revision: u64,
    /// The last revision that was given to something else than an Event or a Lease.
    pub non_event_revision: u64,
}

/// A server; clones are handles to the same one.
#[derive(Clone)]
pub struct FakeApiServer {
    server: Arc<Server>,
}

impl FakeApiServer {
    /// A server with the four namespaces that every cluster has.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { server: Arc::new(Server::new(options)) }
    }

    /// A server that keeps everything in a folder, and goes on where the last one there ended: objects, kinds, resource
    /// versions, and the key with which tokens of service accounts are signed. What a client was told holds after the process is killed, or the machine loses its power. The first
    /// server in a folder makes the four namespaces.
    ///
    /// Watches and answers wait for the disk; [`FakeApiServer::get`], [`FakeApiServer::objects`] and
    /// [`FakeApiServer::revision`] show what is in memory. A watch can go on over a restart if its resource version is not
    /// older than the last compaction; otherwise it is told 410 Expired and lists again, as after one of etcd's.
    ///
    /// # Errors
    /// When the folder is in use by another server, can't be read or written, or holds what nobody wrote.
    pub fn open(options: Options, folder: &std::path::Path) -> Result<Self, OpenError> {
        let server = Server::open(options, folder, log::Compaction::default())?;
        Ok(Self { server: Arc::new(server) })
    }

    /// The server as a service, for a client in the same process.
    pub fn router(&self) -> axum::Router {
        http::router(self.server.clone())
    }

    /// The same for a client that may do everything without saying who it is, whatever credentials others need.
    pub fn trusted_router(&self) -> axum::Router {
        self.router().layer(axum::Extension(auth::User::trusted()))
    }

    /// Serves plain HTTP until `shutdown` is ready. Watches that are still open end with it.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        self.serve_with(listener, Serving::default(), shutdown).await
    }

    /// Serves as `serving` says until `shutdown` is ready.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve_with(
        &self,
        listener: TcpListener,
        serving: Serving,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        serving::serve(self.server.clone(), listener, serving, shutdown).await
    }

    /// Stores an object of a dump: like a create, but uid, creation and deletion time, status and finalizers
    /// stay as given. A namespace that is missing is made.
    ///
    /// # Errors
    /// When the real server would refuse to create the object.
    pub fn import(&self, object: Value) -> Result<Arc<Value>, Box<Status>> {
        self.server.settle(|| verbs::import::import(&self.server, object))
    }

    /// Stores an object unchecked, in place of the one of that name if there is one; watches see it.
    ///
    /// # Errors
    /// When it has no kind or no name.
    pub fn apply_as_is(&self, object: Value) -> Result<Arc<Value>, Box<Status>> {
        self.server.settle(|| verbs::import::apply_as_is(&self.server, object))
    }

    /// Removes an object of which no watch hears, as for a client that still holds what the server no longer
    /// has. Says whether there was one.
    #[expect(clippy::must_use_candidate, reason = "it is called for what it does")]
    pub fn forget(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let mut store = self.server.lock();
        let Some(index) = verbs::import::kind_named(&store, kind) else { return false };
        let key = scoped_key(&store, index, namespace, name);
        store.forget(index, &key)
    }

    /// Stores an object of which no watch hears and which no list shows until it is written again, though a
    /// GET finds it: as for a client that lags.
    ///
    /// # Errors
    /// When it has no kind or no name.
    pub fn hide(&self, object: Value) -> Result<Arc<Value>, Box<Status>> {
        self.server.settle(|| verbs::import::hide(&self.server, object))
    }

    /// Answers a request without HTTP, exactly as the router would. A watch is refused: it has no end.
    #[must_use]
    pub fn request(
        &self,
        method: &str,
        path_and_query: &str,
        content_type: &str,
        body: &[u8],
    ) -> (u16, Bytes) {
        let request = Request::new(method, path_and_query, content_type, Bytes::copy_from_slice(body));
        let answer = self.server.answer_now(&request).unwrap_or_else(Answer::from);
        match answer.content {
            Content::Ready(body) => (answer.code, body),
            Content::Watch(_) => {
                let refusal = Status::bad_request("a watch can only be had through the router");
                (refusal.code, refusal.to_bytes())
            }
        }
    }

    /// Everything that is stored, by kind, namespace and name.
    #[must_use]
    pub fn objects(&self) -> Vec<Arc<Value>> {
        let mut objects: Vec<Arc<Value>> =
            self.server.lock().everything().map(|object| object.value.share()).collect();
        let order = |object: &Value| {
            let field = |path: &[&str]| text(object, path).to_owned();
            (field(&["kind"]), field(&["metadata", "namespace"]), field(&["metadata", "name"]))
        };
        objects.sort_by_cached_key(|object| order(object));
        objects
    }

    /// The newest version of an object, if it exists.
    #[must_use]
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let store = self.server.lock();
        let index = verbs::import::kind_named(&store, kind)?;
        store.get(index, &scoped_key(&store, index, namespace, name)).map(|object| object.value.share())
    }

    /// The last resource version that was given to anything.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.server.lock().revision()
    }

    /// Follows how far the store has come, for those who wait until nothing moves.
    #[must_use]
    pub fn changes(&self) -> Receiver<Change> {
        self.server.changes.subscribe()
    }

    /// Ends every open watch, as a server that restarts does.
    pub fn cut_watches(&self) {
        self.server.lock().cut_watches();
    }

    /// Holds the events of a kind back from its watches (`true`), or delivers what was held (`false`): for a client whose view
    /// of one kind lags behind its view of another. Lists and GETs stay current. Says whether the kind is served.
    #[expect(clippy::must_use_candidate, reason = "it is called for what it does")]
    pub fn hold_watches(&self, kind: &str, hold: bool) -> bool {
        let mut store = self.server.lock();
        let index = verbs::import::kind_named(&store, kind);
        index.inspect(|index| store.hold_watches(*index, hold)).is_some()
    }

    /// Serves one more kind, whose objects are stored as they are given.
    pub fn register_kind(&self, api_version: &str, kind: &str, namespaced: bool) {
        self.server.lock().register(api_version, kind, namespaced);
    }

    /// Lets requests go wrong from now on; `None` ends it.
    pub fn set_faults(&self, hook: Option<FaultHook>) {
        self.server.calls.set_hook(hook);
    }

    /// Puts a script of faults into force in place of the last one; `None` ends it.
    ///
    /// # Errors
    /// When it makes no sense, or names a kind that is not served; then the last one stays.
    pub fn script_faults(&self, faults: Option<Faults>) -> Result<(), FaultsError> {
        self.server.script(faults)
    }

    /// The requests so far, the last [`Options::journal`] of them.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.server.journal.read()
    }

    /// Starts the journal anew.
    pub fn clear_journal(&self) {
        self.server.journal.clear();
    }

    /// Starts (with an empty log) or stops remembering calls.
    pub fn record_calls(&self, on: bool) {
        self.server.calls.record(on);
    }

    /// The remembered writes and GETs, oldest first, at most the last 100,000.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.server.calls.log()
    }
}

impl std::fmt::Debug for FakeApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeApiServer").field("options", &self.server.options).finish_non_exhaustive()
    }
}

/// The key of an object; kinds outside namespaces ignore the namespace.
fn scoped_key(store: &store::Store, index: usize, namespace: &str, name: &str) -> object::Key {
    if store.kinds.get(index).namespaced { key_of(namespace, name) } else { key_of("", name) }
}
