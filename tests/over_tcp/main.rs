//! The programs as users run them: `pvbind up`, `pvbind apiserver`, `pvbind controller`, `pvbind scheduler` and `pvbind extender`,
//! processes that talk over TCP.

mod election;
mod logs;
mod up;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use serde_json::json;

/// How long anything may take before the test gives up; it only matters when something is broken.
const PATIENCE: Duration = Duration::from_secs(60);
const PAIRS: usize = 50;

/// A process that ends with the test.
struct Program(Child);

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pvbind"));
        command
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env("PVBIND_METRICS_ADDR", "off")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Program(command.spawn().expect("the program starts"))
    }

    /// The first line that it prints.
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.take().expect("its output is piped");
        BufReader::new(out).read_line(&mut line).expect("its output is text");
        line.trim().to_owned()
    }

    /// Tells it to stop as an orchestrator would, and waits for it.
    fn terminate(mut self) -> ExitStatus {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        self.0.wait().expect("it ends")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended already when the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kubeconfig(server: &str) -> tempfile::NamedTempFile {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    });
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), config.to_string()).expect("it is written");
    file
}

async fn create_pairs(client: &Client) {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    for i in 0..PAIRS {
        let size = format!("{}Gi", 1 + i % 5);
        let claim = json!({
            "metadata": {"name": format!("c{i}")},
            "spec": {
                "storageClassName": "", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
            },
        });
        let volume = json!({
            "metadata": {"name": format!("p{i}")},
            "spec": {
                "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": format!("/srv/p{i}")},
            },
        });
        // Claims come before their volumes half of the time.
        let claim = serde_json::from_value(claim).expect("a claim");
        let volume = serde_json::from_value(volume).expect("a volume");
        if i % 2 == 0 {
            claims.create(&PostParams::default(), &claim).await.expect("a claim is created");
            volumes.create(&PostParams::default(), &volume).await.expect("a volume is created");
        } else {
            volumes.create(&PostParams::default(), &volume).await.expect("a volume is created");
            claims.create(&PostParams::default(), &claim).await.expect("a claim is created");
        }
    }
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
}

/// Waits on a watch until every claim is bound.
async fn all_bound(client: &Client) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let mut changes = watcher(claims, watcher::Config::default()).applied_objects().boxed();
    let mut bound = std::collections::BTreeSet::new();
    while bound.len() < PAIRS {
        let claim = changes.next().await.expect("a watch does not end").expect("the watch works");
        if is_bound(&claim) {
            bound.insert(claim.metadata.name);
        }
    }
}

#[tokio::test]
async fn two_processes_bind_claims_over_tcp_and_stop_when_told() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let url = server.first_line();
    let file = kubeconfig(&url);
    let path = file.path().to_str().expect("a plain path");
    let controller = Program::start(&["controller", "--kubeconfig", path]);

    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    create_pairs(&client).await;
    tokio::time::timeout(PATIENCE, all_bound(&client)).await.expect("all claims are bound in time");

    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&ListParams::default()).await.expect("a list").items {
        let spec = volume.spec.expect("a spec");
        let (capacity, claim) =
            (&spec.capacity.expect("a capacity")["storage"].0, spec.claim_ref.expect("a claim"));
        let number: usize = claim.name.expect("a name")[1..].parse().expect("a number");
        assert_eq!(*capacity, format!("{}Gi", 1 + number % 5), "each claim has a volume of its own size");
    }
    assert!(controller.terminate().success(), "the controller drains and ends well");
    assert!(server.terminate().success(), "the server ends well");
}

#[test]
fn a_cluster_that_cannot_be_reached_is_exit_code_3() {
    // Nothing listens on the discard port of this machine.
    let file = kubeconfig("http://127.0.0.1:9");
    let path = file.path().to_str().expect("a plain path");
    let mut controller = Program::start(&["controller", "--kubeconfig", path]);
    assert_eq!(controller.0.wait().expect("it ends").code(), Some(3));
}

