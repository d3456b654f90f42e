//! Who a server says it is, and whom it believes to be who they say.
//!
//! Reads files once, when the server starts. TLS 1.2 and 1.3, with rustls and ring. Answers to the serving options of
//! Kubernetes' programs: `--tls-cert-file`, `--tls-private-key-file` and `--client-ca-file`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// What a server needs to speak TLS.
#[derive(Clone, Debug)]
pub struct Identity(pub(super) Arc<ServerConfig>);

impl Identity {
    /// Reads the certificate with its chain, its key and, if only some clients are to be served, the certificates of
    /// those who vouch for them.
    ///
    /// # Errors
    /// When a file is missing or makes no sense.
    pub fn read(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates("certificate", certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| of("key", key, &error))?;
        let pair = |error: tokio_rustls::rustls::Error| Error::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            problem: error.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let problem = |problem: String| Error::File { what: CLIENTS, file: file.to_owned(), problem };
                let mut roots = RootCertStore::empty();
                for root in certificates(CLIENTS, file)? {
                    roots.add(root).map_err(|error| problem(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| problem(error.to_string()))?)
            }
        };
        Ok(Identity(Arc::new(builder.with_single_cert(chain, private).map_err(pair)?)))
    }
}

const CLIENTS: &str = "client CA";

/// The certificates of a file, of which there is at least one.
fn certificates(what: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
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
