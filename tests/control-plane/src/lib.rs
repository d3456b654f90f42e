//! A control plane of real programs: etcd, kube-apiserver, kube-controller-manager and kube-scheduler on free ports of this
//! machine, with their state in a folder that goes with them.
//!
//! Whatever was started is killed at the end; what it said last is printed when a test fails. `build.sh`, beside this
//! crate's manifest, builds the programs. Everything panics where it cannot go on: a test has nothing better to do.
#![expect(clippy::missing_panics_doc, reason = "the crate is for tests, and says so once")]
#![expect(clippy::expect_used, reason = "the crate is for tests, and says so once")]
#![expect(clippy::print_stderr, reason = "it tells whoever reads a failed test what programs said")]

pub mod certificates;
mod program;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::KeyPair;
use serde_json::json;
use tempfile::TempDir;

use certificates::{Authority, For};
pub use program::{Ending, Program};

/// How long a program may take to get ready, or to end when it is asked to.
const START: Duration = Duration::from_secs(120);

/// Who may do what, as in kube-apiserver's token file: the token is the name; there is a `NAME.conf` for each.
const USERS: [(&str, &str, &str); 4] = [
    ("admin", "admin", "system:masters"),
    ("scheduler", "system:kube-scheduler", ""),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("extender", "system:serviceaccount:kube-system:pvbind-extender", ""),
];

/// The folder that `KUBEBUILDER_ASSETS` names, if it has all of these programs.
#[must_use]
pub fn assets(programs: &[&str]) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
    programs.iter().all(|name| folder.join(name).is_file()).then_some(folder)
}

/// Tells whoever runs the tests that something was not tested, and why. What a test that passes prints by `eprintln` nobody
/// sees.
pub fn not_run(why: &str) {
    writeln!(std::io::stderr(), "NOT RUN: {why}").expect("somebody hears");
}

/// A port that nobody listens on.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// See the crate's documentation.
pub struct ControlPlane {
    // Programs end before the folder goes.
    running: Vec<Program>,
    folder: TempDir,
    assets: PathBuf,
    server: String,
    /// Where etcd is: for clients, and for its peers.
    etcd: [String; 2],
    /// Further arguments of kube-apiserver.
    further: Vec<String>,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver.
    pub async fn start(assets: PathBuf) -> Self {
        Self::start_with(assets, &[]).await
    }

    /// Starts etcd, and kube-apiserver with further arguments.
    pub async fn start_with(assets: PathBuf, further: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = format!("https://127.0.0.1:{}", free_port());
        let etcd = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let further = further.iter().map(|argument| (*argument).to_owned()).collect();
        let mut plane = ControlPlane { running: Vec::new(), folder, assets, server, etcd, further };
        plane.write_certificates();
        for (token, _, _) in USERS {
            plane.write_kubeconfig(token, token);
        }
        plane.start_etcd();
        plane.start_apiserver().await;
        plane
    }

    /// A file of the folder; what programs look for in `/etc/kubernetes` is there as well.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as programs are told it.
    #[must_use]
    pub fn argument(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    /// Where kube-apiserver is.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("its folder");
        fs::write(path, text).expect("it is written");
    }

    fn write_certificates(&self) {
        let authority = Authority::new();
        for name in ["ca.crt", "pki/pvbind/ca.crt"] {
            self.write(name, &authority.pem());
        }
        for (name, whom) in [
            ("apiserver", For::Server),
            ("pki/pvbind/extender", For::Server),
            ("pki/pvbind/kube-scheduler", For::Client),
        ] {
            let (certificate, key) = authority.issue(name, whom);
            self.write(&format!("{name}.crt"), &certificate);
            self.write(&format!("{name}.key"), &key);
        }
        let accounts = KeyPair::generate().expect("a key");
        self.write("accounts.key", &accounts.serialize_pem());
        self.write("accounts.pub", &accounts.public_key_pem());
        let users = USERS.map(|(token, user, groups)| format!("{token},{user},{token},\"{groups}\"\n"));
        self.write("tokens.csv", &users.concat());
    }

