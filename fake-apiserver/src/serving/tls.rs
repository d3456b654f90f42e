//! Decides who the server says it is, and which clients' certificates say who they are. TLS 1.2 and 1.3, with
//! rustls and ring; HTTP/2 where the client offers it. Never writes a certificate into a file. Answers to
//! `k8s.io/apiserver/pkg/server/options/serving.go` and `.../authentication/request/x509`.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::auth::User;
use crate::kept;

/// Names under which clients in and beside a cluster reach its API server.
const NAMES: [&str; 4] = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Where a folder has the key of its authority.
const AUTHORITY: &str = "authority.key";

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct TlsError {
    what: &'static str,
    problem: String,
}

impl TlsError {
    fn new(what: &'static str, problem: &dyn std::fmt::Display) -> Self {
        Self { what, problem: problem.to_string() }
    }
}

/// What a server needs to speak TLS.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// An authority that exists for one server, and the certificates that it made.
pub struct Generated {
    /// The server's side.
    pub tls: Tls,
    /// The authority's certificate, in PEM form: what clients have to trust.
    pub authority: String,
    /// The certificate and the key of an administrator, in PEM form.
    pub admin: (String, String),
}

impl Tls {
    /// Makes an authority, a certificate for this machine's loopback addresses and `addresses`, and one for an
    /// administrator.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate(addresses: &[IpAddr]) -> Result<Generated, TlsError> {
        Self::issue(KeyPair::generate().map_err(|error| bad(&error))?, addresses)
    }

    /// The same with an authority whose key is kept in a folder: whoever trusts it, or has a certificate of its, need not
    /// hear of it again when the server starts anew.
    ///
    /// # Errors
    /// When the key can't be read or written, and when the system has no random numbers.
    pub fn generate_in(folder: &Path, addresses: &[IpAddr]) -> Result<Generated, TlsError> {
        let path = folder.join(AUTHORITY);
        let wrong = |why: &dyn std::fmt::Display| {
            TlsError::new("the authority's key", &format!("{}: {why}", path.display()))
        };
        let made = || Some(KeyPair::generate().ok()?.serialize_pem().into_bytes());
        let pem = kept::secret(&path, made).map_err(|error| wrong(&error))?;
        let pem = String::from_utf8(pem).map_err(|error| wrong(&error))?;
        Self::issue(KeyPair::from_pem(&pem).map_err(|error| wrong(&error))?, addresses)
    }

    /// All that an authority with this key makes.
    fn issue(key: KeyPair, addresses: &[IpAddr]) -> Result<Generated, TlsError> {
        let bad = |error: rcgen::Error| bad(&error);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = named("pvbind-apiserver-ca", None);
        let authority = CertifiedIssuer::self_signed(params, key).map_err(bad)?;
        let issue = |name: &str, group: Option<&str>, names: Vec<String>, usage| {
            let key = KeyPair::generate().map_err(bad)?;
            let mut params = CertificateParams::new(names).map_err(bad)?;
            params.distinguished_name = named(name, group);
            params.extended_key_usages = vec![usage];
            let certificate = params.signed_by(&key, &authority).map_err(bad)?;
            Ok::<_, TlsError>((certificate.pem(), key.serialize_pem()))
        };
        let mut names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        names.extend(["127.0.0.1", "::1"].map(str::to_owned));
        names.extend(addresses.iter().filter(|one| !one.is_unspecified()).map(IpAddr::to_string));
        let (certificate, key) = issue("kube-apiserver", None, names, ExtendedKeyUsagePurpose::ServerAuth)?;
        let admin = issue(
            "kubernetes-admin",
            Some("system:masters"),
            Vec::new(),
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        let pem = authority.pem();
        let tls = Self::read(&certificate, &key, Some(&pem))?;
        Ok(Generated { tls, authority: pem, admin })
    }

    /// A certificate with its chain and its key, and the authorities that vouch for clients, all in PEM form.
    /// A client without a certificate is let through: it may have a token.
    ///
    /// # Errors
    /// When one of them makes no sense, or certificate and key are not a pair.
    pub fn read(certificate: &str, key: &str, clients: Option<&str>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates("certificate", certificate)?;
        let private = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let private = private.map_err(|error| TlsError::new("private key", &error))?;
        let pair = |error| TlsError::new("certificate and key", &error);
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let bad = |problem: String| TlsError::new("client CA", &problem);
                let mut roots = RootCertStore::empty();
                for root in certificates("client CA", clients)? {
                    roots.add(root).map_err(|error| bad(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.allow_unauthenticated().build();
                builder.with_client_cert_verifier(verifier.map_err(|error| bad(error.to_string()))?)
            }
        };
        let mut config = builder.with_single_cert(chain, private).map_err(pair)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// The other side's first words, and who its certificate says it is.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> std::io::Result<(TlsStream<TcpStream>, Option<User>)> {
        let stream = self.0.accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let user = shown.and_then(|certificate| user_of(certificate));
        Ok((stream, user))
    }
}

fn bad(error: &rcgen::Error) -> TlsError {
    TlsError::new("certificates cannot be made", error)
}

fn named(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    if let Some(group) = group {
        named.push(DnType::OrganizationName, group);
    }
    named
}

/// The certificates of a text, of which there is at least one.
fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    match found.map_err(|error| TlsError::new(what, &error))? {
        found if found.is_empty() => Err(TlsError::new(what, &"it has no certificate in PEM form")),
        found => Ok(found),
    }
}

/// The common name is the user, the organisations are the groups.
fn user_of(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned);
    Some(User::new(name, "", groups.collect()))
}
