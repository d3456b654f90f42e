//! A control plane of real programs: etcd, kube-apiserver and kube-scheduler on free ports of this machine, with their state in
//! a folder that goes with them. Whatever was started is killed at the end; what it said last is printed when a test fails.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::KeyPair;
use serde_json::json;
use tempfile::TempDir;

use crate::certificates::{Authority, For};

/// How long a program may take to get ready.
const START: Duration = Duration::from_secs(120);

/// Who may do what, as in kube-apiserver's token file: the token is the name.
const USERS: [(&str, &str, &str); 3] = [
    ("admin", "admin", "system:masters"),
    ("scheduler", "system:kube-scheduler", ""),
    ("extender", "system:serviceaccount:kube-system:pvbind-extender", ""),
];

/// The folder with the real programs, if there is one and it has all of them.
pub fn programs() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
    let all = ["etcd", "kube-apiserver", "kube-scheduler"].iter().all(|name| folder.join(name).is_file());
    all.then_some(folder)
}

/// A program that ends with the test.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(25)..].join("\n");
            eprintln!("the last lines of {}:\n{last}\n", self.log.display());
        }
    }
}

/// See the module's documentation.
pub struct ControlPlane {
    // Programs end before the folder goes.
    running: Vec<(String, Program)>,
    folder: TempDir,
    assets: PathBuf,
    server: String,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver.
    pub async fn start(assets: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = format!("https://127.0.0.1:{}", free_port());
        let mut plane = ControlPlane { running: Vec::new(), folder, assets, server };
        plane.write_certificates();
        for (token, _, _) in USERS {
            plane.write_kubeconfig(token);
        }
        let etcd = plane.start_etcd();
        plane.start_apiserver(&etcd).await;
        plane
    }

    /// A file of the folder; what programs look for in `/etc/kubernetes` is there as well.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as programs are told it.
    pub fn argument(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    fn write(&self, name: &str, text: &str) {
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

    fn write_kubeconfig(&self, token: &str) {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster":
                {"server": self.server, "certificate-authority": self.argument("ca.crt")}}],
            "users": [{"name": "me", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        });
        self.write(&format!("{token}.conf"), &config.to_string());
    }

    /// Starts a program. It says what it says into a file; its output comes back.
    pub fn run(&mut self, name: &str, program: &Path, arguments: &[String]) -> ChildStdout {
        let log = self.path(&format!("{name}.log"));
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&log).expect("its log")).env_remove("KUBECONFIG");
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let output = child.stdout.take().expect("it is piped");
        self.running.push((name.to_owned(), Program { child, log }));
        output
    }

    /// Ends a program.
    pub fn end(&mut self, name: &str) {
        self.running.retain(|(running, _)| running != name);
    }

    fn start_etcd(&mut self) -> String {
        let [client, peer] = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
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
        client
    }

    async fn start_apiserver(&mut self, etcd: &str) {
        let port = self.server.rsplit(':').next().expect("a port").to_owned();
        let arguments = [
            format!("--etcd-servers={etcd}"),
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
            // Nobody here makes service accounts, or finds nodes ready.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
        ];
        let _output = self.run("kube-apiserver", &self.assets.join("kube-apiserver"), &arguments);
        let client = self.client().await;
        let start = Instant::now();
        loop {
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            match client.request_text(request).await {
                Ok(_) => return,
                Err(error) => assert!(start.elapsed() < START, "kube-apiserver is not ready: {error}"),
            }
            for (name, program) in &mut self.running {
                let ended = program.child.try_wait().expect("it is a child");
                assert!(ended.is_none(), "{name} has ended: {ended:?}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Somebody who may do everything.
    pub async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(self.path("admin.conf")).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a configuration")).expect("a client")
    }

    /// Starts kube-scheduler with a configuration.
    pub fn start_scheduler(&mut self, configuration: &str) {
        self.write("kube-scheduler.yaml", configuration);
        let arguments = [
            format!("--config={}", self.argument("kube-scheduler.yaml")),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free_port()),
            format!("--cert-dir={}", self.argument("scheduler-serving")),
        ];
        let _output = self.run("kube-scheduler", &self.assets.join("kube-scheduler"), &arguments);
    }

    /// Starts a command of this crate; the first line that it prints comes back.
    pub fn start_pvbind(&mut self, arguments: &[&str]) -> String {
        let all = arguments.iter().map(|argument| (*argument).to_owned());
        let all: Vec<String> = all.chain(["--metrics-addr=off".to_owned()]).collect();
        let name = format!("pvbind-{}", arguments[0]);
        let output = self.run(&name, Path::new(env!("CARGO_BIN_EXE_pvbind")), &all);
        let mut line = String::new();
        if arguments[0] == "extender" {
            // A line is short, and the program closes its output if it fails.
            BufReader::new(output.take(1024)).read_line(&mut line).expect("its output is text");
        }
        line.trim().to_owned()
    }
}
