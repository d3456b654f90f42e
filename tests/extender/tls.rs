//! Who is believed over TLS.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use control_plane::certificates::{Authority, For};
use pvbind::act::tls::Identity;
use serde_json::json;
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::caller::{Caller, served};
use crate::stage::{Stage, answers, pod};

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("it is written");
    path
}

/// A client that believes the authority, and says who it is if it has a certificate.
fn client(authority: &Authority, mine: Option<&(String, String)>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM"))
        .expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    Arc::new(match mine {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(vec![certificate], key).expect("a pair")
        }
    })
}

#[tokio::test]
async fn only_clients_that_somebody_vouches_for_are_served() {
    let (authority, stranger, folder) =
        (Authority::new(), Authority::new(), tempfile::tempdir().expect("a folder"));
    let (certificate, key) = authority.issue("extender", For::Server);
    let (certificate, key) = (file(&folder, "tls.crt", &certificate), file(&folder, "tls.key", &key));
    let clients = file(&folder, "clients.crt", &authority.pem());
    let stage = Stage::new();
    let (_extender, asker) = stage.extend(Duration::from_secs(60));
    answers(&asker).await;
    let closed = Identity::read(&certificate, &key, Some(&clients)).expect("an identity");
    let open = Identity::read(&certificate, &key, None).expect("an identity");
    let (closed, open) = (served(asker.clone(), Some(closed)).await, served(asker, Some(open)).await);

    let question = json!({"Pod": pod("p", &[]), "NodeNames": ["n1"]}).to_string();
    let ask = async |address, tls| Caller { address, tls }.send("POST", "/filter", &question).await;
    let [friend, foe] = [&authority, &stranger].map(|issuer| issuer.issue("kube-scheduler", For::Client));
    let served = ask(closed, Some(client(&authority, Some(&friend)))).await.expect("an answer");
    assert_eq!((served.status, served.json()["NodeNames"].clone()), (200, json!(["n1"])));
    for (who, tls) in [
        ("a client that says nothing", Some(client(&authority, None))),
        ("a client that nobody knows", Some(client(&authority, Some(&foe)))),
        ("a client that does not believe the server", Some(client(&stranger, Some(&friend)))),
        ("plain HTTP", None),
    ] {
        assert!(ask(closed, tls).await.is_err(), "{who} is served");
    }
    assert_eq!(ask(open, Some(client(&authority, None))).await.expect("an answer").status, 200);
    assert!(ask(open, None).await.is_err(), "plain HTTP is served");
}

#[tokio::test]
async fn a_certificate_that_is_renewed_is_shown_to_whoever_comes_next() {
    let (before, after, folder) =
        (Authority::new(), Authority::new(), tempfile::tempdir().expect("a folder"));
    let [old, new] = [&before, &after].map(|authority| authority.issue("extender", For::Server));
    let (certificate, key) = (file(&folder, "tls.crt", &old.0), file(&folder, "tls.key", &old.1));
    let stage = Stage::new();
    let (_extender, asker) = stage.extend(Duration::from_secs(60));
    answers(&asker).await;
    let identity = Identity::read(&certificate, &key, None).expect("an identity");
    let address = served(asker, Some(identity.looking_every(Duration::ZERO))).await;
    let believes = async |authority: &Authority| {
        let caller = Caller { address, tls: Some(client(authority, None)) };
        caller.send("GET", "/healthz", "").await.is_ok()
    };
    assert_eq!((believes(&before).await, believes(&after).await), (true, false));
    // Half of a pair, and then nothing of use: what was there before stays.
    file(&folder, "tls.crt", &new.0);
    assert_eq!((believes(&before).await, believes(&after).await), (true, false));
    file(&folder, "tls.key", "nothing");
    assert_eq!((believes(&before).await, believes(&after).await), (true, false));
    file(&folder, "tls.key", &new.1);
    assert_eq!((believes(&before).await, believes(&after).await), (false, true));
}

#[test]
fn files_that_are_of_no_use_are_named() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let (certificate, key) = authority.issue("extender", For::Server);
    let (_, another) = authority.issue("another", For::Server);
    let (certificate, key) = (file(&folder, "tls.crt", &certificate), file(&folder, "tls.key", &key));
    let (another, empty) = (file(&folder, "another.key", &another), file(&folder, "empty", "nothing"));
    let missing = folder.path().join("missing");
    let refused = |certificate: &PathBuf, key: &PathBuf, clients: Option<&PathBuf>| {
        let error =
            Identity::read(certificate, key, clients.map(PathBuf::as_path)).expect_err("it is refused");
        error.to_string().replace(folder.path().to_str().expect("a plain path"), "")
    };
    assert_eq!(refused(&missing, &key, None), "certificate /missing: No such file or directory (os error 2)");
    assert_eq!(refused(&certificate, &empty, None), "key /empty: it has no such thing in PEM form");
    assert_eq!(
        refused(&certificate, &key, Some(&empty)),
        "client CA /empty: it has no such thing in PEM form"
    );
    let mismatch = refused(&certificate, &another, None);
    assert!(mismatch.starts_with("certificate /tls.crt with key /another.key: "), "{mismatch}");
}
