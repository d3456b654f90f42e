//! What must hold whatever bytes come: the server answers, in JSON, with a code that fits, and goes on answering. The fuzz
//! targets and `tests/fuzz.rs` run the same functions.

use std::fmt::Write;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Ids, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn server() -> FakeApiServer {
    FakeApiServer::new(Options { ids: Ids::Seeded(1), ..Options::default() })
}

fn ask(server: &FakeApiServer, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, Value) {
    let (code, answer) = server.request(method, path, content_type, body);
    let answer = serde_json::from_slice(&answer);
    (code, answer.unwrap_or_else(|error| panic!("{method} {path} answers {code} with no JSON: {error}")))
}

fn post(server: &FakeApiServer, path: &str, object: &Value) -> (u16, Value) {
    ask(server, "POST", path, "application/json", object.to_string().as_bytes())
}

/// Whatever a patch says, what is stored afterwards is what was answered, and a second look shows the same.
pub fn patches(data: &[u8]) {
    let Some((choice, patch)) = data.split_first() else { return };
    let server = server();
    let (collection, object) = if choice & 1 == 0 {
        let object = json!({
            "metadata": {"name": "a", "labels": {"x": "y"}, "finalizers": ["e.com/f"]},
            "data": {"k": "v"},
        });
        (MAPS, object)
    } else {
        let object = json!({
            "metadata": {"name": "a"},
            "spec": {
                "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}],
                "tolerations": [{"key": "k", "operator": "Exists"}],
            },
        });
        (PODS, object)
    };
    assert_eq!(post(&server, collection, &object).0, 201);
    let content_type = match choice >> 1 & 3 {
        0 => "application/json-patch+json",
        1 => "application/merge-patch+json",
        2 => "application/strategic-merge-patch+json",
        _ => "application/apply-patch+yaml",
    };
    let one = format!("{collection}/a");
    let query = if content_type.contains("apply") { "?fieldManager=f&force=true" } else { "" };
    let (code, answer) = ask(&server, "PATCH", &format!("{one}{query}"), content_type, patch);
    assert!(matches!(code, 200 | 400 | 404 | 409 | 413 | 415 | 422 | 500), "{code}: {answer}");
    if code != 200 {
        assert_eq!(answer["kind"], "Status", "{answer}");
        return;
    }
    let (code, stored) = ask(&server, "GET", &one, "", b"");
    assert!(code == 404 || stored == answer, "{answer} was answered, and {stored} is stored");
}

/// Whatever a selector says, it is refused or picks from what there is.
pub fn selectors(data: &[u8]) {
    let server = server();
    for (name, labels) in
        [("a", json!({"app": "x", "tier": "1"})), ("b", json!({"app": ""})), ("c", json!({}))]
    {
        assert_eq!(post(&server, MAPS, &json!({"metadata": {"name": name, "labels": labels}})).0, 201);
    }
    let mut encoded = String::new();
    for byte in data {
        // Writing to a string can't fail.
        let _ = write!(encoded, "%{byte:02X}");
    }
    for parameter in ["labelSelector", "fieldSelector"] {
        let (code, list) = ask(&server, "GET", &format!("{MAPS}?{parameter}={encoded}"), "", b"");
        assert!(code == 200 || code == 400, "{code}: {list}");
        if code == 200 {
            let picked = list["items"].as_array().map_or(0, Vec::len);
            // The root certificates may be there too, which a server makes by itself in each namespace.
            assert!(picked <= 4, "{list}");
            let (code, again) =
                ask(&server, "GET", &format!("{MAPS}?{parameter}={encoded}&limit=1"), "", b"");
            let first = again["items"].get(0);
            assert!(code == 200 && first == list["items"].get(0), "{again}");
        }
    }
}

/// Whatever a quantity says, it is refused or stored in a form that is stored as it is.
pub fn quantities(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let server = server();
    let claim = |name: &str, quantity: &Value| {
        json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": quantity}}},
        })
    };
    let (code, first) = post(&server, CLAIMS, &claim("a", &text.as_ref().into()));
    assert!(matches!(code, 201 | 400 | 422), "{code}: {first}");
    if code == 201 {
        let stored = &first["spec"]["resources"]["requests"]["storage"];
        let (code, second) = post(&server, CLAIMS, &claim("b", stored));
        assert_eq!((code, &second["spec"]["resources"]["requests"]["storage"]), (201, stored), "{text}");
    }
}

/// Whatever comes over a connection, the next one is served.
pub fn wire(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let server = server();
        let answer = talk(&server, data).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
        let answer = talk(&server, b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    });
}

/// Sends bytes over a connection in memory, and returns what comes back.
async fn talk(server: &FakeApiServer, data: &[u8]) -> Vec<u8> {
    let (near, far) = tokio::io::duplex(1 << 20);
    let service = hyper_util::service::TowerToHyperService::new(server.router());
    let mut connection = hyper::server::conn::http1::Builder::new();
    // The other side may have said everything and still want to hear.
    connection.timer(hyper_util::rt::TokioTimer::new()).half_close(true);
    let connection = connection.serve_connection(hyper_util::rt::TokioIo::new(far), service);
    let (mut reading, mut writing) = tokio::io::split(near);
    let mut answer = Vec::new();
    let talking = async {
        // The server may hang up before it has read everything.
        drop(writing.write_all(data).await);
        drop(writing.shutdown().await);
        let mut bytes = [0; 4096];
        // A watch goes on for as long as the clock does; an hour is enough of it.
        while let Ok(Ok(read)) =
            tokio::time::timeout(Duration::from_secs(3600), reading.read(&mut bytes)).await
        {
            if read == 0 || answer.len() > 1 << 20 {
                break;
            }
            answer.extend_from_slice(&bytes[..read]);
        }
    };
    tokio::select! {
        biased;
        () = talking => {}
        () = async { drop(connection.await); std::future::pending::<()>().await } => {}
    }
    answer
}
