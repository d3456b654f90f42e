//! Who a server says it is, and whom it believes to be who they say.
//!
//! Reads files when the server starts, and again when they have changed: who renews certificates changes them in place. Files
//! that make no sense by then are told of, and those before stay. TLS 1.2 and 1.3, with rustls and ring. Answers to the serving
//! options of Kubernetes' programs, `--tls-cert-file`, `--tls-private-key-file` and `--client-ca-file`, and to their
//! `dynamiccertificates`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Which file is of no use, and why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read, or holds nothing of the kind in PEM form.
    #[error("{what} {}: {problem}", file.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate and the key are not a pair, or are of a kind that is not supported.
    #[error("certificate {} with key {}: {problem}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with them.
        problem: String,
    },
}

/// How long files are trusted to be what they were: a client that comes later sees to it that they are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// What a server needs to speak TLS.
#[derive(Debug)]
pub struct Identity {
    files: Files,
    every: Duration,
    now: Mutex<Read>,
}

/// Where the identity is.
#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    clients: Option<PathBuf>,
}

/// What was in the files, and what it came to.
#[derive(Debug)]
struct Read {
    content: Content,
    config: Arc<ServerConfig>,
    looked: Instant,
}

/// The bytes of each file.
#[derive(Debug, PartialEq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
    clients: Option<Vec<u8>>,
}

impl Identity {
    /// Reads the certificate with its chain, its key and, if only some clients are to be served, the certificates of
    /// those who vouch for them.
    ///
    /// # Errors
    /// When a file is missing or makes no sense.
    pub fn read(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, Error> {
        let files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            clients: clients.map(Path::to_owned),
        };
        let content = files.content()?;
        let config = files.config(&content)?;
        let now = Mutex::new(Read { content, config, looked: Instant::now() });
        Ok(Identity { files, every: LOOK, now })
    }

    /// Looks at the files again for clients that come so long after the last look.
    #[must_use]
    pub fn looking_every(self, every: Duration) -> Self {
        Identity { every, ..self }
    }

    /// What the files say now, as far as that is known and makes sense. It may read them: a few kilobytes.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.looked.elapsed() >= self.every {
            now.looked = Instant::now();
            match self.files.content().and_then(|content| self.renewed(&now.content, content)) {
                Ok(None) => {}
                Ok(Some((content, config))) => {
                    let certificate = self.files.certificate.display();
                    tracing::info!(%certificate, "what clients are told by, or believed by, has been renewed");
                    now.content = content;
                    now.config = config;
                }
                Err(error) => tracing::warn!(%error, "what was read before is used"),
            }
        }
        now.config.clone()
    }

    /// What the files come to, if they have changed.
    fn renewed(&self, old: &Content, new: Content) -> Result<Option<(Content, Arc<ServerConfig>)>, Error> {
        if *old == new {
            return Ok(None);
        }
        let config = self.files.config(&new)?;
        Ok(Some((new, config)))
    }
}

impl Files {
    fn content(&self) -> Result<Content, Error> {
        let read = |what, file: &Path| {
            let problem = |error: std::io::Error| of(what, file, &pem::Error::Io(error));
            std::fs::read(file).map_err(problem)
        };
        Ok(Content {
            certificate: read(CERTIFICATE, &self.certificate)?,
            key: read(KEY, &self.key)?,
            clients: self.clients.as_deref().map(|file| read(CLIENTS, file)).transpose()?,
        })
    }

    fn config(&self, content: &Content) -> Result<Arc<ServerConfig>, Error> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(CERTIFICATE, &self.certificate, &content.certificate)?;
        let private = PrivateKeyDer::from_pem_slice(&content.key);
        let private = private.map_err(|error| of(KEY, &self.key, &error))?;
        let pair = |error: tokio_rustls::rustls::Error| Error::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            problem: error.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
        let builder = match self.clients.as_deref().zip(content.clients.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((file, content)) => {
                let problem = |problem: String| Error::File { what: CLIENTS, file: file.to_owned(), problem };
                let mut roots = RootCertStore::empty();
                for root in certificates(CLIENTS, file, content)? {
                    roots.add(root).map_err(|error| problem(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| problem(error.to_string()))?)
            }
        };
        Ok(Arc::new(builder.with_single_cert(chain, private).map_err(pair)?))
    }
}

const CERTIFICATE: &str = "certificate";
const KEY: &str = "key";
const CLIENTS: &str = "client CA";

/// The certificates in a file, of which there is at least one.
fn certificates(
    what: &'static str,
    file: &Path,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    match found.map_err(|error| of(what, file, &error))? {
        found if found.is_empty() => Err(of(what, file, &pem::Error::NoItemsFound)),
        found => Ok(found),
    }
}

fn of(what: &'static str, file: &Path, error: &pem::Error) -> Error {
    let problem = match error {
        pem::Error::NoItemsFound => "it has no such thing in PEM form".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    Error::File { what, file: file.to_owned(), problem }
}
