//! The server over TCP: TLS, limits, the end.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Generated, Options, Serving, Tls, Token};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const PATIENCE: Duration = Duration::from_secs(10);

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
}

async fn start(options: Options, serving: Serving) -> (FakeApiServer, Running) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = FakeApiServer::new(options);
    let handle = server.clone();
    let ended = tokio::spawn(async move {
        let shutdown = async {
            let _ = stopped.await;
        };
        handle.serve_with(listener, serving, shutdown).await
    });
    (server, Running { address, stop, ended })
}

/// Sends a request and reads until the other side closes.
async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> String {
    let mut answer = Vec::new();
    stream.write_all(request.as_bytes()).await.unwrap();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{more}\r\n")
}

async fn ask(address: SocketAddr, path: &str) -> String {
    exchange(&mut TcpStream::connect(address).await.unwrap(), &get(path, "")).await
}

fn client(made: &Generated, certified: bool, protocol: &[u8]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(made.authority.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = if certified {
        let certificate = CertificateDer::from_pem_slice(made.admin.0.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(made.admin.1.as_bytes()).unwrap();
        builder.with_client_auth_cert(vec![certificate], key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

#[tokio::test]
async fn a_client_gets_in_by_its_certificate() {
    let made = Tls::generate(&[]).unwrap();
    let serving = Serving { tls: Some(made.tls.clone()), ..Serving::default() };
    let options = Options { tokens: vec![Token::admin("secret")], ..Options::default() };
    let (_server, running) = start(options, serving).await;
    let post = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    for (certified, expected) in [(true, "kubernetes-admin"), (false, "401 Unauthorized")] {
        let config = client(&made, certified, b"http/1.1");
        let stream = TcpStream::connect(running.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let answer = exchange(&mut stream, post).await;
        assert!(answer.contains(expected), "{answer}");
    }
}

#[tokio::test]
async fn certificates_stay_good_where_a_folder_keeps_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let before = Tls::generate_in(folder.path(), &[]).unwrap();
    let after = Tls::generate_in(folder.path(), &[]).unwrap();
    let serving = Serving { tls: Some(after.tls.clone()), ..Serving::default() };
    let options = Options { credentials_required: true, ..Options::default() };
    let (_server, running) = start(options, serving).await;
    let get = "GET /api/v1/namespaces/default HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    // The client trusts the authority of the first run, and shows what that one made.
    let config = client(&before, true, b"http/1.1");
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let answer = exchange(&mut stream, get).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn http_2_is_agreed_on() {
    let made = Tls::generate(&[]).unwrap();
    let serving = Serving { tls: Some(made.tls.clone()), ..Serving::default() };
    let (_server, running) = start(Options::default(), serving).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let config = client(&made, false, b"h2");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}

#[tokio::test]
async fn whoever_comes_too_many_is_told_to_come_again() {
    let mut serving = Serving::default();
    serving.limits.writing = 1;
    serving.limits.request = Duration::from_millis(300);
    let (_server, running) = start(Options::default(), serving).await;
    let unfinished =
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 9\r\n\r\n";
    let mut first = TcpStream::connect(running.address).await.unwrap();
    first.write_all(unfinished.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut second = TcpStream::connect(running.address).await.unwrap();
    let answer = exchange(&mut second, &format!("{unfinished}{{\"a\": 1}} ")).await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 1"), "{answer}");
    assert!(ask(running.address, "/healthz").await.ends_with("ok"));
    let answer = exchange(&mut first, "").await;
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("\"Timeout\""), "{answer}");
}

#[tokio::test]
async fn what_is_too_large_or_too_slow_is_refused() {
    let mut serving = Serving::default();
    serving.limits.header = Duration::from_millis(200);
    let (_server, running) = start(Options::default(), serving).await;
    let mut slow = TcpStream::connect(running.address).await.unwrap();
    let answer = exchange(&mut slow, "GET /healthz HTTP/1.1\r\nhost:").await;
    assert!(!answer.contains("200 OK"), "{answer}");
    let size = 4 * 1024 * 1024;
    let head = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n"
    );
    let mut large = TcpStream::connect(running.address).await.unwrap();
    large.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = large.split();
    let write = async {
        // The server may have heard enough before everything is said.
        let _ = writer.write_all(&vec![b' '; size]).await;
    };
    let mut answer = vec![0; 512];
    let (read, ()) = tokio::join!(timeout(PATIENCE, reader.read(&mut answer)), write);
    let answer = String::from_utf8_lossy(&answer[..read.unwrap().unwrap()]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn requests_watches_and_objects_are_counted() {
    let (_server, running) = start(Options::default(), Serving::default()).await;
    ask(running.address, "/api/v1/namespaces/default").await;
    let mut watch = TcpStream::connect(running.address).await.unwrap();
    watch.write_all(get("/api/v1/pods?watch=true", "").as_bytes()).await.unwrap();
    let mut first = [0; 12];
    timeout(PATIENCE, watch.read_exact(&mut first)).await.unwrap().unwrap();
    let metrics = ask(running.address, "/metrics").await;
    for line in [
        "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"namespaces\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"} 1",
        "apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4",
        "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"pods\",verb=\"WATCH\",version=\"v1\"} 1",
        "apiserver_request_duration_seconds_count{",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn the_end_waits_for_nobody_for_long() {
    let mut serving = Serving::default();
    serving.limits.farewell = Duration::from_millis(200);
    let (_server, running) = start(Options::default(), serving).await;
    let mut watch = TcpStream::connect(running.address).await.unwrap();
    watch.write_all(get("/api/v1/pods?watch=true", "").as_bytes()).await.unwrap();
    let mut unfinished = TcpStream::connect(running.address).await.unwrap();
    unfinished
        .write_all(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.stop.send(()).unwrap();
    timeout(PATIENCE, running.ended).await.unwrap().unwrap().unwrap();
    let mut rest = Vec::new();
    timeout(PATIENCE, watch.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}
