//! A Kubernetes cluster in process, for tests of operators: a `kube::Client` on a fake API server, filled from YAML, with faults
//! on demand, a journal of what was asked, and waiting that says what there was instead.
//!
//! It decides how a test sets a cluster up and asks it; what the API server answers is decided in [`fake_apiserver`], which
//! knows nothing of `kube`. No controllers run: what they would write, the test or the program under test writes.
//! `docs/test-your-operator.md` is a page about it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fake_cluster::FakeCluster;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//!
//! let cluster = FakeCluster::builder()
//!     .yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: blue}}")
//!     .build()?;
//! let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
//! assert_eq!(maps.get("settings").await?.data.unwrap_or_default()["color"], "blue");
//! cluster.journal().verb("get").resource("configmaps").assert_count(1);
//! # Ok(()) }
//! ```

mod builder;
mod manifests;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Faults, FaultsError, Journal, Status};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::util::MapRequest;

pub use builder::Builder;
pub use fake_apiserver;

/// How long the waiting functions that name no time wait.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a test is told when it can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Text that is no manifest.
    #[error("{place}: {problem}")]
    Manifest {
        /// The file, or which of the texts it was.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An object that the API server refuses.
    #[error("{place}: {what}: {status}")]
    Refused {
        /// The file, or which of the texts it was.
        place: String,
        /// The object's kind and name.
        what: String,
        /// Why.
        status: Box<Status>,
    },
    /// A script of faults that makes no sense.
    #[error(transparent)]
    Faults(#[from] FaultsError),
    /// A folder that can't be used.
    #[error(transparent)]
    Folder(#[from] fake_apiserver::OpenError),
    /// What was waited for did not come.
    #[error("waited {patience:?} for {what}: {instead}")]
    Waited {
        /// How long.
        patience: Duration,
        /// For what.
        what: String,
        /// What there was when the time was over.
        instead: String,
    },
}

/// A cluster; clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct FakeCluster {
    server: FakeApiServer,
    namespace: String,
}

impl FakeCluster {
    /// A cluster is made step by step.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client in the same process: nothing is sent anywhere.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.server.router(), self.namespace.clone())
    }

    /// A client with a name of its own, by which the journal and faults can tell it from others.
    #[must_use]
    pub fn client_named(&self, user_agent: &str) -> Client {
        let name = http::HeaderValue::from_str(user_agent);
        let named = move |mut request: http::Request<Body>| {
            if let Ok(name) = &name {
                request.headers_mut().insert(http::header::USER_AGENT, name.clone());
            }
            request
        };
        Client::new(MapRequest::new(self.server.router(), named), self.namespace.clone())
    }

    /// The API server: what this crate does not offer.
    #[must_use]
    pub fn server(&self) -> &FakeApiServer {
        &self.server
    }

    /// Adds objects in YAML, one document each; status, uid and the like stay as given.
    ///
    /// # Errors
    /// When it is no YAML, or the API server would refuse an object.
    pub fn add_yaml(&self, text: &str) -> Result<(), Error> {
        manifests::add(&self.server, "the YAML", text)
    }

    /// An object as it is stored; the namespace counts only for kinds that have one.
    #[must_use]
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.server.get(kind, namespace, name)
    }

    /// Puts a script of faults, in YAML, into force.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn script_faults(&self, script: &str) -> Result<(), Error> {
        Ok(self.server.script_faults(Some(Faults::parse(script)?))?)
    }

    /// Ends what goes wrong.
    pub fn end_faults(&self) {
        // Ending a script names nothing that could be unknown.
        drop(self.server.script_faults(None));
    }

    /// What was asked so far.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.server.journal()
    }
}
