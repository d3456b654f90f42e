//! Decides what a cluster is made of. Never makes an object up: what is in it is what the test put there.

use std::path::PathBuf;
use std::sync::Arc;

use fake_apiserver::{FakeApiServer, Faults, Ids, Options, Plugins};
use jiff::Timestamp;
use serde::Serialize;

use crate::{Error, FakeCluster, manifests};

/// How many requests the journal remembers unless told otherwise.
const JOURNAL: usize = 10_000;

enum Seed {
    Text(String),
    File(PathBuf),
    Object(Result<serde_json::Value, serde_json::Error>),
}

/// A cluster before it runs.
pub struct Builder {
    options: Options,
    seeds: Vec<Seed>,
    faults: Option<String>,
    folder: Option<PathBuf>,
    namespace: String,
}

impl Default for Builder {
    /// Names and uids are the same in each run; finalizers that only controllers remove are left out.
    fn default() -> Self {
        let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
        let options = Options { ids: Ids::Seeded(1), journal: JOURNAL, plugins, ..Options::default() };
        Self { options, seeds: Vec::new(), faults: None, folder: None, namespace: "default".into() }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Builder {
    /// Adds objects in YAML, one document each.
    #[must_use]
    pub fn yaml(mut self, text: impl Into<String>) -> Self {
        self.seeds.push(Seed::Text(text.into()));
        self
    }

    /// Adds the objects in a file.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.seeds.push(Seed::File(path.into()));
        self
    }

    /// Adds an object that says its `apiVersion` and `kind`, as those of `k8s-openapi` do.
    #[must_use]
    pub fn object(mut self, object: &impl Serialize) -> Self {
        self.seeds.push(Seed::Object(serde_json::to_value(object)));
        self
    }

    /// Lets things go wrong as a script in YAML says, from when the objects are there.
    #[must_use]
    pub fn faults(mut self, script: impl Into<String>) -> Self {
        self.faults = Some(script.into());
        self
    }

    /// Lets the clock stand at one moment.
    #[must_use]
    pub fn at(self, moment: Timestamp) -> Self {
        self.clock(move || moment)
    }

    /// Lets the server read the time there.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.options.now = Arc::new(now);
        self
    }

    /// Chooses the admission plugins.
    #[must_use]
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.options.plugins = plugins;
        self
    }

    /// Changes any other option of the server.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Keeps everything in a folder: a test of a restart opens it again.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The namespace of clients that name none; `default` unless told.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Makes the cluster.
    ///
    /// # Errors
    /// When something can't be read, or the API server would refuse it; the error says which.
    pub fn build(self) -> Result<FakeCluster, Error> {
        let server = match &self.folder {
            Some(folder) => FakeApiServer::open(self.options, folder)?,
            None => FakeApiServer::new(self.options),
        };
        for (index, seed) in self.seeds.into_iter().enumerate() {
            let place = format!("seed {}", index + 1);
            match seed {
                Seed::Text(text) => manifests::add(&server, &place, &text)?,
                Seed::File(path) => manifests::add_file(&server, &path)?,
                Seed::Object(object) => {
                    let object = object.map_err(|error| Error::Manifest {
                        place: place.clone(),
                        problem: error.to_string(),
                    })?;
                    manifests::add_object(&server, &place, object)?;
                }
            }
        }
        if let Some(script) = self.faults {
            server.script_faults(Some(Faults::parse(&script)?))?;
        }
        Ok(FakeCluster { server, namespace: self.namespace })
    }
}