    /// Writes `NAME.conf`, a kubeconfig for whoever has the token.
    pub fn write_kubeconfig(&self, name: &str, token: &str) {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster":
                {"server": self.server, "certificate-authority": self.argument("ca.crt")}}],
            "users": [{"name": "me", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        });
        self.write(&format!("{name}.conf"), &config.to_string());
    }

    /// Starts a program under a name. It says what it says into `NAME.log`; its output comes back.
    pub fn run(&mut self, name: &str, program: &Path, arguments: &[String]) -> ChildStdout {
        let (program, output) = Program::start(name, program, arguments, self.path(&format!("{name}.log")));
        self.running.push(program);
        output
    }

    /// Kills a program.
    pub fn end(&mut self, name: &str) {
        self.running.retain(|running| running.name() != name);
    }

    /// Asks a program to end, and waits until it has. Says how it ended.
    #[must_use]
    pub fn stop(&mut self, name: &str) -> Ending {
        let index = self.running.iter().position(|running| running.name() == name);
        let index = index.unwrap_or_else(|| panic!("{name} does not run"));
        self.running.remove(index).stop(START)
    }

    /// A program that runs.
    ///
    /// # Panics
    /// If none does under this name.
    pub fn running(&mut self, name: &str) -> &mut Program {
        let found = self.running.iter_mut().find(|running| running.name() == name);
        found.unwrap_or_else(|| panic!("{name} does not run"))
    }

    /// Starts etcd, on what it kept if it ran before.
    pub fn start_etcd(&mut self) {
        let [client, peer] = self.etcd.clone();
        let data = self.argument("etcd");
        let arguments = [
            format!("--data-dir={data}"),
            "--unsafe-no-fsync".to_owned(),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ];
        let _output = self.run("etcd", &self.assets.join("etcd"), &arguments);
    }

    /// Starts kube-apiserver, always on the same port, and waits until it is ready.
    pub async fn start_apiserver(&mut self) {
        let port = self.server.rsplit(':').next().expect("a port").to_owned();
        let mut arguments = vec![
            format!("--etcd-servers={}", self.etcd[0]),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", self.argument("serving")),
            format!("--tls-cert-file={}", self.argument("apiserver.crt")),
            format!("--tls-private-key-file={}", self.argument("apiserver.key")),
            format!("--token-auth-file={}", self.argument("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", self.argument("accounts.pub")),
            format!("--service-account-signing-key-file={}", self.argument("accounts.key")),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            // Asked to end, it waits for watches as long as a request may take: a minute, if nothing is said.
            "--request-timeout=20s".to_owned(),
            // Nobody here makes service accounts, or finds nodes ready.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
        ];
        arguments.extend(self.further.iter().cloned());
        let _output = self.run("kube-apiserver", &self.assets.join("kube-apiserver"), &arguments);
        self.wait_until_ready().await;
    }

    /// Waits until kube-apiserver is ready.
    pub async fn wait_until_ready(&mut self) {
        let start = Instant::now();
        loop {
            // A client of its own each time: a connection that is broken tells nothing.
            let client = self.client().await;
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            match client.request_text(request).await {
                Ok(_) => return,
                Err(error) => assert!(start.elapsed() < START, "kube-apiserver is not ready: {error}"),
            }
            for program in &mut self.running {
                let ended = program.ended();
                assert!(ended.is_none(), "{} has ended: {ended:?}", program.name());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Somebody who may do everything.
    pub async fn client(&self) -> Client {
        self.client_of("admin").await
    }

    /// Whoever has the kubeconfig `NAME.conf`.
    pub async fn client_of(&self, name: &str) -> Client {
        let config = Kubeconfig::read_from(self.path(&format!("{name}.conf"))).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a configuration")).expect("a client")
    }

    /// Starts kube-scheduler with a configuration.
    pub fn start_scheduler(&mut self, configuration: &str) {
        self.start_scheduler_as("kube-scheduler", configuration, &[]);
    }

    /// The same under a name, so that several can run side by side, with further arguments.
    pub fn start_scheduler_as(&mut self, name: &str, configuration: &str, further: &[&str]) {
        let file = format!("{name}.yaml");
        self.write(&file, configuration);
        let mut arguments = vec![
            format!("--config={}", self.argument(&file)),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free_port()),
            format!("--cert-dir={}", self.argument(&format!("{name}-serving"))),
        ];
        arguments.extend(further.iter().map(|argument| (*argument).to_owned()));
        let _output = self.run(name, &self.assets.join("kube-scheduler"), &arguments);
    }

    /// Starts kube-controller-manager with these controllers only, such as `persistentvolume-binder-controller`, and further
    /// arguments.
    pub fn start_controller_manager(&mut self, controllers: &[&str], further: &[&str]) {
        self.start_controller_manager_as("kube-controller-manager", controllers, further);
    }

    /// The same under a name, so that several can run side by side.
    pub fn start_controller_manager_as(&mut self, name: &str, controllers: &[&str], further: &[&str]) {
        let mut arguments = vec![
            format!("--kubeconfig={}", self.argument("admin.conf")),
            format!("--controllers={}", controllers.join(",")),
            "--leader-elect=false".to_owned(),
            "--use-service-account-credentials=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free_port()),
            format!("--cert-dir={}", self.argument(&format!("{name}-serving"))),
            format!("--service-account-private-key-file={}", self.argument("accounts.key")),
            format!("--root-ca-file={}", self.argument("ca.crt")),
        ];
        arguments.extend(further.iter().map(|argument| (*argument).to_owned()));
        let program = self.assets.join("kube-controller-manager");
        let _output = self.run(name, &program, &arguments);
    }
}
