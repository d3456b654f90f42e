//! The bundled API server, in this process but over TCP, and our programs as processes. Nobody else is there: what other
//! programs of a cluster do, scenarios stand in for, and say so.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread::JoinHandle;

use fake_apiserver::{FakeApiServer, Options, Plugins};
use kube::Config;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::available;
use crate::processes::Processes;
use crate::target::{Fault, How, Nodes, Program, Row, Target};

pub const ROW: Row =
    Row { name: "fake", missing: || Ok(()), lacks: available::lacks, open: || Box::new(Fake::open()) };

/// What runs the server, and ends it: gracefully if told so, at once if the sender is dropped.
type Serving = (oneshot::Sender<How>, JoinHandle<()>);

struct Fake {
    // Before the server goes.
    processes: Processes,
    server: FakeApiServer,
    address: SocketAddr,
    serving: Mutex<Option<Serving>>,
    _kubeconfig: NamedTempFile,
}

/// Serves on a thread of its own, so that all connections can be cut by ending its runtime.
fn serve(server: &FakeApiServer, address: SocketAddr) -> (SocketAddr, Serving) {
    let (server, (stop, stopped)) = (server.clone(), oneshot::channel());
    let (told, listening) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind(address).await.expect("the address is free");
            told.send(listener.local_addr().expect("an address")).expect("somebody waits");
            let (drain, drained) = oneshot::channel::<()>();
            let serving = server.serve(listener, async {
                // A sender that is gone means stop as well.
                let _ = drained.await;
            });
            tokio::pin!(serving);
            tokio::select! {
                ended = &mut serving => panic!("the server ended by itself: {ended:?}"),
                how = stopped => if how == Ok(How::Terminate) {
                    drop(drain);
                    serving.await.expect("the server ends well");
                },
            }
        });
        runtime.shutdown_background();
    });
    (listening.recv().expect("it listens"), (stop, thread))
}

impl Fake {
    fn open() -> Self {
        // Nobody here removes what protects volumes and claims from being deleted while they are used.
        let plugins = Plugins { volume_protection: false, claim_protection: false, ..Plugins::default() };
        let server = FakeApiServer::new(Options { plugins, ..Options::default() });
        let (address, serving) = serve(&server, SocketAddr::from(([127, 0, 0, 1], 0)));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        });
        let file = NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), config.to_string()).expect("it is written");
        let processes = Processes::new(file.path());
        Fake { processes, server, address, serving: Mutex::new(Some(serving)), _kubeconfig: file }
    }

    /// Ends the server and serves the same store again, at the same address.
    fn restart(&self, how: How) {
        let mut serving = self.serving.lock().expect("no restart failed");
        let (stop, thread) = serving.take().expect("it is served");
        if how == How::Terminate {
            stop.send(how).expect("it is served");
        } else {
            drop(stop);
        }
        thread.join().expect("the server ends");
        *serving = Some(serve(&self.server, self.address).1);
    }
}

impl Target for Fake {
    fn config(&self) -> Config {
        Config::new(format!("http://{}", self.address).parse().expect("an address"))
    }

    fn nodes(&self) -> Nodes {
        Nodes::MadeUp
    }

    fn ensure(&self, program: Program) {
        self.processes.ensure(program);
    }

    fn end(&self, program: Program, how: How) {
        self.processes.end(program, how);
    }

    fn metrics(&self, program: Program) -> Option<String> {
        self.processes.metrics(program)
    }

    fn fault(&self, fault: Fault) {
        match fault {
            Fault::RestartApiServer(how) => self.restart(how),
            Fault::RestartEtcd => panic!("the bundled server has no etcd"),
            Fault::CutWatches => self.server.cut_watches(),
            Fault::ReplaceLeader(how) => self.processes.replace_leader(how),
            Fault::Upgrade | Fault::RollBack => panic!("there is no release: {fault:?}"),
        }
    }

    fn said(&self) -> String {
        self.processes.said()
    }
}