/// Posts to an extender, and returns status and body.
fn post(url: &str, path: &str, body: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").expect("plain HTTP");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, body.to_owned())
}

#[test]
fn an_extender_answers_and_lets_go_of_those_who_wait_when_told_to_stop() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let file = kubeconfig(&server.first_line());
    let path = file.path().to_str().expect("a plain path");
    let mut extender = Program::start(&["extender", "--kubeconfig", path, "--listen", "127.0.0.1:0"]);
    let url = extender.first_line();
    let pod = json!({"metadata": {"namespace": "default", "name": "p"}});
    let question = json!({"Pod": pod, "NodeNames": ["n"]}).to_string();
    let start = Instant::now();
    let answer = loop {
        match post(&url, "/filter", &question) {
            (503, body) if start.elapsed() < PATIENCE => assert!(body.contains("not every kind"), "{body}"),
            answer => break answer,
        }
    };
    assert_eq!(answer.0, 200, "{}", answer.1);
    // A pod that is not known is waited for, longer than the program takes to stop.
    let bind = json!({"PodName": "q", "PodNamespace": "default", "PodUID": "u", "Node": "n"}).to_string();
    let (asked, waiting) = (url.clone(), std::thread::spawn(move || post(&url, "/bind", &bind)));
    while post(&asked, "/bind", "{").0 != 400 {}
    std::thread::sleep(Duration::from_millis(200));
    assert!(extender.terminate().success(), "the extender ends well");
    let (status, body) = waiting.join().expect("an answer");
    assert_eq!((status, body.as_str()), (503, "the program stops\n"));
    assert!(TcpStream::connect(asked.trim_start_matches("http://")).is_err(), "nobody listens any more");
    assert!(server.terminate().success(), "the server ends well");
}

/// Who starts a program may close its output unread: a supervisor that keeps no logs, or a script that has ended.
#[test]
fn programs_whose_output_nobody_reads_serve_all_the_same() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let file = kubeconfig(&server.first_line());
    let path = file.path().to_str().expect("a plain path");
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("one").port();
    let address = format!("127.0.0.1:{port}");
    for arguments in [
        vec!["extender", "--kubeconfig", path, "--listen", &address],
        vec!["apiserver", "--listen", &address],
    ] {
        let mut program = Program::start(&arguments);
        drop(program.0.stdout.take());
        let start = Instant::now();
        while TcpStream::connect(&address).is_err() {
            let ended = program.0.try_wait().expect("it is a child");
            assert!(ended.is_none() && start.elapsed() < PATIENCE, "{}: {ended:?}", arguments[0]);
            std::thread::sleep(Duration::from_millis(20));
        }
        // The address is bound before it is told.
        std::thread::sleep(Duration::from_millis(500));
        assert!(program.terminate().success(), "{} ends well", arguments[0]);
    }
}

#[test]
fn an_extender_that_cannot_be_what_is_asked_for_says_why() {
    let file = kubeconfig("http://127.0.0.1:9");
    let path = file.path().to_str().expect("a plain path");
    for (more, code, message) in [
        (vec![], 3, "pvbind: cannot reach http://127.0.0.1:9/"),
        (vec!["--tls-cert-file", path], 2, "--tls-private-key-file"),
        (
            vec!["--tls-cert-file", path, "--tls-private-key-file", path],
            2,
            "it has no such thing in PEM form",
        ),
        (vec!["--client-ca-file", path], 2, "--tls-cert-file"),
        (vec!["--bind-timeout", "soon"], 2, "\"soon\" is no duration; write 90s, 10m or 1h30m"),
        (vec!["--listen", "nowhere:"], 2, "pvbind: cannot serve on nowhere:: "),
    ] {
        let listen = if more.contains(&"--listen") { vec![] } else { vec!["--listen", "127.0.0.1:0"] };
        let arguments = [vec!["extender", "--kubeconfig", path], listen, more].concat();
        let mut extender = Program::start(&arguments);
        let ended = extender.0.wait().expect("it ends");
        let mut said = String::new();
        extender.0.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
        assert_eq!(ended.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
}

/// A node, a class whose volumes are bound together with the choice of a node, a volume, and a claim and a pod for each
/// scheduler that is named.
async fn create_pods(client: &Client, schedulers: &[&str]) {
    let post = PostParams::default();
    let node = json!({
        "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}},
        "status": {"allocatable": {"pods": "9"}},
    });
    let node: Node = serde_json::from_value(node).expect("a node");
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&post, &node).await.expect("a node is created");
    // A new node is tainted until somebody finds it ready.
    let ready = json!({"spec": {"taints": null}});
    nodes.patch("n", &PatchParams::default(), &Patch::Merge(&ready)).await.expect("it is ready");
    let class = json!({
        "metadata": {"name": "late"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let classes: Api<StorageClass> = Api::all(client.clone());
    classes.create(&post, &serde_json::from_value(class).expect("a class")).await.expect("it is created");
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    // Nobody here makes the account that every pod has.
    let account = json!({"metadata": {"name": "default"}});
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    accounts
        .create(&post, &serde_json::from_value(account).expect("an account"))
        .await
        .expect("it is created");
    for scheduler in schedulers {
        let volume = json!({
            "metadata": {"name": scheduler},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                "hostPath": {"path": "/srv/late"},
            },
        });
        let volume = serde_json::from_value(volume).expect("a volume");
        volumes.create(&post, &volume).await.expect("a volume is created");
        let claim = json!({
            "metadata": {"name": scheduler},
            "spec": {
                "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        claims.create(&post, &serde_json::from_value(claim).expect("a claim")).await.expect("it is created");
        let pod = json!({
            "metadata": {"name": scheduler},
            "spec": {
                "schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": scheduler}}],
            },
        });
        pods.create(&post, &serde_json::from_value(pod).expect("a pod")).await.expect("a pod is created");
    }
}

#[tokio::test]
async fn the_scheduler_places_the_pods_that_name_it_and_no_others() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let url = server.first_line();
    let file = kubeconfig(&url);
    let path = file.path().to_str().expect("a plain path");
    let controller = Program::start(&["controller", "--kubeconfig", path]);
    let scheduler = Program::start(&["scheduler", "--scheduler-name", "mine", "--kubeconfig", path]);

    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    create_pods(&client, &["another", "mine"]).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let mine = watcher(pods.clone(), watcher::Config::default().fields("metadata.name=mine"));
    let mut changes = mine.applied_objects().boxed();
    let placed = async {
        loop {
            let pod = changes.next().await.expect("a watch does not end").expect("the watch works");
            if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
                return node;
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, placed).await.expect("the pod is placed in time"), "n");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    // The claim's status may be written after the pod is placed: its binding is complete before.
    let claim = claims.get("mine").await.expect("the claim");
    let done = claim.metadata.annotations.is_some_and(|a| a.contains_key("pv.kubernetes.io/bind-completed"));
    assert!(
        done && claim.spec.is_some_and(|spec| spec.volume_name.is_some()),
        "bound before the pod is placed"
    );
    let another = pods.get("another").await.expect("the other pod");
    assert_eq!(another.spec.and_then(|spec| spec.node_name), None);
    assert!(!is_bound(&claims.get("another").await.expect("the other claim")));
    assert!(scheduler.terminate().success(), "the scheduler drains and ends well");
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let events = events.list(&ListParams::default()).await.expect("a list").items;
    let placing = events.iter().find(|event| event.reason.as_deref() == Some("Scheduled"));
    let reporter = placing.and_then(|event| event.reporting_component.as_deref());
    assert_eq!(reporter, Some("mine"), "{events:?}");
    assert!(controller.terminate().success(), "the controller drains and ends well");
}
